"""Tasks, and the interface of the backends that run them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from core import PROJECT
from core.plugins.user_code import python_path


def base_environment() -> dict[str, str]:
    """Return the variables of every process that a backend runs."""
    return {"PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True)
class Task:
    """A process to run. ``name`` identifies the attempt of a run, so that a restarted command can find the process."""

    name: str
    module: tuple[str, ...]  # module and arguments, for ``python -m``
    environment: Mapping[str, str]
    log: Path
    folder: Path = PROJECT  # where it runs


class Backend(Protocol):
    """Starts one task, tells whether it runs, and ends it."""

    def start(self, task: Task) -> None:
        """Start ``task`` and return at once."""
        ...

    def reattach(self, task: Task) -> bool:
        """Take over ``task`` if an earlier command started it and it still runs; whether that is so."""
        ...

    def poll(self) -> int | None:
        """Return the exit status as a shell gives it (128 + the number of a fatal signal); None while the task runs."""
        ...

    def stop(self) -> None:
        """End the task; afterwards none of its processes is alive."""
        ...

    @property
    def queued(self) -> bool:
        """Whether the task waits for resources, as of the last `poll`."""
        ...
