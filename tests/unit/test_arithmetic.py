"""The embedded task: true traces, disjoint sides, the same problems everywhere."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.arithmetic import (
    LARGEST_TOTAL,
    SPLITS,
    as_problem,
    draw,
    is_held_out,
    problems,
    reductions,
    write,
)
from evaluation.errors import InputError


@pytest.mark.parametrize("split", SPLITS)
def test_every_line_of_a_trace_has_the_value_of_the_problem(split: str) -> None:
    for problem in problems(split, 200):
        expression = problem.problem.removesuffix("=?")
        thinking, answer = re.fullmatch(
            r"<think>\n(.+)\n</think>\n\n\\boxed\{(\d+)\}", problem.trace, re.DOTALL
        ).groups()
        lines = [line.removeprefix("=") for line in thinking.split("\n")]
        assert [eval(line) for line in [expression, *lines]] == [int(problem.answer)] * (len(lines) + 1)
        assert lines[-1] == answer == problem.answer


@given(seed=st.integers(0, 2**32), terms=st.integers(1, 9), products=st.integers(0, 2))
def test_a_reduction_removes_one_operation_and_stays_within_bounds(seed: int, terms: int, products: int) -> None:
    expression = draw(random.Random(seed), max(terms, products + 1), products)
    forms = reductions(expression)
    assert [len(form) for form in forms] == list(range(len(expression) - 2, 0, -2))
    assert all(0 <= number <= LARGEST_TOTAL for form in forms for number in form if isinstance(number, int))


def test_no_evaluation_problem_is_ever_a_training_problem() -> None:
    training = {p.problem for seed in range(3) for p in problems("train", 3000, seed)}
    for name in SPLITS.keys() - {"train"}:
        assert training.isdisjoint(p.problem for p in problems(name, 500, seed=1)), name


def test_the_side_of_an_expression_depends_on_nothing_but_the_expression() -> None:
    held_out = [p for name in SPLITS if name != "train" for p in problems(name, 100, seed=5)]
    rng = random.Random(0)
    share = sum(is_held_out(draw(rng, 7)) for _ in range(4000)) / 4000
    assert 0.2 < share < 0.3
    assert all(text_is_held_out(p.problem) for p in held_out)
    assert not any(text_is_held_out(p.problem) for p in problems("train", 500, seed=5))


def text_is_held_out(problem: str) -> bool:
    return is_held_out(tuple(int(c) if c.isdigit() else c for c in problem.removesuffix("=?")))


def test_problems_are_distinct_reproducible_and_only_appended_to() -> None:
    many = problems("train", 400, seed=3)
    assert len({p.id for p in many}) == len({p.problem for p in many}) == 400
    assert problems("train", 150, seed=3) == many[:150]
    assert problems("train", 150, seed=4) != many[:150]
    assert problems("test", 1)[0].problem == "9+4-6+7-6-6=?"  # the same on every machine and Python


def test_products_come_first() -> None:
    problem = as_problem((4, "+", 6, "-", 2, "*", 3), "mul")
    assert [write(form) for form in reductions((4, "+", 6, "-", 2, "*", 3))] == ["4+6-6", "10-6", "4"]
    assert problem.trace == "<think>\n=4+6-6\n=10-6\n=4\n</think>\n\n\\boxed{4}"


@pytest.mark.parametrize(
    ("split", "n", "message"),
    [
        ("tset", 1, "'tset' does not exist: expected one of train, test, long"),
        ("test", -1, "asked for -1 problems"),
        ("short", 10**6, "no more than about"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(split: str, n: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problems(split, n)
