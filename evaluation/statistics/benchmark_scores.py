"""The scores of a model on a benchmark: avg@k with its interval, pass@k, maj@k, shares; by subject and by length."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import pyarrow as pa

from core.errors import InputError
from core.model.episodes import TOOL
from core.schemas import TURNS
from evaluation.statistics.intervals import mean_and_error, mean_interval
from grading.answers.spelling import normalize
from grading.tools.toolbox import ERROR
from grading.verdict import Verdict

UNANSWERED = (Verdict.NO_ANSWER, Verdict.NO_THINK_END)
SHARES = {"truncated": "truncated", "no answer": "unanswered", "not settled": "unsettled"}  # fields of a `Summary`
UNSETTLED = (Verdict.GOLD_UNPARSED, Verdict.TIMEOUT, Verdict.ERROR)


@dataclass(frozen=True)
class Summary:
    """Scores of one model on one benchmark; shares and scores lie in [0, 1]."""

    benchmark: str
    problems: int
    samples: int  # over all problems
    k: int  # samples per problem
    mean: float  # avg@k
    low: float  # 95% interval of the mean, clustered by problem
    high: float
    standard_error: float
    majority: float  # maj@k
    truncated: float  # share of samples cut at the token limit
    unanswered: float  # share without an answer in its place
    unsettled: float  # share that grading could not decide
    mean_tokens: float
    pass_at: dict[int, float] = field(default_factory=dict)  # for powers of two up to k
    verdicts: dict[str, int] = field(default_factory=dict)
    unsettled_reason: str = ""  # reason of the first sample that grading could not decide
    episodes: dict[str, float] = field(default_factory=dict)  # means per sample of one that may call tools

    def to_text(self) -> str:
        """Return one line for a terminal."""
        line = f"{self.mean:.1%} [{self.low:.1%}, {self.high:.1%}] avg@{self.k} on {self.problems} problems"
        notes = [(name, getattr(self, field)) for name, field in SHARES.items()]
        return ", ".join([line, *(f"{share:.1%} {name}" for name, share in notes if share)])


def problem_scores(graded: pa.Table) -> dict[str, list[float]]:
    """Return the scores of each problem's samples by problem id and sample number; InputError for an empty table."""
    if not graded.num_rows:
        raise InputError("no graded samples: generate and grade some first")
    rows = sorted(graded.select(["id", "sample", "score"]).to_pylist(), key=lambda row: (row["id"], row["sample"]))
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        scores[row["id"]].append(row["score"])
    return dict(scores)


def solved_samples(graded: pa.Table) -> dict[str, list[bool]]:
    """Return whether each sample of a problem solves it, by problem: its verdict is "correct", whatever its score."""
    solved: dict[str, list[bool]] = defaultdict(list)
    for row in graded.select(["id", "verdict"]).to_pylist():
        solved[row["id"]].append(row["verdict"] == Verdict.CORRECT)
    return solved


def summarize(graded: pa.Table) -> Summary:
    """Return the scores of one model on one benchmark from its GRADED rows."""
    scores = problem_scores(graded)
    names = graded["benchmark"].unique().to_pylist()
    if len(names) != 1:
        raise InputError(f"graded rows of {', '.join(names)}: expected rows of one benchmark")
    means = [sum(s) / len(s) for s in scores.values()]
    mean, error = mean_and_error(means)
    low, high = mean_interval(means)
    verdicts = Counter(graded["verdict"].to_pylist())
    reasons = zip(graded["verdict"].to_pylist(), graded["reason"].to_pylist(), strict=True)
    total, solved = graded.num_rows, solved_samples(graded)
    k = min(map(len, scores.values()))
    return Summary(
        benchmark=names[0],
        problems=len(scores),
        samples=total,
        k=k,
        mean=mean,
        low=low,
        high=high,
        standard_error=error,
        majority=majority_at_k(graded),
        truncated=graded["finish_reason"].to_pylist().count("length") / total,
        unanswered=sum(verdicts[v] for v in UNANSWERED) / total,
        unsettled=sum(verdicts[v] for v in UNSETTLED) / total,
        mean_tokens=sum(graded["tokens"].to_pylist()) / total,
        pass_at={n: pass_at_k(solved, n) for n in (2**i for i in range(k.bit_length())) if n <= k},
        verdicts=dict(sorted(verdicts.items())),
        unsettled_reason=next((reason for verdict, reason in reasons if verdict in UNSETTLED and reason), ""),
        episodes=_episodes(graded),
    )


def _episodes(graded: pa.Table) -> dict[str, float]:
    """Return the means per sample of turns, calls and calls that failed; {} for samples that could call no tool."""
    if TURNS.name not in graded.column_names:
        return {}
    turns = [turn for turns in graded[TURNS.name].to_pylist() for turn in turns or ()]
    said = [turn["content"] for turn in turns if turn["role"] == TOOL]
    failed = sum(text.startswith(ERROR) for text in said)
    counts = {"turns": len(turns) - len(said), "calls": len(said), "failed calls": failed}
    return {name: count / graded.num_rows for name, count in counts.items()}


def pass_at_k(solved: dict[str, list[bool]], k: int) -> float:
    """Return pass@k: the mean over problems of ``1 - C(n - c, k) / C(n, k)``, with ``c`` of ``n`` samples right.

    The unbiased estimator of Chen et al. (arXiv 2107.03374, eq. 1) for ``c`` right samples of ``n``.

    >>> pass_at_k({"a": [True, False, False, False], "b": [False] * 4}, 2)
    0.25
    """
    fewest = min(map(len, solved.values()))
    if not 1 <= k <= fewest:
        raise InputError(f"pass@{k}: every problem must have at least {k} samples; at least one has {fewest}")
    missed = [math.comb(len(s) - sum(s), k) / math.comb(len(s), k) for s in solved.values()]
    return 1 - math.fsum(missed) / len(missed)


def majority_at_k(graded: pa.Table) -> float:
    """Return maj@k: the score of each problem's most frequent answer (self-consistency, arXiv 2203.11171).

    Tied answers share the vote. All right answers count as one answer however they are written; truncated and
    unanswered samples do not vote. The score of an answer is the mean of its samples' scores.
    """
    votes: dict[str, dict[str, list[float]]] = {}
    for row in graded.select(["id", "extracted", "verdict", "score"]).to_pylist():
        answers = votes.setdefault(row["id"], {})
        for answer in _vote(row):
            answers.setdefault(answer, []).append(row["score"])
    total = 0.0
    for answers in votes.values():
        most = max(map(len, answers.values()), default=0)
        winners = [fmean(scores) for scores in answers.values() if len(scores) == most]
        total += fmean(winners) if winners else 0.0
    return total / len(votes)


def _vote(row: dict[str, Any]) -> list[str]:
    if row["verdict"] == Verdict.CORRECT:
        return [""]
    if row["extracted"] is None or row["verdict"] == Verdict.TRUNCATED:
        return []
    return [normalize(row["extracted"]).replace(" ", "") or " "]


LENGTH_BINS = 5
MOST_SUBJECTS = 20

Interval = tuple[float, float, float]  # low, mean, high


@dataclass(frozen=True)
class Subject:
    """Scores on the problems of one subject or level of difficulty, with 95% intervals."""

    name: str
    problems: int
    base: Interval
    policy: Interval


@dataclass(frozen=True)
class LengthBin:
    """Samples with responses of ``low`` to ``high`` tokens, and the share of them that is right."""

    low: int
    high: int
    samples: int
    mean: float


def by_subject(base: pa.Table, policy: pa.Table) -> tuple[Subject, ...]:
    """Scores by subject from two GRADED tables of the same problems; empty unless at least two subjects are known."""
    before, after = _scores_by_subject(base), _scores_by_subject(policy)
    if len(after) < 2 or before.keys() != after.keys():
        return ()
    largest = sorted(after, key=lambda name: (-len(after[name]), name))[:MOST_SUBJECTS]
    return tuple(
        Subject(name, len(after[name]), _interval(before[name]), _interval(after[name])) for name in sorted(largest)
    )


def _scores_by_subject(graded: pa.Table) -> dict[str, list[float]]:
    problems: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in graded.select(["subject", "id", "score"]).to_pylist():
        if row["subject"] is not None:
            problems[_level(row["subject"]), row["id"]].append(row["score"])
    subjects: dict[str, list[float]] = defaultdict(list)
    for (subject, _), scores in problems.items():
        subjects[subject].append(fmean(scores))
    return subjects


def _level(subject: str) -> str:
    """Return a difficulty such as 4.25 as its whole level, which holds more problems; other subjects as they are."""
    try:
        return f"level {int(float(subject))}"
    except (ValueError, OverflowError):
        return subject


def _interval(scores: Sequence[float]) -> Interval:
    low, high = mean_interval(scores)
    return low, fmean(scores), high


def by_length(graded: pa.Table) -> tuple[LengthBin, ...]:
    """Return the samples in up to `LENGTH_BINS` equal parts by length; samples of equal length stay together."""
    rows = sorted(zip(graded["tokens"].to_pylist(), graded["score"].to_pylist(), strict=True))
    bins, start = [], 0
    for number in range(1, LENGTH_BINS + 1):
        end = max(start, round(len(rows) * number / LENGTH_BINS))
        while 0 < end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        if part := rows[start:end]:
            bins.append(LengthBin(part[0][0], part[-1][0], len(part), fmean(score for _, score in part)))
        start = end
    return tuple(bins)
