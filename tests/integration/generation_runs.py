"""The command that generates, as the tests of generation start it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "evaluation", "generate", *map(str, arguments)]


def run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done
