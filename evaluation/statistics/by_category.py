"""Break scores down by subject or difficulty, and by length of the response."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import pyarrow as pa

from evaluation.statistics.intervals import mean_interval

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
