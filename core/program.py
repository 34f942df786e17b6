"""Run a module as a separate program."""

import os
import subprocess
import sys
from pathlib import Path

from core import PROJECT
from core.errors import InputError
from core.plugins.user_code import python_path


def run_module(name: str, *arguments: str, python: str | Path = sys.executable, **variables: str) -> None:
    """Run ``python -m name`` in a separate process, so that this one does not keep its memory and torch.

    Raises:
        InputError: the program refused its input; the message comes from the program.
    """
    command = [str(python), "-m", name, *arguments]
    environment = {**os.environ, "PYTHONPATH": python_path(), **variables}
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 2:  # the last line says what is wrong
        raise InputError(done.stderr.strip().splitlines()[-1].removeprefix("error: "))
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr[-4000:]}")
