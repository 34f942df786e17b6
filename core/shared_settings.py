"""The sections that several packages read: the storage, and the interpreter of trainings and evaluations."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from core import ENVIRONMENTS, PROJECT
from core.errors import InputError
from core.settings import Section, UserPath, output_path, without_nulls


def _folder(root: str) -> str:
    """Return ``root``; ValueError if it is an address, or a file or a path below one."""
    if "://" in root:
        raise ValueError("expected a folder of this machine or a mounted one")
    path = PROJECT / Path(root).expanduser()
    if file := next((part for part in (path, *path.parents) if os.path.isfile(part)), None):
        raise ValueError(f"{file} is a file; expected a folder")
    return root


class StorageSettings(Section):
    """The place of all outputs."""

    root: Annotated[str, UserPath(output_path), AfterValidator(_folder)] = Field(
        default="var/storage", description="Folder of all outputs."
    )
    force: bool = Field(default=False, description="Make the selected results again, even if they are there.")

    @property
    def path(self) -> Path:
        """The folder; a relative one is below the project."""
        return PROJECT / Path(self.root).expanduser()


def checked_dashboard(address: str) -> str:
    """Return the address of a dashboard.

    Raises:
        InputError: it is no http or https address of a host; Ray takes other texts for the name of a module, or for
            the address of a cluster's control store.
    """
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_address = is_address and not (parts.query or parts.fragment) and len(address.split()) == 1
    except ValueError:  # a port that is no number, half of an IPv6 address
        is_address = False
    if not is_address:
        raise InputError(f"got {address!r:.80}, expected the dashboard of a Ray cluster, http://HOST:8265")
    return address


class InterpreterSettings(Section):
    """The interpreter and the backend of trainings and evaluations."""

    python: str = Field(default=".venv-train/bin/python", description="The Python that has torch, verl and vLLM.")
    offline: bool = Field(default=True, description="Training and generation never contact the Hugging Face hub.")
    grace_seconds: float = Field(default=30.0, gt=0, description="Seconds between TERM and KILL on cancellation.")
    backend: Literal["local", "ray", "slurm"] = Field(
        default="local", description="Where trainings and evaluations run: here, on a Ray cluster, or under Slurm."
    )
    ray_address: Annotated[str, AfterValidator(checked_dashboard)] | None = Field(
        default=None, description="Dashboard of the Ray cluster, http://HOST:8265."
    )
    slurm: Annotated[dict[str, Any], AfterValidator(without_nulls)] = Field(
        default={}, description="Parameters of sbatch, as submitit names them."
    )

    @model_validator(mode="after")
    def _has_address(self) -> Self:
        if self.backend == "ray" and self.ray_address is None:
            raise ValueError(
                "interpreter.ray_address: backend ray needs the dashboard of the cluster, http://HOST:8265"
            )
        return self

    def path(self) -> Path:
        """Return where the interpreter should be; a relative path lies below `ENVIRONMENTS`."""
        return ENVIRONMENTS / Path(self.python).expanduser()

    def executable(self) -> Path:
        """Return the interpreter's path; InputError if there is none."""
        path = self.path()
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise InputError(
                f"no training interpreter at {path}: run `luffy setup`, or name another (interpreter.python)"
            )
        return path
