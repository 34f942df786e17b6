"""When a process of a training is stopped, nothing stays alive, the reason is told, and a rerun resumes.

Real verl, Ray and vLLM.
"""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from training_inputs import write_targets
from training_runs import Training, check_ages

from core.backends.attempts import attempts, hold
from core.files import write_json
from core.model.lineage_file import read_manifest
from training.job.checkpoints import STATE, folder_of, latest_step

GONE_SECONDS = 30
STEPS = 14
COMMAND, DRIVER = "-m core.backends.supervisor", "-m training --recipe"
# A worker of Ray that is killed takes the step with it; so does the server of vLLM.
WORKER, TASK, SERVER = "ray::WorkerDict", "ray::TaskRunner", "ray::vLLMHttpServer"


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_targets(tmp_path_factory.mktemp("targets") / "train.parquet", 4 * STEPS)


def start(out: Path, targets: Path, rollouts: str, steps: int = STEPS) -> Training:
    return Training(out, targets, rollouts__type=rollouts, trainer__total_training_steps=str(steps))


def strike(run: Training, process: str, signum: signal.Signals) -> None:
    """Send ``signum`` to one process of ``run`` after a step; all are gone within 30 s."""
    steps = run.said.count("training: step")
    run.wait_for(lambda: run.said.count("training: step") > steps and latest_step(run.out / "checkpoints") > 0)
    pid = run.process.pid if process == COMMAND else run.find(process)
    run.remember()
    assert len(run.seen) > 5
    os.kill(pid, signum)
    struck = time.monotonic()
    run.gone(GONE_SECONDS)
    run.end(GONE_SECONDS)
    print(f"{process} {signum.name}: all gone after {time.monotonic() - struck:.1f} s: {run.lines[-2:]}")


def check(run: Training, status: int, reason: str) -> None:
    record = json.loads(attempts(run.out / "attempts")[-1].record.read_text())
    assert run.process.returncode == status, run.said
    assert reason in run.said or reason in record.get("reason", ""), run.said + str(record)


def resumes(out: Path, targets: Path, rollouts: str, steps: int = STEPS) -> Training:
    done = latest_step(out / "checkpoints")
    run = start(out, targets, rollouts, steps)
    run.wait_for(lambda: f"resuming after step {done} of {steps}" in run.said)
    return run


def finishes(run: Training, steps: int = STEPS) -> None:
    assert run.end() == 0, run.said
    assert [record["step"] for record in run.metrics()] == list(range(1, steps + 1))
    manifest = read_manifest(run.out / "policy")
    assert manifest.steps == steps
    assert manifest.attempts == len(attempts(run.out / "attempts"))
    assert run.gone(5) < 5
    prompts = [sample["input"] for step in range(1, steps + 1) for sample in run.rollouts(step)]
    assert set(Counter(prompts).values()) == {4}  # samples of a group: no prompt is lost, none is trained on twice
    assert len(set(prompts)) == 4 * steps
    uses = pq.read_table(run.out / "ledger.parquet")
    assert len(set(uses["target"].to_pylist())) == uses.num_rows == 4 * steps  # one of the samples of each group
    assert Counter(uses["step"].to_pylist()) == dict.fromkeys(range(1, steps + 1), 4)
    assert manifest.ledger and sum(sum(counts.values()) for counts in manifest.ledger.values()) == 4 * steps


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "rollouts", ["colocate_async", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sync", "separate_async"))]
)
def test_a_killed_command_leaves_nothing_and_a_rerun_resumes(rollouts: str, tmp_path: Path) -> None:
    steps, out = 4, tmp_path / "run"
    targets = write_targets(tmp_path / "train.parquet", 4 * steps)
    run = start(out, targets, rollouts, steps)
    strike(run, COMMAND, signal.SIGKILL)
    assert attempts(out / "attempts")[0].read_record().reason == "the training command was stopped"
    resumed = resumes(out, targets, rollouts, steps)
    finishes(resumed, steps)
    if rollouts != "sync":
        check_ages([record["data"] for record in resumed.metrics()])


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("rollouts", ["sync", "colocate_async", "separate_async"])
def test_every_process_that_can_be_stopped(rollouts: str, targets: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = start(out, targets, rollouts)
    for process, signum, status, reason in (
        (WORKER, signal.SIGKILL, 1, "died"),
        (SERVER, signal.SIGKILL, 1, "(vLLMHttpServer)"),
        (TASK, signal.SIGKILL, 1, "(TaskRunnerV1)"),
        (DRIVER, signal.SIGKILL, 128 + signal.SIGKILL, "training was stopped by signal SIGKILL"),
        (COMMAND, signal.SIGTERM, 128 + signal.SIGTERM, "the training command was stopped"),
    ):
        strike(run, process, signum)
        check(run, status, reason)
        run = resumes(out, targets, rollouts)
    finishes(run)


def test_a_command_that_is_interrupted_says_for_what_it_waits_and_what_is_kept(targets: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with hold(out, "training", print):
        state = folder_of(out / "checkpoints", 3) / STATE
        write_json({"files": {}}, state)
        run = Training(out, targets)
        run.wait_for(lambda: f"training: waiting up to 60 s: another training in {out} runs or is ending" in run.said)
        run.process.send_signal(signal.SIGINT)
        assert run.end(30) == 130
    kept = f"the checkpoint of step 3 is kept in {out}"
    assert run.lines[-1] == f"training: stopped; {kept}; run the same command again to resume"


def test_a_stall_is_told_with_the_last_lines_and_nothing_stays(targets: Path, tmp_path: Path) -> None:
    run = Training(tmp_path / "run", targets, run__stall_seconds="15")
    run.wait_for(lambda: bool(list((tmp_path / "run").glob("attempts/*.log"))))
    time.sleep(5)
    run.remember()
    assert run.end(60) == 1
    assert "training made no step for 15 s (run.stall_seconds); its last lines:" in run.said
    run.gone(GONE_SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_loss_that_is_infinite_stops_with_step_and_batch(targets: Path, tmp_path: Path) -> None:
    weight = {"method__off_policy__reshape": "{type: logp, weight: 1e+39}"}
    run = Training(tmp_path / "run", targets, **weight)
    assert run.end() == 1
    (failed,) = {line for line in run.lines if "FloatingPointError: step 1: actor/" in line}
    batch = Path(failed.rsplit("the batch is in ", 1)[1])
    samples = [json.loads(line) for line in batch.read_text().splitlines()]
    assert len(samples) == 16
    assert sum(sample["prefix_length"] > 0 for sample in samples) == 4
    assert latest_step(tmp_path / "run" / "checkpoints") == 0  # what is broken is not saved
    assert not (tmp_path / "run" / "policy").exists()
