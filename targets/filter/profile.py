"""Measure the properties of a target's text that the checks use.

Nothing is copied from the filters that accepted it: the text is taken apart again, so that a mistake of a filter shows.
"""

import zlib

from grading.answers import answer_part, extract_boxed
from targets.trace import CLOSE_THINK, OPEN_THINK, Trace


def measure(trace: Trace, *, boxed: bool) -> None:
    """Fill in the profile of an accepted trace, as far as its target shows it; ``boxed``: its answer is in a box."""
    part = answer_part(trace.target, thinking=True) or ""
    answer = extract_boxed(part) if boxed else part.strip() or None
    once = trace.target.startswith(OPEN_THINK) and trace.target.count("<think>") == trace.target.count("</think>") == 1
    thoughts, _, rest = trace.target.removeprefix(OPEN_THINK).partition(CLOSE_THINK)
    trace.verified = answer is not None and (answer == trace.answer if boxed else trace.verdict == "correct")
    trace.has_think = once and bool(thoughts.strip() and rest[:1].strip())
    trace.has_answer = answer is not None
    trace.compression_ratio = compression_ratio(trace.target)


def compression_ratio(text: str) -> float:
    """zlib size / size in bytes; 1.0 for an empty text. Prose and mathematics lie at 0.25 to 0.45, loops below 0.1."""
    data = text.encode()
    return len(zlib.compress(data, 6)) / len(data) if data else 1.0
