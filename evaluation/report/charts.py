"""The scorecard's pictures as inline SVG: small, sharp in print, coloured by the page's CSS in light and dark.

Every function returns one ``<svg>`` element; texts are escaped. Colours are classes (``base``, ``policy``, verdict
names) that the page's style sheet defines.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

LABEL_WIDTH = 180
PLOT_WIDTH = 540
LINE_HEIGHT = 16

Interval = tuple[float, float, float]  # low, mean, high


def intervals(
    rows: Sequence[tuple[str, Mapping[str, Interval], Mapping[str, float]]], name: str, label_width: int = LABEL_WIDTH
) -> str:
    """Scores with intervals, one line a role; ``rows``: (label, {role: (low, mean, high)}, {model: published percent}).

    Published scores are hollow diamonds without an interval: nobody here measured them.
    """
    parts, top = [], 6.0
    for label, roles, published in rows:
        height = LINE_HEIGHT * len(roles) + (LINE_HEIGHT if published else 0) + 14
        middle = top + height / 2
        text = escape(_clip(label, (label_width - 20) * 10 // 73))  # a character is 7.3 wide
        parts.append(f'<text class="label" x="{label_width - 14}" y="{middle + 4}" text-anchor="end">{text}</text>')
        y = top + 7 + LINE_HEIGHT / 2
        for role, values in roles.items():
            parts.append(_interval(role, values, y, f"{label}, {role}", label_width))
            y += LINE_HEIGHT
        parts += [_published(model, percent / 100, y, label, label_width) for model, percent in published.items()]
        top += height
    grid = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = _x(share, label_width)
        grid.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{top}"/>')
        grid.append(f'<text class="tick" x="{x:.1f}" y="{top + 16}" text-anchor="middle">{share:.0%}</text>')
    return _svg(label_width + PLOT_WIDTH + 24, top + 24, name, [*grid, *parts])


def _interval(role: str, values: Interval, y: float, name: str, left: int) -> str:
    low, mean, high = values
    title = escape(f"{name}: {mean:.1%}, 95% interval {low:.1%} to {high:.1%}")
    line = f'<line class="bar" x1="{_x(low, left):.1f}" x2="{_x(high, left):.1f}" y1="{y}" y2="{y}"/>'
    return f'<g class="{role}"><title>{title}</title>{line}<circle cx="{_x(mean, left):.1f}" cy="{y}" r="5"/></g>'


def _published(model: str, share: float, y: float, name: str, left: int) -> str:
    x = _x(share, left)
    title = escape(f"{name}, {model}: {share:.1%}, published")
    shape = f'<path d="M{x:.1f} {y - 5} l5 5 l-5 5 l-5 -5 z"/>'
    return f'<g class="published"><title>{title}</title>{shape}</g>'


def lengths(title: str, roles: Mapping[str, Sequence[tuple[float, float, str]]]) -> str:
    """Share of right samples over response length, one line a role; points: (mean tokens of a bin, share, note)."""
    width, height, left, right, top, bottom = 340, 190, 46, 14, 34, 30
    tokens = [x for points in roles.values() for x, _, _ in points]
    low, high = math.log(max(1.0, min(tokens))), math.log(max(2.0, *tokens))
    span = (high - low) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (width - left - right) * (math.log(max(1.0, x)) - low) / span
        return across, top + (height - top - bottom) * (1 - y)

    parts = [f'<text class="title" x="{left}" y="18">{escape(_clip(title, 40))}</text>']
    for share in (0, 0.5, 1):
        y = place(1, share)[1]
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for value, anchor in ((min(tokens), "start"), (max(tokens), "end")):
        x = place(value, 0)[0] if span else left
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">{value:,.0f} tokens</text>'
        )
    for role, points in roles.items():
        line = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y, _ in points)
        dots = "".join(
            '<circle cx="{:.1f}" cy="{:.1f}" r="4">'.format(*place(x, y))
            + f"<title>{escape(f'{role}: {note}')}</title></circle>"
            for x, y, note in points
        )
        parts.append(f'<g class="{role}"><polyline class="path" points="{line}"/>{dots}</g>')
    return _svg(width, height, f"{title}: right answers over length", parts)


def _x(share: float, left: int) -> float:
    return left + PLOT_WIDTH * share


def shares(rows: Sequence[tuple[str, Mapping[str, int]]], order: Sequence[str]) -> str:
    """One stacked bar a row: the parts of (name, {class: count}), in ``order``."""
    height, bar = 30 * len(rows) + 4, 18
    parts = []
    for number, (name, counts) in enumerate(rows):
        y, total, x = 30 * number + 6, sum(counts.values()) or 1, float(LABEL_WIDTH)
        parts.append(f'<text class="label" x="{LABEL_WIDTH - 14}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        for kind in order:
            width = PLOT_WIDTH * counts.get(kind, 0) / total
            if width:
                title = escape(
                    f"{name}: {kind.replace('_', ' ')} {counts[kind]} of {total} ({counts[kind] / total:.1%})"
                )
                rectangle = f'<rect x="{x:.1f}" y="{y}" width="{width:.2f}" height="{bar}"/>'
                parts.append(f'<g class="{escape(kind)}"><title>{title}</title>{rectangle}</g>')
            x += width
    return _svg(LABEL_WIDTH + PLOT_WIDTH + 24, height, "What became of the samples", parts)


def funnel(stages: Sequence[tuple[str, int]]) -> str:
    """Rows that remain after each stage: its name, a bar as long as their share of the first stage, what was lost."""
    first = max((rows for _, rows in stages), default=0) or 1
    labels, plot, parts, before = 320, 300, [], None
    for number, (name, rows) in enumerate(stages):
        y, width = 30 * number + 4, max(1.0, plot * rows / first)
        title = escape(f"{name}: {rows:,} rows left, {100 * rows / first:.3g}% of {first:,}")
        parts.append(
            f'<text class="reason" x="{labels - 14}" y="{y + 14}" text-anchor="end">{escape(_clip(name))}</text>'
        )
        bar = f'<rect class="stage" x="{labels}" y="{y}" width="{width:.1f}" height="18" rx="3"/>'
        parts.append(f"<g><title>{title}</title>{bar}</g>")
        x = labels + width + 8
        lost = (
            f'<tspan class="lost" dx="8">\u2212{before - rows:,}</tspan>'
            if before is not None and before > rows
            else ""
        )
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y + 14}">{rows:,}{lost}</text>')
        before = rows
    return _svg(LABEL_WIDTH + PLOT_WIDTH + 24, 30 * len(stages) + 6, "Rows after each stage", parts)


def histogram(title: str, values: Sequence[float], *, limit: float, bins: int = 32) -> str:
    """How many of ``values`` lie in each of ``bins`` equal intervals from 0 to ``limit``, which none exceeds."""
    width, height, left, bottom, top = LABEL_WIDTH + PLOT_WIDTH + 24, 190, 46, 26, 34
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int(bins * value / limit))] += 1
    most, plot = max(counts) or 1, width - left - 14
    parts = [f'<text class="title" x="{left}" y="18">{escape(title)}</text>']
    for number, count in enumerate(counts):
        x, tall = left + plot * number / bins, (height - top - bottom) * count / most
        low, high = (limit * k / bins for k in (number, number + 1))
        note = escape(f"{low:,.0f} to {high:,.0f}: {count:,}")
        bar = f'<rect x="{x:.1f}" y="{height - bottom - tall:.1f}" width="{plot / bins - 1:.1f}" height="{tall:.1f}"/>'
        parts.append(f"<g><title>{note}</title>{bar}</g>")
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = left + plot * share
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">{limit * share:,.0f}</text>'
        )
    parts.append(f'<text class="tick" x="{left - 6}" y="{top + 4}" text-anchor="end">{most:,}</text>')
    return _svg(width, height, title, parts)


def _clip(name: str, longest: int = 46) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def curve(title: str, points: Sequence[tuple[float, float]]) -> str:
    """One metric over training steps with its range and last value; ``points``: (step, value), finite."""
    width, height, left, right, top, bottom = 340, 170, 46, 14, 34, 26
    steps, values = [x for x, _ in points], [y for _, y in points]
    ticks = _ticks(min(values), max(values))
    low, high = ticks[0], ticks[-1]
    span = (max(steps) - min(steps)) or 1

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (width - left - right) * (x - min(steps)) / span
        return across, top + (height - top - bottom) * (high - y) / (high - low)

    parts = [f'<text class="title" x="{left}" y="18">{escape(title)}</text>']
    last = f'<text class="value" x="{width - right}" y="18" text-anchor="end">{_short(values[-1])}</text>'
    parts.append(last)
    for value in ticks:
        y = place(steps[0], value)[1]
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>')
    for step, anchor in ((steps[0], "start"), (steps[-1], "end")):
        x = place(step, low)[0]
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">step {step:g}</text>')
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    parts.append(f'<polyline class="curve" points="{path}"/>')
    x, y = place(*points[-1])
    parts.append(f'<circle class="curve-end" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    return _svg(width, height, f"{title} over training steps", parts)


def _ticks(low: float, high: float) -> list[float]:
    """Two to five round values that enclose ``low`` and ``high``."""
    if low == high:
        low, high = (0.0, 1.0) if low == 0 else (min(0.0, low), max(0.0, low))
    rough = (high - low) / 3
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _short(value: float) -> str:
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 5 or size < -3:
        return f"{value:.1e}"
    return f"{value:,.{max(0, 2 - size)}f}" if size < 2 else f"{value:,.0f}"


def _svg(width: float, height: float, name: str, parts: Sequence[str]) -> str:
    opening = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}">'
    return opening + "".join(parts) + "</svg>"
