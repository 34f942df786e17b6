"""The engines that filter batches of traces: this process, a pool of processes, or Ray Data.

Each engine gives the traces of a part in their order, a batch at a time; a few batches are in flight at once and no
more. The function that filters is the same, so the decisions are the same.
"""

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
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from core.files import scratch_folder
from targets.filter.batch import filter_traces
from targets.filter.context import FilterContext, FilterInputs
from targets.read.sources import Part
from targets.trace import Trace

FEW_BATCHES = 4  # take less time than two processes need to start
IN_FLIGHT = 3  # batches per process: one filtered, the others waiting
ATTEMPTS = 3  # at a batch whose process died

Batch = Sequence[Trace]


class Engine(Protocol):
    """Filters the traces of parts. Use as a context manager: it may hold processes."""

    def filtered(self, part: Part, limit: int | None) -> Iterator[Batch]:
        """The first ``limit`` traces of ``part`` with their decisions, in order.

        Raises InputError where the part cannot be read.
        """
        ...

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *_: object) -> None: ...


def build_engine(name: str, inputs: Callable[[], FilterInputs], workers: int) -> Engine:
    """The engine called ``name`` ("local", "ray"); ``inputs`` is called when there is something to filter."""
    if name == "ray":
        from targets.filter.ray_engine import RayEngine

        return RayEngine(inputs, workers)
    return SingleEngine(inputs) if workers == 1 else PoolEngine(inputs, workers)


class SingleEngine:
    """Filters in this process; a separate process compares the answers."""

    def __init__(self, inputs: Callable[[], FilterInputs]) -> None:
        self._inputs = inputs
        self._context: FilterContext | None = None

    def filtered(self, part: Part, limit: int | None) -> Iterator[Batch]:
        for traces in part.batches(limit):
            yield self.filter_here(traces)

    def filter_here(self, traces: Batch) -> Batch:
        if self._context is None:
            self._context = FilterContext(self._inputs())
        return filter_traces(traces, self._context)

    def __enter__(self) -> "SingleEngine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._context is not None:
            self._context.close()


class PoolEngine:
    """Filters in a pool of processes; a process that dies is replaced, and its batches are filtered again.

    What takes less time than starting processes is filtered here. Batches travel pickled: 2.9 ms per batch of
    256 real traces, there and back, where Arrow takes 3.4 or more.
    """

    def __init__(self, inputs: Callable[[], FilterInputs], workers: int) -> None:
        self._inputs = cache(inputs)
        self._workers = workers
        self._here = SingleEngine(self._inputs)
        self._pool: ProcessPoolExecutor | None = None
        self._open = ExitStack()
        self._shared = _verdict_folder(self._open)
        self._batches = 0  # so far, counted up to where processes start

    def filtered(self, part: Part, limit: int | None) -> Iterator[Batch]:
        batches = part.batches(limit)
        first = list(islice(batches, FEW_BATCHES + 1))
        self._batches += len(first)
        if self._batches <= FEW_BATCHES:
            yield from (self._here.filter_here(traces) for traces in first)
            return
        waiting: deque[tuple[Batch, Future[Batch]]] = deque()
        for traces in chain(first, batches):
            waiting.append((traces, self._submit(traces)))
            if len(waiting) >= IN_FLIGHT * self._workers:
                yield self._oldest(waiting)
        while waiting:
            yield self._oldest(waiting)

    def _oldest(self, waiting: deque[tuple[Batch, Future[Batch]]]) -> Batch:
        for _ in range(ATTEMPTS):
            try:
                result = waiting[0][1].result()
            except BrokenProcessPool:
                self._stop()
                again = [(traces, self._submit(traces)) for traces, _ in waiting]
                waiting.clear()
                waiting.extend(again)
            else:
                waiting.popleft()
                return result
        traces = waiting[0][0]
        raise RuntimeError(
            f"the process that filtered {traces[0].id} to {traces[-1].id} died {ATTEMPTS} times: out of memory, or "
            "killed? Give the machine more memory or use fewer workers, and run it again: the files filtered so far "
            "are not filtered again"
        )

    def _submit(self, traces: Batch) -> Future[Batch]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork would copy the locks of other threads
            verdicts = self._shared / "verdicts.sqlite" if self._shared else None
            inputs = replace(self._inputs(), verdicts=verdicts)
            self._pool = ProcessPoolExecutor(self._workers, context, _start, (inputs,))
        try:
            return self._pool.submit(_filter, traces)
        except BrokenProcessPool as error:  # noticed when handing over: `_oldest` starts the next pool
            broken: Future[Batch] = Future()
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


_CONTEXT: list[FilterContext] = []  # of this pool process


def _start(inputs: FilterInputs) -> None:
    """Begin a pool process: it ends when its parent does, however that ends, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    context = FilterContext(inputs)
    _CONTEXT.append(context)
    multiprocessing.util.Finalize(None, context.close, exitpriority=1)  # the process that compares answers ends with it


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _filter(traces: Batch) -> Batch:
    return filter_traces(traces, _CONTEXT[0])
