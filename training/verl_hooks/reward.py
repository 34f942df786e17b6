"""The reward: the grader of the benchmarks, so that training and evaluation agree on right answers."""

from functools import cache, partial
from typing import Any

from grading.grader import Grader

TRUNCATED = "truncated"  # entry of a sample's extra fields: it was cut at the response limit, and so scores 0


@cache
def grader(rule: str) -> Grader:
    """One grader per reward process; its worker starts when an answer needs more than a comparison of strings."""
    return Grader(workers=1, rule=rule)


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    *,
    rule: str = "boxed",
    thinking: bool = True,
) -> dict[str, float]:
    """1.0 if the boxed answer after the last ``</think>`` is right, else 0.0.

    verl's reward workers call it once per sample, off-policy samples included. With ``thinking`` a response without a
    closing tag scores 0.
    """
    truncated = bool((extra_info or {}).get(TRUNCATED))
    grade = grader(rule).grade(solution_str, ground_truth, "math", thinking=thinking, truncated=truncated)
    return {"score": grade.score, "acc": grade.score}


compute_score_whole_text = partial(compute_score, rule="whole-text")
"""As `compute_score`, for any answer after the first ``</think>``, boxed or not: the rule of the published run."""
