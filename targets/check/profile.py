"""The flat description of a target that quality checks look at.

Nothing is copied from the filters that let it through: the target as written is taken apart again, so that a fault of a
filter shows.
"""

from typing import Any

from grading.grader import answer_part, extract_boxed
from targets.filter.rules import compression_ratio

OPEN, CLOSE = "<think>\n", "\n</think>\n\n"


def measure(target: str, answer: str) -> dict[str, Any]:
    """The columns of PROFILE that the text of a target shows; ``answer`` is the boxed answer that was verified."""
    boxed = extract_boxed(answer_part(target, thinking=True) or "")
    once = target.startswith(OPEN) and target.count("<think>") == target.count("</think>") == 1
    thoughts, _, rest = target.removeprefix(OPEN).partition(CLOSE)
    return {
        "verified": boxed is not None and boxed == answer,
        "has_think": once and bool(thoughts.strip() and rest[:1].strip()),
        "has_answer": boxed is not None,
        "compression_ratio": compression_ratio(target),
    }
