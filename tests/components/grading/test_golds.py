"""No wrong answer to a gold of any kind is correct, and right ones are: generated golds with mutations."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from golds import AGREEING, DIFFERING, KINDS, cases

from grading.grader import Grader
from grading.verdict import Verdict


@pytest.mark.parametrize(
    ("seed", "golds"), [(1, 1), pytest.param(2026, 10, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)
def test_no_wrong_answer_is_correct_and_right_ones_are(seed: int, golds: int) -> None:
    generated = list(cases(seed, golds))
    assert len(generated) == len(KINDS) * golds and len(KINDS) >= 25
    assert all(len(case.right) == AGREEING and len(case.wrong) == DIFFERING for case in generated)
    with Grader(workers=2, limit_s=20.0) as grader, ThreadPoolExecutor(2) as threads:

        def correct(pair: tuple[str, str]) -> bool:
            return grader.verify(*pair) is Verdict.CORRECT

        wrong = [(answer, case.gold) for case in generated for answer in case.wrong]
        right = [(answer, case.gold) for case in generated for answer in case.right]
        false_correct = [
            pair for pair, is_correct in zip(wrong, threads.map(correct, wrong), strict=True) if is_correct
        ]
        false_wrong = [
            pair for pair, is_correct in zip(right, threads.map(correct, right), strict=True) if not is_correct
        ]
        unread = Counter(case.kind for case in generated if not grader.parses(case.gold))
    print(f"{len(false_correct)} of {len(wrong)} wrong answers correct: {false_correct}")
    print(f"{len(false_wrong)} of {len(right)} right answers wrong: {false_wrong}; golds not read: {dict(unread)}")
    assert not false_correct
    assert len(false_wrong) <= len(right) // 100
    assert not unread
