"""The executor of all jobs: steps run in the process of their run, because the ones that work hard start programs.

``execution: {config: {max_concurrent: 2}}`` in the Launchpad, like ``luffy run --max-concurrent 2``, gives each step a
process. ``dagster.yaml`` says how many steps share a GPU and which runs are tried again.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from core.machine.interruptible import raise_interrupts
from pipelines.definitions.database import wait_for_database
from pipelines.definitions.dead_runs import owner_tag

RETRIES = {"retries": {"enabled": {}}}


@dg.executor(
    name="steps",
    config_schema={
        "max_concurrent": dg.Field(
            int,
            default_value=1,
            description="The number of steps that run at the same time. From 2, each step has a separate process.",
        )
    },
    requirements=dg.multiple_process_executor_requirements(),
)
def steps(context: dg.InitExecutorContext) -> dg.Executor:
    """Dagster's in-process executor, or its multiprocess executor for several steps at the same time."""
    wait_for_database()
    at_once, create = context.executor_config["max_concurrent"], dg.multi_or_in_process_executor.executor_creation_fn
    assert create is not None
    several = {"multiprocess": {**RETRIES, "max_concurrent": at_once}}
    return OwnedRun(create(context._replace(executor_config={"in_process": RETRIES} if at_once == 1 else several)))


class OwnedRun(dg.Executor):
    """An executor that records in the tags of a run which process executes it."""

    def __init__(self, executor: dg.Executor) -> None:
        self._executor = executor

    @property
    def retries(self) -> Any:
        """The retries of the executor."""
        return self._executor.retries

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        """Yield the events of the steps."""
        plan_context.instance.add_run_tags(plan_context.run_id, owner_tag())
        raise_interrupts()
        yield from self._executor.execute(plan_context, execution_plan)
