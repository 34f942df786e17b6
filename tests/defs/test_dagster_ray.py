"""The graph in a project that has dagster-ray: each step that needs GPUs gets a cluster of its own."""

import contextlib
import re
import secrets
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from processes import free_port
from pydantic import PrivateAttr

from core.errors import InputError
from pipelines.embedding import luffy_definitions

dagster_ray = pytest.importorskip("dagster_ray", reason="pip install dagster-ray==0.4.8")

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 300
SETTINGS = {
    "targets": {"embedded_rows": 300, "min_rows": 10},
    "training": {
        "config": {
            "data": {"train_batch_size": 4, "max_prompt_length": 64, "max_response_length": 144},
            "trainer": {"total_training_steps": 2},
        }
    },
}


class RayHere(dagster_ray.RayResource):
    """A cluster of one node on this machine, where KubeRay would start pods."""

    folder: str
    python: str
    _process: Any = PrivateAttr(default=None)

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def name(self) -> str:
        return str(self._name)

    @property
    def ready(self) -> bool:
        return self._host is not None

    def create(self, context: Any) -> None:
        self._name = f"step-{time.monotonic_ns()}"
        command = [self.python, "-m", "ray.scripts.scripts", "start", "--block", "--head", "--disable-usage-stats"]
        command += ["--port", str(free_port()), "--include-dashboard", "true"]
        command += ["--dashboard-port", str(self.dashboard_port), "--ray-client-server-port", str(free_port())]
        command += ["--dashboard-agent-listen-port", str(free_port()), "--node-ip-address", self.host]
        command += [
            "--num-cpus",
            "16",
            "--num-gpus",
            "1",
            "--object-store-memory",
            "500000000",
            "--temp-dir",
            f"{self.folder}/ray",
        ]
        supervised = [self.python, "-m", "core.backends.supervisor", "--", *command]
        with Path(self.folder, f"{self._name}.log").open("wb") as log:
            self._process = subprocess.Popen(supervised, cwd=ROOT, stdout=log, stderr=log)

    def wait(self, context: Any) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while self._host is None:
            assert time.monotonic() < deadline and self._process.poll() is None
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.dashboard_port), timeout=5):
                self._host = self.host
            time.sleep(0.5)

    def delete(self, context: Any) -> None:
        self._process.terminate()
        Path(self.folder, f"{self._name}.log").rename(Path(self.folder, f"{self._name}.ended"))
        self._process.wait(60)


def materialize(defs: dg.Definitions, instance: dg.DagsterInstance, *keys: str) -> dict[str, dg.MetadataValue[Any]]:
    """Materialize ``keys``; the metadata of the last one."""
    job = defs.resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(["luffy", *key.split("/")]) for key in keys]
    assert job.execute_in_process(instance=instance, asset_selection=selection).success
    event = instance.get_latest_materialization_event(selection[-1])
    assert event and event.asset_materialization
    return dict(event.asset_materialization.metadata)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_training_runs_on_a_cluster_that_lives_as_long_as_its_step(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    training_interpreter: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    folder = tmp_path_factory.mktemp("ray")
    cluster = RayHere(
        folder=str(folder),
        python=str(training_interpreter),
        dashboard_port=free_port(),
        lifecycle=dagster_ray.Lifecycle(create=False),
    )
    settings = {**SETTINGS, "storage": {"root": str(tmp_path)}, "interpreter": {"python": str(training_interpreter)}}
    defs = luffy_definitions(settings=settings, ray=cluster)
    inputs = ("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train")
    with dg.DagsterInstance.ephemeral() as instance:
        materialize(defs, instance, *inputs)
        assert not list(folder.iterdir())
        assert not materialize(defs, instance, "training/policy")["reused"].value
        (ended,) = folder.glob("*.ended")
        assert "Ray runtime started" in ended.read_text() and not list(folder.glob("*.log"))
        assert [*folder.glob("ray/session_2*/logs/job-driver-luffy-luffy-*-1.log")]
        assert materialize(defs, instance, "training/policy")["reused"].value
        assert [*folder.glob("*.ended")] == [ended] and not list(folder.glob("*.log"))


def test_a_cluster_that_every_step_would_start_is_refused() -> None:
    with pytest.raises(InputError, match=re.escape("ray: give it lifecycle=Lifecycle(create=False)")):
        luffy_definitions(ray=dagster_ray.LocalRay())


def test_the_cluster_of_kuberay_can_be_given() -> None:
    kuberay = pytest.importorskip("dagster_ray.kuberay", reason="pip install 'dagster-ray[kuberay]==0.4.8'")
    cluster = kuberay.KubeRayCluster(lifecycle=dagster_ray.Lifecycle(create=False))
    dg.Definitions.validate_loadable(luffy_definitions(ray=cluster))
