"""Make the calls of a turn: each tool in a separate worker process, within limits."""

import json
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Self

from core.errors import InputError
from core.model.calls import Call
from core.text.markdown import shorten
from grading.isolation.sandbox import SandboxFailed
from grading.pool import WorkerPool
from grading.tools.settings import ToolSettings
from grading.tools.tool import Context, Exchange

PROGRAM = "grading.tools.worker"
PROGRAM_MB = 512  # of the worker program itself
ERROR = "error: "  # with which the observation of a mistake begins


class Toolbox:
    """The tools of ``settings``, ready to be called. It is thread-safe, and ends its processes with `close`.

    Raises InputError if a tool cannot run here.
    """

    def __init__(self, settings: ToolSettings, workers: int = 2) -> None:
        self.settings, self._lock = settings, Lock()
        self._pools = {
            tool.name: WorkerPool(
                workers,
                tool.wall * settings.seconds,
                (
                    PROGRAM,
                    json.dumps({**spec, "name": tool.name}),
                    str(settings.seconds),
                    str(tool.memory_mb + PROGRAM_MB << 20),
                ),
            )
            for spec, tool in zip(settings.use, settings.tools(), strict=True)
        }

    def start(self) -> None:
        """Start a worker of each tool, to see whether it can; InputError if not."""
        for number, (name, pool) in enumerate(self._pools.items()):
            try:
                pool.start()
            except InputError as error:
                raise InputError(f"tools.use[{number}] ({name}): {error}") from None

    def run(self, calls: Sequence[Call], history: Sequence[Exchange], context: Context) -> list[Exchange]:
        """Return the exchanges of the calls of a turn, made one after the other.

        Raises:
            SandboxFailed: a tool could not run; nothing follows about the call.
        """
        made: list[Exchange] = []
        for call in calls[: self.settings.calls]:
            observation = self._observe(call, [*history, *made], context)
            made.append(Exchange(call, shorten(observation.strip(), self.settings.observation_chars)))
        left_out = f"{ERROR}not made: a turn has at most {self.settings.calls} calls"
        return [*made, *(Exchange(call, left_out) for call in calls[self.settings.calls :])]

    def _observe(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        if call.problem:
            return f"{ERROR}{call.problem}"
        if call.name not in self._pools:
            return f"{ERROR}no tool {call.name!r:.40}; there are {', '.join(self._pools)}"
        kind, text, *_ = self._pools[call.name].ask(request_of(call, history, context))
        if kind == "failed":
            raise SandboxFailed(text)
        if kind == "timeout":
            return f"{ERROR}no result within {self.settings.seconds:g} s"
        return text if kind == "observation" else f"{ERROR}{text}"

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def request_of(call: Call, history: Sequence[Exchange], context: Context) -> Mapping[str, Any]:
    """Return a call as JSON, for `grading.tools.worker`."""
    earlier = [(one.call.name, one.call.arguments, one.observation) for one in history]
    return {"name": call.name, "arguments": call.arguments, "history": earlier, **context._asdict()}
