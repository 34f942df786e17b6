"""A small pool of comparison processes: started when first needed, killed and replaced on a hang, gone with the parent.

Plain `subprocess` and pipes rather than `multiprocessing`: nothing re-imports the caller's ``__main__`` (Ray workers,
Dagster steps, notebooks), daemonic callers may use it, and a pipe's end tells the child that its parent is gone.
"""

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

START_S = 120.0  # importing sympy on a busy machine
GRACE_S = 1.0  # beyond the worker's own alarm before it is killed
ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ("evaluation.comparison",)


class WorkerDied(Exception):
    """The worker ended or did not reply in time."""


class Worker:
    """One running ``python -m evaluation.comparison``, or another program that serves as it does, and its two pipes."""

    def __init__(self, limit_s: float, program: Sequence[str] = PROGRAM) -> None:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        self._limit_s = limit_s
        self._buffer = b""
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", *program, str(limit_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdin and self._process.stdout
        self._requests, self._replies = self._process.stdin, self._process.stdout
        try:
            self._reply(START_S)
        except WorkerDied as error:
            status = self._process.poll()
            self.close()
            raise RuntimeError(
                f"the grading worker did not start (exit status {status}): {sys.executable} -m {' '.join(program)}; "
                "its error is above. Is math-verify installed in that interpreter?"
            ) from error

    def ask(self, answer: str, gold: str) -> tuple[str, str]:
        """(verdict, reason); raises WorkerDied when there is no reply within the limit."""
        request = json.dumps({"answer": answer, "gold": gold}).encode() + b"\n"
        try:
            self._requests.write(request)
            self._requests.flush()
        except (BrokenPipeError, OSError) as error:
            raise WorkerDied("the worker's pipe is closed") from error
        reply = self._reply(self._limit_s + GRACE_S)
        return reply["verdict"], reply["reason"]

    def usable(self) -> bool:
        """Alive, and ours: a forked copy of this object must not share the pipes."""
        return self._owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        """End the process and wait for it."""
        if self._owner != os.getpid():
            return
        self._process.kill()
        for pipe in (self._requests, self._replies):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

    def _reply(self, within_s: float) -> dict:
        deadline = time.monotonic() + within_s
        descriptor = self._replies.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise WorkerDied(f"no reply within {within_s:g} s")
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise WorkerDied("the worker ended")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)


class WorkerPool:
    """At most ``size`` workers, handed out to threads one comparison at a time."""

    def __init__(self, size: int, limit_s: float, program: Sequence[str] = PROGRAM) -> None:
        self._limit_s = limit_s
        self._program = program
        self._slots: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        self._size = size
        self._closed = threading.Event()
        for _ in range(size):
            self._slots.put(None)

    def ask(self, answer: str, gold: str) -> tuple[str, str]:
        """Compare in a free worker; one that hangs is killed and the verdict is "timeout", one that dies: "error"."""
        worker = self._slots.get()
        try:
            if self._closed.is_set():
                raise RuntimeError("this Grader is closed")
            if worker is not None and not worker.usable():
                worker.close()
                worker = None
            if worker is None:
                worker = Worker(self._limit_s, self._program)
            try:
                return worker.ask(answer, gold)
            except WorkerDied as error:
                worker.close()
                worker = None
                return ("timeout" if "no reply" in str(error) else "error"), str(error)
        finally:
            self._slots.put(worker)

    def close(self) -> None:
        """Wait for comparisons under way (bounded by the limit), then end every worker."""
        self._closed.set()
        for _ in range(self._size):
            if worker := self._slots.get():
                worker.close()
        for _ in range(self._size):
            self._slots.put(None)
