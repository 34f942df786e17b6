"""Figures of trainings: the curves of one run, of several recipes on one axis, and gradient weights."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from core import PROJECT
from core.files import read_yaml
from core.metric_table import View, titles
from core.plugins.config_files import RECIPES
from evaluation.report.charts import LIGHT, NARROW, Line, curves

Records = Sequence[Mapping[str, Any]]  # {"step": int, "data": {metric: value}} for each step of a run

WEIGHTS = "gradient_weight"


def training_curves(records: Records, titles: Mapping[str, str]) -> list[str]:
    """Return a small chart of each metric of ``titles``, {name: title}, that the run recorded at two steps or more."""
    lines = {title: points(records, metric) for metric, title in titles.items()}
    return [
        curves(title, [Line(title, LIGHT["policy"], line)], width=NARROW)
        for title, line in lines.items()
        if len(line) > 1
    ]


def recipe_curves(
    recipes: Mapping[str, Sequence[Records]], colours: Mapping[str, str], *, legend: bool
) -> dict[str, str]:
    """Draw {name of a file: figure} of recipes, each with the records of one run per seed, on one axis.

    A figure for each metric of `View.RECIPES` that was recorded at two steps or more, then the weights of
    shaping.
    """
    figures = {}
    for metric, title in titles(View.RECIPES).items():
        if drawn := metric_curves(metric, title, recipes, colours, legend=legend):
            figures[metric.replace("/", "_")] = drawn
    published = read_yaml(PROJECT / RECIPES / "luffy.yaml", "recipe")["mixed"]["off_policy_reshape_gamma"]
    shapes = (
        ("no shaping, f(p) = p", "#7d7a74", None),
        (f"f(p) = p / (p + {published})", LIGHT["policy"], published),
    )
    weights = [
        Line(name, colour, [(k / 200, gradient_weight(k / 200, gamma)) for k in range(201)])
        for name, colour, gamma in shapes
    ]
    title = "Gradient weight of an off-policy token over its probability"
    return {**figures, WEIGHTS: curves(title, weights, unit="p = {:g}", legend=True)}


def metric_curves(
    metric: str, title: str, recipes: Mapping[str, Sequence[Records]], colours: Mapping[str, str], *, legend: bool
) -> str | None:
    """Return one metric of recipes on one axis; None unless one of their runs recorded it at two steps or more."""
    lines = [line for name, runs in recipes.items() for line in _mean_and_seeds(name, runs, metric, colours[name])]
    return curves(title, lines, legend=legend) if any(len(line.points) > 1 for line in lines) else None


def gradient_weight(p: float, gamma: float | None) -> float:
    """Return the weight of a token's gradient under shaping, ``f'(p) p (1 - p)`` (LUFFY, arXiv 2504.14945, eq. 8).

    It is the derivative of ``f(p) = p / (p + gamma)`` by the token's logit; ``gamma`` None: ``f(p) = p``.

    >>> round(gradient_weight(0.01, None), 4), round(gradient_weight(0.01, 0.1), 4)
    (0.0099, 0.0818)
    """
    slope = 1.0 if gamma is None else gamma / (p + gamma) ** 2
    return slope * p * (1 - p)


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
