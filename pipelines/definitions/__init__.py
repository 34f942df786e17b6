"""The Dagster definitions: jobs, schedules, sensors, resources, settings."""

import gc

import dagster  # noqa: F401

gc.freeze()  # Dagster's objects stay as long as the process: searching them for garbage takes a fifth of the load time
