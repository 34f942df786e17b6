"""An attempt, on real processes: what is reported, why it ended, that nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import alive, wait_gone

from core.backends.local import LocalBackend
from core.backends.monitor import Attempt, attempts, reason_of
from core.backends.task import Task
from core.errors import InputError, TaskFailed
from core.metric_table import STEP_SECONDS
from training.job.attempts import follow, steps_before

ROOT = Path(__file__).parents[2]


def run(folder: Path, steps: int, ending: str, stall_seconds: float = 60, **options: Any) -> list[dict[str, Any]]:
    """Follow one attempt of the stand-in job; what was reported."""
    attempt, events = Attempt(folder, 1), []
    environment = {"VERL_FILE_LOGGER_PATH": str(attempt.records), "PYTHONPATH": str(Path(__file__).parent)}
    task = Task("test-1", ("stand_in_job", str(steps), ending), environment, attempt.log)
    with (folder / "lock").open("w") as lock:
        backend = LocalBackend(lock.fileno())
        follow(attempt, backend, task, total=4, done=0, stall_seconds=stall_seconds, report=events.append, **options)
    return events


def record(folder: Path) -> dict[str, Any]:
    return json.loads(Attempt(folder, 1).record.read_text())


def test_steps_are_reported_in_order_with_the_time_left(tmp_path: Path) -> None:
    steps = [event for event in run(tmp_path, 3, "0") if event["event"] == "step"]
    assert [(event["step"], event["total"], event["message"]) for event in steps] == [
        (1, 4, "step 1 of 4, reward 0.25, time left 1:30"),
        (2, 4, "step 2 of 4, reward 0.50, time left 1:00"),
        (3, 4, "step 3 of 4, reward 0.75, time left 0:30"),
    ]
    assert record(tmp_path)["status"] == 0
    assert [attempt.number for attempt in attempts(tmp_path)] == [1]
    assert 0 < attempts(tmp_path)[0].seconds() < 60


def test_the_steps_of_earlier_attempts_count_until_this_one_repeats_them(tmp_path: Path) -> None:
    earlier, this = Attempt(tmp_path, 1), Attempt(tmp_path, 2)
    lines = [json.dumps({"step": step, "data": {STEP_SECONDS: 1}}) + "\n" for step in (1, 2, 3)]
    earlier.records.write_text("".join(lines))
    assert [one["step"] for one in steps_before(this, [earlier, this], 1)] == [1]
    this.records.write_text(lines[2])
    assert [one["step"] for one in steps_before(this, [earlier, this], 1)] == [1, 2]


def test_an_error_is_told_in_the_words_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match=r"training failed: RuntimeError: the batch was empty\nthe whole log: "):
        run(tmp_path, 1, "error")
    assert (record(tmp_path)["status"], record(tmp_path)["reason"]) == (
        1,
        "training failed: RuntimeError: the batch was empty",
    )


def test_a_stalled_run_is_stopped_and_its_last_lines_told(tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match=r"no step for 12 s(.|\n)*waiting for a rank that is gone"):
        run(tmp_path, 2, "hang", stall_seconds=12)  # its process has to start
    assert record(tmp_path)["status"] is None


def test_a_watch_that_objects_after_a_step_stops_the_run(tmp_path: Path) -> None:
    def object_after(step: int) -> None:
        if len(Attempt(tmp_path, 1).records.read_text().splitlines()) >= step:
            raise InputError("the budget is spent")

    with pytest.raises(InputError, match="the budget is spent"):
        run(tmp_path, 2, "hang", after_step=lambda _: object_after(2))
    assert record(tmp_path)["status"] is None and record(tmp_path)["ended"]


def test_a_signal_is_named(tmp_path: Path) -> None:
    assert reason_of(tmp_path / "none", 128 + signal.SIGKILL, "training") == "training was stopped by signal SIGKILL"


def test_the_last_named_error_is_the_reason_without_colours(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ValueError: first\n\x1b[36m(worker)\x1b[0m OSError: disk full\nbye\n")
    assert reason_of(log, 1, "training") == "training failed: (worker) OSError: disk full"
    log.write_text("ray.exceptions.ActorDiedError: It died.\n\tclass_name: vLLMHttpServer\n\tactor_id: 1\n")
    assert reason_of(log, 1, "training") == "training failed: ray.exceptions.ActorDiedError: It died. (vLLMHttpServer)"
    died = "ray.exceptions.ActorDiedError: It died.\n\tclass_name: vLLMHttpServer\n"
    log.write_text(died + "\x1b[36m(AgentLoopWorkerTQ pid=7)\x1b[0m ray.exceptions.ActorDiedError: It died.\n")
    assert reason_of(log, 1, "training") == "training failed: ray.exceptions.ActorDiedError: It died. (vLLMHttpServer)"
    log.write_text("nothing named\n")
    assert reason_of(log, 1, "training") == "training failed: nothing named"


def test_the_time_of_an_attempt_whose_command_was_killed_ends_with_its_last_output(tmp_path: Path) -> None:
    run(tmp_path, 1, "0")
    attempt = Attempt(tmp_path, 1)
    whole = record(tmp_path)
    attempt.record.write_text(json.dumps({"started": whole["started"]}))
    assert 0 < attempt.seconds() < 60


# A training command in its own process: prints the pids of the supervisor and of the job, then how the job ended.
COMMAND = """
import sys, threading, time
from pathlib import Path
from core.backends.monitor import Attempt
from core.errors import InputError, TaskFailed
from training.job.attempts import follow
from core.backends.local import LocalBackend
from core.backends.task import Task
from core.machine.processes import descendants

folder, stand_ins = Path(sys.argv[1]), sys.argv[2]
attempt = Attempt(folder, 1)
environment = {"VERL_FILE_LOGGER_PATH": str(attempt.records), "PYTHONPATH": stand_ins}
task = Task("test-1", ("stand_in_job", "1", "family"), environment, attempt.log)

def report(event):
    if event["event"] == "step":
        print(*(process.pid for process in descendants()), flush=True)

try:
    with (folder / "lock").open("w") as lock:
        follow(attempt, LocalBackend(lock.fileno()), task, total=2, done=0, stall_seconds=60, report=report)
except TaskFailed as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize("command_too", [False, True], ids=["supervisor", "command and supervisor"])
def test_a_job_does_not_outlive_a_supervisor_that_is_killed(tmp_path: Path, command_too: bool) -> None:
    command = [sys.executable, "-c", COMMAND, str(tmp_path), str(Path(__file__).parent)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    supervisor, *job = (int(pid) for pid in process.stdout.readline().split())
    assert len(job) == 2
    child = job.pop()
    if command_too:
        process.kill()
    os.kill(supervisor, signal.SIGKILL)
    if not command_too:
        assert "training was stopped by signal SIGKILL" in process.communicate(timeout=30)[0]
    process.wait(30)
    # With nobody left to watch, the job itself hears of it; what it started is its own affair, as Ray's is Ray's.
    wait_gone(job if command_too else [*job, child], 20.0)
    if alive(child):
        os.kill(child, signal.SIGKILL)
