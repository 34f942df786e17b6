"""Ray clusters of the tests: groups of processes on this machine, with a token and a temporary folder of their own."""

import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import free_port
from ray._private.authentication_test_utils import reset_auth_token_state
from training_runs import own_environment

from core.backends.ray_job import RayJobBackend
from core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is: its dashboard, and the process that holds each node, the head first."""

    dashboard: str
    nodes: tuple[int, ...]


@contextmanager
def ray_cluster(folder: Path, *, nodes: int = 1, cpus: int = 16) -> Iterator[Cluster]:
    """A cluster of ``nodes`` with one logical GPU each, at 127.0.0.1, 127.0.0.2, …; nothing of it is left afterwards.

    It asks for a token, of this test's own, as Ray's clusters do.
    """
    patched = pytest.MonkeyPatch()
    patched.setenv("RAY_AUTH_MODE", "token")
    patched.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    reset_auth_token_state()  # Ray reads both once in a process, and another test may have loaded it
    port, dashboard = free_port(), free_port()
    head = ["--head", "--port", str(port), "--include-dashboard", "true", "--dashboard-port", str(dashboard)]
    head += ["--ray-client-server-port", str(free_port())]  # Ray's fixed port may be another cluster's
    with ExitStack() as stack:
        stack.callback(reset_auth_token_state)
        stack.callback(patched.undo)
        # Sockets lie below, and their addresses are short.
        sessions = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        process, log = stack.enter_context(_node(folder, sessions, 1, cpus, head))
        _wait_for_dashboard(f"http://127.0.0.1:{dashboard}", process, log)
        join = ["--address", f"127.0.0.1:{port}"]
        others = [stack.enter_context(_node(folder, sessions, number, cpus, join))[0] for number in range(2, nodes + 1)]
        yield Cluster(f"http://127.0.0.1:{dashboard}", (process.pid, *(other.pid for other in others)))


@contextmanager
def _node(
    folder: Path, sessions: Path, number: int, cpus: int, arguments: list[str]
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """The process of a node and its log; the supervisor ends with all that Ray starts."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *arguments]
    command += ["--node-ip-address", f"127.0.0.{number}", "--dashboard-agent-listen-port", str(free_port())]
    command += ["--num-cpus", str(cpus), "--num-gpus", "1", "--object-store-memory", "500000000"]
    command += ["--temp-dir", str(sessions / f"n{number}")]
    log = folder / f"node{number}.log"
    with log.open("wb") as output:
        supervised = [sys.executable, "-m", "core.backends.supervisor", "--", *command]
        process = subprocess.Popen(supervised, cwd=ROOT, env=own_environment(), stdout=output, stderr=output)
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(60)


def _wait_for_dashboard(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            RayJobBackend(address)
            return
        except InputError as error:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"{error}\n{log.read_text()}"
            time.sleep(1)
