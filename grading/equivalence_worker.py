"""The worker program that compares two answers with sympy: ``python -m grading.equivalence_worker LIMIT_SECONDS``.

`grading.grader` asks it about what is neither the same text nor a plain number, and with a gold answer alone, whether
this can be read.
"""

import sys

from grading.answers.pairs import without_label
from grading.expressions.forms import Kind
from grading.expressions.reader import read, read_as, remedy
from grading.expressions.statements import same_statement
from grading.expressions.tokens import Unread
from grading.worker_program import serve


def reply(gold: str, answer: str | None = None) -> tuple[str, str]:
    """Return verdict and reason for normalised answers; without an answer, whether the gold answer is read.

    The gold answer decides the kind that the answer is read as, and the reason names this kind.
    """
    try:
        kind, expected = read(gold if answer is None else without_label(gold, answer))
    except Unread as error:
        return "gold_unparsed", f"the gold answer could not be parsed completely ({error}): {remedy(gold)}"
    named = f"{'an' if kind is Kind.INTERVAL else 'a'} {kind}"
    if answer is None:
        return "read", named
    try:
        stated = read_as(answer if kind is Kind.CHOICE else without_label(answer, gold), kind)
    except Unread as error:
        return "wrong", f"expected {named} that can be parsed completely ({error})"
    agree, note = same_statement(expected, stated)
    if note == "unsolved":
        return "wrong", f"an unsolved {kind}"
    verdict, word = ("correct", "same") if agree else ("wrong", "different")
    return verdict, ", ".join(filter(None, (f"{word} {kind}", note)))


if __name__ == "__main__":
    serve(float(sys.argv[1]), lambda: reply("\\frac{1}{2}", "x+1") and reply)  # the first one imports the library
