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
from core.machine.processes import Process, descendants
from core.plugins.user_code import python_path

START_S = 120.0  # importing sympy on a busy machine
END_S = 1.0  # time for an idle program to end after the end of its input
GRACE_S = 0.25  # beyond the worker's own alarm before it is killed
NEEDED_BYTES = 256 << 20  # address space; with the versions of the lock the program starts in 100 MiB
PROGRAM = ("grading.equivalence_worker",)


class NoReply(Exception):
    """The comparing process ended or had to be killed; ``verdict`` is "timeout" or "error"."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


class NotStarted(RuntimeError):
    """A worker program ended, or was killed, before it could grade anything."""


class Worker:
    """One running ``python -m grading.equivalence_worker``, or another `grading.worker_program`, and its two pipes."""

    def __init__(self, limit_s: float, program: Sequence[str] = PROGRAM) -> None:
        _require_address_space()
        self._limit_s = limit_s
        self._buffer = b""
        self._asked = 0
        self._fork: Process | None = None  # the one that compares
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", *program, str(limit_s)],  # -P: nothing of the current folder is imported
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"},
            process_group=0,  # the program and its fork end together
        )
        assert self._process.stdin and self._process.stdout
        self._requests, self._replies = self._process.stdin, self._process.stdout
        try:
            self._next(time.monotonic() + START_S)
        except InputError:
            self.close()
            raise
        except NoReply as error:
            self.close()
            status = self._process.returncode
            command = f"{sys.executable} -P -m {' '.join(program)}"
            raise NotStarted(
                f"the grading worker did not start (exit status {status}): {command}; see its error above"
            ) from error

    def ask(self, *arguments: Any) -> tuple[Any, ...]:
        """Return what the program replies to JSON values; raises NoReply if there is nothing within the limit."""
        while self._readable(time.monotonic()):
            self._next(time.monotonic() + START_S)  # a fork that ended while idle was replaced
        self._asked += 1
        request = json.dumps({"id": self._asked, "arguments": arguments}).encode() + b"\n"
        try:
            self._requests.write(request)
            self._requests.flush()
        except OSError as error:
            raise NoReply("error", "the worker's pipe is closed") from error
        deadline = time.monotonic() + self._limit_s + GRACE_S
        begun = False
        while self._readable(deadline):
            message = self._next(deadline)
            if "ready" in message:
                if begun:
                    raise NoReply("error", "the process that graded it ended")
            elif "begun" in message:
                begun = message["begun"] == self._asked
            elif message["id"] == self._asked:
                if message["ends"]:
                    self._await_fork()
                return tuple(message["reply"])
        self._replace()
        raise NoReply("timeout", f"no reply within {self._limit_s + GRACE_S:g} s")

    def usable(self) -> bool:
        """Return whether the worker is alive and belongs to this process; a forked copy must not share the pipes."""
        return self._owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        """End the program and its fork, and wait for it."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._replies.close()

    def _replace(self) -> None:
        """Kill the fork that hangs; the program then forks again."""
        if self._fork is not None:
            self._fork.send_signal(signal.SIGKILL)
        self._await_fork()

    def _await_fork(self) -> None:
        """Wait for the next fork."""
        while "ready" not in self._next(time.monotonic() + START_S):
            pass  # a reply that came too late

    def _next(self, deadline: float) -> dict:
        """Return the next message: ``{"ready": pid}`` of a fork, ``{"begun": id}`` of a request, or the reply to it.

        Raises InputError for ``{"refused": message}``, which a program writes that cannot start.
        """
        while b"\n" not in self._buffer:
            if not self._readable(deadline):
                raise NoReply("timeout", "no message from the worker")
            chunk = os.read(self._replies.fileno(), 1 << 16)
            if not chunk:
                raise NoReply("error", "the worker ended")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        message = json.loads(line)
        if "refused" in message:
            raise InputError(message["refused"])
        if "ready" in message:  # None: that fork has ended already
            forks = {fork.pid: fork for fork in descendants(self._process.pid)}
            self._fork = forks.get(message["ready"])
        return message

    def _readable(self, deadline: float) -> bool:
        """Return whether data arrives before ``deadline``."""
        left = max(0.0, deadline - time.monotonic())
        return b"\n" in self._buffer or bool(select.select([self._replies.fileno()], [], [], left)[0])


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
        """Return (verdict, reason) of a free worker: "timeout" if it was killed, "error" if its process ended."""
        worker = self._slots.get()
        try:
            if self._closed.is_set():
                raise RuntimeError("this pool of graders is closed")
            if worker is not None and not worker.usable():
                worker.close()
                worker = None
            if worker is None:
                worker = Worker(self._limit_s, self._program)
            try:
                return worker.ask(*arguments)
            except NoReply as error:
                return error.verdict, str(error)
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
