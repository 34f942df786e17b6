"""Every listed pair of answers has the verdict of ``tests/golden/answers.tsv``."""

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from grading.expressions.forms import Kind
from grading.grader import Grader
from grading.verdict import Verdict

FILE = Path(__file__).parents[2] / "golden" / "answers.tsv"
LONGEST_S = 2.0
LONG = "9" * 4400  # digits: `int` refuses more than 4,300


class Pair(NamedTuple):
    """A row of the file."""

    gold: str
    answer: str
    verdict: str
    why: str


def pairs() -> Iterator[Pair]:
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        yield from (Pair(*row) for row in rows)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2, limit_s=20.0) as grader:
        yield grader


def test_each_listed_pair_has_its_verdict_in_time(grader: Grader) -> None:
    def seconds(pair: Pair) -> float:
        began = time.monotonic()
        verdict, reason = grader.compare(pair.answer, pair.gold)
        others.update({pair: (str(verdict), reason)} if verdict != pair.verdict else {})
        return time.monotonic() - began

    others: dict[Pair, tuple[str, str]] = {}
    grader.verify("x+1", "\\frac{1}{2}")  # starts a worker
    slow = [pair for pair in pairs() if seconds(pair) > LONGEST_S]
    assert not others
    assert not [pair for pair in slow if min(seconds(pair), seconds(pair)) > LONGEST_S]  # others may take the machine


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        ("\\sqrt{2}", "2^{1/2}", "same number"),
        ("5\\text{ m}", "6\\text{ m}", "different quantity"),
        ("x^2-1", "(x-1)(x+1)", "same formula"),
        ("a<b<c", "a<c<b", "different relation"),
        ("\\{1,2\\}", "\\{2,1\\}", "same set"),
        ("[1,2)", "1\\le x<2", "same interval"),
        ("(1,\\sqrt2)", "(1,\\sqrt{2},3)", "different tuple"),
        ("1,2", "x=1, x=2", "same list"),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "(1,2)^T", "same matrix"),
        ("2024-03-05", "March 5, 2024", "same date"),
        ("5:00 PM", "17:00", "same time"),
        ("B", "\\text{Option B}", "same choice"),
        ("\\text{red, green}", "\\text{green, red}", "different text"),
        ("2024-03-05", "x^2", "expected a date that can be parsed completely (no date)"),
        ("k\\pi", "n\\pi", "same formula, with n for the integer k"),
        ("x=3", "3x-1=8", "an unsolved relation"),
    ],
)
def test_the_gold_answer_decides_the_kind_that_the_reason_names(
    grader: Grader, gold: str, answer: str, reason: str
) -> None:
    assert grader.compare(answer, gold)[1] == reason
    assert any(str(kind) in reason for kind in Kind)


@pytest.mark.parametrize(
    ("gold", "advice"),
    [
        ("\\int_0^1 x dx", "give its value"),
        ("n \\equiv 5 \\pmod 9", "give the remainder"),
        ("\\begin{cases}2&x>1\\\\3&x\\le 1\\end{cases}", "give its pieces as text"),
        ("\\foo 3", "write it as"),
        ("\\frac{1}{2", "write it as"),
        ("", "it is empty"),
    ],
)
def test_a_gold_answer_that_is_not_read_says_what_to_do(grader: Grader, gold: str, advice: str) -> None:
    assert advice in (grader.gold_problem(gold) or "")
    assert grader.verify("8", gold) is Verdict.GOLD_UNPARSED


@pytest.mark.parametrize(
    "text", [f"1e{LONG}", f"10_{{{LONG}}}", f"{LONG}_7", f"\\frac{{{LONG}}}{{2}}", f"{LONG}%", LONG, "x" * 2000]
)
def test_texts_that_are_too_long_are_compared_or_refused(grader: Grader, text: str) -> None:
    for answer, gold in ((text, "7"), ("7", text), (text, text)):
        assert (grader.verify(answer, gold) is Verdict.CORRECT) == (answer == gold)
    grader.gold_problem(text)


def test_of_a_gold_answer_with_a_rounded_value_either_is_right(grader: Grader) -> None:
    gold = "2\\sqrt{3} \\approx 3.46"
    assert [grader.verify(answer, gold) for answer in ("2\\sqrt{3}", "3.46", "3.5")] == ["correct", "correct", "wrong"]
