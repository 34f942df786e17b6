"""The figures of a comparison as SVG: curves of all recipes on one axis, and what shaping does to a gradient."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from evaluation.report.html import CURVES

if TYPE_CHECKING:
    from evaluation.report.recipe_comparison import Experiment

CLIPPED = {
    "actor/on_pg_clipfrac": "Share of on-policy tokens clipped",
    "actor/off_pg_clipfrac": "Share of off-policy tokens clipped",
}
WEIGHTS = "gradient_weight"
SHAPES = {"no shaping, f(p) = p": ("#7d7a74", None), "f(p) = p / (p + 0.1)": ("#0d7566", 0.1)}  # paper section 2.3
STYLE = (
    "<style>svg { background: #fbfaf7; font: 12.5px system-ui, sans-serif } text { fill: #1d1c1a }"
    " .tick { fill: #6d6962; font-size: 11px } .grid { stroke: #e6e1d8 } .title { font-weight: 500 }</style>"
)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 230, 52, 12, 30, 26
LEGEND_WIDTH = 200

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """A named line; faint ones are the single seeds behind a mean."""

    name: str
    colour: str
    points: Points
    faint: bool = False


@dataclass(frozen=True)
class Figure:
    """Lines on one axis; ``name``: of its file, ``unit``: stands before the two ends of the horizontal axis."""

    name: str
    title: str
    lines: Sequence[Line]
    unit: str

    def alone(self) -> str:
        """The text of an SVG file, with a legend."""
        opening, inner = plot(self, legend=True).split(">", 1)
        opening = opening.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}"', 1)
        return f"{opening}>{STYLE}{inner}\n"


def figures(experiments: "Sequence[Experiment]", colours: Mapping[str, str]) -> list[Figure]:
    """A figure for each known metric that was recorded at two steps or more, then the gradient weights of shaping."""
    drawn = []
    for metric, title in {**CURVES, **CLIPPED}.items():
        lines = [line for e in experiments for line in _lines(e, metric, colours[e.name])]
        if any(len(line.points) > 1 for line in lines):
            drawn.append(Figure(metric.replace("/", "_"), title, lines, "step"))
    weights = [
        Line(name, shade, [(k / 200, gradient_weight(k / 200, gamma)) for k in range(201)])
        for name, (shade, gamma) in SHAPES.items()
    ]
    return [*drawn, Figure(WEIGHTS, "Gradient weight of an off-policy token over its probability", weights, "p =")]


def gradient_weight(p: float, gamma: float | None) -> float:
    """Derivative of ``f(p)`` by the token's logit, ``f'(p) p (1 - p)`` (paper eq. 8); ``gamma`` None: ``f(p) = p``."""
    slope = 1.0 if gamma is None else gamma / (p + gamma) ** 2
    return slope * p * (1 - p)


def _lines(experiment: "Experiment", metric: str, colour: str) -> list[Line]:
    """The mean over the seeds at each step; behind it each seed's own where there are several."""
    runs = [_points(run.records, metric) for run in experiment.runs]
    together = sorted((point for points in runs for point in points), key=lambda point: point[0])
    means = []
    for step, points in groupby(together, key=lambda point: point[0]):
        values = [y for _, y in points]
        means.append((step, math.fsum(values) / len(values)))
    single = [Line(experiment.name, colour, points, faint=True) for points in runs] if len(runs) > 1 else []
    return [*single, Line(experiment.name, colour, means)]


def _points(records: Sequence[Mapping[str, Any]], metric: str) -> list[tuple[float, float]]:
    found = [(record["step"], record["data"].get(metric)) for record in records]
    return [(float(x), float(y)) for x, y in found if isinstance(y, int | float) and math.isfinite(y)]


def plot(figure: Figure, *, legend: bool) -> str:
    """The figure as an ``<svg>`` element; the legend names its lines below the plot."""
    lines = figure.lines
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    low, high = min(ys), max(ys)
    if low == high:
        low, high = low - 0.5, high + 0.5
    first, last = min(xs), max(xs)

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * (x - first) / ((last - first) or 1)
        return across, TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)

    parts = [f'<text class="title" x="{LEFT}" y="17">{escape(figure.title)}</text>']
    for share in (0.0, 0.5, 1.0):
        value = low + (high - low) * share
        y = place(first, value)[1]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for x, value, anchor in ((LEFT, first, "start"), (WIDTH - RIGHT, last, "end")):
        label = escape(f"{figure.unit} {value:g}")
        parts.append(f'<text class="tick" x="{x}" y="{HEIGHT - 8}" text-anchor="{anchor}">{label}</text>')
    parts += [_line(line, [place(*point) for point in line.points]) for line in lines if line.points]
    named = [line for line in lines if line.points and not line.faint] if legend else []
    for number, line in enumerate(named):
        x, y = LEFT + LEGEND_WIDTH * (number % 2), HEIGHT + 14 + 20 * (number // 2)
        parts.append(f'<rect x="{x}" y="{y - 10}" width="11" height="11" rx="3" fill="{line.colour}"/>')
        parts.append(f'<text x="{x + 18}" y="{y}">{escape(line.name)}</text>')
    height = HEIGHT + 20 * math.ceil(len(named) / 2)
    label = escape(figure.title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">' + "".join(parts) + "</svg>"


def _line(line: Line, places: Sequence[tuple[float, float]]) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    stroke = f'stroke="{line.colour}" ' + ('stroke-opacity="0.25"' if line.faint else 'stroke-width="2"')
    drawn = f'<polyline points="{path}" fill="none" {stroke}/>'
    if line.faint:
        return drawn
    x, y = places[-1]
    name = escape(f"{line.name}: {line.points[-1][1]:.4g} at the end")
    return f'<g><title>{name}</title>{drawn}<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/></g>'
