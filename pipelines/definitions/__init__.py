"""What Dagster knows: jobs, schedules, sensors, resources, settings."""
