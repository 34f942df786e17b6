"""Compare the prediction for a run with its measurements."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from core.files import read_json
from core.metric_table import ACTOR_MFU, GENERATED_TOKENS, PHASE_SECONDS, RESPONSE_LENGTH, STEP_TOKENS, THROUGHPUT
from training.resources.fit_check import PLAN
from training.resources.layout import Layout
from training.resources.machine import card_of
from training.resources.model_shape import ModelShape
from training.resources.roofline import Prediction, predict

MEMORY = "actor/perf/max_memory_allocated_gb"  # verl's GB are GiB
TRAINING = "each GPU while it trains"
PHASES = ("gen", "old_log_prob", "update_actor", "update_weights")  # the phases of a `Prediction`
SKIPPED = 1  # first steps, in which kernels are compiled


@dataclass(frozen=True)
class Figure:
    """One number; None where there is no prediction (no card) or no measurement."""

    name: str
    unit: str
    predicted: float | None
    measured: float | None


def figures(folder: Path, records: Iterable[Mapping[str, Any]]) -> list[Figure]:
    """Return the figures of the run in ``folder`` with the step metrics ``records``; [] if it has no plan."""
    steps = [record["data"] for record in records]
    if not (folder / PLAN).is_file() or not steps:
        return []
    plan = read_json(folder / PLAN)
    steps = steps[SKIPPED:] or steps
    prediction = _prediction(plan, steps)
    predicted = prediction.seconds if prediction else dict.fromkeys(PHASES)
    rows = [Figure(name, "s", seconds, _mean(steps, f"{PHASE_SECONDS}{name}")) for name, seconds in predicted.items()]
    tokens, mfu = (prediction.tokens_per_second, prediction.mfu) if prediction else (None, None)
    rows.append(Figure("tokens per second and device", "", tokens, _mean(steps, THROUGHPUT)))
    if prediction:  # verl knows no peak of a processor
        rows.append(Figure("MFU of the update", "", mfu, _mean(steps, ACTOR_MFU)))
    needed = {need["name"]: need["needed"] / 1e9 for need in plan["needs"] if need["name"] == TRAINING}
    peaks = [step[MEMORY] * 2**30 / 1e9 for step in steps if MEMORY in step]
    of = "a GPU" if TRAINING in needed else "the actor's process"
    rows.append(
        Figure(f"memory of {of} at the peak of an update", "GB", needed.get(TRAINING), max(peaks) if peaks else None)
    )
    return [row for row in rows if row.predicted is not None or row.measured is not None]


def _prediction(plan: Mapping[str, Any], steps: list[Mapping[str, Any]]) -> Prediction | None:
    """Return the roofline of a mean step with the lengths of the samples; None for a device without known numbers."""
    layout, card = Layout(**plan["layout"]), card_of(plan["card"] or "")
    response, total = _mean(steps, RESPONSE_LENGTH), _mean(steps, STEP_TOKENS)
    if card is None or response is None or total is None:
        return None
    return predict(
        ModelShape(**plan["shape"]),
        layout,
        card,
        prompt=max(0.0, total / layout.sequences - response),
        response=response,
        generated=(_mean(steps, GENERATED_TOKENS) or 0.0) / (response * layout.sequences),
    )


def table(rows: Iterable[Figure]) -> str:
    """Return the figures as a table of Markdown."""
    lines = ["| | predicted | measured |", "|---|--:|--:|"]
    lines += [f"| {row.name} | {_cell(row.predicted, row.unit)} | {_cell(row.measured, row.unit)} |" for row in rows]
    return "\n".join(lines)


def _cell(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.3g} {unit}".strip()


def _mean(steps: list[Mapping[str, Any]], name: str) -> float | None:
    values = [step[name] for step in steps if name in step]
    return fmean(values) if values else None
