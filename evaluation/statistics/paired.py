"""The difference of two models on the same problems, with its interval and its test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import pyarrow as pa

from core.errors import InputError
from evaluation.sample_tables import grading_record
from evaluation.statistics.benchmark_scores import problem_scores
from evaluation.statistics.intervals import Z95, agresti_min, mean_and_error

Z80 = 0.8416212335729143  # scipy.stats.norm.ppf(0.8)
RESAMPLES = 10_000
FEWEST_PROBLEMS = 6  # of which a test over problems can reject equality at the 5% level: 2 / 2**6 < 0.05


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
    def beyond_chance(self) -> bool:
        """Whether the test rejects equality at the 5% level and the interval leaves out zero: small ones disagree."""
        return self.p_value < 0.05 and not self.low <= 0 <= self.high

    @property
    def detectable(self) -> float:
        """The true difference that this many problems would show with 80% power at the 5% level.

        Infinite below `FEWEST_PROBLEMS` problems, and where all differences are equal, which says nothing about it.
        """
        if self.problems < FEWEST_PROBLEMS or not self.standard_error:
            return math.inf
        return (Z95 + Z80) * self.standard_error


def paired_difference(first: pa.Table, second: pa.Table) -> Difference:
    """Subtract the first from the second of two GRADED tables of one benchmark.

    With one sample per problem that scores 0 or 1: the exact McNemar test and the interval of Agresti and Min. With
    several samples, or with scores in between: a sign-flip permutation test over problems and Student's interval, where
    there are at least `FEWEST_PROBLEMS`. Raises InputError unless both tables hold the same problems, and record the
    same gold answers.
    """
    before, after = problem_scores(first), problem_scores(second)
    name = str(first["benchmark"][0])
    if before.keys() != after.keys():
        raise InputError(
            f"{name}: the two results are of different problems ({len(before.keys() - after.keys())} only in the "
            f"first, {len(after.keys() - before.keys())} only in the second); generate both with the same suite"
        )
    one, other = (grading_record(table).get("problems") for table in (first, second))
    if one and other and one != other:
        raise InputError(
            f"{name}: the two results are of different problems or gold answers that have the same ids; generate and "
            "grade both with the same suite"
        )
    deltas = [sum(after[i]) / len(after[i]) - sum(before[i]) / len(before[i]) for i in before]
    mean, error = mean_and_error(deltas)
    if all(scores in ([0], [1]) for scores in (*before.values(), *after.values())):
        low, high = agresti_min(deltas)
        return Difference(name, len(deltas), mean, low, high, error, mcnemar(deltas), "exact McNemar")
    few = len(deltas) < FEWEST_PROBLEMS
    test = f"too few problems, below {FEWEST_PROBLEMS}" if few else "sign-flip test over problems"
    return Difference(name, len(deltas), mean, *t_interval(deltas), error, sign_flip(deltas), test)


def average_difference(differences: Sequence[Difference]) -> tuple[float, float, float]:
    """Return (mean, low, high) of the unweighted mean over benchmarks with independent errors.

    The ends are as far from the mean as ``sqrt(sum(end_i - mean_i)^2) / n`` (Zou and Donner, Stat. Med. 27, 2008), so
    the interval lies in [-1, 1], and a benchmark that says nothing leaves the average as uncertain as it is.

    >>> sure = Difference("a", 100, 0.25, 0.15, 0.35, 0.05, 0.001, "")
    >>> unknown = Difference("b", 2, 1.0, -1.0, 1.0, 0.0, 0.5, "")
    >>> [round(value, 3) for value in average_difference([sure, unknown])]
    [0.625, -0.376, 0.675]
    """
    mean = fmean(d.mean for d in differences)
    below = math.hypot(*(d.mean - d.low for d in differences)) / len(differences)
    above = math.hypot(*(d.high - d.mean for d in differences)) / len(differences)
    return mean, mean - below, mean + above


def mcnemar(deltas: Sequence[float]) -> float:
    """Return the two-sided exact p-value of "gains and losses are equally likely" (McNemar, Psychometrika 12, 1947).

    >>> round(mcnemar([1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 0.0]), 9)
    0.21875
    """
    from scipy.special import bdtr  # a second faster to import than scipy.stats, whose binomtest gives the same

    gains, losses = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas)
    return min(1.0, 2 * float(bdtr(min(gains, losses), gains + losses, 0.5)))


def t_interval(deltas: Sequence[float]) -> tuple[float, float]:
    """Return Student's interval of the mean over problems, which lies in [-1, 1].

    Where all differences are equal, it is the interval of `agresti_min`. Below `FEWEST_PROBLEMS` problems, no test over
    problems can reject equality at the 5% level (``2 / 2**n``), so the interval is [-1, 1].

    >>> low, high = t_interval([0.5, 0.25, 0.25, 0.0] * 10)
    >>> (round(low, 3), round(high, 3))
    (0.193, 0.307)
    >>> low, high = t_interval([1.0] * 20)
    >>> (round(low, 3), high)
    (0.76, 1.0)
    >>> t_interval([0.4, 0.4, 0.4])
    (-1.0, 1.0)
    """
    from scipy.special import stdtrit

    n = len(deltas)
    if n < FEWEST_PROBLEMS:
        return -1.0, 1.0
    mean, error = mean_and_error(deltas)
    if error == 0:
        return agresti_min(deltas)
    half = float(stdtrit(n - 1, 0.975)) * error
    return max(-1.0, mean - half), min(1.0, mean + half)


def sign_flip(deltas: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the two-sided p-value of "no problem favours either model" (Fisher, Design of Experiments, 1935).

    The share of sign flips with a mean at least as far from zero: of all of them where there are no more than
    ``resamples``, or else of as many random ones.

    >>> sign_flip([0.4, 0.4, 0.4])
    0.25
    >>> round(sign_flip([0.5, 0.25, 0.25, 0.0] * 10), 4)
    0.0002
    """
    import numpy as np
    from scipy import stats

    if len(deltas) == 1:  # scipy refuses a single problem, whose other sign is as far from zero
        return 1.0
    result = stats.permutation_test(
        (np.asarray(deltas),),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, 2_000_000 // len(deltas)),  # bounds the memory
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
