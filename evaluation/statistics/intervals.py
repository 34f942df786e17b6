"""Means, standard errors and confidence intervals of scores in [0, 1]. Every interval here covers 95%."""

import math
from collections.abc import Iterable, Sequence

Z95 = 1.959963984540054  # scipy.stats.norm.ppf(0.975)
ROUNDING = 1e-12  # a standard error below this is a rounding error of equal scores


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the problems' scores and its standard error, which is 0 for a single problem.

    ``se = sqrt(sum((x_i - mean)^2) / (n - 1) / n)``. The error of equal values is exactly 0, which `scipy.stats.sem`
    does not promise and `effective_size` depends on.

    >>> mean_and_error([1.0, 0.0, 1.0, 0.0])
    (0.5, 0.28867513459481287)
    >>> mean_and_error([0.2, 0.2, 0.2])[1]
    0.0
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, 0.0
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    return mean, error if error > ROUNDING else 0.0


def effective_size(mean: float, error: float, problems: int) -> float:
    """Return the number of independent yes/no trials with the same standard error of the mean as these problems.

    Kish's effective sample size, ``m (1 - m) / (se^2 (n - 1) / n)`` (Survey Sampling, 1965): the number
    of problems if each has one sample, more if several samples make each problem's score more certain.

    >>> round(effective_size(0.5, mean_and_error([1.0, 0.0, 1.0, 0.0])[1], 4), 9)
    4.0
    >>> round(effective_size(0.5, mean_and_error([0.75, 0.25, 0.75, 0.25])[1], 4), 9)
    16.0
    """
    if error == 0 or problems == 1:
        return problems
    return mean * (1 - mean) / (error**2 * (problems - 1) / problems)


def wilson(mean: float, n: float) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion over ``n`` trials (JASA 22, 1927), which lies in [0, 1].

    scipy has it for whole numbers of trials only; `effective_size` gives fractions.

    >>> low, high = wilson(0.0, 20)
    >>> (low, round(high, 4))
    (0.0, 0.1611)
    """
    centre = (mean + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n**2))
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


def quantile(scores: Iterable[float], freedom: int) -> float:
    """Return the 97.5% quantile by which the standard error of the mean of ``scores`` is multiplied.

    It is the normal one where every score is whole, because the error of a proportion follows from the mean. The spread
    of other scores is itself an estimate, so it is Student's with so many degrees of ``freedom``.

    >>> [round(quantile(scores, 4), 2) for scores in ([1, 0, 0, 1, 1], [0.5, 0, 0.25, 1, 1])]
    [1.96, 2.78]
    """
    from scipy.special import stdtrit

    return Z95 if all(score in (-1, 0, 1) for score in scores) else float(stdtrit(max(1, freedom), 0.975))


def mean_interval(scores: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the mean of the problems' scores: Wilson's, with as many trials as these are worth."""
    mean, error = mean_and_error(scores)
    size = effective_size(mean, error, len(scores))
    return wilson(mean, size if error == 0 else size * (Z95 / quantile(scores, len(scores) - 1)) ** 2)


def agresti_min(deltas: Sequence[float]) -> tuple[float, float]:
    """Return the interval of a paired difference of proportions (Agresti and Min, Stat. Med. 24, 2005).

    Wald's interval with half a pair added to each of the four cells. ``deltas``: -1, 0 or 1 for each problem.

    >>> low, high = agresti_min([1.0] * 30 + [0.0] * 60 + [-1.0] * 10)
    >>> (round(low, 3), round(high, 3))
    (0.079, 0.313)
    """
    n = len(deltas) + 2
    total, squares = math.fsum(deltas), math.fsum(delta * delta for delta in deltas) + 1
    half = Z95 * math.sqrt(squares - total**2 / n) / n
    return max(-1.0, total / n - half), min(1.0, total / n + half)
