"""Which ports the processes of a command listen on, and that the network sees none of them."""

import subprocess
import time
from collections.abc import Iterator
from ipaddress import ip_address

import psutil
from training_runs import command_line, family

from core.machine.processes import Process

OF_RAY = ("gcs_server", "raylet")
OF_A_TRAINING = (*OF_RAY, "TransferQueueController", "SimpleStorageUnit", "WorkerDict", "vLLMHttpServer")


def listening(process: Process) -> Iterator[tuple[str, str]]:
    """(address, command line) of each TCP port on which ``process`` listens."""
    try:
        connections = psutil.Process(process.pid).net_connections("tcp")
    except psutil.Error:  # it has ended
        return
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN:
            yield connection.laddr.ip, command_line(process)[:200].strip()


def watch(command: subprocess.Popen[str]) -> set[tuple[str, str]]:
    """(address, command line) of everything that listened among the descendants of ``command`` until it ended."""
    ports: set[tuple[str, str]] = set()
    while command.poll() is None:
        for process in family(command.pid):
            ports.update(listening(process))
        time.sleep(0.1)  # the worker of a short supervised training lives for two seconds
    return ports


def check(ports: set[tuple[str, str]], *listeners: str) -> None:
    """Everything listens on loopback, and ``listeners``, parts of command lines, were among it."""
    outside = sorted(port for port in ports if not ip_address(port[0].removeprefix("::ffff:")).is_loopback)
    assert not outside, f"{len(outside)} listen on the network: {outside}"
    for name in listeners:
        assert any(name in line for _, line in ports), f"{name} is not among {sorted(ports)}"
