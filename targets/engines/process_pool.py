"""Run tasks in a pool of processes of this machine."""

import logging
import multiprocessing
import multiprocessing.util
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from core.files import scratch_folder
from targets.engines.tasks import Inputs, SingleEngine, Task, Tools

FEW_ROWS = 1024  # take less time than two processes need to start
IN_FLIGHT = 3  # tasks per process: one that runs, the others waiting
ATTEMPTS = 3  # at a task whose process died


class PoolEngine:
    """Runs tasks in a pool of processes; a process that dies is replaced, and its tasks are run again.

    What takes less time than starting processes is done here.
    """

    def __init__(self, inputs: Callable[[], Inputs], workers: int) -> None:
        self._inputs = cache(inputs)
        self._workers = workers
        self._here = SingleEngine(self._inputs)
        self._pool: ProcessPoolExecutor | None = None
        self._open = ExitStack()
        self._shared = _verdict_folder(self._open)

    def run(self, tasks: Sequence[Task], rows: int) -> Iterator[Any]:
        if rows <= FEW_ROWS or len(tasks) < 2:
            yield from self._here.run(tasks, rows)
            return
        waiting: deque[tuple[Task, Future[Any]]] = deque()
        for task in tasks:
            waiting.append((task, self._submit(task)))
            if len(waiting) >= IN_FLIGHT * self._workers:
                yield self._oldest(waiting)
        while waiting:
            yield self._oldest(waiting)

    def _oldest(self, waiting: deque[tuple[Task, Future[Any]]]) -> Any:
        for _ in range(ATTEMPTS):
            try:
                result = waiting[0][1].result()
            except BrokenProcessPool:
                self._stop()
                again = [(task, self._submit(task)) for task, _ in waiting]
                waiting.clear()
                waiting.extend(again)
            else:
                waiting.popleft()
                return result
        raise RuntimeError(
            f"the process that {waiting[0][0]} died {ATTEMPTS} times: out of memory, or killed? Give the machine more "
            "memory or use fewer workers, and run it again: what has been filtered so far is not filtered again"
        )

    def _submit(self, task: Task) -> Future[Any]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork would copy the locks of other threads
            verdicts = self._shared / "verdicts.sqlite" if self._shared else None
            inputs = self._inputs().sharing(verdicts)
            self._pool = ProcessPoolExecutor(self._workers, context, _start, (inputs,))
        try:
            return self._pool.submit(_run, task)
        except BrokenProcessPool as error:  # noticed when handing over: `_oldest` starts the next pool
            broken: Future[Any] = Future()
            broken.set_exception(error)
            return broken

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None

    def __enter__(self) -> "PoolEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._here.__exit__()
        self._open.close()


def _verdict_folder(stack: ExitStack) -> Path | None:
    """The folder in which the processes share verdicts; None, with a warning, where there is no room for one.

    What a killed preparation left there is removed.
    """
    try:
        return stack.enter_context(scratch_folder(Path(tempfile.gettempdir())))
    except OSError as error:
        logging.getLogger(__name__).warning(
            "no folder for verdicts on answers (%s): they are not cached, so that equal answers are compared again; "
            "make room or set TMPDIR to another folder",
            error,
        )
        return None


_TOOLS: list[Tools] = []  # of this pool process


def _start(inputs: Inputs) -> None:
    """Begin a pool process: it ends when its parent does, however that ends, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tools = Tools(lambda: inputs)
    _TOOLS.append(tools)
    multiprocessing.util.Finalize(None, tools.close, exitpriority=1)  # the process that compares answers ends with it


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(task: Task) -> Any:
    return task(_TOOLS[0])
