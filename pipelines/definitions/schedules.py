"""Schedules. They are off by default; turn them on in the UI."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dagster as dg

from assets.shared.profile import Names
from core.errors import InputError
from pipelines.definitions.jobs import EVERYTHING, OBSERVE, Job
from pipelines.definitions.settings import ScheduleSettings

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def unfinished(instance: dg.DagsterInstance, job: str) -> str | None:
    """Id of a run of ``job`` that is queued or under way; None if there is none."""
    runs = instance.get_runs(filters=dg.RunsFilter(job_name=job, statuses=UNFINISHED), limit=1)
    return runs[0].run_id if runs else None


def build_schedules(names: Names, jobs: Mapping[str, Job], settings: ScheduleSettings) -> list[dg.ScheduleDefinition]:
    """The weekly run, and the hourly observation of the sources; InputError for a time that does not exist."""
    try:
        ZoneInfo(settings.timezone)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise InputError(
            f"schedule.timezone: {settings.timezone!r} is no time zone; expected a name such as Europe/Berlin, or UTC"
        ) from None

    def once(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if earlier := unfinished(context.instance, names.name(EVERYTHING)):
            return dg.SkipReason(f"run {earlier} of {names.name(EVERYTHING)} is in progress and takes the present data")
        return dg.RunRequest()

    try:
        weekly = dg.ScheduleDefinition(
            name=names.name("weekly_retrain"),
            job=jobs[EVERYTHING],
            cron_schedule=settings.retrain,
            execution_timezone=settings.timezone,
            execution_fn=once,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description="Run everything; unchanged targets reuse the checkpoint. Skipped if a run is in progress.",
        )
    except dg.DagsterInvalidDefinitionError:
        raise InputError(
            f"schedule.retrain: {settings.retrain!r} is no cron line; expected five fields such as '0 3 * * 1'"
        ) from None
    return [
        weekly,
        dg.ScheduleDefinition(
            name=names.name("hourly_observation"),
            job=jobs[OBSERVE],
            cron_schedule="0 * * * *",
            execution_timezone=settings.timezone,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description="Record whether the raw traces have changed.",
        ),
    ]
