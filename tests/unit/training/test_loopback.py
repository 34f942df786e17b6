"""The address of a node that works alone, as Ray and torch take it."""

import os
import socket
import subprocess
import sys
from datetime import timedelta

import psutil
import pytest
from torch.distributed import rendezvous

from core.machine.loopback import LOOPBACK, single_node_environment
from training.platforms import quirks

ADDRESS = "import ray; print(ray.util.get_node_ip_address())"


def test_ray_takes_loopback_for_its_node_unless_it_joins_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    environment = {**os.environ, **single_node_environment()}
    done = subprocess.run([sys.executable, "-c", ADDRESS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == LOOPBACK
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert single_node_environment() == {}


def listening(host: str) -> set[str]:
    """Addresses on which torch's store listens when its master is ``host``."""
    with socket.create_server((LOOPBACK, 0)) as probe:
        port = probe.getsockname()[1]
    store, _, _ = next(rendezvous(f"tcp://{host}:{port}", rank=0, world_size=1, timeout=timedelta(seconds=20)))
    store.set("key", "value")
    assert store.get("key") == b"value"
    sockets = [connection.laddr for connection in psutil.Process().net_connections("tcp") if not connection.raddr]
    return {address.ip for address in sockets if address.port == port}


def test_torchs_store_on_loopback_listens_there_only() -> None:
    quirks.apply(quirks.PROCESS)
    assert listening(LOOPBACK) == {LOOPBACK}
    assert listening("localhost") & {"::", "0.0.0.0"}  # torch's own: any other name is left to it
