"""The scorecard as text for a terminal and as Markdown."""

import html
import textwrap
from typing import TYPE_CHECKING

from evaluation.benchmarks.registry import GROUPS

if TYPE_CHECKING:
    from evaluation.report.scorecard import Row, Scorecard


def render_text(card: "Scorecard", width: int) -> str:
    """Scores, differences and notes, at most ``width`` columns."""
    label = max(16, min(40, width - 60))
    lines = [f"{'':{label}} {'base':>8} {'policy':>8} {'difference':>11}  95% interval     p"]
    for group, title in GROUPS.items():
        rows = [row for row in card.rows if row.group == group]
        if rows:
            lines.append(f"{title}")
        for row in rows:
            d = row.difference
            lines.append(
                f"  {_clip(row.name, label - 2):{label - 2}} {row.base.mean:>8.1%} {row.policy.mean:>8.1%} "
                f"{100 * d.mean:>+11.1f}  {points(d.low, d.high):15} {p_text(d.p_value):>6}"
            )
        for average in (a for a in card.averages if a.group == group and a.benchmarks > 1):
            lines.append(
                f"  {'average':{label - 2}} {average.base:>8.1%} {average.policy:>8.1%} "
                f"{100 * average.difference:>+11.1f}  {points(average.low, average.high)}"
            )
    for text in (card.verdict(), *(f"note: {warning}" for warning in card.warnings)):
        lines += textwrap.wrap(text, width, subsequent_indent="  ")
    return "\n".join(lines)


def render_markdown(card: "Scorecard") -> str:
    """Everything but the pictures and the samples."""
    parts = [f"**{escape(card.verdict())}**", _scores(card)]
    parts.append(
        "Percent of samples right. Averages are unweighted: each benchmark of a group counts the same. "
        f"base `{card.base[:16] or 'not named'}`, policy `{card.policy[:16] or 'not named'}`"
        + (f", champion `{card.champion[:16]}`" if card.champion else "")
        + f"; {card.sampling}"
    )
    parts += [f"> {escape(warning)}" for warning in card.warnings]
    parts += [_subjects(row) for row in card.rows if row.subjects]
    if card.funnel:
        parts.append(_table(["targets", "rows left"], [[name, f"{rows:,}"] for name, rows in card.funnel]))
    if found := card.contamination:
        text = (
            f"Contamination: {found.targets:,} training problems compared with {found.problems:,} of the benchmarks, "
        )
        parts.append(f"{text}{len(found.matches):,} repeat one.")
    targets = card.lineage.get("targets", {}).get("digest")
    if targets:
        parts.append(f"Lineage: targets `{targets[:16]}` → policy `{card.policy[:16]}` from base `{card.base[:16]}`.")
    if card.costs:
        parts.append(_table(["cost", ""], [list(line) for line in card.costs]))
    return "\n\n".join(parts) + "\n"


def published_names(card: "Scorecard") -> list[str]:
    """Models with published scores on any benchmark of the card."""
    return list(dict.fromkeys(name for row in card.rows if row.published for name in row.published.scores))


def _scores(card: "Scorecard") -> str:
    names = published_names(card)
    header = ["benchmark", "problems", "base", "policy", "difference", "95% interval", "p"]
    header += ["champion", "policy − champion"] if card.champion else []
    header += [f"{name} (published)" for name in names]
    lines = []
    for row in card.rows:
        d = row.difference
        line = [row.title, str(row.policy.problems), f"{row.base.mean:.1%}", f"{row.policy.mean:.1%}"]
        line += [f"{100 * d.mean:+.1f}", points(d.low, d.high), p_text(d.p_value)]
        if row.champion and row.gain:
            gain = f"{100 * row.gain.mean:+.1f} {points(row.gain.low, row.gain.high)}"
            line += [f"{row.champion.mean:.1%}", gain]
        scores = row.published.scores if row.published else {}
        lines.append(line + [f"{scores[name]:.1f}%" if name in scores else "" for name in names])
    for average in (a for a in card.averages if a.benchmarks > 1):
        line = [f"*{GROUPS[average.group]}, average of {average.benchmarks}*", "", f"{average.base:.1%}"]
        line += [f"{average.policy:.1%}", f"{100 * average.difference:+.1f}", points(average.low, average.high), ""]
        line += [f"{average.champion:.1%}", ""] if average.champion is not None else []
        lines.append(line + [f"{average.published[n]:.1f}%" if n in average.published else "" for n in names])
    return _table(header, lines)


def _subjects(row: "Row") -> str:
    lines = [[s.name, str(s.problems), f"{s.base[1]:.1%}", f"{s.policy[1]:.1%}"] for s in row.subjects]
    return _table([f"{row.title}, by subject or difficulty", "problems", "base", "policy"], lines)


def _table(header: list[str], lines: list[list[str]]) -> str:
    rows = [header, *lines]
    text = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join([text[0], "|---|" + "--:|" * (len(header) - 1), *text[1:]])


def points(low: float, high: float) -> str:
    """An interval of a difference in points."""
    return f"[{100 * low:+.1f}, {100 * high:+.1f}]"


def p_text(value: float) -> str:
    """A p-value as people write it."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def escape(text: str) -> str:
    """Text that neither Markdown tables nor HTML interpret."""
    return html.escape(text, quote=False).replace("|", "\\|")


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
