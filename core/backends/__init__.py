"""Where a program that needs GPUs runs: as a process on this machine, or as a job of a Ray cluster or of Slurm.

A job writes its log and its records into a folder that its command can read, so that all of them are followed in the
same way. A job of a cluster goes on if its command is killed, and the same command finds it again.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.backends.local import LocalBackend
from core.backends.ray_job import RayJobBackend
from core.backends.slurm import SlurmBackend
from core.backends.task import Backend
from core.errors import InputError

BACKENDS = ("local", "ray", "slurm")


class Placement(BaseModel):
    """Where a program that needs GPUs runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    backend: Literal["local", "ray", "slurm"] = Field(
        default="local",
        description="Where it runs: on this machine, as a job of a Ray cluster, or as a job of Slurm.",
    )
    ray_address: str | None = Field(default=None, description="Dashboard of the Ray cluster: http://HOST:8265.")
    slurm: dict[str, Any] = Field(default={}, description="Parameters of sbatch by the names that submitit gives them.")


def build_backend(settings: Mapping[str, Any], lock: int | None = None) -> Backend:
    """The backend that ``settings`` describe.

    Args:
        settings: the keys backend, ray_address and slurm.
        lock: a file descriptor that holds the folder of the run, which a process on this machine inherits.

    Raises:
        InputError: the name is unknown, or the address of the cluster is missing.
    """
    match settings["backend"], settings["ray_address"]:
        case "local", _:
            return LocalBackend(lock)
        case "ray", None:
            raise InputError("backend=ray: ray_address is not set: give the dashboard, http://HOST:8265")
        case "ray", address:
            return RayJobBackend(str(address))
        case "slurm", _:
            return SlurmBackend(settings["slurm"])
        case name, _:
            raise InputError(f"backend: got {name!r}, expected one of {', '.join(BACKENDS)}")
