"""The executor forks each step from the run's process, which has loaded what most steps need.

``dagster.yaml`` says how many steps share a GPU and which runs are tried again.
"""

import os
import threading
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, cast

import dagster as dg
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.multiprocess import MultiprocessExecutor

from assets.shared.failures import CANCELLED, cancellation
from core.machine.interruptible import raise_interrupts
from core.machine.processes import die_with_parent
from pipelines.definitions.database import wait_for_database
from pipelines.definitions.instance import owner_tag

# A step would take seconds to load them.
PRELOADED = (
    "pyarrow.dataset",  # pandas
    "pyarrow.parquet",
    "evaluation.report.charts",  # matplotlib
    "evaluation.statistics.benchmark_scores",  # scipy
    "targets.prepared_files",
)


def preload() -> None:
    """Import what most steps need."""
    for module in PRELOADED:
        import_module(module)


@dg.executor(
    name="forked_steps",
    config_schema={
        "max_concurrent": dg.Field(int, default_value=2, description="The number of steps that run at the same time.")
    },
    requirements=dg.multiple_process_executor_requirements(),
)
def forked_steps(context: dg.InitExecutorContext) -> dg.Executor:
    """Dagster's multiprocess executor with the start method `fork`, which its configuration does not offer.

    With Dagster's ``forkserver`` and ``preload_modules`` an unchanged demo takes 1.9 times as long (median of 4 runs by
    turns on a busy machine: 119 s and 64 s).

    A fork copies the locks that other threads hold. The threads of a run only wait for a request to stop it.
    """
    wait_for_database()
    preload()
    at_once = cast(int, context.executor_config["max_concurrent"])
    return ForkedSteps(RetryMode.ENABLED, at_once, start_method="fork")


@cache
def end_steps_with_run() -> None:
    """Have the steps, which this process forks, interrupted when it ends, even if it is killed."""
    run, fork = os.getpid(), threading.local()

    def end_with_run() -> None:
        if fork.parent == run:
            try:
                die_with_parent(run)
            except SystemExit as end:  # Python ignores the exceptions of this function
                os._exit(cast(int, end.code))

    # The parent may have ended when its child looks who it is.
    os.register_at_fork(before=lambda: setattr(fork, "parent", os.getpid()), after_in_child=end_with_run)


class ForkedSteps(MultiprocessExecutor):
    """Dagster's multiprocess executor; its interruption repeats what its interrupted steps reported."""

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        """Yield the events of the steps; a cancelled run ends with one sentence, without Dagster's own stack."""
        plan_context.instance.add_run_tags(plan_context.run_id, owner_tag())
        raise_interrupts()  # the steps inherit it
        end_steps_with_run()
        said: list[str] = []
        interrupted = False
        try:
            for event in super().execute(plan_context, execution_plan):
                if event.is_step_failure and (error := event.step_failure_data.error):
                    _, found, text = error.message.strip().partition(CANCELLED)
                    said += [text] if found else []
                yield event
        except dg.DagsterExecutionInterruptedError:
            interrupted = True
        if interrupted:  # outside of the handler, or the run would show two stack traces
            raise cancellation("; ".join(dict.fromkeys(said)))
