"""The data of a scorecard: base, policy and champion on the same problems, and their lineage.

`scorecard_text` and `scorecard_html` render it. A scorecard is about exactly one base, one policy and at most one
champion: `build_scorecard` refuses results that come from other checkpoints.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError
from core.model.lineage_file import Manifest
from core.model.prompts import PromptRecord
from core.schemas import is_sequential
from evaluation.benchmarks.suite import GROUPS, Benchmark, Published
from evaluation.report.comparison_warnings import grading_warnings, prompt_warnings, sampling_warnings
from evaluation.report.scorecard.lineage_summary import costs
from evaluation.report.scorecard.transcripts import Transcript, choose_transcripts
from evaluation.sample_tables import checkpoint_of, recorded
from evaluation.statistics.benchmark_scores import (
    UNSETTLED,
    LengthBin,
    Subject,
    Summary,
    by_length,
    by_subject,
    summarize,
)
from evaluation.statistics.paired import Difference, average_difference, paired_difference
from grading.contamination import Contamination
from grading.verdict import Verdict

MANY_TRUNCATED = 0.05
SAMPLING = {
    "temperature": "temperature {:g}",
    "top_p": "top-p {:g}",
    "max_tokens": "at most {} tokens",
    "seed": "seed {}",
}  # what the metadata of samples records, and how a page says it
CAUSE = "training"  # what the difference of base and policy is meant to show


@dataclass(frozen=True)
class Row:
    """The scores of one benchmark."""

    title: str
    group: str
    base: Summary
    policy: Summary
    difference: Difference
    champion: Summary | None = None
    gain: Difference | None = None  # policy minus champion
    domain: str = "math"
    verifier: str = "math"  # its type
    published: Published | None = None
    subjects: tuple[Subject, ...] = ()
    lengths: Mapping[str, tuple[LengthBin, ...]] = field(default_factory=dict)  # role -> bins

    @property
    def name(self) -> str:
        return self.base.benchmark

    def roles(self) -> dict[str, Summary]:
        """Return the scores of base and policy, and of the champion where there is one."""
        return {"base": self.base, "policy": self.policy} | ({"champion": self.champion} if self.champion else {})


@dataclass(frozen=True)
class Average:
    """The unweighted mean over the benchmarks of a group, as in the paper."""

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
    lineage: Manifest | None  # of the policy
    training_metrics: Sequence[Mapping[str, Any]]
    filter_counts: Sequence[tuple[str, int]]
    transcripts: Sequence[Transcript]
    sampling: str
    warnings: tuple[str, ...]
    champion: str = ""
    contamination: Contamination | None = None  # None: not looked for
    costs: Sequence[tuple[str, str]] = ()
    decision: Sequence[tuple[str, str]] = ()  # on the promotion, as the registry stands
    explanation: Sequence[str] = ()  # what happened in the training, in sentences
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def verdict(self) -> str:
        """State in one sentence on which benchmarks the policy is better or worse beyond chance."""
        better = [row.title for row in self.rows if row.difference.beyond_chance and row.difference.mean > 0]
        worse = [row.title for row in self.rows if row.difference.beyond_chance and row.difference.mean < 0]
        if not better and not worse:
            return f"The trained model differs from the base on none of {len(self.rows)} benchmarks by more than luck."
        parts = [f"better than the base on {len(better)} of {len(self.rows)} benchmarks"] if better else []
        if worse:
            parts.append(f"worse {'' if better else 'than the base '}on {len(worse)} ({'; '.join(worse)})")
        return f"The trained model is {' and '.join(parts)}, by more than luck."

    @property
    def has_partial(self) -> bool:
        """Whether an answer has a score between 0 and 1."""
        return any(Verdict.PARTIAL in summary.verdicts for row in self.rows for summary in row.roles().values())

    def measure(self) -> str:
        """Say what the scores are."""
        kind = "Mean score, to which a partly right answer adds its part" if self.has_partial else "Right answers"
        return f"{kind}, in percent with 95% intervals"


def build_scorecard(
    base: Mapping[str, pa.Table],
    policy: Mapping[str, pa.Table],
    *,
    suite: Sequence[Benchmark],
    champion: Mapping[str, pa.Table] | None = None,
    contamination: Contamination | None = None,
    lineage: Manifest | None = None,
    training_metrics: Sequence[Mapping[str, Any]] = (),
    filter_counts: Iterable[tuple[str, int]] = (),
    decision: Sequence[tuple[str, str]] = (),
    explanation: Sequence[str] = (),
) -> Scorecard:
    """Return the scorecard of GRADED tables by benchmark name.

    Args:
        base, policy, champion: {benchmark: GRADED table} of each checkpoint.
        suite: the benchmarks' titles, groups, published scores and order.
        contamination: The benchmark problems found among the targets; None if nobody searched.
        lineage: the policy's ``lineage.json``.
        training_metrics: ``{"step": int, "data": {name: value}}`` records.
        filter_counts: the stages of target preparation in order, as (name, rows left) pairs.
        decision: The decision about the promotion of the policy, as (name, text) pairs.
        explanation: What happened in the training, and what to change, in sentences.

    Raises:
        InputError: for results of several checkpoints or of others than the lineage names, for benchmarks that only one
            side has, and for different problems.
    """
    entries = {entry.name: entry for entry in suite}
    _check_benchmarks(base, policy, champion, entries)
    if is_sequential(policy.values()):
        base = {name: _on_problems_of(policy[name], table) for name, table in base.items()}
    roles = {"base": base, "policy": policy} | ({"champion": champion} if champion else {})
    checkpoints = _checkpoints(roles, lineage)
    rows = tuple(
        _row(entries[name], base[name], policy[name], champion[name] if champion else None)
        for name in entries
        if name in base
    )
    sampling = {recorded(table, "sampling") for table in policy.values()}
    return Scorecard(
        base=checkpoints["base"],
        policy=checkpoints["policy"],
        champion=checkpoints.get("champion", ""),
        rows=rows,
        averages=tuple(_average(group, rows) for group in GROUPS if any(row.group == group for row in rows)),
        lineage=lineage,
        training_metrics=training_metrics,
        filter_counts=[(str(name), int(rows)) for name, rows in filter_counts],
        transcripts=choose_transcripts({name: (base[name], policy[name]) for name in entries if name in base}),
        sampling=_sampling_text(sampling, rows),
        warnings=(
            *_prompt_warnings(roles),
            *_grading_warnings(roles),
            *sampling_warnings(base, policy, ("base", "policy"), CAUSE),
            *_sample_warnings(rows),
            *_contamination_warnings(contamination),
        ),
        contamination=contamination,
        costs=costs(lineage, training_metrics, roles),
        decision=decision,
        explanation=explanation,
    )


def _check_benchmarks(
    base: Mapping[str, Any], policy: Mapping[str, Any], champion: Mapping[str, Any] | None, suite: Mapping[str, Any]
) -> None:
    """Raise InputError unless all sides are graded on the same benchmarks, which are of ``suite``."""
    if base.keys() != policy.keys() or not base:
        one_sided = ", ".join(sorted(base.keys() ^ policy.keys())) or "all"
        raise InputError(
            f"scorecard: {one_sided}: not graded for both base and policy; evaluate both on the same suite"
        )
    if champion is not None and (missing := sorted(policy.keys() - champion.keys())):
        raise InputError(f"scorecard: {', '.join(missing)}: not graded for the champion; evaluate it on the same suite")
    if unknown := sorted(base.keys() - suite.keys()):
        raise InputError(f"scorecard: {', '.join(unknown)}: not in the suite, which has {', '.join(suite)}")


def _checkpoints(roles: Mapping[str, Mapping[str, pa.Table]], lineage: Manifest | None) -> dict[str, str]:
    """Return the digest of the checkpoint of each role; InputError for one that the lineage does not name."""
    checkpoints = {role: checkpoint_of(tables, f"scorecard: the {role}'s scores") for role, tables in roles.items()}
    named = {"base": lineage.base_model.digest, "policy": lineage.checkpoint_digest} if lineage else {}
    for role, expected in named.items():
        if checkpoints[role] and expected and checkpoints[role] != expected:
            raise InputError(
                f"scorecard: the {role}'s scores are of checkpoint {checkpoints[role][:16]}, but the lineage names "
                f"{expected[:16]}; evaluate that checkpoint again"
            )
    return checkpoints


def _row(entry: Benchmark, base: pa.Table, policy: pa.Table, champion: pa.Table | None) -> Row:
    return Row(
        title=entry.title,
        group=entry.group,
        domain=entry.domain_name,
        verifier=entry.spec.type,
        base=summarize(base),
        policy=summarize(policy),
        difference=paired_difference(base, policy),
        champion=summarize(champion) if champion else None,
        gain=paired_difference(champion, policy) if champion else None,
        published=entry.published,
        subjects=by_subject(base, policy),
        lengths={"base": by_length(base), "policy": by_length(policy)},
    )


def _on_problems_of(policy: pa.Table, base: pa.Table) -> pa.Table:
    return base.filter(pc.field("id").isin(policy["id"].unique()))


def _average(group: str, rows: Sequence[Row]) -> Average:
    chosen = [row for row in rows if row.group == group]
    difference, low, high = average_difference([row.difference for row in chosen])
    champions = [row.champion.mean for row in chosen if row.champion]
    return Average(
        group=group,
        benchmarks=len(chosen),
        base=fmean(row.base.mean for row in chosen),
        policy=fmean(row.policy.mean for row in chosen),
        difference=difference,
        low=low,
        high=high,
        champion=fmean(champions) if champions else None,
        published=_published_average(chosen),
    )


def _published_average(rows: Sequence[Row]) -> dict[str, float]:
    scores = [row.published.scores if row.published else {} for row in rows]
    everywhere = [model for model in scores[0] if all(model in others for others in scores)]
    return {model: fmean(published[model] for published in scores) for model in everywhere}


def _sampling_text(settings: set[str], rows: Sequence[Row]) -> str:
    known = settings - {""}
    if len(known) != 1:
        return "sampled in several ways" if known else "sampling not recorded"
    values = json.loads(known.pop())
    ks = sorted({row.policy.k for row in rows})
    samples = f"{'/'.join(map(str, ks))} {'sample' if ks == [1] else 'samples'} per problem"
    return ", ".join([samples, *(text.format(values[name]) for name, text in SAMPLING.items() if name in values)])


def _prompt_warnings(roles: Mapping[str, Mapping[str, pa.Table]]) -> list[str]:
    """Warn if a checkpoint got another prompt than in its training, or than the other checkpoints."""
    warnings = []
    for role, tables in roles.items():
        records = [PromptRecord.of(table) for table in tables.values()]
        if other := next((r for r in records if r.training and r.training != r.frame), None):
            warnings.append(
                f"the {role} was evaluated with the prompt template {other.name}, not with the template of its "
                f"training: evaluated {_quoted(other.frame)}, trained {_quoted(other.training)}"
            )
    for role in roles:
        warnings += prompt_warnings(roles[role], roles["policy"], (role, "policy"), CAUSE)
    return warnings


def _grading_warnings(roles: Mapping[str, Mapping[str, pa.Table]]) -> list[str]:
    return [
        warning
        for role, tables in roles.items()
        for warning in grading_warnings(tables, roles["policy"], (role, "policy"))
    ]


def _quoted(frame: str | None, longest: int = 160) -> str:
    text = json.dumps(frame, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 2 :]}"


def _contamination_warnings(contamination: Contamination | None) -> list[str]:
    if contamination is None or not contamination.matches:
        return []
    counts = ", ".join(f"{count} of {name}" for name, count in contamination.by_benchmark().items())
    n = len(contamination.matches)
    return [f"{n} training problems repeat benchmark problems ({counts}): these scores measure memory"]


def _sample_warnings(rows: Sequence[Row]) -> list[str]:
    warnings = []
    summaries = [(row.title, role, s) for row in rows for role, s in row.roles().items() if role != "champion"]
    for title, role, summary in summaries:
        if summary.unsettled:
            kinds = {kind: count for kind, count in summary.verdicts.items() if kind in UNSETTLED}
            counts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in kinds.items())
            first = f"; the first: {summary.unsettled_reason}" if summary.unsettled_reason else ""
            warnings.append(f"{title}, {role}: grading could not decide some samples, which score 0: {counts}{first}")
        if summary.truncated > MANY_TRUNCATED:
            share = f"{summary.truncated:.0%} of the samples"
            warnings.append(f"{title}, {role}: {share} stopped at the token limit, and score 0")
    return warnings
