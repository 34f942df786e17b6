"""Training problems that repeat a benchmark are found; look-alikes of short problems and common phrases are not."""

import random

import pyarrow as pa
import pytest
from published_files import problem

from core.arithmetic import problems
from core.schemas import BENCHMARK
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite
from grading.contamination import overlaps

pytest.importorskip("rapidfuzz")  # in the orchestration interpreter, where targets are checked

PROBLEM = (
    "Every morning Aya goes for a $9$-kilometer-long walk and stops at a coffee shop afterwards. When she walks at a "
    "constant speed of $s$ kilometers per hour, the walk takes her 4 hours."
)


def table(*texts: str) -> pa.Table:
    rows = [
        {"benchmark": "b", "id": str(i), "problem": t, "gold": "1", "verifier": "math"} for i, t in enumerate(texts)
    ]
    return pa.Table.from_pylist(rows, schema=BENCHMARK)


@pytest.mark.parametrize(
    "text",
    [
        PROBLEM,
        PROBLEM.upper().replace(" ", "  "),
        PROBLEM.replace("9", "7").replace("Aya", "Ana"),
        PROBLEM.replace("9", "nine").replace("4 hours", "hours"),
        "Read carefully. " + PROBLEM + " Find the number of minutes in which she would walk if she walked faster.",
    ],
)
def test_copies_variants_and_extensions_are_found(text):
    (match,) = overlaps([text], table("Something else entirely, with no words in common at all here.", PROBLEM))
    assert match is not None
    assert (match.benchmark, match.id, match.problem) == ("b", "1", PROBLEM)
    assert match.ratio >= 90 or match.coverage >= 0.5


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("7+5-3+4+2+1+6+8+9=?", "7+5-3+4+2+1+6+8+3=?"),
        ("Compute $\\sin 30^\\circ$.", "Compute $\\sin 60^\\circ$."),
        (
            "Let $a$ be a positive real number such that all the roots of $x^3+ax^2+ax+1=0$ are real. Find $a$.",
            "Find the volume of the solid whose base is the unit disc, where all the roots of the polynomial that Tom "
            "wrote on the board in class this morning are its heights, and round to the nearest integer at the end.",
        ),
        (
            "What is the largest root of the equation $(2.6)x + 3.6 = 17$? Express your answer as a common fraction.",
            "What is the largest root of the equation $20x + 36 = 52$? Express your answer as a common fraction.",
        ),
        (
            "Find the inverse of $27$ modulo $28$. Express your answer as an integer from $0$ to $27$, inclusive.",
            "Compute $997^{-1}$ modulo $1000$. Express your answer as an integer from $0$ to $999$, inclusive.",
        ),
        ("", "7+5=?"),
    ],
)
def test_look_alikes_are_not(text, known):
    assert overlaps([text], table(known)) == [None]


def test_equal_short_problems_are_found():
    assert [m and m.id for m in overlaps(["7 + 5=?", "7+6=?"], table("1+1=?", "7+5=?"))] == ["1", None]


def test_embedded_training_never_meets_its_benchmarks():
    suite = read_suite(load_suite("embedded"), [])
    training = [problem.problem for problem in problems("train", 300, seed=0)]
    assert overlaps(training, suite) == [None] * 300
    assert all(overlaps(suite["problem"].to_pylist(), suite))


def test_the_benchmarks_of_the_paper_are_found_among_other_problems(published):
    suite = read_suite([b for b in load_suite("paper") if b.name in ("math500", "aime24")], [published])
    known = suite["problem"].to_pylist()
    assert all(overlaps(known, suite))
    source = random.Random(9)
    others = [problem(source)[0] for _ in range(2000)]
    training = [*others, *(f"Solve this. {text} Explain every step." for text in known[::25])]
    found = [match is not None for match in overlaps(training, suite)]
    assert found == [False] * len(others) + [True] * len(known[::25])


def test_a_problem_is_found_with_and_without_its_drawing():
    text = "Rectangles $ABCD$ and $EFGH$ are drawn such that $D,E,C,F$ are collinear; what is the length of $CE$?"
    drawing = "\n[asy]\nimport graph; draw((0,0)--(1,2)); label('A', (0,0));\n[/asy]"
    assert overlaps([text], table(text + drawing)) != [None]
    assert overlaps([text + drawing], table(text)) != [None]
    assert overlaps([f"{text} Explain."], table(text + drawing)) != [None]
    drawings = ["[asy] draw((0,0)--(1,2)); [/asy]", "[asy] label('B', (3,0)); fill((1,7)--(2,9)--cycle, red); [/asy]"]
    short = [f"Find its area. {drawing}" for drawing in drawings]
    assert overlaps([short[0]], table(short[1])) == [None]
