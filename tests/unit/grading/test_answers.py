"""The formulas of answers: their examples are true, and no number is too long for them."""

import doctest

import pytest

from grading.answers import choices, extraction, pairs, spelling
from grading.answers.choices import same_choice
from grading.grader import Grader
from grading.verdict import Verdict


def test_the_examples_in_the_docstrings_are_true():
    for module in (extraction, choices, pairs, spelling):
        result = doctest.testmod(module)
        assert result.attempted and result.failed == 0


LONG = "9" * 4400  # digits: `int` refuses more than 4,300


@pytest.mark.parametrize(
    "text", [f"1e{LONG}", f"10_{{{LONG}}}", f"{LONG}_7", f"\\frac{{{LONG}}}{{2}}", f"{LONG}%", LONG]
)
def test_numbers_too_long_for_int_are_compared_or_refused(text: str) -> None:
    with Grader(workers=1) as grader:
        for answer, gold in ((text, "7"), ("7", text), (text, text)):
            graded = grader.grade(f"</think>\\boxed{{{answer}}}", gold)
            assert (graded.verdict is Verdict.CORRECT) == (answer == gold)
        grader.parses(text)


@pytest.mark.parametrize("gold", ["\u00b2", "\u0661", LONG, "", "0"])
def test_a_gold_that_is_no_position_matches_no_letter(gold: str) -> None:
    assert not any(same_choice(letter, gold) for letter in "ABCDEFGHIJ")
