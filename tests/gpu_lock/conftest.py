"""The environment of requirements/train-gpu.lock on a machine without a GPU: ``make test-gpu-lock``."""

import subprocess
import sys
from pathlib import Path

import pytest
from hidden_cuda import Interpreter

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


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    driver = tmp_path_factory.mktemp("driver")
    source = str(HERE / "libcuda.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(driver / "libcuda.so.1"), source], check=True)
    return Interpreter(driver)
