"""The asset operations/retention: old outputs that nothing refers to, listed and, on request, removed."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.shared.metadata import cell
from assets.shared.options import RetentionOptions
from assets.shared.profile import profile_asset
from assets.shared.storage import Storage
from core.code_digest import code_version, identity
from core.errors import InputError
from evaluation.promotion.retention import plan_removals, remove

KEY = dg.AssetKey(["operations", "retention"])
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
CREATED_SECONDS = 86_400.0  # a run that was created longer ago and never launched will not start
MOST_LISTED = 100


@profile_asset(
    key=KEY,
    group_name="operations",
    kinds={"storage"},
    pool="gpu",  # never beside a training or an evaluation
    code_version=code_version("evaluation/promotion/retention.py"),
    description="Old outputs (runs, checkpoints, generations, scores, pages) that nothing refers to, with their "
    "sizes. Set dry_run to false in the Launchpad to remove them. The champion, its predecessors, the newest "
    "complete policy, the inputs of trainings, and every output that is referred to are kept.",
)
def retention(
    context: dg.AssetExecutionContext, config: RetentionOptions, storage: Storage
) -> dg.MaterializeResult[Any]:
    def named() -> list[str]:
        if not config.dry_run:
            check_nothing_runs(context)
        return list(named_by_materializations(context.instance))

    plan = plan_removals(storage.path, config, named=named(), now=time.time())
    removals = plan.removals
    if not config.dry_run:
        with storage.writable():
            removals = tuple(remove(storage.path, plan.removals, config, named=named))
    freed = sum(removal.size for removal in removals)
    verb = "would free" if config.dry_run else "freed"
    context.log.info(f"{verb} {_megabytes(freed)} MB in {len(removals)} folders")
    lines = ["| folder | MB | reason |", "|---|--:|---|"]
    lines += [
        f"| {cell(removal.path.relative_to(storage.path))} | {_megabytes(removal.size)} | {removal.why} |"
        for removal in sorted(removals, key=lambda removal: -removal.size)[:MOST_LISTED]
    ]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(identity([str(removal.path) for removal in removals], config.dry_run)),
        metadata={
            "dry run": config.dry_run,
            "folders": len(removals),
            "bytes to free": freed if config.dry_run else 0,
            "bytes freed": 0 if config.dry_run else freed,
            "bytes that stay": plan.kept + plan.size - freed,
            "list": dg.MetadataValue.md("\n".join(lines) if removals else "nothing"),
            "settings": dg.MetadataValue.json(config.model_dump()),
        },
    )


def check_nothing_runs(context: dg.AssetExecutionContext) -> None:
    """Raise InputError while another run is queued or in progress, because it may use such outputs."""
    since = datetime.fromtimestamp(time.time() - CREATED_SECONDS, UTC)
    created = dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED], created_after=since)
    runs = [*context.instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)), *context.instance.get_runs(created)]
    if others := [run for run in runs if run.run_id != context.run_id]:
        raise InputError(
            f"operations/retention: run {others[0].run_id} is {others[0].status.value.lower()} and may use outputs "
            "that would be removed; wait until it ends"
        )


def named_by_materializations(instance: dg.DagsterInstance) -> Iterator[str]:
    """Paths in the metadata of the last materialization of every asset."""
    for record in instance.get_asset_records():
        event = record.asset_entry.last_materialization
        if event is not None and event.asset_materialization is not None:
            for value in event.asset_materialization.metadata.values():
                if isinstance(value, dg.PathMetadataValue):
                    yield str(value.path)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"
