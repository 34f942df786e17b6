"""Estimate the cost of a run from measured steps, or else from the roofline of its card."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import read_object
from training.cost.usage import Cost, Pace, Rates, measured_pace
from training.resources.fit_check import PLAN
from training.resources.layout import Layout
from training.resources.prediction_summary import Figure

TITLES = {"hours": "hours", "device_hours": "device-hours", "tokens": "tokens", "money": "cost"}
SAME = ("shape", "layout", "card")  # parts of a plan that decide what a step takes


def throughput_of(run: Path, plan: Mapping[str, Any]) -> Pace | None:
    """Estimate the duration of a step of the run in folder ``run``; None without any basis.

    The steps that it has made itself count first, then those of the latest run beside it whose plan has the same model,
    layout and card, then the roofline of the card, all samples as long as they may be.
    """
    if own := measured_pace(run / "attempts", "its own steps"):
        return own
    for folder in _alike(run, plan):
        with suppress(InputError):  # damaged, which is no reason to start no run
            if pace := measured_pace(folder / "attempts", f"the steps of {folder.name}, which has the same layout"):
                return pace
    if (prediction := plan.get("longest_step")) is None:
        return None
    layout = Layout(**plan["layout"])
    tokens = layout.sequences * (layout.prompt_length + layout.response_length)
    basis = f"the roofline of {plan['card']} for samples of full length, without the start"
    return Pace(sum(prediction["seconds"].values()), tokens, 0.0, basis)


def cost_plan(run: Path, rates: Rates, estimate: Cost | None) -> dict[str, Any]:
    """Return the cost entry of a run's plan. A resumed run keeps the estimate of its first start."""
    first = _read(run / PLAN).get("estimate")
    return {"rates": asdict(rates), "estimate": first or (asdict(estimate) if estimate else None)}


def cost_figures(run: Path) -> list[Figure]:
    """Compare the estimated cost of the run in folder ``run`` with the actual one; [] if its plan has no rates."""
    plan = _read(run / PLAN)
    if "rates" not in plan:
        return []
    spent = asdict(Rates(**plan["rates"]).spent([run / "first_stage" / "attempts", run / "attempts"]))
    estimate = plan["estimate"] or {}
    rows = [Figure(title, "", estimate.get(name), spent[name]) for name, title in TITLES.items()]
    return [row for row in rows if row.measured or row.predicted]


def _alike(run: Path, plan: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the folders beside ``run`` of runs with the same plan, the latest first."""
    files = [file for file in run.parent.glob(f"*/{PLAN}") if file.parent != run]
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
        other = _read(file)
        if other and all(other.get(part) == plan.get(part) for part in SAME):
            yield file.parent


def _read(file: Path) -> dict[str, Any]:
    """Return the plan in ``file``; {} if there is none, or a damaged one, which is no reason to start no run."""
    try:
        return read_object(file)
    except InputError:
        return {}
