"""The embedded task: true traces, disjoint sides, the same problems everywhere."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.arithmetic import (
    LARGEST_TOTAL,
    SPLITS,
    problems,
    random_expression,
    work_out,
)
from core.errors import InputError

TRAINING = {"train", "train_hard", "train_products"}


@pytest.mark.parametrize("split", SPLITS)
def test_a_trace_is_true_and_leads_to_the_answer(split: str) -> None:
    for problem in problems(split, 200):
        expression = problem.problem.removesuffix("=?")
        thinking, answer = re.fullmatch(
            r"<think>\n(.+)\n</think>\n\n\\boxed\{(\d+)\}", problem.trace, re.DOTALL
        ).groups()
        steps = [line.split("=") for line in thinking.split("\n")]
        assert all(eval(operation) == int(result) for operation, result in steps)
        assert len(steps) == len(re.findall(r"[-+*]", expression))
        assert int(steps[-1][1]) == int(answer) == int(problem.answer) == eval(expression)


@pytest.mark.parametrize("split", SPLITS)
def test_a_terse_teacher_skips_lines_and_not_the_first(split: str) -> None:
    for terse, full in zip(problems(split, 100, terse=1.0), problems(split, 100), strict=True):
        assert (terse.id, terse.answer) == (full.id, full.answer)
        lines, steps = (problem.trace.split("</think>")[0].split("\n")[1:-1] for problem in (terse, full))
        assert lines[0] == steps[0]
        assert all(eval(operation) == int(result) for operation, result in (line.split("=") for line in lines))
        if "*" not in full.problem:
            assert len(lines) == 1 + -(-(len(steps) - 1) // 2)


def test_a_teacher_is_terse_for_the_share_asked_for_and_more_only_adds() -> None:
    full, half, most = ({p.id: p.trace for p in problems("train", 1000, terse=share)} for share in (0.0, 0.5, 0.75))
    skipped = [{name for name, trace in traces.items() if trace != full[name]} for traces in (half, most)]
    assert skipped[0] < skipped[1]
    assert [len(names) / 1000 for names in skipped] == pytest.approx([0.5, 0.75], abs=0.05)


@given(seed=st.integers(0, 2**32), terms=st.integers(1, 9), products=st.integers(0, 2))
def test_an_expression_has_the_terms_and_products_asked_for_and_stays_within_bounds(
    seed: int, terms: int, products: int
) -> None:
    terms = max(terms, products + 1)
    expression = random_expression(random.Random(seed), terms, products)
    assert len(expression) == 2 * terms - 1 and expression.count("*") == products
    steps = work_out(expression)
    assert len(steps) == terms - 1
    assert all(0 <= step.result <= LARGEST_TOTAL for step in steps)


def test_no_evaluation_problem_is_ever_a_training_problem() -> None:
    training = {p.problem for name in TRAINING for seed in range(3) for p in problems(name, 3000, seed)}
    for name in SPLITS.keys() - TRAINING:
        assert training.isdisjoint(p.problem for p in problems(name, 500, seed=1)), name


def test_problems_are_distinct_reproducible_and_only_appended_to() -> None:
    many = problems("train", 400, seed=3)
    assert len({p.id for p in many}) == len({p.problem for p in many}) == 400
    assert problems("train", 150, seed=3) == many[:150]
    assert problems("train", 150, seed=4) != many[:150]
    assert problems("test", 1)[0].problem == "9+4-6+7-6-6=?"  # the same on every machine and Python


@pytest.mark.parametrize(
    ("split", "n", "message"),
    [
        ("tset", 1, "'tset' does not exist: expected one of train, test, long"),
        ("test", -1, "asked for -1 problems"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(split: str, n: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problems(split, n)


def test_more_problems_than_a_split_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPLITS, "short", replace(SPLITS["short"], terms=(2, 2)))
    with pytest.raises(InputError, match=r"no more than about \d+ distinct problems; you asked for 1000000"):
        problems("short", 10**6)
