"""The scorecard: base and policy on the same problems, with what they were made of. HTML, Markdown and plain text.

A scorecard is about exactly two checkpoints, and the champion where there is one: `build_scorecard` refuses results
that come from others.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.prompts import PromptRecord
from evaluation.benchmarks.registry import GROUPS, Benchmark, Published
from evaluation.report.text import render_markdown, render_text
from evaluation.report.transcripts import Transcript, choose_transcripts
from evaluation.statistics.breakdown import LengthBin, Subject, by_length, by_subject, costs
from evaluation.statistics.scores import Difference, Summary, paired_difference, summarize
from grading.contamination import Contamination

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
    champion: Summary | None = None
    gain: Difference | None = None  # policy minus champion
    published: Published | None = None
    subjects: tuple[Subject, ...] = ()
    lengths: Mapping[str, tuple[LengthBin, ...]] = field(default_factory=dict)  # role -> bins

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
    champion: float | None = None
    published: Mapping[str, float] = field(default_factory=dict)  # model -> percent, where all benchmarks have one


@dataclass(frozen=True)
class Scorecard:
    """Everything the report shows.

    ``base``, ``policy`` and ``champion``: checkpoint digests ("" where results do not name one, or there is none).
    """

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
    champion: str = ""
    contamination: Contamination | None = None  # None: not looked for
    costs: Sequence[tuple[str, str]] = ()
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
        return render_text(self, width)

    def to_markdown(self) -> str:
        """The whole scorecard but its pictures and samples, for Dagster metadata and pull requests."""
        return render_markdown(self)

    def write_html(self, path: Path) -> None:
        """One self-contained page, complete or absent."""
        from core.files import atomic_write
        from evaluation.report.html import render_page

        with atomic_write(Path(path)) as temporary:
            temporary.write_text(render_page(self), encoding="utf-8")


def build_scorecard(
    base: "Mapping[str, pa.Table]",
    policy: "Mapping[str, pa.Table]",
    *,
    suite: Sequence[Benchmark],
    champion: "Mapping[str, pa.Table] | None" = None,
    contamination: Contamination | None = None,
    lineage: Mapping[str, Any] | None = None,
    training_metrics: Sequence[Mapping[str, Any]] = (),
    funnel: Iterable[tuple[str, int]] = (),
) -> Scorecard:
    """The scorecard of two sets of GRADED tables by benchmark name, with the ``champion``'s where there is one.

    ``suite``: entries that give titles, groups, published scores and the order. ``lineage``: the policy's
    ``lineage.json``. ``training_metrics``: ``{"step": int, "data": {name: value}}`` records. ``funnel``: stages of data
    preparation in order, as (name, rows left) pairs.

    Raises InputError for results of different checkpoints (among each other, or other than the lineage names), for
    benchmarks that only one side has, and for different problems.
    """
    if base.keys() != policy.keys() or not base:
        one_sided = ", ".join(sorted(base.keys() ^ policy.keys())) or "all"
        raise InputError(
            f"scorecard: {one_sided}: not graded for both base and policy; evaluate both on the same suite"
        )
    lineage = lineage or {}
    if champion is not None and (lacking := sorted(policy.keys() - champion.keys())):
        raise InputError(f"scorecard: {', '.join(lacking)}: not graded for the champion; evaluate it on the same suite")
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
        _row(entries[name], base[name], policy[name], champion[name] if champion else None)
        for name in entries
        if name in base
    )
    roles = {"base": base, "policy": policy} | ({"champion": champion} if champion else {})
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
        warnings=(*_prompt_warnings(roles), *_warnings(rows, sampling), *_contamination_warnings(contamination)),
        champion=_checkpoint("champion", champion) if champion else "",
        contamination=contamination,
        costs=costs(lineage, training_metrics, roles),
    )


def _row(entry: Benchmark, base: "pa.Table", policy: "pa.Table", champion: "pa.Table | None") -> Row:
    return Row(
        title=entry.title,
        group=entry.group,
        base=summarize(base),
        policy=summarize(policy),
        difference=paired_difference(base, policy),
        champion=summarize(champion) if champion else None,
        gain=paired_difference(champion, policy) if champion else None,
        published=entry.published,
        subjects=by_subject(base, policy),
        lengths={"base": by_length(base), "policy": by_length(policy)},
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
        champion=math.fsum(row.champion.mean for row in chosen if row.champion) / n if chosen[0].champion else None,
        published=_published_average(chosen),
    )


def _published_average(rows: Sequence[Row]) -> dict[str, float]:
    scores = [row.published.scores if row.published else {} for row in rows]
    everywhere = [name for name in scores[0] if all(name in found for found in scores)]
    return {name: math.fsum(found[name] for found in scores) / len(scores) for name in everywhere}


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


def _prompt_warnings(roles: "Mapping[str, Mapping[str, pa.Table]]") -> list[str]:
    """Where a checkpoint was asked with another prompt than it was trained with, or than the others."""
    frames, found = {}, []
    for role, tables in roles.items():
        records = [PromptRecord.of(table) for table in tables.values()]
        if other := next((r for r in records if r.training and r.training != r.frame), None):
            found.append(
                f"the {role} was asked with the prompt template {other.name}, which is not the one it was trained "
                f"with: asked {_quoted(other.frame)}, trained {_quoted(other.training)}"
            )
        frames[role] = {record.frame for record in records if record.frame is not None}
    for role in frames.keys() - {"policy"}:
        if frames[role] and frames["policy"] and frames[role] != frames["policy"]:
            found.append(
                f"{role} and policy were asked with different prompts: their difference is not the training's alone"
            )
    return found


def _quoted(frame: str | None, longest: int = 160) -> str:
    text = json.dumps(frame, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 2 :]}"


def _contamination_warnings(found: Contamination | None) -> list[str]:
    if found is None or not found.matches:
        return []
    counts = ", ".join(f"{count} of {name}" for name, count in found.by_benchmark().items())
    return [f"{len(found.matches)} training problems repeat benchmark problems ({counts}): these scores measure memory"]


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
