"""The slot of the pool ``gpu``, which a step takes when it starts to compute there.

Dagster's own wait for a pool comes before a step has looked at earlier results, and keeps a core busy.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging import INFO

import dagster as dg
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

POOL = "gpu"
TAG = {"luffy/pool": POOL}  # of the assets that compute there
WAIT_SECONDS = 5.0
EVENTS = 20  # of another run, among which its last message is looked for


@contextmanager
def gpu_slot(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Hold a slot of the pool while the block runs; the log says for which run the step waits, and how far that is."""
    step, said = context.get_step_execution_context().step.key, ""
    with InstanceConcurrencyContext(context.instance, context.run) as slots:
        while not slots.claim(POOL, step):
            if (holder := _holder(context.instance)) not in ("", said):
                context.log.info(f"waits for the training slot ({holder})")
                said = holder
            time.sleep(WAIT_SECONDS)
        try:
            yield
        finally:
            slots.free_step(step)


def _holder(instance: dg.DagsterInstance) -> str:
    """Return which step has the slot, and its last message; "" for none. A step loses it when its process is killed."""
    storage = instance.event_log_storage
    for slot in storage.get_concurrency_info(POOL).claimed_slots:
        if any(stats.end_time for stats in instance.get_run_step_stats(slot.run_id, [slot.step_key])):
            storage.free_concurrency_slot_for_step(slot.run_id, slot.step_key)
            continue
        last = instance.get_records_for_run(slot.run_id, limit=EVENTS, ascending=False).records
        of_step = (entry for one in last if (entry := one.event_log_entry).step_key == slot.step_key)
        said = [entry.user_message for entry in of_step if not entry.dagster_event and int(entry.level) >= INFO]
        return f"run {slot.run_id[:8]}, {', '.join([slot.step_key.replace('__', '/'), *said[:1]])}"
    return ""
