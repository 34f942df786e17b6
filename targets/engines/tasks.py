"""Tasks and the engines that run them.

A task reads and writes files itself, so that only its short result comes back. Results come in the order of the tasks;
a few tasks are in flight at once and no more. The tasks are the same everywhere, so the decisions are the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol


class Context(Protocol):
    """What tasks of a process share."""

    def close(self) -> None: ...


class Inputs(Protocol):
    """What a process makes its `Context` from; they can be sent to another process."""

    def open(self) -> Context: ...


@dataclass(frozen=True)
class NoInputs:
    """Those of tasks that need no context."""

    def open(self) -> Context:
        raise AssertionError("these tasks have no context")


class Tools:
    """The `Context` of a process, made when a task needs it."""

    def __init__(self, inputs: Callable[[], Inputs]) -> None:
        self._inputs = inputs

    @cached_property
    def context(self) -> Any:
        return self._inputs().open()

    def close(self) -> None:
        """End the processes that compare answers."""
        if "context" in self.__dict__:
            self.context.close()


class Task(Protocol):
    """Something to do that can be sent to another process; its text says what, for an error."""

    def __call__(self, tools: Tools) -> Any: ...


class Engine(Protocol):
    """Runs tasks. Use as a context manager: it may hold processes."""

    def run(self, tasks: Sequence[Task], rows: int) -> Iterator[Any]:
        """The results of ``tasks``, in order; ``rows``: how many they process together.

        Raises what a task raises: InputError where a source cannot be read.
        """
        ...

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *_: object) -> None: ...


class SingleEngine:
    """Runs tasks in this process; a separate process compares the answers."""

    def __init__(self, inputs: Callable[[], Inputs]) -> None:
        self._tools = Tools(inputs)

    def run(self, tasks: Sequence[Task], rows: int) -> Iterator[Any]:
        for task in tasks:
            yield task(self._tools)

    def __enter__(self) -> "SingleEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self._tools.close()
