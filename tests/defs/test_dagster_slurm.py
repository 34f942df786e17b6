"""The graph in a project that has dagster-slurm: the jobs of a run go to a Ray cluster in an allocation of Slurm."""

import os
import re
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from processes import free_port

from core.errors import InputError
from pipelines.embedding import luffy_definitions
from tests.defs.test_dagster_ray import SETTINGS, materialize
from tests.processes import wait_until
from tests.slurm_cluster import NEEDS_SLURM, slurm_cluster

dagster_slurm = pytest.importorskip("dagster_slurm", reason="pip install dagster-slurm==1.22.0")

NEEDS_SSHD = pytest.mark.skipif(shutil.which("sshd") is None, reason="sshd not installed (Debian: openssh-server)")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def login_node(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """How one comes by SSH to a machine, this one, where Slurm's commands are those of a cluster that runs here."""
    keys = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    monkeypatch.setenv("DAGSTER_SLURM_SSH_CLOSE_MASTER_ON_EXIT", "1")
    port = free_port()
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        options = [f"HostKey={keys}/host", f"AuthorizedKeysFile={keys}/user.pub", "StrictModes=no", "PidFile=none"]
        options += ["ListenAddress=127.0.0.1", f"Port={port}", f"SetEnv=SLURM_CONF={cluster}/slurm.conf"]
        command = [
            str(shutil.which("sshd")),
            "-D",
            "-f",
            "/dev/null",
            *(part for one in options for part in ("-o", one)),
        ]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: answers(port), 60)
            yield {"host": "127.0.0.1", "port": port, "user": "root", "key_path": str(keys / "user")}
        finally:
            server.terminate()
            server.wait(60)


def compute(folder: Path, **ssh: Any) -> dg.ConfigurableResource[Any]:
    """The resource of a user of dagster-slurm."""
    return dagster_slurm.ComputeResource(
        mode="slurm",
        allocation_scope="run",
        slurm=dagster_slurm.SlurmResource(
            ssh=dagster_slurm.SSHConnectionResource(host_key_checking="off", **ssh),
            queue=dagster_slurm.SlurmQueueConfig(cpus=os.cpu_count(), mem=None),
            remote_base=str(folder),
        ),
        default_launcher=dagster_slurm.RayLauncher(
            head_startup_timeout=300,
            object_store_memory_gb=1,
            ray_start_args=["--num-cpus=16", "--num-gpus=1", "--disable-usage-stats"],
        ),
    )


def jobs() -> list[str]:
    """Names of the jobs that wait or run."""
    command = ["squeue", "--noheader", "--format=%j"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@NEEDS_SSHD
@NEEDS_SLURM[0]
@NEEDS_SLURM[1]
def test_a_training_runs_in_an_allocation_that_ends_with_its_step(
    login_node: dict[str, Any],
    tmp_path: Path,
    training_interpreter: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    settings = {
        **SETTINGS,
        "storage": {"root": str(tmp_path / "storage")},
        "interpreter": {"python": str(training_interpreter)},
    }
    cluster = compute(tmp_path / "remote", **login_node)
    defs = luffy_definitions(settings=settings, ray=cluster)
    inputs = ("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train")
    with dg.DagsterInstance.ephemeral() as instance:
        materialize(defs, instance, *inputs)
        assert not (tmp_path / "remote").exists()
        assert not materialize(defs, instance, "training/policy")["reused"].value
        (log,) = tmp_path.glob("remote/allocations/dagster_*/jobs/*/ray_cluster/ray_head.log")
        assert "Ray runtime started" in log.read_text()
        assert str(token.read_text()) not in "".join(file.read_text() for file in tmp_path.glob("remote/**/*.sh"))
        wait_until(lambda: not jobs(), 60)  # dagster-slurm waits for another step of the run that may come
        assert materialize(defs, instance, "training/policy")["reused"].value
        assert len([*tmp_path.glob("remote/allocations/*")]) == 1


def test_a_resource_that_gives_no_ray_cluster_is_refused(tmp_path: Path) -> None:
    local = dagster_slurm.ComputeResource(mode="local", default_launcher=dagster_slurm.BashLauncher())
    with pytest.raises(InputError, match=re.escape("ray: of dagster-slurm, give ComputeResource(mode='slurm', ")):
        luffy_definitions(ray=local)
    dg.Definitions.validate_loadable(luffy_definitions(ray=compute(tmp_path, host="login", user="me")))
