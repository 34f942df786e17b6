"""Sensors: what reacts to runs and to changed data."""

import dagster as dg


@dg.run_failure_sensor(
    name="log_run_failures",
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Write one line for each failed run to the daemon's log: the step and the reason.",
)
def log_run_failures(context: dg.RunFailureSensorContext) -> None:
    failures = {event.step_key: reason(event.step_failure_data.error) for event in context.get_step_failure_events()}
    listed = "; ".join(f"{step}: {text}" for step, text in failures.items()) or context.failure_event.message
    context.log.error(f"run {context.dagster_run.run_id} of {context.dagster_run.job_name} failed: {listed}")


def reason(error: object) -> str:
    """What the user has to know of a step's error: the deepest cause, without the stack."""
    while (cause := getattr(error, "cause", None)) is not None:
        error = cause
    text = str(getattr(error, "message", error)).strip()
    name = str(getattr(error, "cls_name", ""))
    return text.removeprefix(f"{name}: ").removeprefix("dagster._core.definitions.events.Failure: ")


def build_sensors() -> list[dg.SensorDefinition]:
    """All sensors."""
    automation = dg.AutomationConditionSensorDefinition(
        "retrain_on_new_targets",
        target=dg.AssetSelection.groups("training"),
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Start a training when the content of the targets changed and its checks passed.",
    )
    return [log_run_failures, automation]
