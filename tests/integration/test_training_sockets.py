"""Whatever is started for one machine listens on loopback only.

TransferQueue unpickles every message that it receives and vLLM answers without a key, so the network must not see them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import OF_A_TRAINING, check, watch
from training_inputs import write_targets
from training_runs import ROOT, Training, own_environment

from core.files import write_table
from core.machine.processes import die_with_parent
from core.model.base_model import SHIPPED
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite


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


@pytest.mark.slow
def test_an_asynchronous_training_listens_on_loopback_only(tmp_path: Path) -> None:
    """The recipes' own test looks at the ports of trainings with sync rollouts."""
    run = Training(tmp_path / "run", write_targets(tmp_path / "train.parquet", 16), rollouts__type="separate_async")
    ports = watch(run.process)
    assert run.end() == 0, run.said
    check(ports, *OF_A_TRAINING)


@pytest.mark.slow
def test_replicas_of_an_evaluation_listen_on_loopback_only(tmp_path: Path) -> None:
    suite = tmp_path / "suite.parquet"
    write_table(read_suite(load_suite("embedded")[:1], [], limit=4), suite)
    options = (
        "--suite",
        suite,
        "--samples",
        1,
        "--max-tokens",
        40,
        "--set",
        "evaluation.replicas=2",
        "--cache",
        tmp_path / "cache",
    )
    command = start("evaluation", "generate", "--model", SHIPPED, *options, "--out", tmp_path / "out")
    ports = watch(command)
    assert command.returncode == 0
    check(ports, "gcs_server", "raylet", "ray::Engine")


@pytest.mark.slow
def test_a_preparation_on_ray_listens_on_loopback_only(tmp_path: Path, trained: Path) -> None:
    sets = ("targets.engine=ray", "targets.workers=1", "targets.embedded_rows=40")
    options = ["--prepare-only", *(part for text in sets for part in ("--set", text))]
    command = start("targets", *options, "--tokenizer", trained, "--out", tmp_path / "out")
    ports = watch(command)
    assert command.returncode == 0
    check(ports, "gcs_server", "raylet")
