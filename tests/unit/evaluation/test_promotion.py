"""The rule of promotion: evidence at any stopping time, the error rate of a line, rounds, and what a loss may be."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.schemas import GRADED
from evaluation.benchmarks.suite import load_suite
from evaluation.promotion.answer_counts import answers_by_problem, first_round, most_answers, next_round
from evaluation.promotion.champions import Registry
from evaluation.promotion.decision_text import decision_sentence
from evaluation.promotion.match import (
    answer_differences,
    compare_answers,
    log_evidence,
    log_wealths,
    smallest_gain,
    weigh,
)
from evaluation.promotion.promotion_rules import allowed_losses
from evaluation.promotion.records import Checkpoint, Decision, ErrorBudget, PromotionLimits

SUITE = load_suite("embedded")
FRACTIONS = st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])


def table(scores: dict[str, list[float]], name: str = "arithmetic", **columns: object) -> pa.Table:
    """A GRADED table with the scores of each problem's samples."""
    rows = [
        {"benchmark": name, "id": problem, "sample": k, "score": score, **columns}
        for problem, values in scores.items()
        for k, score in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, schema=GRADED)


def rounds_of(problems: list[tuple[float, float, float]], size: int) -> list[tuple[float, list[float]]]:
    """(probability, differences) of every outcome of a round that asks ``size`` of the problems once.

    ``problems``: of each the chance of a loss, and of a gain, and how much is lost or won.
    """
    subsets = list(itertools.combinations(problems, size))
    outcomes = []
    for subset in subsets:
        for signs in itertools.product((-1, 0, 1), repeat=size):
            chance = 1 / len(subsets)
            for (loss, gain, _), sign in zip(subset, signs, strict=True):
                chance *= {-1: loss, 0: 1 - loss - gain, 1: gain}[sign]
            outcomes.append((chance, [sign * stake for (_, _, stake), sign in zip(subset, signs, strict=True)]))
    return outcomes


def e_value(differences: list[float]) -> float:
    values = np.array(differences)
    return float(np.exp(log_evidence(log_wealths(values, np.ones(len(values))))))


@settings(max_examples=60, deadline=None)
@given(
    chances=st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0.1, 1)), min_size=2, max_size=3),
    sizes=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_no_stopping_time_makes_evidence_of_nothing(chances, sizes):
    """The best expected e-value that a choice of when to stop can reach is 1, whatever the single problems are."""
    mean = sum(stake * (gain - loss) for loss, gain, stake in chances)
    if mean > 0:  # turn the models round
        chances = [(gain, loss, stake) for loss, gain, stake in chances]
    first, second = rounds_of(chances, sizes[0]), rounds_of(chances, sizes[1])
    best = 0.0
    for chance, seen in first:
        if chance > 0:
            going_on = sum(later * e_value([*seen, *more]) for later, more in second if later > 0)
            best += chance * max(e_value(seen), going_on)
    assert best <= 1 + 1e-9


@pytest.mark.parametrize("answers", [[200], [100, 700], [40, 40, 4000]])
def test_the_smallest_gain_is_shown_and_a_smaller_one_is_not(answers):
    level = ErrorBudget(0.05, 20).level
    gain = smallest_gain(answers, level)
    assert gain is not None

    def shown(share: float) -> bool:
        wins = [round(share * count) for count in answers]
        parts = [np.repeat([1.0, 0.0], [n, count - n]) for n, count in zip(wins, answers, strict=True)]
        return weigh(parts, level).shown

    assert shown(gain + 1 / min(answers)) and not shown(gain - 1 / min(answers))
    assert smallest_gain([4], level) is None


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.lists(FRACTIONS, min_size=1, max_size=40), min_size=1, max_size=4), bound=st.floats(-0.5, 0.5))
def test_each_benchmark_counts_the_same_and_no_wealth_is_negative(parts, bound):
    evidence = weigh([np.array(part) for part in parts], 0.01, bound=bound)
    means = [sum(part) / len(part) for part in parts]
    assert evidence.difference == pytest.approx(sum(means) / len(means))
    assert math.isfinite(evidence.log_value)
    if evidence.difference <= bound:
        assert not evidence.shown and evidence.log_value <= 1e-6 + 0.05 * evidence.answers
    if evidence.shown:
        assert evidence.needed is not None and evidence.difference > bound


def test_more_answers_show_a_gain_and_as_many_as_were_said():
    part = np.array([1.0] * 6 + [0.0] * 92 + [-1.0] * 2)
    few = weigh([part], 0.001, most=10_000)
    assert not few.shown and few.hopeful and few.needed is not None
    copies = -(-few.needed // len(part))
    assert weigh([np.tile(part, copies)], 0.001).shown
    assert not weigh([np.tile(part, copies // 2)], 0.001).shown
    assert weigh([-part], 0.001, most=10_000).needed is None
    assert not weigh([-np.tile(part, 10)], 0.001, most=2_000).hopeful


@given(st.lists(st.booleans(), max_size=200), st.floats(0.001, 0.5))
def test_all_levels_together_are_within_the_error_rate(promotions, rate):
    budget, spent = ErrorBudget(rate, 0), 0.0
    for promoted in promotions:
        spent += 0.0 if promoted else budget.level
        budget = budget.after(budget.level, promoted=promoted)
        assert 0 < budget.left <= rate and budget.left == pytest.approx(rate - spent)


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 5), st.integers(0, 9))
def test_rounds_add_answers_and_ask_problems_alike(problems, first, rounds, seed):
    ids = [f"{number}" for number in range(problems)]
    counts = [answers_by_problem(ids, first, first * 2**n, str(seed)) for n in range(rounds + 1)]
    for number, count in enumerate(counts):
        assert sum(count.values()) == first * 2**number
        spread = [count.get(problem, 0) for problem in ids]
        assert max(spread) - min(spread) <= number + 1
    for before, after in itertools.pairwise(counts):
        assert all(after[problem] >= count for problem, count in before.items())


def test_a_round_draws_other_problems_than_the_one_before():
    ids = [f"{number}" for number in range(100)]
    first = set(answers_by_problem(ids, 20, 20, "0"))
    twice = {problem for problem, count in answers_by_problem(ids, 20, 40, "0").items() if count == 2}
    assert 0 < len(twice) < 20 and twice <= first  # about 4 of them: a second round that avoided the first has none


def test_answers_are_paired_one_by_one_and_others_are_refused():
    opponent, policy = table({"a": [0.0, 0.5], "b": [1.0]}), table({"a": [1.0, 0.25], "b": [1.0]})
    assert sorted(answer_differences(opponent, policy)) == [-0.25, 0.0, 1.0]
    assert sorted(answer_differences(opponent, table({"a": [1.0], "b": [1.0]}))) == [0.0, 1.0]
    with pytest.raises(InputError, match="2 problems were answered by only one of the two models"):
        answer_differences(opponent, table({"a": [1.0], "c": [1.0]}))


def answers(right: dict[str, int], of: int = 100) -> dict[str, pa.Table]:
    """A table for each benchmark, with so many of its problems right."""
    drawn = {"sampling": '{"samples": "until_decided"}'}
    tables = {name: table({f"{i:03}": [float(i < n)] for i in range(of)}, name) for name, n in right.items()}
    return {name: one.replace_schema_metadata(drawn) for name, one in tables.items()}


NAMES = [benchmark.name for benchmark in SUITE]
LIMITS = {benchmark.name: 0.05 for benchmark in SUITE if benchmark.group == "ood"}


def test_only_benchmarks_that_are_open_get_more_answers():
    def compared(level: float = 0.001, **right: int):
        opponent = answers(dict.fromkeys(NAMES, 50))
        policy = answers({**dict.fromkeys(NAMES, 50), **right})
        most = {"evals": 1600, "ood": 1600}
        return compare_answers(opponent, policy, SUITE, level, LIMITS, most)

    sizes = dict.fromkeys(NAMES, 100)
    undecided = compared(arithmetic=58)
    assert next_round(undecided, sizes) == {**sizes, "arithmetic": 200}
    assert next_round(compared(arithmetic=40), sizes) is None
    gained = compared(arithmetic=95, arithmetic_long=70, arithmetic_short=70, arithmetic_mul=47)
    assert gained.gain.shown and gained.within("arithmetic_long") is True and gained.within("arithmetic_mul") is None
    assert next_round(gained, sizes) == {**sizes, "arithmetic_mul": 200}
    assert compared(arithmetic=95, arithmetic_mul=10).within("arithmetic_mul") is False
    assert [compared(level, arithmetic_mul=55).within("arithmetic_mul") for level in (0.05, 0.001)] == [True, None]


def test_a_budget_is_a_multiple_of_what_the_suite_asks_for():
    assert first_round(SUITE) == {"arithmetic": 128} | dict.fromkeys(LIMITS, 32)
    assert most_answers(SUITE, {"arithmetic": 200}) == {"evals": 2048, "ood": 2048}


# --- the registry


def decide(registry: Registry, number: int, decision: Decision) -> None:
    policy = Checkpoint(path=f"/runs/{number}/policy", digest=f"{number:064}", scores={})
    facts = {"base": "base", "scorecard": "", "limits": PromotionLimits(), "dagster_run": "r"}
    registry.record_decision(policy, lambda _: decision, **facts)


def test_a_comparison_spends_its_level_once_and_a_promotion_gives_it_back(tmp_path: Path):
    registry = Registry(tmp_path)
    level = registry.level("first", 0.05)
    assert level == pytest.approx(0.05 / 51)
    lost = Decision(promoted=False, reasons=[], outcome="not_decided", test="first", level=level)
    decide(registry, 1, lost)
    spent = registry.error_budget(0.05)
    assert spent == ErrorBudget(0.05 - level, 1)
    decide(registry, 1, lost)  # the same candidate on a schedule
    assert registry.error_budget(0.05) == spent and registry.level("first", 0.05) == level
    assert registry.is_new("second") and not registry.is_new("first")
    second = registry.level("second", 0.05)
    assert second == pytest.approx((0.05 - level) / 52)
    decide(registry, 2, lost.model_copy(update={"test": "second", "level": second}))
    decide(registry, 1, lost.model_copy(update={"promoted": True, "outcome": "promoted"}))  # with more answers
    assert registry.error_budget(0.05).left == pytest.approx(0.05 - second)
    with pytest.raises(InputError, match=r"have spent more than 0\.0001"):
        registry.level("third", 0.0001)


def test_losses_are_counted_from_the_best_champion_ever(tmp_path: Path):
    registry = Registry(tmp_path)
    names = list(LIMITS)
    for number, gain in enumerate((0.03, -0.01)):
        gains = {names[0]: gain, names[1]: 0.0}
        decision = Decision(promoted=True, reasons=[], above_base=gains, surely_above_base=gains)
        decide(registry, number, decision)
    allowed = allowed_losses(registry, registry.champion(), "base", SUITE, 0.05)
    assert allowed == pytest.approx({names[0]: 0.01, names[1]: 0.05, names[2]: 0.05})
    assert allowed_losses(registry, registry.champion(), "other", SUITE, 0.05) == pytest.approx(LIMITS)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"promoted": True, "outcome": "promoted"}, "promoted: +4.2 points in 80 answers, more than luck"),
        ({"outcome": "not_decided"}, "not promoted: 80 answers are too few to tell"),
        ({"outcome": "refused", "reasons": ["it loses", "it is cut"]}, "not promoted: it loses; it is cut"),
    ],
)
def test_one_plain_sentence_says_what_was_decided(fields: dict[str, Any], sentence: str) -> None:
    decision = Decision(**{"promoted": False, "reasons": [], "answers": 80, "difference": 0.042} | fields)
    assert decision_sentence(decision) == sentence
