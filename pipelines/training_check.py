"""Ask the training interpreter for the configuration of the training before the first stage of a run starts.

Only the training environment, which has verl, knows every key. It takes a second, so the training of the built-in
task is not checked.
"""

import subprocess
from pathlib import Path

from core import PROJECT
from core.errors import InputError
from pipelines.settings import Settings, built_in


def check_training(settings: Settings, python: Path) -> None:
    """Check the configuration of the training.

    Raises:
        InputError: there is no such key, or the value of one that was checked is not allowed.
    """
    training = settings.training
    if training == built_in().training:
        return
    command = [str(python), "-m", "training", "compose", "--shared", "--recipe", training.recipe]
    command += ["--hardware", training.hardware]
    command += [part for override in training.overrides for part in ("--set", override)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"training.config: {done.stderr.rpartition('error: ')[2].strip()}")
