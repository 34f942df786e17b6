"""Answers that are equal in value, and answers that are not, in both orders and in any spelling."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grading.grader import Grader
from grading.verdict import Verdict
from tests.components.grading.pairs import DIFFERENT, EQUAL


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=2, limit_s=20.0) as grader:
        yield grader


def correct(grader: Grader, answer: str, gold: str) -> tuple[bool, bool]:
    return (
        grader.verify(answer, gold) is Verdict.CORRECT,
        grader.verify(gold, answer) is Verdict.CORRECT,
    )


def respelled(draw: st.DrawFn, text: str) -> str:
    """``text`` with blanks, sizes and names of commands that change nothing."""
    for plain, others in (
        ("\\frac", ("\\dfrac", "\\tfrac", "\\frac")),
        ("(", ("\\left(", "( ", "(")),
        (")", ("\\right)", " )", ")")),
        (",", (",\\,", ", ", ",\\ ", ",")),
        ("&", (" & ", "& ", "&")),
        ("\\\\", ("\\\\ ", " \\\\", "\\\\")),
        ("+", (" + ", "+\\,", "+")),
        ("=", (" = ", "=")),
    ):
        if plain in text and not (plain == "," and "{,}" in text):  # a thousands separator stays as it is
            text = draw(st.sampled_from(others)).join(text.split(plain))
    return draw(st.sampled_from((text, f" {text} ", f"${text}$", f"{text}.", f"\\displaystyle {text}")))


def test_there_are_enough_pairs() -> None:
    assert len(EQUAL) >= 300 and len(DIFFERENT) >= 300


def test_equal_answers_are_equal_in_both_orders(grader: Grader) -> None:
    verdicts = {pair: correct(grader, *pair) for pair in EQUAL}
    assert not [pair for pair, both in verdicts.items() if both[0] != both[1]]
    missed = [pair for pair, both in verdicts.items() if not all(both)]
    print(f"{len(missed)} of {len(EQUAL)} equal pairs are called different: {missed}")
    assert len(missed) <= len(EQUAL) // 100


def test_different_answers_are_different_in_both_orders(grader: Grader) -> None:
    assert not [pair for pair in DIFFERENT if any(correct(grader, *pair))]


@settings(max_examples=50)
@given(st.data(), st.sampled_from(sorted(DIFFERENT)))
def test_no_spelling_makes_different_answers_equal(grader: Grader, data: st.DataObject, pair: tuple[str, str]) -> None:
    respell = st.composite(respelled)
    assert not any(correct(grader, *(data.draw(respell(side)) for side in pair)))


@settings(max_examples=50)
@given(st.data(), st.sampled_from(sorted(EQUAL[:100])))
def test_no_spelling_makes_equal_answers_different(grader: Grader, data: st.DataObject, pair: tuple[str, str]) -> None:
    respell = st.composite(respelled)
    assert all(correct(grader, *(data.draw(respell(side)) for side in pair)))
