"""Read the step metrics of a run: JSON lines that verl's file logger writes in the meantime."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from core.metric_table import COST, DEVICE_HOURS, PHASE_SECONDS, STEP_SECONDS, VALIDATION_SECONDS
from training.cost.usage import records_in, seconds_of

# The parts of a step; verl also times what happens inside them.
PHASES = ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights", "save_checkpoint")


def merge_attempts(attempts: Iterable[Path], *, devices: int = 1, price: float = 0.0) -> list[dict[str, Any]]:
    """Join the metrics of a run's attempts; if two attempts did a step, the later one counts.

    Each record gains what the run had cost when the step ended: ``run/device_hours`` of ``devices``, including steps
    that were done twice, and ``run/cost`` at ``price`` per device-hour, unless the price is 0.
    """
    steps: dict[int, dict[str, Any]] = {}
    hours = 0.0
    for attempt in attempts:
        for record in records_in(attempt):
            hours += devices * seconds_of(record) / 3600
            record["data"][DEVICE_HOURS] = hours
            if price:
                record["data"][COST] = price * hours
            steps = {step: kept for step, kept in steps.items() if step < record["step"]}
            steps[record["step"]] = record
    return list(steps.values())


def time_by_phase(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Sum the seconds of all steps by phase, with validations and ``other``."""
    spent = dict.fromkeys((*PHASES, "validation", "other"), 0.0)
    for record in records:
        for name in PHASES:
            spent[name] += record["data"].get(f"{PHASE_SECONDS}{name}", 0.0)
        spent["validation"] += record["data"].get(VALIDATION_SECONDS, 0.0)
        spent["other"] += record["data"][STEP_SECONDS]
    spent["other"] -= sum(spent[name] for name in PHASES)
    return {name: seconds for name, seconds in spent.items() if seconds > 0}


def require_finite(step: int, metrics: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise a FloatingPointError that names ``step`` and those of ``names`` whose metric is nan or infinite."""
    if broken := {name: metrics[name] for name in names if not math.isfinite(metrics[name])}:
        raise FloatingPointError(f"step {step}: " + ", ".join(f"{name} is {value}" for name, value in broken.items()))
