"""Ask the training interpreter for the configuration of the training before the first stage of a run starts.

Only the training environment, which has verl, knows every key. It takes two seconds, so the training of the built-in
task is not checked.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core import PROJECT
from core.errors import InputError
from core.text.parse import parse_yaml
from pipelines.settings import Settings, built_in
from training.config.keys import read_by


def check_training(settings: Settings, python: Path) -> None:
    """Check the configuration of the training.

    Raises:
        InputError: there is no such key, or the value of one that was checked is not allowed.
    """
    training = settings.training
    if training == built_in().training:
        return
    options = ["--recipe", training.recipe, "--hardware", training.hardware]
    for override in read_by(training.recipe, training.overrides)[0]:
        options += ["--set", override]
    try:
        printed_config(python, options)
    except InputError as error:
        message = str(error).replace(" in the overrides:", ":").removeprefix("--set: ")
        raise InputError(f"training.config: {message}") from None


def printed_config(python: Path, options: Sequence[str]) -> Mapping[str, Any]:
    """Return the configuration of the training that ``options`` describe.

    Raises:
        InputError: the training has no configuration; the message says why.
    """
    command = [str(python), "-m", "training", "--print-config", *options]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(done.stderr.rpartition("error: ")[2].strip())
    return parse_yaml(done.stdout, "--print-config")
