"""The reward: the grader that benchmarks use, so that training and evaluation agree on what is right."""

from functools import cache
from typing import Any

from grading.grader import Grader


@cache
def grader() -> Grader:
    """One grader per reward process; its worker starts when an answer needs more than a comparison of strings."""
    return Grader(workers=1)


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    *,
    thinking: bool = True,
) -> dict[str, float]:
    """1.0 if the boxed answer after the last ``</think>`` is right, else 0.0.

    verl's reward workers call it once per sample, off-policy samples included. With ``thinking`` a response without a
    closing tag scores 0.
    """
    grade = grader().grade(solution_str, ground_truth, "math", thinking=thinking)
    return {"score": grade.score, "acc": grade.score}
