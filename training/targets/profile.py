"""The flat description of a target that quality checks look at.

Nothing is copied from the filters that let it through: the target as written is taken apart again, so that a fault of a
filter shows.
"""

import re
from typing import Any

from evaluation.grading import answer_part, extract_boxed
from training.targets.filters import compression_ratio

THINK = re.compile(r"<think>\n.*\S.*\n</think>\n\n\S", re.DOTALL)


def measure(target: str, answer: str) -> dict[str, Any]:
    """The columns of PROFILE that the text of a target shows; ``answer`` is the boxed answer that was verified."""
    boxed = extract_boxed(answer_part(target, thinking=True) or "")
    once = target.count("<think>") == target.count("</think>") == 1
    return {
        "verified": boxed is not None and boxed == answer,
        "has_think": once and THINK.match(target) is not None,
        "has_answer": boxed is not None,
        "compression_ratio": compression_ratio(target),
    }
