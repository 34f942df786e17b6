"""Read the step metrics of a run: JSON lines that verl's file logger writes in the meantime."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.machine.jsonl_tail import RecordFile
from core.metric_table import DEVICE_HOURS, PHASE_SECONDS, STEP_SECONDS, VALIDATION_SECONDS

# The parts of a step and what they are; verl also times what happens inside them.
PHASES = {
    "gen": "generation",
    "old_log_prob": "log-probabilities",
    "ref": "reference policy",
    "adv": "advantages",
    "update_actor": "update",
    "update_weights": "weights to vLLM",
    "save_checkpoint": "checkpoint",
}


def records_in(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the step metrics in a file of verl's logger.

    Raises:
        InputError: a line has something else.
    """
    try:
        for number, record in enumerate(RecordFile(file).new_records(), start=1):
            step, data = record.get("step"), record.get("data")
            seconds = data.get(STEP_SECONDS) if isinstance(data, dict) else None
            if not isinstance(step, int) or not isinstance(seconds, int | float):
                raise InputError(f"{file}, line {number}: not the metrics of a step")
            yield record
    except InputError as error:
        raise InputError(f"{error}; remove the line") from error


def seconds_of(record: Mapping[str, Any]) -> float:
    """Return the duration of a step, with the validation after it."""
    return record["data"][STEP_SECONDS] + record["data"].get(VALIDATION_SECONDS, 0.0)


def merge_attempts(attempts: Iterable[Path], *, devices: int = 1) -> list[dict[str, Any]]:
    """Join the metrics of a run's attempts; if two attempts did a step, the later one counts.

    Each record gains ``run/device_hours``: what the run had taken of its ``devices`` when the step ended, including
    steps that were done twice.
    """
    steps: dict[int, dict[str, Any]] = {}
    hours = 0.0
    for attempt in attempts:
        for record in records_in(attempt):
            hours += devices * seconds_of(record) / 3600
            record["data"][DEVICE_HOURS] = hours
            steps = {step: kept for step, kept in steps.items() if step < record["step"]}
            steps[record["step"]] = record
    return list(steps.values())


def time_by_phase(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Sum the seconds of all steps by phase, with ``validation`` and ``other``."""
    spent = dict.fromkeys((*PHASES.values(), "validation", "other"), 0.0)
    for record in records:
        for name, phase in PHASES.items():
            spent[phase] += record["data"].get(f"{PHASE_SECONDS}{name}", 0.0)
        spent["validation"] += record["data"].get(VALIDATION_SECONDS, 0.0)
        spent["other"] += record["data"][STEP_SECONDS]
    spent["other"] -= sum(spent[phase] for phase in PHASES.values())
    return {name: seconds for name, seconds in spent.items() if seconds > 0}


def require_finite(step: int, metrics: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise a FloatingPointError that names ``step`` and the ``names`` with a metric that is nan or infinite."""
    if broken := {name: metrics[name] for name in names if not math.isfinite(metrics[name])}:
        raise FloatingPointError(f"step {step}: " + ", ".join(f"{name} is {value}" for name, value in broken.items()))
