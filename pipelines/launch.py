"""Jobs by name, for processes that have to build them again: a run's steps each load the code location anew."""

import dagster as dg

from pipelines.definitions import defs
from pipelines.jobs import EVERYTHING, OBSERVE


def everything_job() -> dg.JobDefinition:
    """The whole line."""
    return defs.resolve_job_def(EVERYTHING)


def observe_job() -> dg.JobDefinition:
    """The look at the sources."""
    return defs.resolve_job_def(OBSERVE)
