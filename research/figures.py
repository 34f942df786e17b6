"""Figures of a comparison: the curves of recipes on one axis, and the weights of shaping."""

from collections.abc import Mapping, Sequence

from core.metric_table import View, titles
from pipelines.api import LIGHT, Line, Records, curves, metric_curves

WEIGHTS = "gradient_weight"


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
    published = 0.1  # gamma of LUFFY (arXiv 2504.14945)
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


def gradient_weight(p: float, gamma: float | None) -> float:
    """Return the weight of a token's gradient under shaping, ``f'(p) p (1 - p)`` (LUFFY, arXiv 2504.14945, eq. 8).

    It is the derivative of ``f(p) = p / (p + gamma)`` by the token's logit; ``gamma`` None: ``f(p) = p``.

    >>> round(gradient_weight(0.01, None), 4), round(gradient_weight(0.01, 0.1), 4)
    (0.0099, 0.0818)
    """
    slope = 1.0 if gamma is None else gamma / (p + gamma) ** 2
    return slope * p * (1 - p)
