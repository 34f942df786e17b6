"""The worker program that compares two answers with sympy: ``python -m grading.equivalence_worker LIMIT_SECONDS``.

`grading.grader` asks it about what is neither the same text nor a plain number.
"""

import sys

from grading.answers.pairs import without_label
from grading.expressions.comparison.form_comparison import same
from grading.expressions.comparison.solved import leaves_open
from grading.expressions.reading.reader import read
from grading.expressions.statements import asked, settled
from grading.worker_program import serve


def compare(answer: str, gold: str) -> tuple[str, str]:
    """Return verdict ("correct" | "wrong" | "gold_unparsed") and reason for two non-empty normalised answers."""
    answer, gold = without_label(answer, gold), without_label(gold, answer)
    expected, stated = read(gold), read(answer)
    if expected is None:
        return "gold_unparsed", "the gold answer is not read to its end"
    if stated is None:
        return "wrong", "the answer is not read to its end"
    expected, stated = asked(expected, stated), settled(stated, expected)
    if not same(expected, stated):
        return "wrong", "another value"
    return ("wrong", "the answer is not worked out") if leaves_open(stated, expected) else ("correct", "the same value")


if __name__ == "__main__":
    serve(float(sys.argv[1]), compare)
