"""Intervals over problems and seeds, against a simulation whose truth is known, and paired differences."""

import math

import numpy as np
import pytest

from core.errors import InputError
from evaluation.statistics.intervals import mean_and_error, mean_interval
from research.seed_statistics import difference, estimate


def runs(*rows: list[float], benchmark: str = "b") -> list[dict[str, dict[str, float]]]:
    return [{benchmark: {str(key): score for key, score in enumerate(row)}} for row in rows]


def test_one_seed_is_clustered_by_problem():
    scores = [1.0, 0.0, 1.0, 1.0, 0.5]
    found = estimate(runs(scores))
    assert (found.mean, found.standard_error) == pytest.approx(mean_and_error(scores))
    assert (found.problems, found.by_seed) == (5, (0.7,))
    assert (found.low, found.high) == pytest.approx(mean_interval(scores))


def test_variances_by_hand():
    found = estimate(runs([1.0, 0.0], [1.0, 1.0], [0.0, 0.0]))
    # Means of problems 2/3 and 1/3, of seeds 1/2, 1 and 0; six cells about 1/2.
    of_problems, of_seeds, of_cells = (1 / 36 + 1 / 36) / 1 / 2, 0.5 / 2 / 3, 6 * 0.25 / 5 / 6
    assert found.mean == 0.5
    assert found.standard_error == pytest.approx(math.sqrt(max(of_problems + of_seeds - of_cells, of_seeds)))


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_intervals_cover_the_truth(spread: float):
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        hard = rng.uniform(0.3, 0.9, 80)
        seeds = [rng.binomial(1, np.clip(hard + rng.normal(0, spread), 0, 1)).astype(float).tolist() for _ in range(3)]
        found = estimate(runs(*seeds))
        covered += found.low <= 0.6 <= found.high
    assert covered / 300 > 0.92


def test_differences_are_paired():
    rng = np.random.default_rng(1)
    before = rng.binomial(1, 0.5, (3, 60)).astype(float)
    after = np.maximum(before, rng.binomial(1, 0.3, (3, 60)))
    found = difference(runs(*before.tolist()), runs(*after.tolist()))
    apart = math.hypot(estimate(runs(*before.tolist())).standard_error, estimate(runs(*after.tolist())).standard_error)
    assert found.mean == pytest.approx(float((after - before).mean()))
    assert found.low > 0 and found.standard_error < apart
    back = difference(runs(*after.tolist()), runs(*before.tolist()))
    assert (back.mean, back.low, back.high) == pytest.approx((-found.mean, -found.high, -found.low))


def test_what_cannot_be_paired_is_refused():
    with pytest.raises(InputError, match="2 and 3 seeds cannot be paired"):
        difference(runs([1.0], [1.0]), runs([1.0], [1.0], [1.0]))
    with pytest.raises(InputError, match="different problems"):
        difference(runs([1.0, 0.0]), runs([1.0]))
    with pytest.raises(InputError, match="no scores"):
        estimate([])
