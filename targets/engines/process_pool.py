"""Run tasks in a pool of processes of this machine, and choose between this engine and the others."""

import multiprocessing
import multiprocessing.util
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import resource_tracker
from typing import Any

from targets.engines.tasks import Engine, Inputs, SingleEngine, Task, Tools

FEW_ROWS = 1024  # take less time than two processes need to start
IN_FLIGHT = 3  # tasks per process: one that runs, the others waiting
PRELOADED = ["targets.prepare", "pandas"]  # once for all processes
ATTEMPTS = 3  # at a task whose process died


def build_engine(name: str, inputs: Callable[[], Inputs], workers: int) -> Engine:
    """The engine called ``name`` ("local", "ray"); ``inputs`` is called when there is something to filter."""
    if name == "ray":
        from targets.engines.ray_data import RayEngine

        return RayEngine(inputs, workers)
    return SingleEngine(inputs) if workers == 1 else PoolEngine(inputs, workers)


class PoolEngine:
    """Runs tasks in a pool of processes; a process that dies is replaced, and its tasks are run again.

    What takes less time than starting processes is done here.
    """

    def __init__(self, inputs: Callable[[], Inputs], workers: int) -> None:
        self._inputs = cache(inputs)
        self._workers = workers
        self._here = SingleEngine(self._inputs)
        self._pool: ProcessPoolExecutor | None = None

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
        with _interrupts_later():
            if self._pool is None:
                context = multiprocessing.get_context("forkserver")  # a fork of this process has its threads' locks
                context.set_forkserver_preload(PRELOADED)
                self._pool = ProcessPoolExecutor(self._workers, context, _start, (self._inputs(),))
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

    def __exit__(self, *raised: object) -> None:
        interrupted = any(isinstance(part, KeyboardInterrupt | SystemExit) for part in raised)
        if self._pool is not None and interrupted:  # nobody waits for what is being filtered
            for process in self._pool._processes.values():
                process.terminate()
        self._stop()
        self._here.__exit__()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold Ctrl-C back while processes start: they never see it, and none is left half-made."""
    resource_tracker.ensure_running()  # it would let Ctrl-C through
    held: list[object] = []
    handler = None
    if threading.current_thread() is threading.main_thread():  # which handles the Ctrl-C of all threads
        handler = signal.signal(signal.SIGINT, lambda *of: held.append(of))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)


_TOOLS: list[Tools] = []  # of this pool process


def _start(inputs: Inputs) -> None:
    """Begin a pool process: it ends when its parent does, however that ends, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # what it starts can be interrupted
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
