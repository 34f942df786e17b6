"""Figures of trainings: the curves of one run, and of several runs on one axis."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evaluation.report.charts import LIGHT, NARROW, Line, curves

Records = Sequence[Mapping[str, Any]]  # {"step": int, "data": {metric: value}} for each step of a run


def training_curves(records: Records, titles: Mapping[str, str]) -> list[str]:
    """Return a small chart of each metric of ``titles``, {name: title}, that the run recorded at two steps or more."""
    lines = {title: points(records, metric) for metric, title in titles.items()}
    return [
        curves(title, [Line(title, LIGHT["policy"], line)], width=NARROW)
        for title, line in lines.items()
        if len(line) > 1
    ]


def metric_curves(
    metric: str, title: str, recipes: Mapping[str, Sequence[Records]], colours: Mapping[str, str], *, legend: bool
) -> str | None:
    """Return one metric of recipes on one axis; None unless one of their runs recorded it at two steps or more."""
    lines = [line for name, runs in recipes.items() for line in _mean_and_seeds(name, runs, metric, colours[name])]
    return curves(title, lines, legend=legend) if any(len(line.points) > 1 for line in lines) else None


def _mean_and_seeds(name: str, runs: Sequence[Records], metric: str, colour: str) -> list[Line]:
    """Return the mean over the seeds at each step; behind it, where there are several, the faint line of each seed."""
    seeds = [points(records, metric) for records in runs]
    values: dict[float, list[float]] = defaultdict(list)
    for step, value in (point for seed in seeds for point in seed):
        values[step].append(value)
    faint = [Line(name, colour, seed, faint=True) for seed in seeds] if len(seeds) > 1 else []
    return [*faint, Line(name, colour, [(step, fmean(values[step])) for step in sorted(values)])]


def points(records: Records, metric: str) -> list[tuple[float, float]]:
    """Return (step, value) wherever the value is a finite number."""
    pairs = [(record["step"], record["data"].get(metric)) for record in records]
    return [(float(x), float(y)) for x, y in pairs if isinstance(y, int | float) and math.isfinite(y)]
