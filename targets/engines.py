"""Where batches of traces are judged: in this process, in a pool of processes, or on Ray Data.

Each engine gives the judged rows of a part in the order of its rows, a table at a time; a few batches are under way at
once and no more. The function that judges is the same, so the rows are the same.
"""

import multiprocessing
import multiprocessing.util
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core.code import PROJECT
from core.errors import InputError
from targets.filter.batch import Judge, Setup
from targets.read.sources import Part
from targets.read.traces import Trace, readable, to_table

if TYPE_CHECKING:
    import pyarrow as pa

TRACES_A_BATCH = 256
CHARACTERS_A_BATCH = 4_000_000  # a batch of long texts ends earlier
FEW_BATCHES = 4  # are judged in less time than two processes need to start
UNDER_WAY = 3  # batches for each process: one judged, the others waiting
ATTEMPTS = 3  # at a batch whose process died
BLOCK_BYTES = 4 << 20  # of traces on Ray: a part that cannot be read in pieces still goes to several judges
READER_CPUS, JUDGE_CPUS = 0.25, 0.75  # so that on a machine of N cores N readers and N judges fit


class Engine(Protocol):
    """Judges the traces of parts. Use as a context manager: it may hold processes."""

    def judged(self, part: Part, limit: int | None, exact: bool) -> Iterator["pa.Table"]:
        """Tables of `judge.judged_schema` for the first ``limit`` traces of ``part``, in order.

        ``exact``: count tokens with the tokenizer itself. Raises InputError where the part cannot be read.
        """
        ...

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *_: object) -> None: ...


def build_engine(name: str, setup: Callable[[], Setup], workers: int) -> Engine:
    """The engine of a name ("local", "ray"); ``setup`` is called when there is something to judge."""
    if name == "ray":
        return RayEngine(setup, workers)
    return SingleEngine(setup) if workers == 1 else PoolEngine(setup, workers)


class SingleEngine:
    """This process judges; answers are compared in a process of their own, as always."""

    def __init__(self, setup: Callable[[], Setup]) -> None:
        self._setup = setup
        self._judge: Judge | None = None

    def judged(self, part: Part, limit: int | None, exact: bool) -> Iterator["pa.Table"]:
        for table in batches(part, limit):
            yield self.judge_here(table, exact)

    def judge_here(self, table: "pa.Table", exact: bool) -> "pa.Table":
        if self._judge is None:
            self._judge = Judge(self._setup())
        return self._judge.judge_table(table, exact)

    def __enter__(self) -> "SingleEngine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._judge is not None:
            self._judge.close()


class PoolEngine:
    """A pool of processes; one that dies is replaced and its batches are judged again.

    What is judged sooner than processes start is judged here.
    """

    def __init__(self, setup: Callable[[], Setup], workers: int) -> None:
        self._setup = cache(setup)
        self._workers = workers
        self._here = SingleEngine(self._setup)
        self._pool: ProcessPoolExecutor | None = None
        self._shared = tempfile.TemporaryDirectory(prefix="luffy-verdicts-")
        self._seen = 0  # batches, as far as it matters

    def judged(self, part: Part, limit: int | None, exact: bool) -> Iterator["pa.Table"]:
        tables = batches(part, limit)
        first = list(islice(tables, FEW_BATCHES + 1))
        self._seen += len(first)
        if self._seen <= FEW_BATCHES:
            yield from (self._here.judge_here(table, exact) for table in first)
            return
        waiting: deque[tuple[pa.Table, Future[pa.Table]]] = deque()
        for table in chain(first, tables):
            waiting.append((table, self._submit(table, exact)))
            if len(waiting) >= UNDER_WAY * self._workers:
                yield self._oldest(waiting, exact)
        while waiting:
            yield self._oldest(waiting, exact)

    def _oldest(self, waiting: "deque[tuple[pa.Table, Future[pa.Table]]]", exact: bool) -> "pa.Table":
        for _ in range(ATTEMPTS):
            try:
                result = waiting[0][1].result()
            except BrokenProcessPool:
                self._stop()
                again = [(table, self._submit(table, exact)) for table, _ in waiting]
                waiting.clear()
                waiting.extend(again)
            else:
                waiting.popleft()
                return result
        first, last = (waiting[0][0]["id"][k].as_py() for k in (0, -1))
        raise RuntimeError(
            f"the process that judged {first} to {last} died {ATTEMPTS} times: out of memory, or killed? "
            "Give the machine more memory or use fewer workers, and run it again: what is judged is not judged twice"
        )

    def _submit(self, table: "pa.Table", exact: bool) -> "Future[pa.Table]":
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork would copy the locks of other threads
            setup = replace(self._setup(), verdicts=Path(self._shared.name) / "verdicts.sqlite")
            self._pool = ProcessPoolExecutor(self._workers, context, _start, (setup,))
        try:
            return self._pool.submit(_judge, table, exact)
        except BrokenProcessPool as error:  # noticed when handing over: `_oldest` starts the next pool
            broken: Future[pa.Table] = Future()
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
        self._shared.cleanup()


class RayEngine:
    """Ray Data: pieces of a part are read and judged wherever the cluster has room, and come back in order.

    ``RAY_ADDRESS`` names a running cluster; without one, Ray starts on this machine and ends with the preparation.
    """

    def __init__(self, setup: Callable[[], Setup], workers: int) -> None:
        self._setup = setup
        self._workers = workers
        self._made: Any = None
        self._started = False

    def judged(self, part: Part, limit: int | None, exact: bool) -> Iterator["pa.Table"]:
        ray = self._start()
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        context.target_max_block_size = BLOCK_BYTES
        pieces: list[Any] = part.pieces() if limit is None else [None]
        work = ray.data.from_items(
            [{"piece": number} for number in range(len(pieces))], override_num_blocks=len(pieces)
        )
        dataset = work.map_batches(
            _ReadPieces(part, pieces, limit),
            batch_size=1,
            num_cpus=READER_CPUS,
        ).map_batches(
            _RayJudge,
            fn_constructor_args=(self._made, exact),
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=JUDGE_CPUS,
            concurrency=self._workers,
        )
        try:
            yield from dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1)
        except Exception as error:
            raise _cause(error) or error from error

    def _start(self) -> Any:
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise InputError(
                "engine ray: Ray is not installed in this interpreter: use the training interpreter "
                "(.venv-train/bin/python -m targets --engine ray), or engine local"
            ) from error
        if not ray.is_initialized():
            environment = {
                "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH", "")]))
            }
            ray.init(
                num_cpus=None if os.environ.get("RAY_ADDRESS") else max(self._workers, os.cpu_count() or 1),
                include_dashboard=None if os.environ.get("RAY_ADDRESS") else False,
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env={"env_vars": environment},
            )
            self._started = True
        if self._made is None:
            self._made = ray.put(self._setup())
        return ray

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            import ray

            ray.shutdown()


class _ReadPieces:
    """Reads the pieces whose numbers are in a batch: tables of traces, one after the other."""

    def __init__(self, part: Part, pieces: list[Any], limit: int | None) -> None:
        self._part = part
        self._pieces = pieces
        self._limit = limit

    def __call__(self, batch: Any) -> Iterator["pa.Table"]:
        for number in batch["piece"]:
            yield from batches(self._part, self._limit, self._pieces[int(number)])


class _RayJudge:
    """An actor that judges tables of traces."""

    def __init__(self, setup: Any, exact: bool) -> None:
        import ray

        self._judge = Judge(ray.get(setup))
        self._exact = exact

    def __call__(self, table: "pa.Table") -> "pa.Table":
        return self._judge.judge_table(table, self._exact)


def batches(part: Part, limit: int | None = None, piece: Any = None) -> Iterator["pa.Table"]:
    """The traces of a part, or of one of its pieces, as tables of a size that bounds memory."""
    return map(to_table, _grouped(readable(trace, part.config) for trace in islice(part.traces(piece), limit)))


def _grouped(traces: Iterable[Trace]) -> Iterator[list[Trace]]:
    batch: list[Trace] = []
    characters = 0
    for trace in traces:
        batch.append(trace)
        characters += len(trace.response or "") + len(trace.problem or "")
        if len(batch) == TRACES_A_BATCH or characters > CHARACTERS_A_BATCH:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


_OURS: dict[str, Judge] = {}  # the judge of this pool process


def _start(setup: Setup) -> None:
    """Begin a pool process: it ends when its parent does, however that ends, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    judge = _OURS["judge"] = Judge(setup)
    multiprocessing.util.Finalize(None, judge.close, exitpriority=1)  # the process that compares answers ends with it


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _judge(table: "pa.Table", exact: bool) -> "pa.Table":
    return _OURS["judge"].judge_table(table, exact)


def _cause(error: BaseException | None) -> InputError | None:
    """The InputError behind what Ray raises, if there is one."""
    while error is not None:
        if isinstance(error, InputError):
            return InputError(*error.args)
        error = getattr(error, "cause", None) or error.__cause__
    return None
