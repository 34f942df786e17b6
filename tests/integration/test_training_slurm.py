"""The Slurm backend on a real cluster of one node: jobs run, outlive their command, are found again and cancelled."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from slurm_cluster import NEEDS_SLURM, slurm_cluster
from training_inputs import write_targets
from training_runs import Training

from core.backends import Placement
from core.backends.attempts import attempts
from core.backends.elsewhere import run_elsewhere
from core.backends.slurm import SlurmBackend
from core.backends.task import Task
from core.errors import InputError
from core.machine.jsonl_tail import EVENTS_FILE
from core.model.lineage_file import read_manifest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = NEEDS_SLURM


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a cluster that runs here."""
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as folder:
        yield folder


def stand_in(folder: Path, number: int, ending: str) -> Task:
    """A small job in the place of a training, whose events are in a file beside its log."""
    events = folder / f"{number}.jsonl"
    environment = {"PYTHONPATH": f"{Path(__file__).parent}:{ROOT}", EVENTS_FILE: str(events)}
    return Task(f"{folder.name}-{number}", ("stand_in_job", "1", ending), environment, folder / f"{number}.log")


def jobs() -> list[str]:
    """Names of the jobs that wait or run."""
    command = ["squeue", "--noheader", "--format=%j"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.timeout(300)
def test_the_protocol_on_a_cluster(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{ROOT}")
    place, events = Placement(backend="slurm", slurm={"time": 5}), list[dict[str, object]]()
    job, say = ("stand_in_job", "3", "0"), events.append
    run_elsewhere(job, Placement(), place, tmp_path, tmp_path.name, what="training", report=say, say=print)
    assert [event["step"] for event in events] == [1, 2, 3]
    assert attempts(tmp_path)[0].read_record().status == 0

    failing = SlurmBackend({"time": 5})
    assert not failing.reattach(stand_in(tmp_path, 9, "0"))  # it was never submitted
    failing.start(stand_in(tmp_path, 2, "7"))
    while (status := failing.poll()) is None:
        time.sleep(0.2)
    assert status == 7

    hanging = stand_in(tmp_path, 3, "hang")
    first = SlurmBackend({"time": 5, "partition": "debug"})
    first.start(hanging)
    assert first.poll() is None and hanging.name in jobs()
    second = SlurmBackend({})  # of a training command that was started again
    assert second.reattach(hanging)
    second.stop()
    assert hanging.name not in jobs()
    assert first.poll() is not None


@pytest.mark.timeout(300)
def test_a_job_that_slurm_ends_fails_with_slurms_reason(cluster: Path, tmp_path: Path) -> None:
    hanging = stand_in(tmp_path, 1, "hang")
    backend = SlurmBackend({"time": 5})
    backend.start(hanging)
    while not Path(hanging.environment[EVENTS_FILE]).exists():
        assert backend.poll() is None
        time.sleep(0.2)
    job = subprocess.run(
        ["squeue", "--noheader", "--format=%A"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for process in psutil.process_iter(["environ"]):  # as a node that runs out of memory
        if (process.info["environ"] or {}).get("SLURM_JOB_ID") == job:
            process.kill()
    while (status := backend.poll()) is None:
        time.sleep(0.5)
    assert status == 1
    assert "Error: Slurm ended the job" in hanging.log.read_text()


def test_what_slurm_refuses_is_one_message(cluster: Path, tmp_path: Path) -> None:
    task = stand_in(tmp_path, 1, "0")
    with pytest.raises(InputError, match=r"Slurm does not take the job: .*[Ii]nvalid partition"):
        SlurmBackend({"partition": "nowhere"}).start(task)
    with pytest.raises(InputError, match="Unavailable parameter"):
        SlurmBackend({"gpu": 8}).start(task)
    assert task.name not in jobs()  # one that has just ended may still be there


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_training_goes_on_without_its_command_and_is_found_again(cluster: Path, tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "train.parquet", 16)
    place, settings = ["luffy", "--backend", "slurm"], {"trainer__total_training_steps": "3"}
    killed = Training(tmp_path / "run", targets, *place, **settings)
    killed.wait_for_step(1)
    killed.process.kill()
    killed.end()
    assert len(jobs()) == 1
    found = Training(tmp_path / "run", targets, *place, **settings)
    found.wait_for(lambda: "which still runs" in found.said)
    assert found.end() == 0, found.said
    assert [record["step"] for record in found.metrics()] == [1, 2, 3]
    assert len(attempts(tmp_path / "run" / "attempts")) == 1
    assert read_manifest(tmp_path / "run" / "policy").steps == 3

    stopped = Training(tmp_path / "stopped", targets, *place, **settings)
    stopped.wait_for_step(1)
    stopped.process.send_signal(signal.SIGTERM)
    assert stopped.end(90) == 128 + signal.SIGTERM
    assert jobs() == []
