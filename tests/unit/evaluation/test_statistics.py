"""Scores and intervals against hand-made cases and scipy."""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats as stats
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from evaluation.statistics.benchmark_scores import pass_at_k, summarize
from evaluation.statistics.intervals import Z95, agresti_min, mean_interval, wilson
from evaluation.statistics.paired import Z80, Difference, average_difference, mcnemar, paired_difference, sign_flip

SCORES = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=2, max_size=12)


def test_one_sample_a_problem_is_a_wilson_interval(graded):
    summary = summarize(graded({f"p{i}": [int(i < 13)] for i in range(40)}))
    interval = stats.binomtest(13, 40).proportion_ci(method="wilson")
    assert (summary.mean, summary.problems, summary.k) == (13 / 40, 40, 1)
    assert (summary.low, summary.high) == pytest.approx((interval.low, interval.high))
    assert summary.standard_error == pytest.approx(stats.sem([1] * 13 + [0] * 27))


@pytest.mark.parametrize("score", [0, 1])
def test_intervals_are_honest_at_the_ends(graded, score):
    summary = summarize(graded({f"p{i}": [score] * 8 for i in range(30)}))
    interval = stats.binomtest(30 * score, 30).proportion_ci(method="wilson")
    assert (summary.low, summary.high) == pytest.approx((interval.low, interval.high))
    assert summary.high - summary.low > 0.1


def test_samples_of_a_problem_are_not_independent(graded):
    same = summarize(graded({f"p{i}": [i % 2] * 32 for i in range(30)}))  # every problem always or never solved
    mixed = summarize(graded({f"p{i}": [k % 2 for k in range(32)] for i in range(30)}))
    alone = summarize(graded({f"p{i}": [i % 2] for i in range(30)}))
    assert same.mean == mixed.mean == alone.mean == 0.5
    assert (same.low, same.high) == pytest.approx((alone.low, alone.high))
    assert mixed.standard_error == 0


@pytest.mark.parametrize(("right", "k", "problems"), [(1, 5, 3), (1, 3, 25), (4, 5, 3), (7, 11, 40)])
def test_equal_problems_are_as_many_trials(graded, right, k, problems):
    summary = summarize(graded({f"p{i}": [1] * right + [0] * (k - right) for i in range(problems)}))
    assert summary.standard_error == 0
    assert (summary.low, summary.high) == pytest.approx(wilson(right / k, problems))


@pytest.mark.parametrize("problems", [4, 10])
def test_an_interval_over_few_problems_of_many_samples_covers_the_mean(problems):
    draws = np.random.default_rng(0)
    means = draws.binomial(16, draws.beta(2, 2, (2000, problems))) / 16
    covered = [low <= 0.5 <= high for low, high in map(mean_interval, means.tolist())]
    assert 0.92 < np.mean(covered) < 0.98  # with the normal quantile 0.82 and 0.90


@given(SCORES)
@settings(max_examples=50)
def test_standard_errors_are_clustered_by_problem(graded, scores):
    """The cluster-robust variance of a mean (Liang and Zeger 1986) with the usual G/(G-1), sample by sample."""
    summary = summarize(graded({f"p{i}": s for i, s in enumerate(scores)}))
    values = np.array(scores)
    sums = (values - values.mean()).sum(axis=1)  # of the residuals of each problem
    problems = len(scores)
    variance = problems / (problems - 1) * (sums**2).sum() / values.size**2
    assert summary.standard_error == pytest.approx(math.sqrt(variance), abs=1e-12)


@given(SCORES)
@settings(max_examples=50)
def test_summaries_stay_in_bounds(graded, scores):
    summary = summarize(graded({f"p{i}": s for i, s in enumerate(scores)}))
    assert 0 <= summary.low <= summary.mean <= summary.high <= 1
    assert summary.mean == pytest.approx(np.mean(scores))
    assert list(summary.pass_at) == [1, 2, 4]
    assert summary.pass_at[1] == pytest.approx(summary.mean)
    assert summary.pass_at[1] <= summary.pass_at[2] + 1e-12 <= summary.pass_at[4] + 2e-12
    assert summary.pass_at[4] == pytest.approx(np.mean([max(s) for s in scores]))


@given(SCORES, st.integers(1, 4))
@settings(max_examples=30)
def test_pass_at_k_is_the_mean_over_all_subsets(scores, k):
    by_problem = {str(i): [score == 1 for score in s] for i, s in enumerate(scores)}
    expected = np.mean([np.mean([max(c) for c in combinations(s, k)]) for s in scores])
    assert pass_at_k(by_problem, k) == pytest.approx(expected)


def test_pass_at_more_than_stored_is_refused():
    with pytest.raises(InputError, match=r"pass@8: every problem must have at least 8 samples; at least one has 2"):
        pass_at_k({"a": [True, False], "b": [False] * 9}, 8)


def test_majority_votes(graded):
    def majority(*samples):
        return summarize(graded({"p": list(samples)})).majority

    assert majority(("7", 1), ("7.0", 1), ("8", 0)) == 1.0
    assert majority(("1/2", 1), ("0.5", 1), ("8", 0), ("8", 0), ("9", 0)) == 0.5  # right answers are one answer: a tie
    assert majority(("8", 0), ("8 ", 0), ("7", 1)) == 0.0
    assert majority("no_answer", "truncated", ("7", 1)) == 1.0
    assert majority("no_answer", "no_think_end") == 0.0
    assert majority(("7", 0.5), ("7", 0.7), ("8", 1)) == 0.6  # the score of the answer that most samples give
    assert majority(("7", 0.5), ("8", 1)) == 0.75


def test_what_went_wrong_is_counted(graded):
    summary = summarize(graded({"p": ["truncated", "no_answer", 1, 0], "q": ["no_think_end", "timeout", "error", 1]}))
    assert (summary.truncated, summary.unanswered, summary.unsettled) == (1 / 8, 2 / 8, 2 / 8)
    assert sum(summary.verdicts.values()) == summary.samples == 8
    assert summary.mean_tokens == 11.5
    assert "avg@4 on 2 problems" in summary.to_text()


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=4), min_size=1, max_size=8))
@settings(max_examples=40)
def test_scores_between_0_and_1_count_in_means_and_solve_nothing(graded, scores):
    summary = summarize(graded({f"p{i}": [("7", score) for score in s] for i, s in enumerate(scores)}))
    assert 0 <= summary.low <= summary.mean <= summary.high <= 1
    assert summary.mean == pytest.approx(np.mean(scores))
    assert summary.pass_at[1] == pytest.approx(np.mean(np.array(scores) == 1))
    assert summary.pass_at[4] == pytest.approx(np.mean([1.0 in s for s in scores]))


@given(st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=40)
def test_mcnemar_is_the_exact_sign_test(gains, losses):
    deltas = [1.0] * gains + [-1.0] * losses + [0.0] * 5
    expected = stats.binomtest(gains, gains + losses).pvalue if gains + losses else 1.0
    assert mcnemar(deltas) == pytest.approx(expected)


def test_paired_difference_of_single_samples(graded):
    base = graded({f"p{i}": [int(i < 5)] for i in range(100)})
    policy = graded({f"p{i}": [int(i < 45)] for i in range(100)})
    difference = paired_difference(base, policy)
    assert difference.mean == pytest.approx(0.40)
    assert 0.28 < difference.low < 0.40 < difference.high < 0.52
    assert difference.p_value == pytest.approx(2 * 0.5**40)
    assert difference.test == "exact McNemar"
    reverse = paired_difference(policy, base)
    assert (reverse.mean, reverse.low, reverse.high) == pytest.approx(
        (-difference.mean, -difference.high, -difference.low)
    )


@pytest.mark.parametrize(("lost", "beyond_chance"), [(5, False), (6, True)])
def test_a_difference_is_beyond_chance_where_interval_and_test_agree(graded, lost, beyond_chance):
    base = graded({f"p{i}": [1] for i in range(100)})
    policy = graded({f"p{i}": [int(i >= lost)] for i in range(100)})
    difference = paired_difference(base, policy)
    assert difference.high < 0
    assert difference.beyond_chance is beyond_chance


def test_one_fractional_score_takes_the_sign_flip_test_in_place_of_mcnemar(graded):
    base = graded({f"p{i}": [("8", 0.2)] for i in range(40)})
    policy = graded({f"p{i}": [("7", 0.4 if i % 2 else 1.0)] for i in range(40)})
    difference = paired_difference(base, policy)
    assert difference.test == "sign-flip test over problems"
    assert difference.mean == pytest.approx(0.5)
    assert 0.4 < difference.low < 0.5 < difference.high < 0.6 and difference.p_value < 0.001
    ones = {f"p{i}": [1] for i in range(40)}
    assert paired_difference(graded(ones), graded(ones | {"p3": [0]})).test == "exact McNemar"
    assert paired_difference(graded(ones), graded(ones | {"p3": [("7", 0.9)]})).test == difference.test


def test_no_difference_is_still_uncertain(graded):
    base = graded({f"p{i}": [int(i < 5)] for i in range(20)})
    same = paired_difference(base, base)
    assert same.mean == 0 and same.p_value == 1.0
    assert same.low < -0.05 and same.high > 0.05


def test_paired_difference_of_many_samples_agrees_with_the_t_interval(graded):
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.1, 0.6, 80)
    before = graded({f"p{i}": [int(x) for x in rng.random(8) < r] for i, r in enumerate(rates)})
    after = graded({f"p{i}": [int(x) for x in rng.random(8) < r + 0.2] for i, r in enumerate(rates)})
    difference = paired_difference(before, after)
    scores = [np.array(t["score"].to_pylist()).reshape(80, 8).mean(1) for t in (before, after)]
    expected = stats.ttest_rel(scores[1], scores[0])
    interval = expected.confidence_interval()
    assert difference.mean == pytest.approx(np.mean(scores[1] - scores[0]))
    assert (difference.low, difference.high) == pytest.approx((interval.low, interval.high), abs=0.01)
    assert difference.p_value < 0.001 and expected.pvalue < 0.001
    assert sign_flip([0.25, 0.0, -0.25, 0.25, 0.5] * 8) == pytest.approx(
        stats.ttest_1samp([0.25, 0.0, -0.25, 0.25, 0.5] * 8, 0).pvalue, abs=0.01
    )
    assert difference == paired_difference(before, after)  # fixed seed
    assert difference.detectable == pytest.approx(2.8 * difference.standard_error, rel=0.01)


@pytest.mark.parametrize("problems", [1, 2, 5, 6, 9])
def test_few_problems_that_all_rise_alike_are_not_certain(graded, problems):
    base = graded({f"p{i}": [1, 0, 0, 0] for i in range(problems)})
    policy = graded({f"p{i}": [1, 1, 1, 0] for i in range(problems)})
    difference = paired_difference(base, policy)
    assert difference.mean == 0.5 and difference.p_value == pytest.approx(2 / 2**problems)
    assert difference.beyond_chance is (problems >= 6) and difference.detectable == math.inf
    if problems < 6:
        assert (difference.low, difference.high, difference.test) == (-1, 1, "too few problems, below 6")
    else:
        assert 0 < difference.low < 0.4 and 0.6 < difference.high < 1


@pytest.mark.parametrize("problems", [3, 8, 30])
def test_equal_models_seldom_differ_beyond_chance(graded, problems):
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(60):
        rates = rng.beta(0.5, 1, problems)
        pair = (graded({f"p{i}": [int(x) for x in rng.random(4) < r] for i, r in enumerate(rates)}) for _ in "ab")
        false += paired_difference(*pair).beyond_chance
    assert false <= 6


def test_quantiles_are_those_of_the_normal_distribution():
    assert pytest.approx(stats.norm.ppf([0.975, 0.8]), abs=1e-15) == [Z95, Z80]


def test_agresti_min_covers():
    rng = np.random.default_rng(0)
    draws = rng.choice([1.0, 0.0, -1.0], p=[0.3, 0.6, 0.1], size=(2000, 50))
    covered = [low <= 0.2 <= high for low, high in map(agresti_min, draws.tolist())]
    assert 0.93 < np.mean(covered) < 0.98


def test_an_average_is_as_uncertain_as_its_benchmarks():
    def of(mean, low, high):
        return Difference("b", 100, mean, low, high, 0.05, 0.01, "")

    assert average_difference([of(0.3, 0.1, 0.4)]) == pytest.approx((0.3, 0.1, 0.4))
    even = [of(0.1, 0.0, 0.2), of(0.3, 0.1, 0.5)]  # the root of the sum of the squared half widths, by hand
    assert average_difference(even) == pytest.approx((0.2, 0.2 - math.sqrt(0.05) / 2, 0.2 + math.sqrt(0.05) / 2))
    for mean in (-1.0, -0.6, 0.4, 1.0):  # two problems say nothing, whatever their mean is
        average, low, high = average_difference([of(mean, -1.0, 1.0), of(0.05, -0.02, 0.12)])
        assert -1 <= low < 0 < high <= 1 and low <= average <= high


def test_different_problems_are_not_compared(graded):
    with pytest.raises(InputError, match=r"b: the two results are of different problems \(1 only in the first, 2 only"):
        paired_difference(graded({"p": [1], "q": [1]}), graded({"p": [1], "r": [0], "s": [0]}))
    of = [graded({"p": [1]}).replace_schema_metadata({"grading": f'{{"problems": "{digest}"}}'}) for digest in "xy"]
    with pytest.raises(InputError, match="different problems or gold answers that have the same ids"):
        paired_difference(*of)
    with pytest.raises(InputError, match="no graded samples"):
        summarize(graded({"p": [1]}).slice(0, 0))
