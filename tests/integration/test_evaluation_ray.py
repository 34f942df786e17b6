"""Evaluations as jobs of a real Ray cluster: the embedded model's samples, a cancelled command, a killed one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("vllm")

from ray.job_submission import JobStatus, JobSubmissionClient
from ray_nodes import Cluster, ray_cluster

from core.files import write_table
from core.machine.processes import die_with_parent
from core.model.base_model import SHIPPED
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ray_cluster(tmp_path_factory.mktemp("ray")) as running:
        yield running


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "suite.parquet"
    write_table(read_suite(load_suite("embedded")[:2], [], limit=40), path)
    return path


def start(cluster: Cluster | None, suite: Path, out: Path, *arguments: object) -> "subprocess.Popen[str]":
    """``evaluation generate`` for the shipped model, as a job of ``cluster`` or here."""
    command = [sys.executable, "-m", "evaluation", "generate", "--model", SHIPPED, "--suite", suite, "--out", out]
    command += ["--max-tokens", 64, *arguments]
    command += (
        ["--set", "interpreter.backend=ray", "--set", f"interpreter.ray_address={cluster.dashboard}"] if cluster else []
    )
    parent = os.getpid()
    return subprocess.Popen(
        [*map(str, command)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: die_with_parent(parent),
    )


def wait_for(what: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 300
    while not what():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.1)


def drawn(cache: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in cache.rglob("*.parquet"))


def jobs(cluster: Cluster) -> dict[str, JobStatus]:
    """Status by name of the evaluations that the cluster has seen."""
    listed = JobSubmissionClient(cluster.dashboard).list_jobs()
    return {str(job.submission_id): job.status for job in listed if str(job.submission_id).startswith("luffy-eval")}


@pytest.mark.slow
def test_a_job_draws_the_samples_that_this_machine_draws(cluster: Cluster, suite: Path, tmp_path: Path) -> None:
    remote = start(cluster, suite, tmp_path / "job", "--cache", tmp_path / "cache")
    said, _ = remote.communicate()
    assert remote.returncode == 0, said
    assert str(tmp_path / "job" / "arithmetic_long.parquet") in said
    local = start(None, suite, tmp_path / "here", "--cache", tmp_path / "other")
    said, _ = local.communicate()
    assert local.returncode == 0, said
    for name in ("arithmetic", "arithmetic_long"):
        here, there = (pq.read_table(tmp_path / folder / f"{name}.parquet") for folder in ("here", "job"))
        assert there.num_rows == 40 and here.equals(there)


def test_a_mistake_is_the_jobs_own_message(cluster: Cluster, suite: Path, tmp_path: Path) -> None:
    process = start(cluster, suite, tmp_path / "out", "--benchmarks", "none", "--cache", tmp_path / "cache")
    said, _ = process.communicate()
    assert process.returncode == 2
    assert "error: benchmark none: not in the suite, which has arithmetic, arithmetic_long\n" in said


@pytest.mark.parametrize("ending", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_killed_command_finds_its_job_and_a_cancelled_one_ends_it(
    cluster: Cluster, suite: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    before, samples = jobs(cluster), 64  # the job still draws when a second command has started on a busy machine
    arguments = ("--samples", samples, "--temperature", 1, "--cache", tmp_path / "cache")
    first = start(cluster, suite, tmp_path / "out", *arguments)
    wait_for(lambda: drawn(tmp_path / "cache"), first)
    first.send_signal(ending)
    first.wait(60)
    (name,) = jobs(cluster).keys() - before.keys()
    if ending == signal.SIGTERM:
        assert first.returncode == 128 + signal.SIGTERM
        assert jobs(cluster)[name] == JobStatus.STOPPED
    else:
        assert not jobs(cluster)[name].is_terminal()
    second = start(cluster, suite, tmp_path / "out", *arguments)
    said, _ = second.communicate()
    assert second.returncode == 0, said
    assert (f"following {name}, which still runs" in said) == (ending == signal.SIGKILL)
    assert len(jobs(cluster).keys() - before.keys()) == (1 if ending == signal.SIGKILL else 2)
    assert drawn(tmp_path / "cache") == 2 * 40 * samples  # none was drawn twice
    assert sum(pq.read_metadata(file).num_rows for file in (tmp_path / "out").glob("*.parquet")) == 2 * 40 * samples
