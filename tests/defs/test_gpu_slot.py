"""A step takes the slot of the pool when it computes, and says for whom it waits; a result that is there needs none."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from assets.shared import gpu_slot
from assets.shared.gpu_slot import POOL

OTHER = ("another-run", "training__policy")


@dg.asset
def computed(context: dg.AssetExecutionContext) -> None:
    with gpu_slot.gpu_slot(context):
        pass


@dg.asset
def killed(context: dg.AssetExecutionContext) -> None:
    assert context.instance.event_log_storage.claim_concurrency_slot(POOL, context.run_id, "killed").is_claimed
    raise RuntimeError


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    limits = {"concurrency": {"pools": {"default_limit": 1}}}
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=limits) as instance:
        instance.event_log_storage.initialize_concurrency_limit_to_default(POOL)
        yield instance


def messages(instance: dg.DagsterInstance, asset: dg.AssetsDefinition) -> list[str]:
    result = dg.materialize([asset], instance=instance)
    assert instance.event_log_storage.get_concurrency_info(POOL).claimed_slots == []
    return [entry.user_message for entry in instance.all_logs(result.run_id) if not entry.dagster_event]


def test_a_step_says_for_whom_it_waits(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = instance.event_log_storage
    assert slots.claim_concurrency_slot(POOL, *OTHER).is_claimed
    clock = SimpleNamespace(sleep=lambda _: slots.free_concurrency_slot_for_step(*OTHER))
    monkeypatch.setattr(gpu_slot, "time", clock)
    assert messages(instance, computed) == ["waits for the training slot (run another-, training/policy)"]


def test_a_step_that_was_killed_loses_the_slot(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_slot, "WAIT_SECONDS", 0.1)
    dg.materialize([killed], instance=instance, raise_on_error=False)
    assert instance.event_log_storage.get_concurrency_info(POOL).claimed_slots
    assert messages(instance, computed) == []
