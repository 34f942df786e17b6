"""The Ray backend on a real local cluster: a job runs, outlives the training command, is found again and is stopped."""

import json
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import free_port
from ray_nodes import Cluster, ray_cluster
from training_inputs import write_targets
from training_runs import Training, alive, command_line, family

from core.backends import Placement
from core.backends.attempts import attempts
from core.backends.elsewhere import run_elsewhere
from core.backends.ray_job import RayJobBackend
from core.backends.task import Task
from core.errors import InputError, TaskFailed
from core.model.lineage_file import read_manifest
from training.job.checkpoints import latest_step

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ray_cluster(tmp_path_factory.mktemp("ray")) as running:
        yield running


def on(address: str) -> list[str]:
    return ["--backend", "ray", "--ray-address", address]


def stand_in(folder: Path, number: int, ending: str) -> Task:
    """A small job in the place of a training."""
    environment = {"PYTHONPATH": f"{Path(__file__).parent}:{ROOT}"}
    return Task(f"{folder.name}-{number}", ("stand_in_job", "1", ending), environment, folder / f"{number}.log")


def test_the_protocol_on_a_cluster(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{ROOT}")
    place, events = Placement(backend="ray", ray_address=cluster.dashboard), list[dict[str, object]]()

    def run(ending: str) -> None:
        job, say = ("stand_in_job", "3", ending), events.append
        run_elsewhere(job, Placement(), place, tmp_path, tmp_path.name, what="training", report=say, say=print)

    run("0")
    assert [event["step"] for event in events] == [1, 2, 3]
    with pytest.raises(TaskFailed, match="training ended with status 7"):
        run("7")
    with pytest.raises(InputError, match=r"^targets t\.parquet: no such file$"):
        run("mistake")
    records = [attempt.read_record() for attempt in attempts(tmp_path)]
    assert [(one.status, one.reason.split(":")[0]) for one in records] == [
        (0, ""),
        (7, "training ended with status 7"),
        (2, "targets t.parquet"),
    ]

    hanging = stand_in(tmp_path, 9, "hang")
    first = RayJobBackend(cluster.dashboard)
    assert not first.reattach(hanging)  # it was never submitted
    first.start(hanging)
    assert first.poll() is None
    second = RayJobBackend(cluster.dashboard)  # of a training command that was started again
    assert second.reattach(hanging)
    second.stop()
    assert second.poll() == 128 + signal.SIGTERM == first.poll()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_training_goes_on_without_its_command_and_is_found_again(cluster: Cluster, tmp_path: Path) -> None:
    address, head = cluster.dashboard, cluster.nodes[0]
    idle = family(head)
    targets = write_targets(tmp_path / "train.parquet", 16)
    place, settings = ["luffy", *on(address)], {"trainer__total_training_steps": "4"}
    run = Training(tmp_path / "run", targets, *place, **settings)
    run.wait_for_step(1)
    run.process.kill()
    run.end()
    found = Training(tmp_path / "run", targets, *place, **settings)
    found.wait_for(lambda: "which still runs" in found.said)
    assert found.end() == 0, found.said
    assert [record["step"] for record in found.metrics()] == [1, 2, 3, 4]
    assert len(attempts(tmp_path / "run" / "attempts")) == 1
    assert read_manifest(tmp_path / "run" / "policy").steps == 4

    stopped = Training(tmp_path / "stopped", targets, *place, **settings)
    stopped.wait_for_step(1)
    assert latest_step(tmp_path / "stopped" / "checkpoints") >= 1
    jobs = family(head) - idle
    assert any("-m training --request" in command_line(process) for process in jobs)
    stopped.process.send_signal(signal.SIGTERM)
    assert stopped.end(60) == 128 + signal.SIGTERM
    deadline = time.monotonic() + 30
    # Ray keeps idle workers; what a training has must be gone.
    busy = (
        "-m training",
        "ray::WorkerDict",
        "ray::TaskRunner",
        "ray::vLLMHttpServer",
        "ray::AgentLoopWorker",
    )
    while left := [process for process in alive(jobs) if any(name in command_line(process) for name in busy)]:
        assert time.monotonic() < deadline, [command_line(process)[:100] for process in left]
        time.sleep(0.5)
    record = json.loads(attempts(tmp_path / "stopped" / "attempts")[0].record.read_text())
    assert record["reason"] == "the training command was stopped"


def test_a_token_that_is_not_the_clusters_is_told_so(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    targets = write_targets(tmp_path / "train.parquet", 16)
    run = Training(tmp_path / "run", targets, "luffy", *on(cluster.dashboard))
    assert run.end() == 2
    assert "the cluster rejected the token" in run.said


def test_an_address_without_a_dashboard_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "train.parquet", 16)
    address = f"http://127.0.0.1:{free_port()}"
    run = Training(tmp_path / "run", targets, "luffy", *on(address))
    assert run.end(60) == 2
    assert f"error: ray_address={address}: no Ray dashboard answers there" in run.said
