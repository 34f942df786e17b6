"""The cost and the pace of a run so far, from the files that its attempts leave."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from core.backends.monitor import Attempt, attempts
from core.errors import InputError
from core.machine.jsonl_tail import RecordFile
from core.metric_table import STEP_SECONDS, STEP_TOKENS, VALIDATION_SECONDS

SKIPPED = 1  # first steps of an attempt, in which kernels are compiled


@dataclass(frozen=True)
class Cost:
    """An amount spent or estimated. Money is 0 if no price is set."""

    hours: float  # wall-clock time
    device_hours: float
    tokens: float  # tokens of prompts and responses, in every step that was done
    money: float

    def __add__(self, other: Self) -> "Cost":
        return Cost(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Cost)))

    def __str__(self) -> str:
        money = f", cost {self.money:,.2f}" if self.money else ""
        return f"{self.tokens:,.0f} tokens, {_short(self.hours)} h, {_short(self.device_hours)} device-hours{money}"


@dataclass(frozen=True)
class Rates:
    """The cost per hour on the clock: the devices of the run, and the price of a device-hour."""

    devices: int
    price: float

    def cost(self, seconds: float, tokens: float) -> Cost:
        """Return the cost of ``seconds`` in which ``tokens`` were trained on."""
        hours = seconds / 3600
        return Cost(hours, self.devices * hours, tokens, self.price * self.devices * hours)

    def spent(self, folders: Iterable[Path]) -> Cost:
        """Return the cost of the attempts in ``folders``; a step that was done twice counts twice."""
        ran = [attempt for folder in folders for attempt in attempts(folder)]
        tokens = sum(record["data"].get(STEP_TOKENS, 0.0) for attempt in ran for record in records_of(attempt))
        return self.cost(sum(attempt.seconds() for attempt in ran), tokens)


@dataclass(frozen=True)
class Pace:
    """Seconds and tokens of a step, the seconds before the first one, and where these numbers come from."""

    step_seconds: float
    step_tokens: float
    start_seconds: float
    basis: str

    def of_steps(self, steps: int, rates: Rates, *, start: bool) -> Cost:
        """Return the cost of ``steps``, with or without the ``start`` of the processes."""
        return rates.cost(self.start_seconds * start + self.step_seconds * steps, self.step_tokens * steps)


def seconds_of(record: Mapping[str, Any]) -> float:
    """Return the duration of a step, with the validation after it."""
    return record["data"][STEP_SECONDS] + record["data"].get(VALIDATION_SECONDS, 0.0)


def measured_pace(folder: Path, basis: str) -> Pace | None:
    """Return the pace of the last attempt in ``folder`` that made steps; None if there is none."""
    for attempt in reversed(attempts(folder)):
        if records := list(records_of(attempt)):
            steps = records[SKIPPED:] or records
            seconds = fmean(map(seconds_of, steps))
            start = max(0.0, attempt.seconds() - seconds * len(records))
            return Pace(seconds, fmean(record["data"].get(STEP_TOKENS, 0.0) for record in steps), start, basis)
    return None


def records_of(attempt: Attempt) -> Iterator[dict[str, Any]]:
    """Return the step metrics of an attempt."""
    return records_in(attempt.records)


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


def _short(hours: float) -> str:
    return f"{hours:,.3g}" if hours < 100 else f"{hours:,.0f}"
