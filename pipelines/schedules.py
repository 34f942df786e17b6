"""Schedules. They are delivered stopped: whoever operates the installation turns them on in the UI."""

import dagster as dg

from pipelines.jobs import everything, observe_sources
from pipelines.settings import ScheduleSettings


def build_schedules(settings: ScheduleSettings) -> list[dg.ScheduleDefinition]:
    """The weekly run, and the look at the sources before it."""
    return [
        dg.ScheduleDefinition(
            name="weekly_retrain",
            job=everything,
            cron_schedule=settings.retrain,
            execution_timezone=settings.timezone,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description="Run everything; unchanged targets reuse the checkpoint.",
        ),
        dg.ScheduleDefinition(
            name="hourly_observation",
            job=observe_sources,
            cron_schedule="0 * * * *",
            execution_timezone=settings.timezone,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description="Record whether the raw traces changed.",
        ),
    ]
