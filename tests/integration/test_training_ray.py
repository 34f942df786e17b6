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
from training_runs import Training, alive, command_line, family, write_targets

from core.backends.monitor import Attempt, attempts
from core.backends.ray_job import RayJobBackend
from core.backends.task import Task
from core.model.lineage_file import read_manifest
from training.job.attempts import follow
from training.job.checkpoints import latest_step

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ray_cluster(tmp_path_factory.mktemp("ray")) as running:
        yield running


def stand_in(folder: Path, number: int, steps: int, ending: str) -> tuple[Attempt, Task]:
    """A small job in the place of a training."""
    attempt = Attempt(folder, number)
    stand_ins = str(Path(__file__).parent)
    environment = {"VERL_FILE_LOGGER_PATH": str(attempt.records), "PYTHONPATH": f"{stand_ins}:{ROOT}"}
    return attempt, Task(f"{folder.name}-{number}", ("stand_in_job", str(steps), ending), environment, attempt.log)


def test_the_protocol_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    address = cluster.dashboard
    attempt, task = stand_in(tmp_path, 1, 3, "0")
    events: list[dict[str, object]] = []
    follow(attempt, RayJobBackend(address), task, total=3, done=0, stall_seconds=60, report=events.append)
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3]
    assert not RayJobBackend(address).reattach(task)  # it has ended

    _, failing = stand_in(tmp_path, 2, 0, "7")
    backend = RayJobBackend(address)
    backend.start(failing)
    while (status := backend.poll()) is None:
        time.sleep(0.5)
    assert status == 7

    _, hanging = stand_in(tmp_path, 3, 1, "hang")
    first = RayJobBackend(address)
    first.start(hanging)
    assert first.poll() is None
    second = RayJobBackend(address)  # of a training command that was started again
    assert second.reattach(hanging)
    second.stop()
    assert second.poll() == 128 + signal.SIGTERM == first.poll()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_training_goes_on_without_its_command_and_is_found_again(cluster: Cluster, tmp_path: Path) -> None:
    address, head = cluster.dashboard, cluster.nodes[0]
    idle = family(head)
    targets = write_targets(tmp_path / "train.parquet", 16)
    settings = {"run__backend": "ray", "run__ray_address": address, "trainer__total_training_steps": "4"}
    run = Training(tmp_path / "run", targets, **settings)
    run.wait_for_step(1)
    run.process.kill()
    run.end()
    found = Training(tmp_path / "run", targets, **settings)
    found.wait_for(lambda: "which still runs" in found.said)
    assert found.end() == 0, found.said
    assert [record["step"] for record in found.metrics()] == [1, 2, 3, 4]
    assert len(attempts(tmp_path / "run" / "attempts")) == 1
    assert read_manifest(tmp_path / "run" / "policy").steps == 4

    stopped = Training(tmp_path / "stopped", targets, **settings)
    stopped.wait_for_step(1)
    assert latest_step(tmp_path / "stopped" / "checkpoints") >= 1
    jobs = family(head) - idle
    assert any("training.verl_hooks.main" in command_line(process) for process in jobs)
    stopped.process.send_signal(signal.SIGTERM)
    assert stopped.end(60) == 128 + signal.SIGTERM
    deadline = time.monotonic() + 30
    # Ray keeps idle workers; what a training has must be gone.
    busy = (
        "training.verl_hooks.main",
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
    run = Training(tmp_path / "run", targets, run__backend="ray", run__ray_address=cluster.dashboard)
    assert run.end() == 2
    assert "the cluster rejected the token" in run.said


def test_an_address_without_a_dashboard_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "train.parquet", 16)
    address = f"http://127.0.0.1:{free_port()}"
    run = Training(tmp_path / "run", targets, run__backend="ray", run__ray_address=address)
    assert run.end(60) == 2
    assert f"error: ray_address={address}: no Ray dashboard answers there" in run.said
    unset = Training(tmp_path / "run", targets, run__backend="ray")
    assert unset.end(60) == 2
    assert "ray_address is not set" in unset.said
