"""The asset operations/retention: old outputs without a reference to them, and Dagster's records of our old runs.

It lists both and, on request, removes them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from assets.checks import check_keys
from assets.registry.removal_plan import plan_removals, remove
from assets.shared.failures import user_errors
from assets.shared.luffy import IO_MANAGER, Luffy, Names
from assets.shared.metadata import rows_table
from assets.shared.storage import FILES
from core.code_digest import code_version, identity
from core.errors import InputError

KEY = dg.AssetKey(["operations", "retention"])
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
CREATED_SECONDS = 86_400.0  # a run that was created longer ago and never launched will not start
MOST_LISTED = 100
DAY_SECONDS = 86_400.0
PARTITION = "dagster/partition"  # prefix of the tags that name a run's partitions


@dg.asset(
    key=KEY,
    io_manager_key=IO_MANAGER,
    group_name="operations",
    kinds={"storage"},
    code_version=code_version("assets/registry/removal_plan.py"),
    description="Old outputs (runs, checkpoints, generations, scores, pages) that nothing refers to, with their "
    "sizes. Set dry_run to false in the Launchpad to remove them. The champion, its predecessors, the newest "
    "complete policy, the inputs of trainings, and every output that is referred to stay. So is the record of the "
    "run behind the latest materialization of each asset.",
)
def retention(context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy]) -> dg.MaterializeResult[Any]:
    with user_errors(context):
        storage = luffy.storage
        settings = luffy.settings.retention

        def named() -> list[str]:
            if not settings.dry_run:
                check_nothing_runs(context)
            return list(named_by_events(context.instance, check_keys(luffy, blocking_only=False), storage.path))

        plan = plan_removals(storage.path, settings, named=named(), now=time.time())
        removals = plan.removals
        if not settings.dry_run:
            with storage.writable():
                removals = tuple(remove(storage.path, plan.removals, settings, named=named))
        before = time.time() - settings.keep_run_days * DAY_SECONDS
        runs = [run.run_id for run in old_runs(context.instance, before) if is_ours(run, context.run, luffy.names)]
        if not settings.dry_run:
            for run in runs:
                forget(context.instance, run)
        freed = sum(removal.size for removal in removals)
        verb = "would free" if settings.dry_run else "freed"
        context.log.info(
            f"{verb} {_megabytes(freed)} MB in {len(removals)} folders, and the records of {len(runs)} runs"
        )
        rows = [
            (removal.path.relative_to(storage.path), _megabytes(removal.size), removal.why)
            for removal in sorted(removals, key=lambda removal: -removal.size)[:MOST_LISTED]
        ]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(identity([str(removal.path) for removal in removals], settings.dry_run)),
            metadata={
                "dry run": settings.dry_run,
                "folders": len(removals),
                "runs": len(runs),
                "bytes to free": freed if settings.dry_run else 0,
                "bytes freed": 0 if settings.dry_run else freed,
                "bytes that stay": plan.kept + plan.size - freed,
                "list": rows_table(("folder", "MB", "reason"), rows, left=(0, 2)) if rows else "nothing",
                "settings": dg.MetadataValue.json(settings.model_dump()),
            },
        )


def check_nothing_runs(context: dg.AssetExecutionContext) -> None:
    """Raise InputError while another run is queued or in progress."""
    if why := why_not_now(context.instance, context.run_id):
        raise InputError(f"operations/retention: {why}; wait until it ends")


def why_not_now(instance: dg.DagsterInstance, own: str | None = None) -> str | None:
    """Return which run besides ``own`` is queued or in progress and may use old outputs; None if there is none."""
    since = datetime.fromtimestamp(time.time() - CREATED_SECONDS, UTC)
    created = dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED], created_after=since)
    for run in [*instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)), *instance.get_runs(created)]:
        if run.run_id != own:
            return f"run {run.run_id} is {run.status.value.lower()} and may use outputs that would be removed"
    return None


def is_ours(run: dg.DagsterRun, own: dg.DagsterRun, names: Names) -> bool:
    """Return whether ``run`` is of our assets or jobs, as ``own`` is; another project may share the instance."""
    if names.key_prefix:
        keys = [*(run.asset_selection or ()), *(check.asset_key for check in run.asset_check_selection or ())]
        if keys:
            return all(tuple(key.path[: len(names.key_prefix)]) == names.key_prefix for key in keys)
        return run.job_name.startswith(names.name(""))
    here, there = own.remote_job_origin, run.remote_job_origin
    return there is None or (here is not None and there.location_name == here.location_name)


def old_runs(instance: dg.DagsterInstance, before: float) -> list[dg.DagsterRun]:
    """List the runs that ended before a time (seconds since 1970), except those that an asset or a partition shows."""
    shown: set[str] = set()
    for record in instance.get_asset_records():
        entry = record.asset_entry
        shown.add(entry.last_run_id or "")
        events = (entry.last_materialization, entry.last_observation)
        shown |= {event.run_id for event in events if event is not None}
    ended = dg.RunsFilter(statuses=FINISHED, updated_before=datetime.fromtimestamp(before, UTC))
    return [
        run
        for run in instance.get_runs(ended)
        if run.run_id not in shown and not any(tag.startswith(PARTITION) for tag in run.tags)
    ]


def forget(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete what Dagster keeps about a run: its record, its events and the output of its steps."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    # If Dagster keeps events in SQLite, the file of the run would stay.
    for file in Path(instance.root_directory, "history", "runs").glob(f"{run_id}.db*"):
        file.unlink()


def named_by_events(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey], storage: Path) -> Iterator[str]:
    """Collect the paths that the last materialization of every asset and the last evaluation of ``checks`` name.

    The page of a link is a path in ``storage``.
    """
    for record in instance.get_asset_records():
        event = record.asset_entry.last_materialization
        if event is not None and event.asset_materialization is not None:
            yield from _paths(event.asset_materialization.metadata, storage)
    for key in checks:
        for execution in instance.event_log_storage.get_asset_check_execution_history(key, limit=1):
            if execution.event and (evaluation := execution.event.asset_check_evaluation):
                yield from _paths(evaluation.metadata, storage)


def _paths(metadata: Mapping[str, Any], storage: Path) -> Iterator[str]:
    for value in metadata.values():
        if isinstance(value, dg.PathMetadataValue):
            yield str(value.path)
        elif isinstance(value, dg.UrlMetadataValue) and str(value.url).startswith(f"{FILES}/"):
            yield str(storage / str(value.url).removeprefix(f"{FILES}/"))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"
