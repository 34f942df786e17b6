"""What the trainer's reward, the target filter and the benchmarks all rely on."""

import threading
from collections.abc import Iterator

import pytest

from grading.answers.extraction import extract_boxed
from grading.grader import Grader
from grading.verdict import Grade, Verdict
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item, Verifier


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2, limit_s=20.0) as grader:
        yield grader


@pytest.fixture(scope="module")
def math() -> Iterator[Verifier]:
    with open_verifier(parse_spec("math", "test"), limit_s=20.0) as verifier:
        yield verifier


def think(answer: str) -> str:
    return f"<think>\nsome work, perhaps \\boxed{{1}}\n</think>\n\nSo {answer}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{1} then \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed {5}", "5"),
        ("\\boxed{ \\{1,2\\} }", "\\{1,2\\}"),
        ("$\\boxed 5$", "5"),
        ("\\boxed{1} and cut \\boxed{\\frac{1", None),
        ("\\boxed{}", None),
        ("\\boxedish{3}", None),
    ],
)
def test_last_box(text: str, expected: str | None) -> None:
    assert extract_boxed(text) == expected


def test_an_answer_must_be_boxed_after_the_thoughts(math: Verifier) -> None:
    assert math.verify(think("\\boxed{42}"), "42").verdict is Verdict.CORRECT
    assert math.verify(think("42"), "42") == Grade(Verdict.NO_ANSWER, None, "nothing boxed")
    assert math.verify("<think> \\boxed{42}", "42") == Grade(Verdict.NO_THINK_END, None, "no </think>")
    assert math.verify("\\boxed{42}", "42", thinking=False).score == 1.0
    truncated = math.verify(think("\\boxed{42}"), "42", truncated=True)
    assert (truncated.verdict, truncated.score) == (Verdict.TRUNCATED, 0.0)


def test_what_is_nobodys_fault_is_not_called_wrong(grader: Grader) -> None:
    assert grader.verify("5", "") is Verdict.GOLD_UNPARSED
    assert grader.verify("5", "\\text{}^{") is Verdict.GOLD_UNPARSED
    assert grader.gold_problem("\\text{}^{")
    assert grader.gold_problem("\\left( 3, \\frac{\\pi}{2} \\right)") is None
    assert grader.verify("(2,1)", "(1,2)") is Verdict.WRONG
    assert grader.verify("x" * 2000, "5") is Verdict.ERROR


def test_many_keep_their_order(math: Verifier) -> None:
    items = [Item(think(f"\\boxed{{\\frac{{{i % 3}}}{{2}}}}"), "0.5") for i in range(30)]
    assert [grade.score for grade in math.verify_many(items)] == [float(i % 3 == 1) for i in range(30)]


def test_threads_share_a_grader(grader: Grader) -> None:
    found: list[tuple[int, Verdict]] = []

    def work(i: int) -> None:
        found.append((i, grader.verify(f"\\frac{{{2 * i}}}{{2}}", str(i if i % 2 else i + 1))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert all((verdict is Verdict.CORRECT) == (i % 2 == 1) for i, verdict in found)


def test_the_published_rule_takes_any_answer_after_the_first_thoughts() -> None:
    responses = {
        "<think>a</think> So the answer is 4.": "correct",
        "<think>a</think> \\boxed{4} </think> nothing here": "correct",
        "<think>a</think> So the answer is 5.": "wrong",
        "<think>a</think> none": "no_answer",
        "So the answer is 4.": "no_think_end",
    }
    with open_verifier(parse_spec("math_whole_text", "test"), workers=1, limit_s=20.0) as published:
        assert {text: str(published.verify(text, "4").verdict) for text in responses} == responses
        assert published.verify("So the answer is 4.", "4", thinking=False).score == 1.0
        assert published.verify("<think>a</think> 4", "4", truncated=True) == Grade(
            Verdict.TRUNCATED, None, "stopped at the token limit"
        )
