"""Whatever is started for one machine listens on loopback only.

TransferQueue unpickles every message that it receives and vLLM answers without a key, so the network must not see them.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest
from training_runs import ROOT, Training, command_line, family, own_environment, write_targets

from core.files import write_table
from core.machine.processes import Process, die_with_parent
from evaluation.benchmarks.problems import read_suite
from evaluation.benchmarks.registry import load_suite
from training.base.resolve import SHIPPED


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
        time.sleep(0.5)
    return ports


def check(ports: set[tuple[str, str]], *listeners: str) -> None:
    """Everything listens on loopback, and ``listeners``, parts of command lines, were among it."""
    outside = sorted(port for port in ports if not ip_address(port[0].removeprefix("::ffff:")).is_loopback)
    assert not outside, f"{len(outside)} listen on the network: {outside}"
    for name in listeners:
        assert any(name in line for _, line in ports), f"{name} is not among {sorted(ports)}"


def start(*command: object) -> subprocess.Popen[str]:
    parent = os.getpid()
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, command)],
        cwd=ROOT,
        env=own_environment(),
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: die_with_parent(parent),
    )


@pytest.mark.parametrize("rollouts", ["sync", pytest.param("separate_async", marks=pytest.mark.slow)])
def test_a_training_listens_on_loopback_only(rollouts: str, tmp_path: Path) -> None:
    run = Training(tmp_path / "run", write_targets(tmp_path / "train.parquet", 16), rollouts=rollouts)
    ports = watch(run.process)
    assert run.end() == 0, run.said
    check(ports, "gcs_server", "raylet", "TransferQueueController", "SimpleStorageUnit", "vLLMHttpServer", "WorkerDict")


def test_replicas_of_an_evaluation_listen_on_loopback_only(tmp_path: Path) -> None:
    suite = tmp_path / "suite.parquet"
    write_table(read_suite(load_suite("embedded")[:1], [], limit=4), suite)
    options = ("--suite", suite, "--samples", 1, "--max-tokens", 40, "--replicas", 2, "--cache", tmp_path / "cache")
    command = start("evaluation", "generate", "--model", SHIPPED, *options, "--out", tmp_path / "out")
    ports = watch(command)
    assert command.returncode == 0
    check(ports, "gcs_server", "raylet", "ray::Engine")


def test_a_preparation_on_ray_listens_on_loopback_only(tmp_path: Path, trained: Path) -> None:
    options = ("--engine", "ray", "--workers", 1, "--prepare-only", "--set", "embedded_rows=40")
    command = start("targets", *options, "--tokenizer", trained, "--out", tmp_path / "out")
    ports = watch(command)
    assert command.returncode == 0
    check(ports, "gcs_server", "raylet")
