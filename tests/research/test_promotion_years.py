"""The simulated years of promotion decisions: what is promoted by mistake, and which gains are found."""

import numpy as np
import pytest

from research.promotion_years import ERROR_RATE, SUITES, decline, false_promotions, missed

YEARS = 60


@pytest.mark.parametrize("fixed", [True, False])
def test_candidates_that_are_no_better_are_hardly_ever_promoted(fixed: bool) -> None:
    shares = [false_promotions(suite, YEARS, np.random.default_rng(1), fixed=fixed) for suite in SUITES.values()]
    assert max(shares) <= ERROR_RATE


def test_until_decided_finds_the_gains_that_few_answers_miss() -> None:
    embedded = SUITES["embedded"]
    fixed, decided = (missed(embedded, 0.05, YEARS, np.random.default_rng(2), fixed=fixed) for fixed in (True, False))
    assert fixed > 0.6 and decided == 0


def test_losses_out_of_domain_do_not_add_up() -> None:
    paper = SUITES["paper"]
    text = decline(paper.ood["mmlu_pro"], paper.most(32), 0.005, YEARS, np.random.default_rng(3), fixed=False)
    mean, beyond = text.split(", ")
    assert -6 < float(mean) < 0 and beyond == "0%"
