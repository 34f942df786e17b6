"""Seeds as observations: the share that learned, the median, and the exact permutation test."""

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.outcomes import median_over_seeds, permutation_test, share_that_learned

SCORES = st.lists(st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.9, 1.0]), min_size=2, max_size=5)


@settings(deadline=None, max_examples=30)
@given(SCORES, SCORES)
def test_every_division_of_the_seeds_counts_once(first: list[float], second: list[float]):
    everything, size = [*first, *second], len(first)
    observed = abs(fmean(first) - fmean(second))
    extreme = total = 0
    for chosen in combinations(range(len(everything)), size):
        one = [everything[k] for k in chosen]
        other = [everything[k] for k in range(len(everything)) if k not in chosen]
        extreme += abs(fmean(one) - fmean(other)) >= observed - 1e-12
        total += 1
    if size == len(second) or observed == 0:  # scipy's two-sided p is twice the smaller tail: the same if symmetric
        assert permutation_test(first, second) == pytest.approx(min(1.0, extreme / total), abs=1e-12)
    assert permutation_test(first, second) == pytest.approx(permutation_test(second, first))


def test_eight_seeds_settle_what_three_cannot():
    low, high = [0.03, 0.05, 0.04, 0.06, 0.02, 0.05, 0.07, 0.04], [0.9, 0.92, 0.89, 0.95, 0.91, 0.93, 0.97, 0.98]
    assert permutation_test(low, high) == pytest.approx(2 / 12870)
    assert permutation_test(low[:3], high[:3]) == pytest.approx(0.1)


def test_the_share_is_of_seeds_at_or_above_the_threshold():
    assert share_that_learned([0.49, 0.5, 1.0]).value == pytest.approx(2 / 3)
    assert share_that_learned([0.49, 0.5, 1.0], threshold=0.4).value == 1.0
    everything = share_that_learned([1.0] * 8)
    assert everything.high == 1.0 and 0.6 < everything.low < 0.7


def test_the_median_of_few_seeds_has_no_interval_to_speak_of():
    few, more = median_over_seeds([0.9] * 5), median_over_seeds([0.9] * 6)
    assert (few.low, few.high) == (0.0, 1.0)
    assert (more.value, more.low, more.high) == (0.9, 0.9, 0.9)
