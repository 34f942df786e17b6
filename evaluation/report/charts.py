"""Draw every figure of the project with matplotlib: scorecard, recipe comparison, docs and UI.

Each function returns a complete SVG file on its own light paper, readable on any page, without dates or random names:
the same data give the same bytes. `inline` makes an element of it for an HTML page with a style sheet for the colours
of `PALETTE` for light and dark. Texts stay texts. Every mark names its values in a tooltip, and all of them are in the
figure's description for screen readers. Import this module where a figure is drawn: matplotlib takes half a second.
"""

import io
import math
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from core.text.patterns import compile_quick_pattern

PALETTE = {  # name of the CSS variable: (light, dark); no light colour stands for two names
    "paper": ("#fbfaf7", "#14161a"),
    "ink": ("#1d1c1a", "#e9e6df"),
    "soft": ("#6d6962", "#9c988f"),
    "line": ("#e6e1d8", "#2e323a"),
    "base": ("#a0917d", "#b3a48f"),
    "policy": ("#0d7566", "#4cc3ad"),
    "champion": ("#4a66a8", "#8fa8e6"),
    "bad": ("#b8442c", "#f08a70"),
    "correct": ("#0d7567", "#35a08d"),
    "partial": ("#7fb8ae", "#5b918a"),
    "wrong": ("#d98c72", "#b0634b"),
    "no_answer": ("#e5c07b", "#a98746"),
    "no_think_end": ("#d0b36a", "#8c7438"),
    "truncated": ("#8f87b8", "#766fa6"),
    "other": ("#9a9a9a", "#6f6f6f"),
}
LIGHT = {name: light for name, (light, _) in PALETTE.items()}
VARIABLES = {light: f"var(--{name})" for name, light in LIGHT.items()}
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
COLOUR = compile_quick_pattern(r"#[0-9a-f]{6}\b")
BETWEEN_TAGS = compile_quick_pattern(r">\s+<")
CLIPS_AND_IDS = compile_quick_pattern(r' id="\w+_\d+"| clip-path="[^"]*"|<clipPath[^<]*(?:<[^<]*)?</clipPath>')
NOTE = compile_quick_pattern(r' id="note(\d+)">')

WIDE, NARROW = 744, 340  # pixels
LABEL_WIDTH = 300  # width of the longest line of a label
TEXT, SMALL = 12.0, 11.0  # pixels; a figure's point is the page's pixel
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "luffy",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # wider than the fonts of the pages, so that what fits here fits there
    "font.size": TEXT,
    "text.color": LIGHT["ink"],
    "text.parse_math": False,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    **{f"{axis}tick.{part}": value for axis in "xy" for part, value in (("major.size", 0), ("color", LIGHT["soft"]))},
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "grid.color": LIGHT["line"],
}

Interval = tuple[float, float, float]  # low, mean, high


@dataclass(frozen=True)
class Scores:
    """One label of a chart of intervals, with a line for each role and a mark for each published score (percent)."""

    label: str
    roles: Mapping[str, Interval]
    published: Mapping[str, float]


@dataclass(frozen=True)
class Line:
    """A named line; faint ones are the single seeds behind a mean. ``notes``: what its points say when pointed at."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    faint: bool = False
    notes: Sequence[str] = ()


def inline(svg: str) -> str:
    """Embed the figure into an HTML page that defines the colours of `PALETTE` as CSS variables."""
    return COLOUR.sub(lambda colour: VARIABLES.get(colour[0], colour[0]), svg.replace(NAMESPACE, "", 1))


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer's fonts have it
        yield


class _Chart:
    """A figure with one plot, laid out in pixels, and the notes of its marks."""

    def __init__(self, title: str, width: int, height: int, *, left: float, right: float, top: float, bottom: float):
        self.title, self.width, self.height = _printable(title), width, height
        self.notes: list[str] = []
        self.figure = Figure((width / 72, height / 72), dpi=72, facecolor=LIGHT["paper"])
        box = left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height
        self.axes = self.figure.add_axes(box)

    def write(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write ``text`` at a place in pixels from the upper left."""
        self.figure.text(x / self.width, 1 - y / self.height, text, **{"va": "top", **style})

    def note(self, artist: Artist, text: str) -> None:
        """Set the text that appears when the reader points at ``artist``."""
        artist.set_gid(f"note{len(self.notes)}")
        self.notes.append(_printable(text))

    def svg(self) -> str:
        """Return the text of the SVG file."""
        buffer = io.StringIO()
        self.figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        drawn = buffer.getvalue()
        drawn = drawn[drawn.index('<g id="figure_1"') :].replace("xlink:href", "href")
        drawn = drawn.replace(" font-family: 'DejaVu Sans', sans-serif;", "")
        drawn = BETWEEN_TAGS.sub("><", drawn).replace("\n", " ")
        drawn = CLIPS_AND_IDS.sub("", drawn)  # marks end at the edges
        drawn = NOTE.sub(lambda match: f"><title>{escape(self.notes[int(match[1])])}</title>", drawn)
        return (
            f'<svg{NAMESPACE} viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" '
            f'role="img" aria-label="{escape(self.title)}" font-family="system-ui, sans-serif" stroke-linejoin="round">'
            f"<desc>{escape('; '.join(self.notes))}</desc>{drawn}"
        )


@_style()
def intervals(title: str, rows: Sequence[Scores]) -> str:
    """Plot scores with intervals, one line per role; hollow diamonds are published scores, not measured here."""
    labels = [_fit(row.label) for row in rows]
    left, lines = _text_width(labels) + 20, [len(row.roles) + bool(row.published) for row in rows]
    height = sum(16 * n + 14 for n in lines)
    chart = _Chart(title, WIDE, height + 30, left=left, right=24, top=6, bottom=24)
    axes, ticks, y = chart.axes, [], 0.0
    for row, n in zip(rows, lines, strict=True):
        ticks.append(y + (16 * n + 14) / 2)
        y += 15
        for role, (low, mean, high) in row.roles.items():
            style = {"color": LIGHT[role], "lw": 2.4, "marker": "o", "ms": 9, "markevery": [1], "mew": 0}
            (line,) = axes.plot([low, mean, high], [y] * 3, solid_capstyle="round", **style)
            chart.note(line, f"{row.label}, {role}: {mean:.1%}, 95% interval {low:.1%} to {high:.1%}")
            y += 16
        for model, percent in row.published.items():
            (mark,) = axes.plot(percent / 100, y, "D", ms=7, mfc="none", mec=LIGHT["soft"])
            chart.note(mark, f"{row.label}, {model}: {percent / 100:.1%}, published")
        y += 16 * bool(row.published) - 1
    axes.set(xlim=(0, 1), ylim=(height, 0))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    _label_rows(chart, ticks, labels)
    axes.grid(axis="x")
    return chart.svg()


@_style()
def shares(title: str, rows: Sequence[tuple[str, Mapping[str, int]]], order: Sequence[str]) -> str:
    """Plot one stacked bar per row: the parts of (name, {class: count}) in ``order``."""
    chart = _bars(title, [name for name, _ in rows], right=24)
    for y, (name, counts) in enumerate(rows):
        total, start = sum(counts.values()) or 1, 0.0
        for kind in (kind for kind in order if counts.get(kind)):
            share = counts[kind] / total
            (bar,) = chart.axes.barh(y, share, 0.6, left=start, color=LIGHT.get(kind, LIGHT["other"]))
            chart.note(bar, f"{name}: {kind.replace('_', ' ')} {counts[kind]} of {total} ({share:.1%})")
            start += share
    chart.axes.set_xlim(0, 1)
    return chart.svg()


@_style()
def funnel(title: str, stages: Sequence[tuple[str, int]]) -> str:
    """Plot the rows that remain after each stage as bars, with the number of rows lost."""
    first, before = max((rows for _, rows in stages), default=0) or 1, None
    chart = _bars(title, [name for name, _ in stages], right=_text_width(f"{first:,}  \u2212{first:,}") + 16)
    for y, (name, rows) in enumerate(stages):
        width = max(rows, first / 300)
        (bar,) = chart.axes.barh(y, width, 0.6, color=LIGHT["policy"])
        chart.note(bar, f"{name}: {rows:,} rows left, {100 * rows / first:.3g}% of {first:,}")
        _beside_bar(chart, width, y, f"{rows:,}")
        if before is not None and before > rows:
            _beside_bar(chart, width, y, f"\u2212{before - rows:,}", "bad", 16 + _text_width(f"{rows:,}"))
        before = rows
    chart.axes.set_xlim(0, first)
    return chart.svg()


@_style()
def counts(title: str, rows: Sequence[tuple[str, int]]) -> str:
    """Plot numbers as bars, one per (name, number), each with its number and its share of all of them."""
    most, total = max((number for _, number in rows), default=0) or 1, sum(number for _, number in rows) or 1
    chart = _bars(title, [name for name, _ in rows], right=_text_width(f"{most:,}") + 24)
    for y, (name, number) in enumerate(rows):
        (bar,) = chart.axes.barh(y, number, 0.6, color=LIGHT["policy"])
        chart.note(bar, f"{name}: {number:,} of {total:,} ({number / total:.1%})")
        _beside_bar(chart, number, y, f"{number:,}")
    chart.axes.set_xlim(0, most)
    return chart.svg()


@_style()
def histogram(title: str, values: Sequence[float], *, limit: float, bins: int = 32) -> str:
    """Plot how many of ``values`` lie in each of ``bins`` equal intervals from 0 to ``limit``, the maximum."""
    chart = _Chart(title, WIDE, 190, left=60, right=24, top=34, bottom=26)
    chart.write(12, 8, _fit(title, WIDE - 24))
    counts, edges = np.histogram(values, bins, (0, limit))
    for bar, n, low, high in zip(
        chart.axes.bar(edges[:-1], counts, limit / bins * 0.94, align="edge", color=LIGHT["policy"]),
        counts, edges, edges[1:], strict=False,
    ):  # fmt: skip
        chart.note(bar, f"{low:,.0f} to {high:,.0f}: {n:,}")
    most = int(counts.max()) or 1
    chart.axes.set(xlim=(0, limit), ylim=(0, most))
    chart.axes.set_xticks([0, limit / 2, limit], [f"{x:,.0f}" for x in (0, limit / 2, limit)])
    chart.axes.set_yticks([most], [f"{most:,}"])
    return chart.svg()


@_style()
def lengths(title: str, lines: Sequence[Line]) -> str:
    """Plot the share of right samples over the response length in tokens (logarithmic), one line per role."""
    chart = _titled(title, NARROW, 190)
    chart.title += ": right answers over length"
    axes, tokens = chart.axes, [x for line in lines for x, _ in line.points]
    for line in lines:
        axes.plot(*zip(*line.points, strict=True), color=line.colour, lw=1.6, alpha=0.7)
        for (x, y), note in zip(line.points, line.notes, strict=True):
            (mark,) = axes.plot(x, y, "o", color=line.colour, ms=7, mew=0)
            chart.note(mark, f"{line.name}: {note}")
    axes.set_xscale("log")
    axes.minorticks_off()
    _ends(chart, min(tokens), max(tokens), "{:,.0f} tokens")
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    return chart.svg()


@_style()
def curves(
    title: str, lines: Sequence[Line], *, unit: str = "step {:g}", legend: bool = False, width: int = 460
) -> str:
    """Plot lines over training steps, or another ``unit``; a single line shows its last value."""
    lines = [line for line in lines if line.points]
    named = [line for line in lines if not line.faint]
    legend_height = 20 * math.ceil(len(named) / 2) if legend else 0
    chart = _titled(title, width, (170 if width == NARROW else 230) + legend_height, below=legend_height)
    axes, xs = chart.axes, [x for line in lines for x, _ in line.points]
    for line in lines:
        style = {"lw": 1, "alpha": 0.25} if line.faint else {"lw": 2, "marker": "o", "ms": 6, "mew": 0}
        (drawn,) = axes.plot(
            *zip(*line.points, strict=True), color=line.colour, markevery=[-1], label=line.name, **style
        )
        if not line.faint:
            chart.note(drawn, f"{line.name}: {line.points[-1][1]:.4g} at the end")
    ys = [y for line in lines for _, y in line.points]
    low, high = (min(ys), max(ys)) if min(ys) < max(ys) else (min(0, ys[0]), max(0, ys[0]) or 1)
    ticks = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    axes.set_yticks(ticks, [_short(tick) for tick in ticks])
    axes.set_ylim(ticks[0], ticks[-1])
    _ends(chart, min(xs), max(xs), unit)
    if len(lines) == 1:
        chart.write(width - 14, 8, _short(named[0].points[-1][1]), color=named[0].colour, ha="right", weight="bold")
    for number, line in enumerate(named if legend else ()):
        x, y = 12 + (width - 24) // 2 * (number % 2), chart.height - legend_height + 20 * (number // 2)
        chart.write(x, y, "\u25a0", color=line.colour, fontsize=14)
        chart.write(x + 18, y + 2, _fit(line.name, (width - 24) // 2 - 30, lines=1))
    return chart.svg()


def _bars(title: str, names: Sequence[str], right: float) -> _Chart:
    labels = [_fit(name) for name in names]
    chart = _Chart(title, WIDE, 30 * len(names) + 6, left=_text_width(labels) + 20, right=right, top=3, bottom=3)
    chart.axes.set(ylim=(len(names) - 0.5, -0.5), xticks=[])
    _label_rows(chart, range(len(names)), labels)
    return chart


def _beside_bar(chart: _Chart, end: float, y: float, text: str, colour: str = "soft", offset: float = 8) -> None:
    style = {"textcoords": "offset points", "va": "center_baseline", "fontsize": SMALL, "annotation_clip": False}
    chart.axes.annotate(text, (end, y), (offset, 0), color=LIGHT[colour], **style)


def _titled(title: str, width: int, height: int, below: int = 0) -> _Chart:
    """Return a chart of lines below its title, which may take two lines."""
    text = _fit(title, width - 90)
    top = 18 + 16 * (text.count("\n") + 1)
    chart = _Chart(title, width, height, left=52, right=16, top=top, bottom=26 + below)
    chart.write(12, 8, text)
    chart.axes.grid(axis="y")
    return chart


def _ends(chart: _Chart, first: float, last: float, unit: str) -> None:
    """Label only the two ends of the horizontal axis."""
    chart.axes.set_xlim(first, last if last > first else first + 1)
    ends = [first, last] if last > first else [first]
    chart.axes.set_xticks(ends, [unit.format(x) for x in ends])
    for label, side in zip(chart.axes.get_xticklabels(), ("left", "right"), strict=False):
        label.set_horizontalalignment(side)


def _label_rows(chart: _Chart, places: Sequence[float], labels: Sequence[str]) -> None:
    chart.axes.set_yticks(places, labels, fontsize=TEXT, color=LIGHT["ink"])
    chart.axes.tick_params(axis="y", pad=14)


def _fit(text: str, width: float = LABEL_WIDTH, lines: int = 2) -> str:
    """Wrap ``text`` to at most two lines of about ``width`` pixels; an ellipsis replaces the rest."""
    text = _printable(text)
    wide = width / max(0.5 * TEXT, _text_width(text) / max(1, len(text)))  # in characters of this text
    return "\n".join(textwrap.wrap(text, max(4, int(wide)), max_lines=lines, placeholder="…"))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _text_width(texts: str | Sequence[str]) -> float:
    font = FontProperties(family="DejaVu Sans", size=TEXT)
    lines = [line for text in ([texts] if isinstance(texts, str) else texts) for line in text.split("\n") if line]
    return max((text_to_path.get_text_width_height_descent(line, font, ismath=False)[0] for line in lines), default=0)


def _short(value: float) -> str:
    """Format a number with three significant digits: 0.0123, 1.23, 1,230, 1.2e+06."""
    size = math.floor(math.log10(abs(value))) if value else 0
    if size >= 6 or size < -3:
        return f"{value:.1e}"
    return f"{value:,.{max(0, 2 - size)}f}".rstrip("0").rstrip(".") if size < 2 else f"{value:,.0f}"
