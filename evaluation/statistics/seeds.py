"""Scores of a recipe over several trainings that differ in their seed: problems and seeds are both a sample.

The variance of a mean is clustered both ways (Cameron, Gelbach and Miller 2011, eq. 2.11): by problem, by seed, less
what both count. Few seeds make a wide interval: it is Student's t with Satterthwaite's degrees of freedom.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.errors import InputError
from evaluation.statistics.scores import Z95, agresti_min, effective_size, wilson

Scores = Mapping[str, Mapping[str, float]]  # benchmark -> problem -> mean score of its samples


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% interval. Benchmarks weigh the same, and so do the problems of one."""

    mean: float
    low: float
    high: float
    standard_error: float
    problems: int
    by_seed: tuple[float, ...]


def estimate(runs: Sequence[Scores]) -> Estimate:
    """The score of a recipe, one ``Scores`` a seed, all of the same problems; in [0, 1], like its interval."""
    mean, error, student, problems, by_seed = _moments(runs)
    trials = effective_size(mean, error, problems) * (Z95 / student) ** 2
    low, high = wilson(mean, trials)
    return Estimate(mean, low, high, error, problems, by_seed)


def difference(first: Sequence[Scores], second: Sequence[Scores]) -> Estimate:
    """``second`` minus ``first``, paired by problem and by seed; a single run is paired with every seed."""
    runs = max(len(first), len(second))
    if not {len(first), len(second)} <= {1, runs}:
        raise InputError(f"{len(first)} and {len(second)} seeds cannot be paired: train the same seeds of both")
    pairs = zip([*first] * (runs // len(first)), [*second] * (runs // len(second)), strict=True)
    deltas = [_minus(after, before) for before, after in pairs]
    mean, error, student, problems, by_seed = _moments(deltas)
    low, high = mean - student * error, mean + student * error
    if error == 0:
        low, high = agresti_min([mean] * problems)
    return Estimate(mean, max(-1.0, low), min(1.0, high), error, problems, by_seed)


def _minus(after: Scores, before: Scores) -> dict[str, dict[str, float]]:
    _same_problems([before, after])
    return {name: {key: after[name][key] - score for key, score in scores.items()} for name, scores in before.items()}


def _moments(runs: Sequence[Scores]) -> tuple[float, float, float, int, tuple[float, ...]]:
    """Mean, its standard error, Student's t at 97.5%, number of problems, means by seed."""
    from scipy.stats import t

    _same_problems(runs)
    benchmarks, seeds = len(runs[0]), len(runs)
    by_seed = tuple(_mean([_mean(list(scores.values())) for scores in run.values()]) for run in runs)
    mean = _mean(by_seed)
    of_seeds = _variance(by_seed)
    of_problems = of_cells = 0.0
    for name in runs[0]:
        rows = [[run[name][key] for run in runs] for key in runs[0][name]]
        of_problems += _variance([_mean(row) for row in rows]) / benchmarks**2
        of_cells += _variance([cell for row in rows for cell in row]) / benchmarks**2
    problems = sum(map(len, runs[0].values()))
    if seeds == 1:
        return mean, math.sqrt(of_problems), Z95, problems, by_seed
    variance = max(of_problems + of_seeds - of_cells, of_problems, of_seeds)
    spread = of_problems**2 / max(1, problems - benchmarks) + of_seeds**2 / (seeds - 1)
    freedom = (of_problems + of_seeds) ** 2 / spread if spread else math.inf
    return mean, math.sqrt(variance), float(t.ppf(0.975, freedom)), problems, by_seed


def _same_problems(runs: Sequence[Scores]) -> None:
    if not runs or not runs[0]:
        raise InputError("no scores: evaluate at least one run")
    for run in runs:
        if run.keys() != runs[0].keys() or any(run[name].keys() != runs[0][name].keys() for name in run):
            raise InputError("the runs were scored on different problems: evaluate all of them on the same suite")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    """Of the mean of ``values``."""
    if len(values) < 2:
        return 0.0
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
