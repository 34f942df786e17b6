"""Summarise trainings that differ only in their seed, where a mean misleads because only some seeds learn.

Here a seed counts as one observation, its score over all problems. `research.seed_statistics` has means
over problems and seeds; with scores near 0 or 1 and little between, their intervals are wide and their
centre is no run's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import InputError
from pipelines.api import RESAMPLES, wilson

LEARNED = 0.5  # a seed has learned when this share of its answers is right
# Permutations up to this number are all counted: up to 10 seeds on either side.
EXACT_PERMUTATIONS = 200_000


@dataclass(frozen=True)
class Interval:
    """A figure in [0, 1] with its 95% interval."""

    value: float
    low: float
    high: float


def share_that_learned(scores: Sequence[float], threshold: float = LEARNED) -> Interval:
    """Return the share of seeds with a score of at least ``threshold``, with Wilson's interval.

    >>> share = share_that_learned([0.03, 0.055, 0.985, 0.91])
    >>> (share.value, round(share.low, 3), round(share.high, 3))
    (0.5, 0.15, 0.85)

    Raises:
        InputError: there is no score.
    """
    _require(scores)
    share = sum(score >= threshold for score in scores) / len(scores)
    return Interval(share, *wilson(share, len(scores)))


def median_over_seeds(scores: Sequence[float], *, seed: int = 0) -> Interval:
    """Return the median score of the seeds, with a percentile bootstrap over seeds (Efron and Tibshirani 1993, ch. 13).

    Fewer than six seeds cannot carry a 95% interval of a median: the chance that all of them lie on one side of it is
    above 5% (``2 / 2**n``), so theirs is [0, 1].

    >>> median = median_over_seeds([0.03, 0.05, 0.91, 0.92, 0.95, 0.96, 0.97, 0.99])
    >>> (round(median.value, 3), median.low, median.high)
    (0.935, 0.05, 0.97)
    >>> median_over_seeds([0.03, 0.055, 0.985])
    Interval(value=0.055, low=0.0, high=1.0)

    Raises:
        InputError: there is no score.
    """
    import numpy as np
    from scipy import stats

    _require(scores)
    middle = float(np.median(scores))
    if 2 / 2 ** len(scores) > 0.05:
        return Interval(middle, 0.0, 1.0)
    result = stats.bootstrap(
        (np.asarray(scores),), np.median, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(seed)
    )
    return Interval(middle, float(result.confidence_interval.low), float(result.confidence_interval.high))


def permutation_test(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> float:
    """Return the two-sided p-value of "the seeds of both come from one distribution", by the difference of means.

    Every division of all seeds into two groups of these sizes counts once (Fisher, The Design of Experiments, 1935), so
    the test is exact and needs no pairing; with more than `EXACT_PERMUTATIONS` divisions, a sample of them. The
    value is twice the share of the divisions that are as extreme, on the side where these are fewer. Three seeds
    against three cannot give less than 0.1, eight against eight 0.00016.

    >>> round(permutation_test([0.03, 0.055, 0.06], [0.92, 0.895, 0.98]), 9)
    0.1
    >>> permutation_test([0.5, 0.6], [0.6, 0.5])
    1.0

    Raises:
        InputError: one side has fewer than two seeds.
    """
    import numpy as np
    from scipy import stats

    if min(len(first), len(second)) < 2:
        raise InputError(f"{len(first)} and {len(second)} seeds: expected at least 2 of each to test a difference")
    result = stats.permutation_test(
        (np.asarray(first, float), np.asarray(second, float)),
        lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        vectorized=True,
        n_resamples=EXACT_PERMUTATIONS,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def _require(scores: Sequence[float]) -> None:
    if not scores:
        raise InputError("no scores: evaluate at least one run")
