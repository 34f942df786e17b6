"""The training interpreter: messages, failures, and that nothing survives a step. Real processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from processes import alive, wait_until

from assets.shared import failures
from assets.shared.failures import ProgramKilled, user_errors
from assets.shared.interpreter_process import TrainingInterpreter, _failure
from assets.shared.live_metrics import METRICS, StepObserver
from core.errors import InputError
from pipelines.definitions.sensors import reason
from tests.defs.project import message
from training.job.checkpoints import STATE
from training.job.run_folder import RunFolder

INTERPRETER = TrainingInterpreter(python=sys.executable, grace_seconds=20)
KILLED = "tests.defs.child was stopped by signal SIGKILL"


@dg.asset
def fragile(context: dg.AssetExecutionContext, file: dg.ResourceParam[str]) -> None:
    with user_errors(context):
        INTERPRETER.run(context, ["tests.defs.child", "die_twice", file], print)


def run(*arguments: str, interpreter: TrainingInterpreter = INTERPRETER, seen: list | None = None):
    @dg.asset
    def probe(context: dg.AssetExecutionContext) -> None:
        observer = StepObserver(context)
        interpreter.run(context, ["tests.defs.child", *arguments], observer)
        if seen is not None:
            seen.append(observer)

    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize([probe], instance=instance, raise_on_error=False)


def observations(result) -> list[dg.AssetObservation]:
    events = [event for event in result.all_events if event.event_type_value == "ASSET_OBSERVATION"]
    return [event.asset_observation_data.asset_observation for event in events]


def test_each_step_becomes_an_observation_of_the_metrics():
    seen: list[StepObserver] = []
    found = observations(run("steps", "3", seen=seen))
    assert [entry.asset_key for entry in found] == [METRICS] * 3
    assert {name: value.value for name, value in found[1].metadata.items()} == {
        "step": 2,
        "reward/on_policy": pytest.approx(2 / 3, abs=1e-3),
        "actor/loss": 0.5,
    }
    assert (seen[0].policy, seen[0].reused) == ("/policy", False)


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        ("mistake", ["targets t.parquet: no such file"]),
        ("crash", ["tests.defs.child ended with status 1", "RuntimeError: the engine broke"]),
        ("lacking", [f"{sys.executable}: No module named 'nowhere': `luffy doctor` says what it lacks"]),
    ],
)
def test_how_a_program_failed_is_told(program: str, parts: list[str]):
    shown = message(run(program))
    assert all(part in shown for part in parts), shown


def test_a_step_whose_program_was_killed_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(failures, "RESTART_SECONDS", 0.1)
    file = tmp_path / "started"
    for restarts, expected in ((3, True), (1, False)):
        monkeypatch.setattr(failures, "RESTARTS", restarts)
        file.unlink(missing_ok=True)
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize([fragile], instance=instance, resources={"file": str(file)}, raise_on_error=False)
        assert result.success == expected
        retries = [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
        assert [reason(event.step_retry_data.error) for event in retries] == [KILLED] * min(restarts, 2)
        assert file.read_text() == "started\n" * (min(restarts, 2) + 1)
    assert message(result) == KILLED


@pytest.mark.parametrize(
    ("status", "lines", "again"),
    [
        (-signal.SIGKILL, [], True),
        (1, ["error: the training was stopped by signal SIGKILL"], True),
        (128 + signal.SIGTERM, [], False),  # `kill`
        (1, ["error: the training was stopped by signal SIGTERM"], False),  # a job that somebody cancelled
        (-signal.SIGSEGV, [], False),
        (1, [], False),
    ],
)
def test_only_what_was_killed_starts_again(status: int, lines: list[str], again: bool):
    assert isinstance(_failure("training", status, lines, "python"), ProgramKilled) == again


def test_an_interpreter_without_torch_is_refused_before_anything_starts():
    with pytest.raises(InputError, match="has no torch and no vllm: choose a Python that has"):
        INTERPRETER.examined()


def test_an_old_driver_is_said_before_a_run(tmp_path: Path, monkeypatch):
    (tool := tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 550.54.15\necho 550.54.15\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    (python := tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "hardware").write_text("gpu\n")
    with pytest.raises(InputError, match="needs 580 or newer"):
        TrainingInterpreter(python=str(python)).examined()


CANCELLED = """
import json, logging, sys
from pathlib import Path
import dagster as dg
from assets.shared.failures import user_errors
from assets.shared.interpreter_process import TrainingInterpreter

@dg.asset
def probe(context: dg.AssetExecutionContext) -> None:
    interpreter = TrainingInterpreter(python=sys.executable, grace_seconds=20)
    kept = lambda: "the checkpoint of step 3 is kept; materialize again to resume"
    with user_errors(context):
        interpreter.run(context, ["tests.defs.child", sys.argv[2], sys.argv[1]], print, kept)

with dg.DagsterInstance.ephemeral() as instance:
    try:
        dg.materialize([probe], instance=instance, raise_on_error=False)
    except dg.DagsterExecutionInterruptedError:
        pass
    entries = [entry for entry in instance.all_logs(instance.get_runs()[0].run_id) if entry.dagster_event is None]
    said = [entry.user_message for entry in entries if int(entry.level) >= logging.INFO]
Path(sys.argv[3]).write_text(json.dumps(said))
"""


@pytest.mark.parametrize(
    ("program", "signum"),
    [
        ("hang", signal.SIGINT),
        ("hang_in_event", signal.SIGINT),
        ("hang", signal.SIGKILL),
        pytest.param("hang", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_nothing_survives_a_step_and_a_cancelled_one_says_what_is_kept(tmp_path: Path, program: str, signum: int):
    root = Path(__file__).resolve().parents[2]
    pids, told = tmp_path / "pids", tmp_path / "told"
    worker = subprocess.Popen(
        [sys.executable, "-c", CANCELLED, str(pids), program, str(told)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(pids.exists, 120)
    family = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in family)
    worker.send_signal(signum)
    wait_until(lambda: not any(alive(pid) for pid in family), 40)
    status = worker.wait(120)
    if signum == signal.SIGINT:
        assert status == 0
        said = json.loads(told.read_text())
        assert said == ["cancelled; the checkpoint of step 3 is kept; materialize again to resume"]


def test_a_cancelled_training_names_its_last_complete_checkpoint(tmp_path: Path):
    folder = RunFolder(tmp_path)
    assert "there is no checkpoint yet" in folder.kept("materialize again")
    for step in (2, 4):
        state = tmp_path / "first_stage" / "checkpoints" / f"global_step_{step}" / STATE
        state.parent.mkdir(parents=True)
        state.touch()
    where = tmp_path / "first_stage"
    assert folder.kept("do it") == f"the checkpoint of step 4 is kept in {where}; do it to resume"
