"""The environment of requirements/train-gpu.lock on a machine without a GPU: ``make test-gpu-lock``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if HERE in item.path.parents]
    if not here:  # the orchestration interpreter has no torch, and collects none of them
        return
    import torch

    if torch.version.cuda is None and Path(sys.prefix).name != ".venv-gpu-lock":
        reason = "this interpreter has a CPU build of torch: make test-gpu-lock builds the other one"
        for item in here:
            item.add_marker(pytest.mark.skip(reason=reason))


class Interpreter:
    """Runs Python with CUDA hidden and a driver that finds no device."""

    def __init__(self, driver: Path) -> None:
        self._driver = driver

    def run(self, *arguments: str, seconds: float = 600, **environment: str) -> str:
        """The output of ``python arguments``; an AssertionError with its errors if it fails."""
        variables = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), **environment}
        variables["LD_LIBRARY_PATH"] = f"{self._driver}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    driver = tmp_path_factory.mktemp("driver")
    source = str(HERE / "libcuda.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(driver / "libcuda.so.1"), source], check=True)
    return Interpreter(driver)
