"""Run the work of a preparation: in this process, in processes of this machine, or on Ray Data.

Work is a function of an item and of the worker of the process. It reads and writes files itself, so that only its short
result comes back. Results come in the order of the items, of which a few are in flight at once and no more. The work is
the same everywhere, and so are the decisions.
"""

import multiprocessing
import multiprocessing.util
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from core.errors import InputError
from core.machine.loopback import single_node_environment
from core.machine.temporary_folder import shorten_temporary_folder
from core.plugins.user_code import python_path

if TYPE_CHECKING:
    import pyarrow as pa

FEW_ROWS = 1024  # take less time than two processes need to start
IN_FLIGHT = 3  # items per process: one that runs, the others waiting
PRELOADED = ["targets.prepare", "pandas"]  # once for all processes
ATTEMPTS = 3  # at an item whose process died
RAY_CPUS = 0.75  # of an actor, so that Ray's own tasks fit next to N actors on a machine of N cores
WORK, RESULT = "work", "result"  # columns of Ray's blocks, pickled

Item = TypeVar("Item")
Result = TypeVar("Result")


class Worker(Protocol):
    """What the work of a process shares, such as a `targets.filter.worker.Worker`."""

    def close(self) -> None: ...


class Engine:
    """Runs work in this process or, where that pays off, in a pool of processes; one that dies is replaced, and its
    items are done again.

    Use an engine as a context manager: it may hold processes. ``worker``: None for work that needs none.
    """

    _pool: ProcessPoolExecutor | None = None

    def __init__(self, worker: Worker | None = None, workers: int = 1) -> None:
        self._worker, self._workers = worker, workers

    def run(self, work: Callable[[Item, Any], Result], items: Sequence[Item], rows: int) -> Iterator[Result]:
        """The results of ``items``, in order; ``rows``: how many they process together.

        Raises what the work raises: InputError where a source cannot be read.
        """
        here = len(items) < 2 or not self._pays_off(rows)
        yield from (work(item, self._worker) for item in items) if here else self._spread(work, items)

    def _pays_off(self, rows: int) -> bool:
        return self._workers > 1 and rows > FEW_ROWS

    def __enter__(self) -> "Engine":
        return self

    def _spread(self, work: Callable[[Item, Any], Result], items: Sequence[Item]) -> Iterator[Result]:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        for item in items:
            waiting.append((item, self._submit(work, item)))
            if len(waiting) >= IN_FLIGHT * self._workers:
                yield self._oldest(work, waiting)
        while waiting:
            yield self._oldest(work, waiting)

    def _oldest(self, work: Callable[[Item, Any], Result], waiting: deque[tuple[Item, Future[Result]]]) -> Result:
        for _ in range(ATTEMPTS):
            try:
                result = waiting[0][1].result()
            except BrokenProcessPool:
                self._stop()
                again = [(item, self._submit(work, item)) for item, _ in waiting]
                waiting.clear()
                waiting.extend(again)
            else:
                waiting.popleft()
                return result
        raise RuntimeError(
            f"the process that works on {waiting[0][0]!s:.200} died {ATTEMPTS} times: out of memory, or killed? Give "
            "the machine more memory or use fewer workers, and run it again: what has been filtered so far is not "
            "filtered again"
        )

    def _submit(self, work: Callable[[Item, Any], Result], item: Item) -> "Future[Result]":
        with _interrupts_later():
            if self._pool is None:
                context = multiprocessing.get_context("forkserver")  # a fork of this process has its threads' locks
                context.set_forkserver_preload(PRELOADED)
                self._pool = ProcessPoolExecutor(self._workers, context, _start, (self._worker,))
            try:
                return self._pool.submit(_run, work, item)
            except BrokenProcessPool as error:  # noticed when handing over: `_oldest` starts the next pool
                broken: Future[Result] = Future()
                broken.set_exception(error)
                return broken

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None

    def __exit__(self, *raised: object) -> None:
        interrupted = any(isinstance(part, KeyboardInterrupt | SystemExit) for part in raised)
        if self._pool is not None and interrupted:  # nobody waits for what is being filtered
            for process in self._pool._processes.values():
                process.terminate()
        self._stop()
        if self._worker is not None:
            self._worker.close()


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


_WORKER: list[Worker | None] = []  # of this pool process


def _start(worker: Worker | None) -> None:
    """Begin a pool process: it ends when its parent does, however that ends, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # what it starts can be interrupted
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _WORKER.append(worker)
    if worker is not None:  # the process that compares answers ends with it
        multiprocessing.util.Finalize(None, worker.close, exitpriority=1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(work: Callable[[Item, Any], Result], item: Item) -> Result:
    return work(item, _WORKER[0])


class RayEngine(Engine):
    """Runs work in actors of Ray Data, which read and write the files: all machines of the cluster have to see them.

    ``RAY_ADDRESS`` names a running cluster; without one, Ray starts on this machine and ends with the preparation.
    """

    _reference: Any = None  # of the worker in Ray's object store
    _started = False

    def _pays_off(self, rows: int) -> bool:
        return True

    def _spread(self, work: Callable[[Item, Any], Result], items: Sequence[Item]) -> Iterator[Result]:
        ray = self._start()
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        blocks = [{WORK: pickle.dumps((work, item))} for item in items]
        dataset = ray.data.from_items(blocks, override_num_blocks=len(blocks)).map_batches(
            _Actor,
            fn_constructor_args=(self._reference,),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=RAY_CPUS,
            concurrency=min(self._workers, len(blocks)),
        )
        for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
            for value in block[RESULT]:
                result = pickle.loads(value.as_buffer())
                if isinstance(result, InputError):
                    raise result
                yield result

    def _start(self) -> Any:
        os.environ.update(single_node_environment())
        shorten_temporary_folder()
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise InputError(
                "engine ray: Ray is not installed in this interpreter: use the training interpreter "
                "(.venv-train/bin/python -m targets --set targets.engine=ray), or engine local"
            ) from error
        if not ray.is_initialized():
            cluster = bool(os.environ.get("RAY_ADDRESS"))
            ray.init(
                num_cpus=None if cluster else max(self._workers, os.cpu_count() or 1),
                include_dashboard=None if cluster else False,
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env={"env_vars": {"PYTHONPATH": python_path()}},
            )
            self._started = True
        if self._reference is None:
            self._reference = ray.put(self._worker)
        return ray

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self._started:
            import ray

            ray.shutdown()


class _Actor:
    def __init__(self, worker: Any) -> None:
        import ray

        self._worker = ray.get(worker)

    def __call__(self, block: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        results = [pickle.dumps(self._run(*pickle.loads(work.as_buffer()))) for work in block[WORK]]
        return pa.table({RESULT: pa.array(results, pa.binary())})

    def _run(self, work: Callable[[Item, Any], Any], item: Item) -> Any:
        """What the work returns, or its `InputError`, which Ray would lose among errors of its own."""
        try:
            return work(item, self._worker)
        except InputError as error:
            return error


ENGINES = {"local": Engine, "ray": RayEngine}
