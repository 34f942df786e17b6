r"""An answer may state more than the value that is asked for; a gold answer asks for all that it states."""

import doctest

import pytest

from grading.expressions.reading import wording
from grading.grader import Grader
from grading.verdict import Verdict


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=2, limit_s=20.0) as grader:
        yield grader


def test_the_examples_in_the_docstrings_are_true() -> None:
    result = doctest.testmod(wording)
    assert result.attempted and result.failed == 0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        # a calculation, whose sides are equal
        ("35", "5 \\cdot 7 = 35"),
        ("\\frac{2}{7}", "\\frac{6}{21} = \\frac{2}{7}"),
        ("56", "\\binom{8}{3}=56"),
        ("\\frac13", "\\int_0^1 x^2\\,dx = \\frac13"),
        # the sum that is asked for
        ("73", "p+q=73"),
        ("73", "73 = a+b+c"),
        ("73", "a+b+c = 60 + 13 = 73"),
        # an exact value and a rounded one
        ("5\\sqrt{2}", "5\\sqrt{2} \\approx 7.07"),
        ("7.07", "5\\sqrt{2} \\approx 7.07"),
        ("\\frac{e}{2}", "x = \\frac{e}{2} \\approx 1.359"),
        ("6.02e23", "N \\approx 6.02 \\times 10^{23}"),
        ("0.45", "\\approx 0.45"),
        ("9.1e-31", "m \\approx 9.1 \\times 10^{-31}\\text{ kg}"),
        # one value in two spellings
        ("\\frac{7}{4}", "\\frac{7}{4} \\text{ or } 1\\frac{3}{4}"),
        # a formula with its conditions
        ("3k-1", "3k-1, k \\ge 1"),
        ("a_k=3k-1", "a_k=3k-1 \\text{ for } k \\ge 1"),
        ("\\frac{2}{t}", "g(t) = \\frac{2}{t}, \\quad t \\neq 0"),
    ],
)
def test_what_an_answer_states_beside_the_value_does_not_count(grader: Grader, gold: str, answer: str) -> None:
    assert grader.verify(answer, gold) is Verdict.CORRECT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        # a gold answer asks for all of it
        ("5 \\cdot 7 = 35", "35"),
        ("p+q=73", "73"),
        ("y=3x, x>0", "y=3x"),
        # what is not true, not finished or not certain
        ("35", "5 \\cdot 7 = 36 = 35"),
        ("35", "5 \\cdot 6 = 35"),
        ("35", "35 = 5 \\cdot 8"),
        ("73", "p+q=74"),
        ("73", "a+b+c = 60 + 14 = 73"),
        ("73", "pq=73"),
        ("73", "p-q=73"),
        ("73", "2p+q=73"),
        ("73", "p+p=73"),
        ("73", "\\max(73,80)=73"),
        ("\\frac{67}{100}", "\\frac23 \\approx 0.67"),
        ("73", "P(A)+P(B)=73"),
        ("5\\sqrt{2}", "5\\sqrt{3} \\approx 7.07"),
        ("5\\sqrt{2}", "\\approx 7.07"),
        ("8", "\\approx 8"),
        ("8", "\\sqrt{65} \\approx 8"),
        ("\\ln 3", "\\approx \\ln 3"),
        ("\\$4.25", "\\approx \\$4.25"),
        ("\\frac{5}{8}", "\\approx \\frac{5}{8}"),
        ("\\frac{17}{5}", "\\approx \\frac{17}{5}"),
        ("3 2/5", "\\approx 3 2/5"),
        ("4", "4 \\text{ or } 5"),
        ("4", "4 \\text{ if } n=2"),
        ("4", "4, n>2"),
        ("3k-1", "3k-1, k=2"),
        ("3k-1", "3k-1, j \\ge 1"),
        ("x>3", "x>3, x<9"),
        # labels that deny or bound
        ("6", "\\text{The answer is not } 6"),
        ("6", "\\text{Upper bound: } 6"),
        ("6", "\\text{Not: } 6"),
        ("6", "Twice area = 6"),
        ("6", "\\text{otherwise}"),
    ],
)
def test_what_states_another_value_is_wrong(grader: Grader, gold: str, answer: str) -> None:
    assert grader.verify(answer, gold) is Verdict.WRONG


def test_two_matrices_of_other_names_are_compared(grader: Grader) -> None:
    matrix, other = (f"\\begin{{pmatrix}}{first}\\\\5\\end{{pmatrix}}" for first in "34")
    for answer, gold in ((f"A={matrix}", f"B={other}"), (f"v={matrix}", "x=\\sqrt{3}"), ("0.1234567", f"B={other}")):
        assert grader.verify(answer, gold) is Verdict.WRONG
        assert grader.verify(gold, answer) is Verdict.WRONG
