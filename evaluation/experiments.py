"""Several policies of one base on the same problems, on one page: a table with paired differences, curves on one axis.

One of them is the baseline; each other one is compared with it problem by problem, as a scorecard compares policy and
base.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.benchmarks import GROUPS, Benchmark
from evaluation.errors import InputError
from evaluation.page import CURVES, page_environment
from evaluation.report import Row, Scorecard, build_scorecard
from evaluation.statistics import Summary, summarize

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CURVES = 9
COLOURS = ("#0d7566", "#c2622d", "#3f6bb5", "#a0438c", "#8a7a1f", "#5b5b66", "#1f8aa0", "#b8442c")


@dataclass(frozen=True)
class Experiment:
    """A policy with its GRADED tables by benchmark, its step metrics and what it is worth to know of it."""

    name: str
    checkpoint: str
    tables: "Mapping[str, pa.Table]"
    records: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """What the page shows. ``cards``: each experiment but the baseline against it."""

    baseline: Experiment
    experiments: tuple[Experiment, ...]  # the baseline first
    scores: Mapping[str, Mapping[str, Summary]]  # experiment -> benchmark
    cards: Mapping[str, Scorecard]
    titles: Mapping[str, Mapping[str, str]]  # group -> benchmark -> title
    notes: tuple[str, ...]

    def row(self, experiment: str, benchmark: str) -> Row | None:
        """The difference of ``experiment`` from the baseline; None for the baseline itself."""
        card = self.cards.get(experiment)
        return None if card is None else next(row for row in card.rows if row.name == benchmark)

    def to_markdown(self) -> str:
        """The table, for Dagster metadata."""
        names = [experiment.name for experiment in self.experiments]
        lines = ["| benchmark | " + " | ".join(map(_plain, names)) + " |", "|---|" + "---|" * len(names)]
        for titles in self.titles.values():
            for benchmark, title in titles.items():
                cells = [self._cell(name, benchmark) for name in names]
                lines.append(f"| {_plain(title)} | " + " | ".join(cells) + " |")
        lines.append(f"\nDifferences in points from {_plain(self.baseline.name)}, with 95% intervals.")
        lines += [f"\n> {_plain(note)}" for note in self.notes]
        return "\n".join(lines)

    def _cell(self, name: str, benchmark: str) -> str:
        summary, row = self.scores[name][benchmark], self.row(name, benchmark)
        text = f"{summary.mean:.1%}"
        if row is None:
            return text
        d = row.difference
        return f"{text} ({100 * d.mean:+.1f}, {100 * d.low:+.1f} to {100 * d.high:+.1f})"

    def write_html(self, path: Path) -> None:
        """One self-contained page, complete or absent."""
        from evaluation.files import atomic_write

        with atomic_write(Path(path)) as temporary:
            temporary.write_text(_render(self), encoding="utf-8")


def compare_experiments(
    experiments: Sequence[Experiment], *, baseline: str, suite: Sequence[Benchmark], notes: Sequence[str] = ()
) -> Comparison:
    """Compare ``experiments`` with the one called ``baseline``. InputError for fewer than two, or other problems."""
    by_name = {experiment.name: experiment for experiment in experiments}
    if len(by_name) < 2 or baseline not in by_name:
        raise InputError(
            f"comparison: expected {baseline} and at least one other; found {', '.join(by_name) or 'none'}"
        )
    first = by_name.pop(baseline)
    ordered = (first, *by_name.values())
    titles = {
        group: {b.name: b.title for b in suite if b.group == group and b.name in first.tables}
        for group in GROUPS
        if any(b.group == group and b.name in first.tables for b in suite)
    }
    return Comparison(
        baseline=first,
        experiments=ordered,
        scores={e.name: {name: summarize(table) for name, table in e.tables.items()} for e in ordered},
        cards={name: build_scorecard(first.tables, e.tables, suite=suite) for name, e in by_name.items()},
        titles=titles,
        notes=tuple(notes),
    )


def _render(comparison: Comparison) -> str:
    from markupsafe import Markup

    environment = page_environment()
    environment.filters["signed"] = lambda share: f"{100 * share:+.1f}".replace("-", "\u2212")
    facts = list(dict.fromkeys(key for experiment in comparison.experiments for key in experiment.facts))
    return environment.get_template("experiments.html.jinja").render(
        c=comparison,
        first=next(iter(comparison.cards.values())),
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        groups=GROUPS,
        colours={e.name: COLOURS[i % len(COLOURS)] for i, e in enumerate(comparison.experiments)},
        curves=[Markup(curve) for curve in overlaid_curves(comparison.experiments)],
        facts=facts,
    )


def overlaid_curves(experiments: Sequence[Experiment]) -> list[str]:
    """One chart for each known metric that an experiment recorded at two steps or more, all of them on its axis."""
    drawn = []
    for metric, title in CURVES.items():
        series = [(experiment.name, _points(experiment.records, metric)) for experiment in experiments]
        if any(len(points) > 1 for _, points in series):
            drawn.append(lines(title, series))
    return drawn[:MOST_CURVES]


def _points(records: Sequence[Mapping[str, Any]], metric: str) -> list[tuple[float, float]]:
    found = [(record["step"], record["data"].get(metric)) for record in records]
    return [(float(x), float(y)) for x, y in found if isinstance(y, int | float) and math.isfinite(y)]


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Curves over training steps on one axis, coloured by their place in ``series``; an ``<svg>`` element."""
    width, height, left, right, top, bottom = 460, 230, 52, 12, 30, 26
    xs = [x for _, points in series for x, _ in points]
    ys = [y for _, points in series for _, y in points]
    low, high = min(ys), max(ys)
    if low == high:
        low, high = low - 0.5, high + 0.5
    first, last = min(xs), max(xs)

    def place(x: float, y: float) -> str:
        across = left + (width - left - right) * (x - first) / ((last - first) or 1)
        return f"{across:.1f},{top + (height - top - bottom) * (high - y) / (high - low):.1f}"

    parts = [f'<text class="title" x="{left}" y="17">{escape(title)}</text>']
    for share in (0.0, 0.5, 1.0):
        value = low + (high - low) * share
        y = place(first, value).split(",")[1]
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<text class="tick" x="{left}" y="{height - 8}">step {first:g}</text>')
    parts.append(f'<text class="tick" x="{width - right}" y="{height - 8}" text-anchor="end">step {last:g}</text>')
    for number, (name, points) in enumerate(series):
        if points:
            colour, path = COLOURS[number % len(COLOURS)], " ".join(place(*point) for point in points)
            line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            across, down = place(*points[-1]).split(",")
            end = f'<circle cx="{across}" cy="{down}" r="3" fill="{colour}"/>'
            parts.append(f"<g><title>{escape(f'{name}: {points[-1][1]:.4g} at the end')}</title>{line}{end}</g>")
    label = escape(f"{title} over training steps", quote=True)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">' + "".join(parts) + "</svg>"


def _plain(text: str) -> str:
    return escape(text, quote=False).replace("|", "\\|").replace("_", "\\_")
