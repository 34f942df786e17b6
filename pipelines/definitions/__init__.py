"""The Dagster definitions: jobs, schedules, sensors, resources, settings."""
