"""The scorecard: base and policy on the same problems, with what they were made of. HTML, Markdown and plain text.

A scorecard is about exactly two checkpoints: `build_scorecard` refuses results that come from others.
"""

import html
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.benchmarks import GROUPS, Benchmark
from evaluation.errors import InputError
from evaluation.statistics import Difference, Summary, paired_difference, summarize
from evaluation.transcripts import Transcript, choose_transcripts

if TYPE_CHECKING:
    import pyarrow as pa

MANY_TRUNCATED = 0.05


@dataclass(frozen=True)
class Row:
    """One benchmark."""

    title: str
    group: str
    base: Summary
    policy: Summary
    difference: Difference

    @property
    def name(self) -> str:
        return self.base.benchmark


@dataclass(frozen=True)
class Average:
    """Unweighted mean over the benchmarks of a group, as the paper averages; the interval adds the benchmarks' own."""

    group: str
    benchmarks: int
    base: float
    policy: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Scorecard:
    """Everything the report shows. ``base`` and ``policy``: checkpoint digests ("" where results do not name one)."""

    base: str
    policy: str
    rows: tuple[Row, ...]
    averages: tuple[Average, ...]
    lineage: Mapping[str, Any]
    training_metrics: Sequence[Mapping[str, Any]]
    funnel: Sequence[tuple[str, int]]
    transcripts: Sequence[Transcript]
    sampling: str
    warnings: tuple[str, ...]
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def verdict(self) -> str:
        """One sentence: where the policy is above or below the base beyond chance (95% intervals of the difference)."""
        above = [row.title for row in self.rows if row.difference.low > 0]
        below = [row.title for row in self.rows if row.difference.high < 0]
        parts = []
        if above:
            parts.append(f"above the base on {len(above)} of {len(self.rows)} benchmarks")
        if below:
            parts.append(f"below it on {len(below)} ({', '.join(below)})")
        if not parts:
            return f"The policy differs from the base on none of {len(self.rows)} benchmarks beyond chance."
        return f"The policy is {' and '.join(parts)}, beyond chance."

    def to_text(self, width: int = 100) -> str:
        """A table for the terminal, at most ``width`` columns."""
        label = max(16, min(40, width - 60))
        lines = [f"{'':{label}} {'base':>8} {'policy':>8} {'difference':>11}  95% interval     p"]
        for group, title in GROUPS.items():
            rows = [row for row in self.rows if row.group == group]
            if rows:
                lines.append(f"{title}")
            for row in rows:
                d = row.difference
                lines.append(
                    f"  {_clip(row.name, label - 2):{label - 2}} {row.base.mean:>8.1%} {row.policy.mean:>8.1%} "
                    f"{100 * d.mean:>+11.1f}  {_points(d.low, d.high):15} {_p(d.p_value):>6}"
                )
            for average in (a for a in self.averages if a.group == group and a.benchmarks > 1):
                lines.append(
                    f"  {'average':{label - 2}} {average.base:>8.1%} {average.policy:>8.1%} "
                    f"{100 * average.difference:>+11.1f}  {_points(average.low, average.high)}"
                )
        for text in (self.verdict(), *(f"note: {warning}" for warning in self.warnings)):
            lines += textwrap.wrap(text, width, subsequent_indent="  ")
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """The same table for Dagster metadata and pull requests."""
        lines = [
            f"**{_markdown(self.verdict())}**",
            "",
            "| benchmark | problems | base | policy | difference | 95% interval | p |",
            "|---|--:|--:|--:|--:|:-:|--:|",
        ]
        for row in self.rows:
            d = row.difference
            lines.append(
                f"| {_markdown(row.title)} | {row.policy.problems} | {row.base.mean:.1%} | {row.policy.mean:.1%} "
                f"| {100 * d.mean:+.1f} | {_points(d.low, d.high)} | {_p(d.p_value)} |"
            )
        for average in (a for a in self.averages if a.benchmarks > 1):
            lines.append(
                f"| *{GROUPS[average.group]}, average of {average.benchmarks}* | | {average.base:.1%} "
                f"| {average.policy:.1%} | {100 * average.difference:+.1f} | {_points(average.low, average.high)} | |"
            )
        lines += [
            "",
            f"base `{self.base[:16] or 'not named'}`, policy `{self.policy[:16] or 'not named'}`; {self.sampling}",
        ]
        lines += [f"\n> {_markdown(warning)}" for warning in self.warnings]
        return "\n".join(lines) + "\n"

    def write_html(self, path: Path) -> None:
        """One self-contained page, complete or absent."""
        from evaluation.files import atomic_write
        from evaluation.page import render_page

        with atomic_write(Path(path)) as temporary:
            temporary.write_text(render_page(self), encoding="utf-8")


def build_scorecard(
    base: "Mapping[str, pa.Table]",
    policy: "Mapping[str, pa.Table]",
    *,
    suite: Sequence[Benchmark],
    lineage: Mapping[str, Any] | None = None,
    training_metrics: Sequence[Mapping[str, Any]] = (),
    funnel: Iterable[tuple[str, int]] = (),
) -> Scorecard:
    """The scorecard of two sets of GRADED tables by benchmark name.

    ``suite``: entries that give titles, groups and the order. ``lineage``: the policy's ``lineage.json``.
    ``training_metrics``: ``{"step": int, "data": {name: value}}`` records. ``funnel``: stages of data preparation in
    order, as (name, rows left) pairs.

    Raises InputError for results of different checkpoints (among each other, or other than the lineage names), for
    benchmarks that only one side has, and for different problems.
    """
    if base.keys() != policy.keys() or not base:
        one_sided = ", ".join(sorted(base.keys() ^ policy.keys())) or "all"
        raise InputError(
            f"scorecard: {one_sided}: not graded for both base and policy; evaluate both on the same suite"
        )
    lineage = lineage or {}
    names = [_checkpoint("base", base), _checkpoint("policy", policy)]
    expected = [lineage.get("base_model", {}).get("digest"), lineage.get("checkpoint_digest")]
    for role, found, wanted in zip(("base", "policy"), names, expected, strict=True):
        if found and wanted and found != wanted:
            raise InputError(
                f"scorecard: the {role}'s scores are of checkpoint {found[:16]}, but the lineage names {wanted[:16]}; "
                f"evaluate that checkpoint again"
            )
    entries = {entry.name: entry for entry in suite}
    if unknown := sorted(base.keys() - entries.keys()):
        raise InputError(f"scorecard: {', '.join(unknown)}: not in the suite, which has {', '.join(entries)}")
    rows = tuple(
        Row(
            entries[name].title,
            entries[name].group,
            summarize(base[name]),
            summarize(policy[name]),
            paired_difference(base[name], policy[name]),
        )
        for name in entries
        if name in base
    )
    sampling = [_metadata(tables, b"sampling") for tables in (base, policy)]
    return Scorecard(
        base=names[0],
        policy=names[1],
        rows=rows,
        averages=tuple(_average(group, rows) for group in GROUPS if any(row.group == group for row in rows)),
        lineage=lineage,
        training_metrics=training_metrics,
        funnel=[(str(name), int(rows)) for name, rows in funnel],
        transcripts=choose_transcripts({name: (base[name], policy[name]) for name in entries if name in base}),
        sampling=_sampling_text(sampling[1], rows),
        warnings=tuple(_warnings(rows, sampling)),
    )


def _metadata(tables: "Mapping[str, pa.Table]", key: bytes) -> set[str]:
    return {(table.schema.metadata or {}).get(key, b"").decode() for table in tables.values()}


def _checkpoint(role: str, tables: "Mapping[str, pa.Table]") -> str:
    found = _metadata(tables, b"checkpoint")
    if len(found) > 1:
        listed = ", ".join(sorted(name[:16] or "not named" for name in found))
        raise InputError(
            f"scorecard: the {role}'s scores are of different checkpoints ({listed}); evaluate one of them"
        )
    return found.pop()


def _average(group: str, rows: Sequence[Row]) -> Average:
    chosen = [row for row in rows if row.group == group]
    n = len(chosen)
    mean = math.fsum(row.difference.mean for row in chosen) / n
    half = math.sqrt(math.fsum(((row.difference.high - row.difference.low) / 2) ** 2 for row in chosen)) / n
    low, high = (chosen[0].difference.low, chosen[0].difference.high) if n == 1 else (mean - half, mean + half)
    return Average(
        group=group,
        benchmarks=n,
        base=math.fsum(row.base.mean for row in chosen) / n,
        policy=math.fsum(row.policy.mean for row in chosen) / n,
        difference=mean,
        low=low,
        high=high,
    )


def _sampling_text(found: set[str], rows: Sequence[Row]) -> str:
    known = sorted(text for text in found if text)
    if len(known) != 1:
        return "sampling not recorded" if not known else "several samplings"
    values = json.loads(known[0])
    ks = sorted({row.policy.k for row in rows})
    return (
        f"{'/'.join(map(str, ks))} {'sample' if ks == [1] else 'samples'} a problem, temperature "
        f"{values['temperature']:g}, top-p {values['top_p']:g}, at most {values['max_tokens']} tokens, "
        f"seed {values['seed']}"
    )


def _warnings(rows: Sequence[Row], sampling: Sequence[set[str]]) -> list[str]:
    found = []
    if sampling[0] != sampling[1]:
        found.append(
            "base and policy were sampled with different settings: their difference is not the training's alone"
        )
    for row in rows:
        for role, summary in (("base", row.base), ("policy", row.policy)):
            if summary.unsettled:
                kinds = {k: v for k, v in summary.verdicts.items() if k in ("gold_unparsed", "timeout", "error")}
                counts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in kinds.items())
                found.append(f"{row.title}, {role}: not settled by grading, scored 0: {counts}")
            if summary.truncated > MANY_TRUNCATED:
                found.append(
                    f"{row.title}, {role}: {summary.truncated:.0%} of the samples stopped at the token limit, scored 0"
                )
    return found


def _points(low: float, high: float) -> str:
    return f"[{100 * low:+.1f}, {100 * high:+.1f}]"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _markdown(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "\\|")
