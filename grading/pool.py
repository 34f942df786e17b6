"""A small pool of worker programs that grade answers: they start when first needed and end with their parent.

The pool uses `subprocess` and pipes rather than `multiprocessing`, so that nothing imports the caller's ``__main__``
again (Ray workers, Dagster steps, notebooks), daemonic callers may use it, and the end of a pipe tells a worker that
its parent is gone. With a limit of 1 s, `pebble.ProcessPool` (5.2, fork server, libraries preloaded) is as fast on
normal pairs but takes 178 s instead of 43 s for 120 hostile ones, and 1.4 s instead of 8 ms for the pair after a hang.
"""

import contextlib
import json
import math
import os
import queue
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from core.errors import InputError
from core.plugins.user_code import python_path

START_S = 120.0  # importing sympy on a busy machine
END_S = 1.0  # time for an idle program to end after the end of its input
NEEDED_BYTES = 256 << 20  # address space; with the versions of the lock the program starts in 100 MiB
PROGRAM = ("grading.equivalence_worker",)


class NotStarted(RuntimeError):
    """A worker program ended, or was killed, before it could grade anything."""


class Worker:
    """One running ``python -m grading.equivalence_worker``, or another `grading.worker_program`, and its two pipes."""

    def __init__(self, limit_s: float, program: Sequence[str] = PROGRAM) -> None:
        _require_address_space()
        self._limit_s = limit_s
        self._buffer = b""
        self._owner = os.getpid()
        command = [sys.executable, "-P", "-m", *program, str(limit_s)]  # -P: nothing of the current folder is imported
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"},
            process_group=0,  # the program and its fork end together
        )
        assert self._process.stdin and self._process.stdout
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._ended = os.pidfd_open(self._process.pid)
        first = self._next(START_S)
        if first is not None and "ready" in first:
            return
        self.close()
        if first is not None:
            raise InputError(first["refused"])
        raise NotStarted(
            f"the grading worker did not start (exit status {self._process.returncode}): {' '.join(command[:-1])}; see "
            "its error above"
        )

    def ask(self, *arguments: Any) -> tuple[Any, ...]:
        """Return what the program replies to JSON values; ("error", reason) if it ends."""
        with contextlib.suppress(OSError):  # no reply follows
            self._requests.write(json.dumps(arguments).encode() + b"\n")
            self._requests.flush()
        message = self._next(self._limit_s + START_S)
        if message is None:
            self.close()
            return "error", "the grading worker ended"
        return tuple(message["reply"])

    def usable(self) -> bool:
        """Return whether the worker is alive and belongs to this process; a forked copy must not share the pipes."""
        return self._owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        """End the program and its fork, and wait for it."""
        if self._owner != os.getpid() or self._replies.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._replies.close()
        os.close(self._ended)

    def _next(self, limit_s: float) -> dict[str, Any] | None:
        """Return the next message: ready, refused or a reply; None if the program ends, or says nothing in time."""
        deadline, replies = time.monotonic() + limit_s, self._replies.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([replies, self._ended], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(replies, 1 << 16) if replies in ready else b""
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)


def _require_address_space() -> None:
    """Refuse a limit within which math-verify would fail in its own ways: abort, hang, or call equal answers wrong."""
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if space != resource.RLIM_INFINITY and space < NEEDED_BYTES:
        raise InputError(
            f"the limit on memory is {space >> 20} MiB of address space, and a grading worker needs "
            f"{NEEDED_BYTES >> 20} MiB: raise `ulimit -v` to {NEEDED_BYTES >> 10} or more"
        )


class WorkerPool:
    """At most ``size`` workers, handed out to threads one comparison at a time."""

    def __init__(self, size: int, limit_s: float, program: Sequence[str] = PROGRAM) -> None:
        """Raises InputError for a size below 1 and for a limit that is no positive number of seconds."""
        if size < 1:
            raise InputError(f"{size} workers to compare answers: expected 1 or more")
        if not 0 < limit_s < math.inf:
            raise InputError(f"a limit of {limit_s:g} s per comparison: expected a positive number of seconds")
        self._limit_s = limit_s
        self._program = program
        self._slots: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        self._size = size
        self._closed = threading.Event()
        for _ in range(size):
            self._slots.put(None)

    def start(self) -> None:
        """Start a worker ahead of the first answer, to see whether it can.

        Raises:
            InputError: the program says what the user has to change.
            NotStarted: it ended without a word.
        """
        worker = self._slots.get()
        try:
            worker = worker or Worker(self._limit_s, self._program)
        finally:
            self._slots.put(worker)

    def ask(self, *arguments: Any) -> tuple[Any, ...]:
        """Return the reply of a free worker: ("timeout", reason) beyond the limit, ("error", reason) if one ended."""
        worker = self._slots.get()
        try:
            if self._closed.is_set():
                raise RuntimeError("this pool of graders is closed")
            if worker is not None and not worker.usable():
                worker.close()
                worker = None
            worker = worker or Worker(self._limit_s, self._program)
            return worker.ask(*arguments)
        finally:
            self._slots.put(worker)

    def close(self) -> None:
        """Wait for the comparisons that are running (at most the limit), then end every worker."""
        self._closed.set()
        for _ in range(self._size):
            if worker := self._slots.get():
                worker.close()
        for _ in range(self._size):
            self._slots.put(None)
