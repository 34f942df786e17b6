"""The simulation of the promotion rule: a few years show what docs/evaluation.md says of many."""

import numpy as np
import pytest

from perf.promotion import Guard, decline, null_year, per_decision, power
from perf.recorded_suites import EMBEDDED, PAPER, better


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_better_rates_are_better_by_the_gain():
    rates = PAPER.rates()
    levels, shares = rates[:, 0], rates[:, 1] / rates[:, 1].sum()
    for gain in (0.01, 0.05, -0.03):
        changed = better(np.column_stack([levels, shares]), gain)
        assert shares @ changed == pytest.approx(shares @ levels + gain, abs=5e-4)
        assert changed.min() >= 0 and changed.max() <= 1


@pytest.mark.parametrize("suite", [PAPER, EMBEDDED], ids=["paper", "embedded"])
def test_a_year_without_a_better_candidate_promotes_none_at_half_the_answers(suite, rng):
    year = null_year(suite, 200, rng)
    assert year.false[-1] < 0.05 < per_decision(suite, 0.0, 200, rng)[1][-1]
    assert np.median(year.answers) <= suite.fixed() / 2
    assert 0.02 < year.left < 0.03  # about half of the error rate is spent on 52 comparisons


def test_gains_are_found_as_often_as_per_decision_less_five_points(rng):
    for gain in (0.02, 0.05):
        before, _ = per_decision(EMBEDDED, gain, 4000, rng)
        assert power(EMBEDDED, gain, 52, 4000, rng)[0] >= before - 0.05


@pytest.mark.parametrize(("guard", "lowest"), [("champion", -0.3), ("measured", -0.06), ("shown", -0.06)])
def test_losses_do_not_add_up_beyond_the_limit(guard: Guard, lowest: float, rng):
    year = decline("mmlu_pro", 0.04, guard, 100, rng)
    if guard == "champion":
        assert year.left.max() < lowest  # what the limit against the champion alone comes to
    else:
        assert year.left.min() >= lowest and decline("mmlu_pro", 0.0, guard, 100, rng).passed > 0.9
