"""Where a program that needs GPUs runs: as a process on this machine, or as a job of a Ray cluster or of Slurm.

A job writes its log and its records into a folder that its command can read, so that all of them are followed in the
same way. A job of a cluster goes on if its command is killed, and the same command finds it again.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, model_validator

from core.backends.ray_job import RayJobBackend
from core.backends.slurm import SlurmBackend
from core.backends.task import Backend
from core.commands import Command, from_yaml, option
from core.errors import InputError
from core.shared_settings import InterpreterSettings, checked_dashboard

SLURM = {"time": 1440}  # parameters that a request need not give; in minutes


class Placement(Command):
    """Where a program that needs GPUs runs."""

    backend: Literal["local", "ray", "slurm"] = option(
        "local", "Run on this machine, as a job of a Ray cluster, or as a job of Slurm."
    )
    ray_address: Annotated[str, AfterValidator(checked_dashboard)] | None = option(
        None, "Dashboard of the Ray cluster, such as http://HOST:8265.", metavar="URL"
    )
    slurm: Annotated[dict[str, Any], from_yaml("--slurm")] = option(
        {},
        "Parameters of sbatch by the names that submitit gives them, such as {partition: gpu, time: 600}.",
        metavar="YAML",
    )

    @model_validator(mode="after")
    def _says_nothing_of_others(self) -> Self:
        for name, backend in (("ray_address", "ray"), ("slurm", "slurm")):
            if getattr(self, name) and self.backend != backend:
                raise ValueError(
                    f"{name} is for the backend {backend}, and the backend is {self.backend}: "
                    f"give the backend {backend}, or leave out {name}"
                )
        return self


Place = Placement | InterpreterSettings


def build_backend(place: Place) -> Backend:
    """Return the cluster that ``place`` names; InputError if its address is missing."""
    if place.backend == "slurm":
        return SlurmBackend({**SLURM, **place.slurm})
    if place.ray_address is None:
        raise InputError("backend=ray: ray_address is not set: give the dashboard, http://HOST:8265")
    return RayJobBackend(place.ray_address)
