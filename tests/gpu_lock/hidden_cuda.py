"""Runs Python with CUDA hidden."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
