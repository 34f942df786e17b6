"""Run tasks on Ray Data: the actors of a cluster read and write the files, which all its machines have to see.

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
from targets.engines.tasks import Inputs, SingleEngine, Task, Tools

if TYPE_CHECKING:
    import pyarrow as pa

TASK_CPUS = 0.75  # so that Ray's own tasks find room beside N actors on a machine of N cores
TASK, RESULT = "task", "result"  # columns of blocks, pickled


class RayEngine:
    """Runs tasks on Ray Data. Use it as a context manager, because it may have started Ray."""

    def __init__(self, inputs: Callable[[], Inputs], workers: int) -> None:
        self._inputs = inputs
        self._workers = workers
        self._here = SingleEngine(inputs)
        self._reference: Any = None  # of the inputs in Ray's object store
        self._started = False

    def run(self, tasks: Sequence[Task], rows: int) -> Iterator[Any]:
        if len(tasks) < 2:
            yield from self._here.run(tasks, rows)
            return
        ray = self._start()
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        items = [{TASK: pickle.dumps(task)} for task in tasks]
        dataset = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            _Runner,
            fn_constructor_args=(self._reference,),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=TASK_CPUS,
            concurrency=min(self._workers, len(items)),
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
        self._here.__exit__()
        if self._started:
            import ray

            ray.shutdown()


class _Runner:
    """An actor that runs tasks."""

    def __init__(self, inputs: Any) -> None:
        import ray

        self._tools = Tools(lambda: ray.get(inputs))

    def __call__(self, block: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        results = [pickle.dumps(self._run(pickle.loads(task.as_buffer()))) for task in block[TASK]]
        return pa.table({RESULT: pa.array(results, pa.binary())})

    def _run(self, task: Any) -> Any:
        """What ``task`` returns, or its `InputError`, which Ray would lose among errors of its own."""
        try:
            return task(self._tools)
        except InputError as error:
            return error
