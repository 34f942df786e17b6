"""Schedules. They are off by default; turn them on in the UI."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dagster as dg

from assets.registry.retention import UNFINISHED, why_not_now
from assets.shared.luffy import Names
from core.errors import InputError
from pipelines.definitions.jobs import EVERYTHING, OBSERVE, RETAIN, Job
from pipelines.settings import ScheduleSettings


def unfinished(instance: dg.DagsterInstance, job: str) -> str | None:
    """Return the id of a run of ``job`` that is queued or in progress; None if there is none."""
    statuses = [dg.DagsterRunStatus.NOT_STARTED, *UNFINISHED]
    runs = instance.get_runs(filters=dg.RunsFilter(job_name=job, statuses=statuses), limit=1)
    return runs[0].run_id if runs else None


def build_schedules(names: Names, jobs: Mapping[str, Job], settings: ScheduleSettings) -> list[dg.ScheduleDefinition]:
    """Build the schedules of the weekly run and retention, and of the hourly observation of the sources.

    Raises InputError for a time that does not exist.
    """
    _check_timezone(settings.timezone)

    def once(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if earlier := unfinished(context.instance, names.name(EVERYTHING)):
            return dg.SkipReason(f"run {earlier} of {names.name(EVERYTHING)} is in progress and takes the present data")
        return dg.RunRequest()

    def clean(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if why := why_not_now(context.instance):
            return dg.SkipReason(f"{why}: the next tick tries again")
        return dg.RunRequest(run_config={"resources": {"luffy": {"config": {"dry_run": False}}}})

    def schedule(name: str, job: str, key: str, cron: str, description: str, **more: Any) -> dg.ScheduleDefinition:
        try:
            return dg.ScheduleDefinition(
                name=names.name(name),
                job=jobs[job],
                cron_schedule=cron,
                execution_timezone=settings.timezone,
                default_status=dg.DefaultScheduleStatus.STOPPED,
                description=description,
                **more,
            )
        except dg.DagsterInvalidDefinitionError:
            raise InputError(
                f"schedule.{key}: {cron!r} is no cron line; expected five fields such as '0 3 * * 1'"
            ) from None

    return [
        schedule(
            "weekly_retrain",
            EVERYTHING,
            "retrain",
            settings.retrain,
            "Run everything; unchanged targets reuse the checkpoint. Skipped if a run is in progress.",
            execution_fn=once,
        ),
        schedule(
            "weekly_retention",
            RETAIN,
            "retention",
            settings.retention,
            "Remove old outputs that nothing refers to, and Dagster's records of old runs. Skipped if a run is in "
            "progress.",
            execution_fn=clean,
        ),
        schedule("hourly_observation", OBSERVE, "", "0 * * * *", "Record whether the raw traces have changed."),
    ]


def _check_timezone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise InputError(
            f"schedule.timezone: {name!r} is no time zone; expected a name such as Europe/Berlin, or UTC"
        ) from None
