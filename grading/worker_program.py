"""What every worker program does: it answers requests within limits. `grading.pool` has the other side of its protocol.

sympy can hang (``9^{9^{9^9}}``) and a user's function can do anything. So the program imports the libraries once, and
each reply is computed in a fork: one that takes too long, ends or grows too large is replaced in milliseconds. The
program reads one JSON list of arguments per line from stdin and writes one JSON reply per line to stdout, after a first
line that says that it is ready. Everything ends when stdin closes.
"""

import contextlib
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Pipe, wait
from typing import Any

from core.errors import InputError
from core.machine.limits import address_space, limit, limit_memory
from core.machine.processes import adopt_orphans, die_with_parent, stop_descendants

Reply = Callable[..., tuple[Any, ...]]  # computes a reply from the arguments of a request

MEMORY_BYTES = 160 << 20  # memory that a comparison may take beyond that of the program
RENEWED_BYTES = 64 << 20  # growth of a fork after which the next one takes its place


class _Fork:
    """A copy of this process that computes replies."""

    def __init__(self, reply: Reply, renewed: int) -> None:
        self._connection, other = Pipe()
        program = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            self._connection.close()
            die_with_parent(program, signal.SIGKILL)
            with contextlib.suppress(EOFError, OSError):  # the program has ended
                _answer(reply, other, address_space() + renewed)
            os._exit(0)
        other.close()
        self._ended = os.pidfd_open(self._pid)

    def has_ended(self) -> bool:
        return bool(wait([self._ended], 0))

    def ask(self, request: bytes, limit_s: float) -> dict[str, Any]:
        """Return the reply, and whether this fork has to be replaced."""
        with contextlib.suppress(EOFError, OSError):
            self._connection.send_bytes(request)
            ready = wait([self._connection, self._ended], limit_s)
            if not ready:
                return {"reply": ("timeout", f"no reply within {limit_s:g} s"), "ends": True}
            if self._connection in ready:
                return json.loads(self._connection.recv_bytes())
        return {"reply": ("error", "the process that graded it ended"), "ends": True}

    def end(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._connection.close()
        os.close(self._ended)
        _end_children()


def serve(
    limit_s: float,
    prepare: Callable[[], Reply],
    *,
    memory: int = MEMORY_BYTES,
    renewed: int = RENEWED_BYTES,
) -> None:
    """Keep one fork answering requests, until stdin closes.

    Args:
        prepare: imports what replies need, before the clock runs, and returns what computes them. An InputError that it
            raises is passed on.
        memory: bytes of address space that a fork may take in addition to this process.
        renewed: bytes by which a fork may grow before the next one takes its place.
    """
    requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # a library that prints must not corrupt the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes stdin
    limit(resource.RLIMIT_CORE, 0)
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(5000)

    def say(message: dict[str, Any]) -> None:
        os.write(replies, json.dumps(message).encode() + b"\n")

    with contextlib.suppress(BrokenPipeError):  # nobody reads any more
        try:
            reply = prepare()
        except InputError as error:
            return say({"refused": str(error)})
        limit_memory(memory)
        adopt_orphans()
        fork = _Fork(reply, renewed)
        say({"ready": True})
        for request in requests:
            if fork.has_ended():  # while it was idle
                fork.end()
                fork = _Fork(reply, renewed)
            outcome = fork.ask(request, limit_s)
            if outcome["ends"]:
                fork.end()
            say(outcome)
            if outcome["ends"]:
                fork = _Fork(reply, renewed)


def _answer(reply: Reply, connection: Any, most: int) -> None:
    """Answer the requests of a `Pipe`; whatever a reply raises is the verdict on its answer."""
    adopt_orphans()
    here = os.getpid()
    while True:
        request = connection.recv_bytes()
        try:
            values = reply(*json.loads(request))
        except Exception as error:
            values = "error", f"{type(error).__name__}: {str(error)[:200]}"
        if os.getpid() != here:
            os._exit(0)  # what it called forked, and this is the copy
        _end_children()
        connection.send_bytes(json.dumps({"reply": values, "ends": address_space() > most}).encode())


def _end_children() -> None:
    """End what a request left running; orphans among it are children of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        stop_descendants(0)
