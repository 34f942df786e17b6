"""operations/retention: lists old outputs that nothing refers to, and removes them when asked."""

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.shared.failures import reports_input_errors
from assets.shared.metadata import cell
from assets.shared.options import RetentionOptions, with_defaults
from assets.shared.storage import Storage
from core.code import code_version, identity
from core.errors import InputError
from evaluation.champions import Registry
from evaluation.retention import plan_removals, remove

KEY = dg.AssetKey(["operations", "retention"])
UNFINISHED = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
MOST_LISTED = 100


def build_retention(options: RetentionOptions) -> list[dg.AssetsDefinition]:
    """The retention, by default with ``options``."""

    class Config(with_defaults(options)): ...

    @dg.asset(
        key=KEY,
        group_name="operations",
        kinds={"storage"},
        pool="gpu",  # never beside a training or an evaluation
        code_version=code_version("evaluation/retention.py"),
        description="Old outputs (runs, checkpoints, generations, scores, pages) that nothing refers to, with their "
        "sizes. Set dry_run to false in the Launchpad to remove them. The champion, its predecessors, the newest "
        "complete policy and everything that something refers to are kept.",
    )
    @reports_input_errors
    def retention(context: dg.AssetExecutionContext, config: Config, storage: Storage) -> dg.MaterializeResult[Any]:
        others = [
            run.run_id
            for run in context.instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
            if run.run_id != context.run_id
        ]
        if others and not config.dry_run:
            raise InputError(
                f"operations/retention: run {others[0]} is in progress and may use outputs that would be removed; "
                "wait until it ends"
            )
        champions = Registry(storage.path).champions(config.keep_champions)
        plan = plan_removals(
            storage.path,
            config,
            champions=[file for record in champions for file in record.files()],
            named=named_by_materializations(context.instance),
            now=time.time(),
        )
        if not config.dry_run:
            with storage.writable():
                remove(plan.removals)
        verb = "would free" if config.dry_run else "freed"
        context.log.info(f"{verb} {_megabytes(plan.size)} MB in {len(plan.removals)} folders")
        lines = ["| folder | MB | reason |", "|---|--:|---|"]
        lines += [
            f"| {cell(removal.path.relative_to(storage.path))} | {_megabytes(removal.size)} | {removal.why} |"
            for removal in sorted(plan.removals, key=lambda removal: -removal.size)[:MOST_LISTED]
        ]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(identity([str(removal.path) for removal in plan.removals], config.dry_run)),
            metadata={
                "dry run": config.dry_run,
                "folders": len(plan.removals),
                "bytes to free": plan.size if config.dry_run else 0,
                "bytes freed": 0 if config.dry_run else plan.size,
                "bytes that stay": plan.kept,
                "list": dg.MetadataValue.md("\n".join(lines) if plan.removals else "nothing"),
                "settings": dg.MetadataValue.json(config.model_dump()),
            },
        )

    return [retention]


def named_by_materializations(instance: dg.DagsterInstance) -> Iterator[str]:
    """Paths in the metadata of the last materialization of every asset."""
    for key in instance.all_asset_keys():
        event = instance.get_latest_materialization_event(key)
        if event is not None and event.asset_materialization is not None:
            for value in event.asset_materialization.metadata.values():
                if isinstance(value, dg.PathMetadataValue):
                    yield str(value.path)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"
