"""Scores of a recipe over several trainings that differ only in their seed: problems and seeds are both sampled.

The variance of a mean is clustered both ways (Cameron, Gelbach and Miller 2011, eq. 2.11): by problem plus by seed
minus what both count. Few seeds give a wide interval, from Student's t with Satterthwaite's degrees of freedom.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from core.errors import InputError
from pipelines.api import Z95, agresti_min, effective_size, mean_and_error, quantile, wilson

Scores = Mapping[str, Mapping[str, float]]  # benchmark -> problem -> mean score of its samples


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% interval. All benchmarks weigh the same, and so do all problems of one benchmark."""

    mean: float
    low: float
    high: float
    standard_error: float
    problems: int
    by_seed: tuple[float, ...]


def estimate(runs: Sequence[Scores]) -> Estimate:
    """Return a recipe's score from one ``Scores`` per seed on the same problems; it is in [0, 1], like its interval.

    >>> one, two = {"sums": {"a": 1.0, "b": 0.0}}, {"sums": {"a": 1.0, "b": 1.0}}
    >>> recipe = estimate([one, two])
    >>> (recipe.mean, recipe.by_seed, recipe.problems)
    (0.75, (0.5, 1.0), 2)
    """
    mean, error, t, problems, by_seed = _moments(runs)
    low, high = wilson(mean, effective_size(mean, error, problems) * (Z95 / t) ** 2)
    return Estimate(mean, low, high, error, problems, by_seed)


def difference(first: Sequence[Scores], second: Sequence[Scores]) -> Estimate:
    """Return ``second`` minus ``first``, paired by problem and by seed; a single run is paired with every seed.

    >>> base, trained = {"sums": {"a": 0.0, "b": 0.0}}, {"sums": {"a": 1.0, "b": 0.0}}
    >>> difference([base], [trained, trained]).mean
    0.5
    """
    seeds = max(len(first), len(second))
    if not {len(first), len(second)} <= {1, seeds}:
        raise InputError(f"{len(first)} and {len(second)} seeds cannot be paired: train the same seeds of both")
    pairs = zip([*first] * (seeds // len(first)), [*second] * (seeds // len(second)), strict=True)
    mean, error, t, problems, by_seed = _moments([_subtract(after, before) for before, after in pairs])
    low, high = mean - t * error, mean + t * error
    if error == 0:
        low, high = agresti_min([mean] * problems)
    return Estimate(mean, max(-1.0, low), min(1.0, high), error, problems, by_seed)


def _subtract(after: Scores, before: Scores) -> dict[str, dict[str, float]]:
    _check_same_problems([before, after])
    return {name: {key: after[name][key] - score for key, score in scores.items()} for name, scores in before.items()}


def _moments(runs: Sequence[Scores]) -> tuple[float, float, float, int, tuple[float, ...]]:
    """Mean, standard error, the 97.5% quantile of Student's t, number of problems, and the mean of each seed."""
    from scipy.special import stdtrit

    _check_same_problems(runs)
    benchmarks, seeds = len(runs[0]), len(runs)
    by_seed = tuple(fmean(fmean(scores.values()) for scores in run.values()) for run in runs)
    mean, error = mean_and_error(by_seed)
    seed_variance = error**2
    problem_variance = cell_variance = 0.0
    for name in runs[0]:
        rows = [[run[name][key] for run in runs] for key in runs[0][name]]
        problem_variance += mean_and_error([fmean(row) for row in rows])[1] ** 2 / benchmarks**2
        cell_variance += mean_and_error([cell for row in rows for cell in row])[1] ** 2 / benchmarks**2
    problems = sum(map(len, runs[0].values()))
    if seeds == 1:
        error = math.sqrt(problem_variance)
        cells = [score for scores in runs[0].values() for score in scores.values()]
        t = quantile(cells, problems - benchmarks) if error else Z95
        return mean, error, t, problems, by_seed
    variance = max(problem_variance + seed_variance - cell_variance, problem_variance, seed_variance)
    denominator = problem_variance**2 / max(1, problems - benchmarks) + seed_variance**2 / (seeds - 1)
    freedom = (problem_variance + seed_variance) ** 2 / denominator if denominator else math.inf
    return mean, math.sqrt(variance), float(stdtrit(freedom, 0.975)), problems, by_seed


def _check_same_problems(runs: Sequence[Scores]) -> None:
    if not runs or not runs[0]:
        raise InputError("no scores: evaluate at least one run")
    for run in runs:
        if run.keys() != runs[0].keys() or any(run[name].keys() != runs[0][name].keys() for name in run):
            raise InputError("the runs were scored on different problems: evaluate all of them on the same suite")
