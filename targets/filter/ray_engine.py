"""Filter on Ray Data: the cluster reads and filters pieces of a part in parallel, and returns them in order.

``RAY_ADDRESS`` names a running cluster; without one, Ray starts on this machine and ends with the preparation.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.machine.loopback import single_node_environment
from core.machine.temporary_folder import shorten_temporary_folder
from core.plugins.user_code import python_path
from targets.filter.batch import filter_traces
from targets.filter.context import FilterContext, FilterInputs
from targets.read.sources import Part
from targets.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 4 << 20  # of traces: a part that cannot be read in pieces still goes to several actors
READER_CPUS, FILTER_CPUS = 0.25, 0.75  # so that N readers and N actors fit on a machine of N cores
TRACES = "traces"  # the one column of a block: a pickled batch per row


class RayEngine:
    """Filters on Ray Data. Use it as a context manager, because it may have started Ray."""

    def __init__(self, inputs: Callable[[], FilterInputs], workers: int) -> None:
        self._inputs = inputs
        self._workers = workers
        self._reference: Any = None  # of the inputs in Ray's object store
        self._started = False

    def filtered(self, part: Part, limit: int | None) -> Iterator[Sequence[Trace]]:
        ray = self._start()
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        context.target_max_block_size = BLOCK_BYTES
        pieces = part.pieces() if limit is None else [None]
        numbers = [{"piece": number} for number in range(len(pieces))]
        dataset = (
            ray.data.from_items(numbers, override_num_blocks=len(pieces))
            .map_batches(_Reader(part, pieces, limit), batch_size=1, num_cpus=READER_CPUS)
            .map_batches(
                _FilterActor,
                fn_constructor_args=(self._reference,),
                batch_size=None,
                batch_format="pyarrow",
                num_cpus=FILTER_CPUS,
                concurrency=self._workers,
            )
        )
        try:
            for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
                yield from _batches(block)
        except Exception as error:
            raise _cause(error) or error from error

    def _start(self) -> Any:
        os.environ.update(single_node_environment())
        shorten_temporary_folder()
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise InputError(
                "engine ray: Ray is not installed in this interpreter: use the training interpreter "
                "(.venv-train/bin/python -m targets --engine ray), or engine local"
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
            self._reference = ray.put(self._inputs())
        return ray

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            import ray

            ray.shutdown()


class _Reader:
    """Reads the pieces whose numbers are in a block, one batch of traces after the other."""

    def __init__(self, part: Part, pieces: Sequence[Any], limit: int | None) -> None:
        self._part = part
        self._pieces = pieces
        self._limit = limit

    def __call__(self, block: Any) -> "Iterator[pa.Table]":
        for number in block["piece"]:
            for traces in self._part.batches(self._limit, self._pieces[int(number)]):
                yield _block([traces])


class _FilterActor:
    """An actor that filters batches of traces."""

    def __init__(self, inputs: Any) -> None:
        import ray

        self._context = FilterContext(ray.get(inputs))

    def __call__(self, block: "pa.Table") -> "pa.Table":
        return _block([filter_traces(traces, self._context) for traces in _batches(block)])


def _block(batches: Sequence[Sequence[Trace]]) -> "pa.Table":
    import pyarrow as pa

    return pa.table({TRACES: pa.array([pickle.dumps(traces) for traces in batches], pa.binary())})


def _batches(block: "pa.Table") -> Iterator[Sequence[Trace]]:
    for value in block[TRACES]:
        yield pickle.loads(value.as_buffer())


def _cause(error: BaseException | None) -> InputError | None:
    """The InputError behind what Ray raises, if there is one."""
    while error is not None:
        if isinstance(error, InputError):
            return InputError(str(error.args[0]).partition("\n")[0])  # Ray adds lines of its own
        error = getattr(error, "cause", None) or error.__cause__
    return None
