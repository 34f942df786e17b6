"""Run the project's commands in a measurement."""

import subprocess
import sys
from pathlib import Path

from core.code_digest import PROJECT

TRAINING = str(PROJECT / ".venv-train/bin/python")


def call(*command: str | Path) -> None:
    """Run a command; if it fails, end with the last lines of its errors."""
    done = subprocess.run([str(part) for part in command], cwd=PROJECT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
