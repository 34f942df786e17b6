"""An attempt: what is reported of its steps, why it failed, how long it took."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from processes import alive

from core.backends.attempts import Attempt
from core.metric_table import STEP_SECONDS
from training.platforms.causes import CAUSES_FILE, described, reason
from training.run import Steps

ROOT = Path(__file__).parents[2]
TRACKER = "def once(step, metrics):\n    assert step < 2, 'full'\n"


def test_steps_are_told_with_the_time_left_and_a_tracker_that_fails_is_called_no_more(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRACKER)
    events, watched = list[dict[str, Any]](), list[Any]()
    steps = Steps(4, events.append, [f"{tmp_path / 'mine.py'}:once"], watched.append)
    for step in (1, 2, 3):
        steps.add({"step": step, "data": {STEP_SECONDS: 30, "reward/on_policy": step / 4}})
    assert [event["message"] for event in events if event["event"] == "step"] == [
        "step 1 of 4, reward 0.25, time left 1:30",
        "step 2 of 4, reward 0.50, time left 1:00",
        "step 3 of 4, reward 0.75, time left 0:30",
    ]
    (warning,) = [event["message"] for event in events if event["event"] == "alert"]
    assert "full" in warning and warning.endswith("this tracker gets no more steps")
    assert [record["step"] for record in watched] == [1, 2, 3]


def test_the_cause_is_the_error_and_the_first_that_was_logged(tmp_path: Path) -> None:
    logs = """
import logging
from training.platforms.causes import note_logged_exceptions
note_logged_exceptions()
logging.getLogger("vllm").propagate = False
for cause in ("out of memory", "the engine is dead"):
    try:
        raise ValueError(cause + "\\nmore")
    except ValueError:
        logging.getLogger("vllm").exception("it ends")
"""
    logged = tmp_path / "causes"
    lost = RuntimeError("no sample of the batch was generated")
    assert reason(lost, logged) == "RuntimeError: no sample of the batch was generated"
    environment = {"PYTHONPATH": str(ROOT), CAUSES_FILE: str(logged)}
    subprocess.run([sys.executable, "-c", logs], env=environment, check=True)
    assert reason(lost, logged).endswith("was generated; first ValueError: out of memory")


# An attempt in a process: its driver is a stand-in that prints, records a step, starts a process, and ends as told.
ATTEMPT = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from core.backends.attempts import Attempt
from core.cli import exit_status
from training import driver
from training.job.events import standard_output

def drive(config, environment, abort):
    print("the output of the driver", flush=True)
    Path(os.environ["VERL_FILE_LOGGER_PATH"]).write_text(json.dumps({"step": 1, "data": {}}) + "\\n")
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(sys.argv[1], "child").write_text(str(child.pid))
    exec(sys.argv[2])

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
driver.drive = drive
def told(record):
    standard_output().write(f"step {record['step']}\\n")
    standard_output().flush()
def work():
    driver.run_attempt(Attempt(Path(sys.argv[1]), 1), None, {}, stall_seconds=3, on_record=told)
sys.exit(exit_status(work))
"""


@pytest.mark.parametrize(
    ("ending", "status", "reason"),
    [
        ("pass", 0, ""),
        ("raise RuntimeError('the batch was empty')", 1, "training failed: RuntimeError: the batch was empty"),
        ("time.sleep(60)", 1, "training made no step for 3 s (run.stall_seconds); its last lines:\nthe output of the"),
        ("abort(ValueError('lost')); time.sleep(60)", 1, "training failed: ValueError: lost"),
        ("sys.exit(143)", 143, "the training command was stopped"),
    ],
)
def test_an_attempt_says_how_it_ended_and_leaves_no_process(
    tmp_path: Path, ending: str, status: int, reason: str
) -> None:
    command = [sys.executable, "-c", ATTEMPT, str(tmp_path), ending]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    record, attempt = Attempt(tmp_path, 1).read_record(), Attempt(tmp_path, 1)
    assert record.reason.startswith(reason) and record.status == (None if status == 143 else status)
    assert (done.stdout, "the output of the driver" in attempt.last_lines()) == ("step 1\n", True)
    if status == 1:
        assert done.stderr.startswith(f"error: {reason}") and f"the whole log: {attempt.log}" in done.stderr
    assert not alive(int((tmp_path / "child").read_text()))


def test_an_error_of_a_task_is_the_one_that_was_raised_there() -> None:
    raised = FloatingPointError("step 1: actor/loss is nan")
    assert described(ray.exceptions.RayTaskError("run", "Traceback …", raised).as_instanceof_cause()) == (
        "FloatingPointError: step 1: actor/loss is nan"
    )
    died = ray.exceptions.RayError("It died.\n\tclass_name: vLLMHttpServer\n\tactor_id: 1\n")
    assert described(died) == "RayError: It died. (vLLMHttpServer)"


def test_the_time_of_an_attempt_that_was_killed_ends_with_its_last_output(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, 1)
    attempt.begin()
    attempt.log.write_text("\x1b[36mlast\x1b[0m\n")
    assert 0 <= attempt.seconds() < 60 and attempt.last_lines() == "last"
    attempt.end(1, "why")
    assert json.loads(attempt.record.read_text())["reason"] == "why"
    assert 0 <= attempt.seconds() < 60
