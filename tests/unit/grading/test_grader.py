"""What the trainer's reward, the target filter and the benchmarks all rely on."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from grading.grader import Grader
from grading.verdict import Grade, Verdict
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Verifier


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


def test_threads_share_a_grader(grader: Grader) -> None:
    pairs = [(f"\\frac{{{2 * i}}}{{2}}", str(i + i % 2)) for i in range(1, 17)]
    with ThreadPoolExecutor(16) as threads:
        verdicts = list(threads.map(lambda pair: grader.verify(*pair), pairs))
    assert verdicts == [Verdict.WRONG, Verdict.CORRECT] * 8


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
