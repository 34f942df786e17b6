"""The rule of LUFFY's published reward: math-verify on the text between the first and the second ``</think>``.

Unlike the rule of `grading.grader` it accepts answers that were never boxed. ``python -m grading.whole_text
LIMIT_SECONDS`` is the worker program that applies it (see `grading.equivalence`).
"""

import sys

from grading.answers.extraction import THINK_END
from grading.equivalence import serve

PROGRAM = ("grading.whole_text",)


def text_after_thoughts(response: str, *, thinking: bool) -> str | None:
    """The text after the first ``</think>``, up to a second one.

    Without that tag, the result is None if ``thinking`` is expected, and the whole response otherwise.

    >>> text_after_thoughts("a</think>b", thinking=True), text_after_thoughts("a</think>b</think>c", thinking=True)
    ('b', 'b')
    """
    _, closing, rest = response.partition(THINK_END)
    if closing:
        return rest.partition(THINK_END)[0]
    return None if thinking else response


def compare(text: str, gold: str) -> tuple[str, str]:
    """Verdict and reason: math-verify on ``text`` as it stands."""
    from math_verify import parse, verify

    expected = parse(f"${gold}$", parsing_timeout=None)  # pyright: ignore[reportArgumentType]  # documented, not typed
    if not expected:
        return "gold_unparsed", "math-verify finds no expression in the gold answer"
    answer = parse(text, parsing_timeout=None)  # pyright: ignore[reportArgumentType]  # documented, not typed
    if not answer:
        return "no_answer", "math-verify finds no expression after the thoughts"
    return ("correct", "equal") if verify(expected, answer, timeout_seconds=None) else ("wrong", f"read {answer[:1]}")


if __name__ == "__main__":
    serve(float(sys.argv[1]), compare)
