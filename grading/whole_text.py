"""The rule of LUFFY's published reward: math-verify on the text between the first and the second ``</think>``.

Unlike the rule of `grading.grader` it accepts answers that were never boxed. ``python -m grading.whole_text
LIMIT_SECONDS`` is the worker program that applies it (see `grading.worker_program`).
"""

import sys

from grading.worker_program import serve


def compare(text: str, gold: str) -> tuple[str, str]:
    """Return verdict and reason of math-verify on ``text`` as it stands."""
    from math_verify import parse, verify

    expected = parse(f"${gold}$", parsing_timeout=None)  # pyright: ignore[reportArgumentType]  # documented, not typed
    if not expected:
        return "gold_unparsed", "math-verify finds no expression in the gold answer"
    answer = parse(text, parsing_timeout=None)  # pyright: ignore[reportArgumentType]  # documented, not typed
    if not answer:
        return "no_answer", "math-verify finds no expression after the thoughts"
    return ("correct", "equal") if verify(expected, answer, timeout_seconds=None) else ("wrong", f"read {answer[:1]}")


if __name__ == "__main__":
    serve(float(sys.argv[1]), lambda: compare("x+1", "\\frac{1}{2}") and compare)  # the first one imports the library
