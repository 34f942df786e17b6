"""What a run was predicted to take, beside what it took."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from core.files import read_json
from training.plan.cards import card_of
from training.plan.fit import PLAN
from training.plan.layout import Layout
from training.plan.roofline import predict
from training.plan.shape import ModelShape

MEMORY = "actor/perf/max_memory_allocated_gb"  # verl's GB are GiB
TRAINING = "each GPU while it trains"
SKIPPED = 1  # first steps, in which kernels are compiled


@dataclass(frozen=True)
class Figure:
    """One number; None where there is no prediction (no card) or no measurement."""

    name: str
    unit: str
    predicted: float | None
    measured: float | None


def figures(folder: Path, records: Iterable[Mapping[str, Any]]) -> list[Figure]:
    """The figures of the run in ``folder`` with the step metrics ``records``; [] if it has no plan."""
    steps = [record["data"] for record in records]
    if not (folder / PLAN).is_file() or not steps:
        return []
    plan = read_json(folder / PLAN)
    steps = steps[SKIPPED:] or steps
    result: list[Figure] = []
    layout = Layout(**plan["layout"])
    if (card := card_of(plan["card"] or "")) is not None:
        response, total = _mean(steps, "response_length/mean"), _mean(steps, "perf/total_num_tokens")
        if response is not None and total is not None:
            prediction = predict(
                ModelShape(**plan["shape"]),
                layout,
                card,
                prompt=max(0.0, total / layout.sequences - response),
                response=response,
                generated=(_mean(steps, "batch/generated_tokens") or 0.0) / (response * layout.sequences),
            )
            for name, seconds in prediction.seconds.items():
                result.append(Figure(name, "s", seconds, _mean(steps, f"timing_s/{name}")))
            measured = _mean(steps, "perf/throughput")
            result.append(Figure("tokens per second and GPU", "", prediction.tokens_per_second, measured))
            result.append(Figure("MFU of the update", "", prediction.mfu, _mean(steps, "perf/mfu/actor")))
    needed = {need["name"]: need["needed"] for need in plan["needs"]}
    peaks = [step[MEMORY] for step in steps if MEMORY in step]
    if TRAINING in needed:
        peak = max(peaks) * 2**30 / 1e9 if peaks else None
        result.append(Figure("memory of a GPU at the peak of an update", "GB", needed[TRAINING] / 1e9, peak))
    return result


def table(rows: Iterable[Figure]) -> str:
    """The figures as a table of Markdown."""
    lines = ["| | predicted | measured |", "|---|--:|--:|"]
    lines += [f"| {row.name} | {_cell(row.predicted, row.unit)} | {_cell(row.measured, row.unit)} |" for row in rows]
    return "\n".join(lines)


def _cell(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.3g} {unit}".strip()


def _mean(steps: list[Mapping[str, Any]], name: str) -> float | None:
    values = [step[name] for step in steps if name in step]
    return fmean(values) if values else None
