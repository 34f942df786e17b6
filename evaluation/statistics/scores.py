"""Scores with their uncertainty: problems are the independent units, samples of one problem are not.

avg@k and its interval, pass@k (unbiased, Chen et al. 2021, eq. 1), maj@k, and paired differences of two models on the
same problems. numpy only; checked against scipy in tests/unit/evaluation/test_statistics.py.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from grading.answers import normalize
from grading.grader import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

Z95 = 1.959963984540054
BOOTSTRAPS = 10_000
UNANSWERED = (Verdict.NO_ANSWER, Verdict.NO_THINK_END)
UNSETTLED = (Verdict.GOLD_UNPARSED, Verdict.TIMEOUT, Verdict.ERROR)


@dataclass(frozen=True)
class Summary:
    """Scores of one model on one benchmark; shares and scores lie in [0, 1]."""

    benchmark: str
    problems: int
    samples: int  # over all problems
    k: int  # samples a problem
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

    def to_text(self) -> str:
        """One line for a terminal."""
        line = f"{self.mean:.1%} [{self.low:.1%}, {self.high:.1%}] avg@{self.k} on {self.problems} problems"
        notes = [("truncated", self.truncated), ("no answer", self.unanswered), ("not settled", self.unsettled)]
        return ", ".join([line, *(f"{share:.1%} {name}" for name, share in notes if share)])


@dataclass(frozen=True)
class Difference:
    """Second model minus first, paired by problem."""

    benchmark: str
    problems: int
    mean: float
    low: float  # 95% interval
    high: float
    standard_error: float
    p_value: float
    test: str

    @property
    def detectable(self) -> float:
        """The true difference that this many problems would show with 80% power at the 5% level."""
        return (Z95 + 0.8416212335729143) * self.standard_error


def problem_scores(graded: "pa.Table") -> dict[str, list[float]]:
    """Scores of the samples of each problem, problems in id order, samples in sample order. Refuses an empty table."""
    if not graded.num_rows:
        raise InputError("no graded samples: generate and grade some first")
    rows = sorted(graded.select(["id", "sample", "score"]).to_pylist(), key=lambda row: (row["id"], row["sample"]))
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        scores[row["id"]].append(row["score"])
    return dict(scores)


def summarize(graded: "pa.Table") -> Summary:
    """The scores of one model on one benchmark from its GRADED rows."""
    scores = problem_scores(graded)
    names = graded["benchmark"].unique().to_pylist()
    if len(names) != 1:
        raise InputError(f"graded rows of {', '.join(names)}: expected rows of one benchmark")
    means = [sum(s) / len(s) for s in scores.values()]
    mean, error = mean_and_error(means)
    low, high = wilson(mean, effective_size(mean, error, len(means)))
    verdicts = Counter(graded["verdict"].to_pylist())
    total = graded.num_rows
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
        truncated=verdicts[Verdict.TRUNCATED] / total,
        unanswered=sum(verdicts[v] for v in UNANSWERED) / total,
        unsettled=sum(verdicts[v] for v in UNSETTLED) / total,
        mean_tokens=sum(graded["tokens"].to_pylist()) / total,
        pass_at={n: pass_at_k(scores, n) for n in (2**i for i in range(k.bit_length())) if n <= k},
        verdicts=dict(sorted(verdicts.items())),
    )


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean of per-problem means and its standard error (n - 1 in the variance; 0 for a single problem)."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)


def effective_size(mean: float, error: float, problems: int) -> float:
    """How many independent yes/no trials carry the information of these problems.

    ``problems`` when each has one sample; more when several samples make a problem's mean more certain.
    """
    if error == 0 or problems == 1:
        return problems
    return mean * (1 - mean) / (error**2 * (problems - 1) / problems)


def wilson(mean: float, n: float) -> tuple[float, float]:
    """Wilson's 95% score interval of a proportion over ``n`` trials: inside [0, 1], and honest at 0 and 1."""
    centre = (mean + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n**2))
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


def pass_at_k(scores: dict[str, list[float]], k: int) -> float:
    """Chance that at least one of ``k`` samples is right, unbiased: mean of 1 - C(n-c, k) / C(n, k)."""
    fewest = min(map(len, scores.values()))
    if not 1 <= k <= fewest:
        raise InputError(f"pass@{k}: every problem must have at least {k} samples; the fewest are {fewest}")
    missed = [math.comb(len(s) - round(sum(s)), k) / math.comb(len(s), k) for s in scores.values()]
    return 1 - math.fsum(missed) / len(missed)


def majority_at_k(graded: "pa.Table") -> float:
    """maj@k: score of the most frequent answer of each problem; tied answers count by their share of right ones.

    All right answers are one answer, however written; truncated and unanswered samples do not vote.
    """
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in graded.select(["id", "extracted", "verdict"]).to_pylist():
        votes[row["id"]].update(_vote(row))
    score = 0.0
    for counts in votes.values():
        most = max(counts.values(), default=0)
        winners = [answer for answer, count in counts.items() if count == most]
        score += ("" in winners) / len(winners) if winners else 0.0
    return score / len(votes)


def _vote(row: dict[str, Any]) -> list[str]:
    if row["verdict"] == Verdict.CORRECT:
        return [""]
    if row["extracted"] is None or row["verdict"] == Verdict.TRUNCATED:
        return []
    return [normalize(row["extracted"]).replace(" ", "") or " "]


def paired_difference(first: "pa.Table", second: "pa.Table") -> Difference:
    """Second minus first on the same problems, from two GRADED tables of one benchmark.

    One sample a problem: exact McNemar test, interval of Agresti and Min (2005). Several: bootstrap over problems
    (10,000 resamples, fixed seed). Raises InputError unless both have the same problems.
    """
    before, after = problem_scores(first), problem_scores(second)
    if before.keys() != after.keys():
        only = len(before.keys() - after.keys()), len(after.keys() - before.keys())
        raise InputError(
            f"{first['benchmark'][0]}: the two results are of different problems ({only[0]} only in the first, "
            f"{only[1]} only in the second); generate both with the same suite"
        )
    deltas = [sum(after[i]) / len(after[i]) - sum(before[i]) / len(before[i]) for i in before]
    mean, error = mean_and_error(deltas)
    name = str(first["benchmark"][0])
    if all(len(s) == 1 for s in (*before.values(), *after.values())):
        low, high = agresti_min(deltas)
        return Difference(name, len(deltas), mean, low, high, error, mcnemar(deltas), "exact McNemar")
    low, high, p_value = bootstrap(deltas)
    return Difference(name, len(deltas), mean, low, high, error, p_value, "paired bootstrap over problems")


def mcnemar(deltas: list[float]) -> float:
    """Two-sided exact p-value that gains and losses are equally likely."""
    gains, losses = sum(d > 0 for d in deltas), sum(d < 0 for d in deltas)
    n = gains + losses
    tail = sum(math.comb(n, i) for i in range(min(gains, losses) + 1))
    return min(1.0, 2 * tail / 2**n)


def agresti_min(deltas: list[float]) -> tuple[float, float]:
    """95% interval of a paired difference of proportions: Wald's, with half a pair added to each of the four cells."""
    n = len(deltas) + 2
    total, squares = math.fsum(deltas), math.fsum(d * d for d in deltas) + 1
    half = Z95 * math.sqrt(squares - total**2 / n) / n
    return max(-1.0, total / n - half), min(1.0, total / n + half)


def bootstrap(deltas: list[float], *, resamples: int = BOOTSTRAPS, seed: int = 0) -> tuple[float, float, float]:
    """95% percentile interval and two-sided p-value of the mean, resampling problems."""
    import numpy as np

    values = np.asarray(deltas)
    rng = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // len(values))
    means: list[np.ndarray] = []
    for start in range(0, resamples, chunk):
        picks = rng.integers(0, len(values), (min(chunk, resamples - start), len(values)))
        means.append(values[picks].mean(axis=1))
    drawn = np.concatenate(means)
    low, high = np.quantile(drawn, [0.025, 0.975])
    tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return float(low), float(high), min(1.0, 2 * (int(tail) + 1) / (resamples + 1))
