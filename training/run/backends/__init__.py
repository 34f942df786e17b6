"""Where the training process runs: as a supervised process on this machine, or as a job of a Ray cluster or of Slurm.

All write the same log and metrics files into the run's folder, so that a run is followed in the same way.
"""

from collections.abc import Mapping
from typing import Any

from core.errors import InputError
from training.run.backends.local import LocalBackend
from training.run.backends.ray_job import RayJobBackend
from training.run.backends.slurm import SlurmBackend
from training.run.backends.task import Backend

BACKENDS = ("local", "ray", "slurm")


def build_backend(run: Mapping[str, Any], lock: int) -> Backend:
    """The backend that the section ``run`` of the configuration names.

    Args:
        run: the section.
        lock: the file descriptor that holds the run's folder; a process on this machine inherits it.

    Raises:
        InputError: the name is unknown, or the address of the cluster is missing.
    """
    match run["backend"], run["ray_address"]:
        case "local", _:
            return LocalBackend(lock)
        case "ray", None:
            raise InputError("run.backend=ray: run.ray_address is not set: give the dashboard, http://HOST:8265")
        case "ray", address:
            return RayJobBackend(str(address))
        case "slurm", _:
            return SlurmBackend(run["slurm"])
        case name, _:
            raise InputError(f"run.backend: got {name!r}, expected one of {', '.join(BACKENDS)}")
