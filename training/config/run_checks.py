"""Check how a run is carried out, its trackers, packages and functions, before anything starts."""

import importlib.util
import sys

from omegaconf import DictConfig

from core.errors import InputError
from core.plugins.config_files import check_not_declared
from core.plugins.user_code import check_function
from training.config.run import SEPARATE
from training.plugins import METHODS, TRACKERS


def check_run(config: DictConfig) -> None:
    """Raise InputError for a setting of how a run is carried out that cannot work here."""
    own_trackers(config)
    if config.method.type in METHODS:
        check_not_declared(config.method.type, METHODS.group)
    for name in (name for name in config.run.trackers if name in TRACKERS):
        check_not_declared(name, TRACKERS.group)
        if importlib.util.find_spec(TRACKERS[name]) is None:
            raise InputError(f"run.trackers: {name} is not installed: {sys.executable} -m pip install {name}")
    separate_on_gpus = config.rollouts == SEPARATE and config.trainer.device == "cuda"
    if separate_on_gpus and importlib.util.find_spec("cupy") is None:
        raise InputError(
            f"rollouts.type={SEPARATE} on GPUs: verl sends the weights with cupy, which is not installed: "
            f"{sys.executable} -m pip install cupy-cuda13x==14.0.1. Or take rollouts.type=colocate_async, which shares "
            "the GPUs"
        )


def own_trackers(config: DictConfig) -> list[str]:
    """Return the paths of the user's functions among the trackers, which are called with each step and its metrics.

    Raises:
        InputError: there is no such tracker, or one cannot be imported or takes other arguments.
    """
    try:
        own = [TRACKERS.find(name) for name in config.run.trackers if name not in TRACKERS]
        for path in own:
            check_function(path, ("step", "metrics"))
    except ValueError as error:
        raise InputError(f"run.trackers: {error}") from None
    return own
