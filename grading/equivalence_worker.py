"""The worker program that compares two answers with sympy: ``python -m grading.equivalence_worker LIMIT_SECONDS``.

`grading.grader` asks it about what is neither the same text nor a plain number, and with a gold answer alone, whether
this can be read.
"""

import sys

from grading.answers.pairs import without_label
from grading.expressions.compare import same_answer
from grading.expressions.forms import Kind
from grading.expressions.reader import read, read_as, remedy
from grading.expressions.statements import asked, leaves_open, settled
from grading.expressions.tokens import Unread
from grading.expressions.wording import multiplicity
from grading.worker_program import serve

_PLAIN = (Kind.DATE, Kind.TIME, Kind.CHOICE, Kind.TEXT)


def reply(gold: str, answer: str | None = None) -> tuple[str, str]:
    """Return verdict and reason for normalised answers; without an answer, whether the gold answer is read.

    The gold answer decides the kind that the answer is read as, and the reason names this kind.
    """
    try:
        kind, expected = read(gold if answer is None else without_label(gold, answer))
    except Unread as error:
        return "gold_unparsed", f"the gold answer is not read to its end ({error}): {remedy(gold)}"
    if answer is None:
        return "read", f"a {kind}"
    if (times := multiplicity(gold)) and times != (multiplicity(answer) or times):
        return "wrong", "another multiplicity"
    try:
        stated = read_as(answer if kind is Kind.CHOICE else without_label(answer, gold), kind)
    except Unread as error:
        return "wrong", f"no {kind} that is read to its end ({error})"
    if kind not in _PLAIN:
        expected, stated = asked(expected, stated), settled(stated, expected)
    agree, note = same_answer(expected, stated)
    if not agree:
        return "wrong", ", ".join(filter(None, (f"another {kind}", note)))
    if leaves_open(stated, expected):
        return "wrong", f"a {kind} that is not worked out"
    return "correct", ", ".join(filter(None, (f"same {kind}", note)))


if __name__ == "__main__":
    serve(float(sys.argv[1]), reply, first=("\\frac{1}{2}", "x+1"))
