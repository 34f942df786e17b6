"""The preflight: it trains, resumes and evaluates for real, and names what fails."""

import subprocess
import sys
from pathlib import Path

import pytest
from training_runs import ROOT, own_environment

NAMES = ["python", "packages", "memory", "disk", "mixed-policy training", "resume", "supervised training", "evaluation"]


def preflight(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "training", "preflight", *arguments]
    variables = own_environment() | environment
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_preflight_trains_resumes_and_evaluates(tmp_path: Path) -> None:
    done = preflight("--hardware", "cpu", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0].removeprefix("ok").strip() for line in lines[:-1]] == NAMES
    assert lines[-1] == "this machine can train"
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_the_gpu_profile_fails_by_name(tmp_path: Path) -> None:
    done = preflight("--hardware", "gpu_single", "--out", str(tmp_path), PATH="/usr/bin:/bin", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "FAIL  driver: no GPU" in done.stdout
    assert "mixed-policy training" not in done.stdout  # nothing is tried on a machine that cannot
