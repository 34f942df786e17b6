"""Install an example as a user does, in a folder that only this test sees."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Install the example of a name; the environment in which it is found."""

    def installed(name: str) -> dict[str, str]:
        source = shutil.copytree(PROJECT / "examples" / name, tmp_path / "source")  # building writes into it
        target = tmp_path / "installed"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
        subprocess.run([*pip, str(target), str(source)], check=True)
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(target)])}

    return installed


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Run ``python ARGUMENTS`` in a folder of the test's own; what it prints."""

    def run(*arguments: str, env: dict[str, str]) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
