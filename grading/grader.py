"""The grader of mathematics: it takes two bare answers, such as the contents of boxes, and returns a verdict.

Both are read to their end and compared exactly (`grading.expressions`). A verdict always has a reason.
"""

from functools import lru_cache

from grading.answers.pairs import compare_numbers, is_number, with_decimal_points
from grading.answers.spelling import normalize, same_string
from grading.pool import PROGRAM, WorkerPool
from grading.verdict import Verdict

TRUNCATED = ("zero", "by_text")  # what a response that was cut at the token limit scores
MAX_CHARACTERS = 1_100  # the longest gold of the paper's nine benchmarks has under 300
MAX_NESTING = 40
MAX_DIGITS = 1_000
KEPT_COMPARISONS = 65_536


class Grader:
    """Compares answers; it is thread-safe, and a context manager that ends its worker processes.

    Args:
        workers: processes that compare answers; they start when the first pair needs symbolic algebra.
        limit_s: seconds per comparison.
    """

    def __init__(self, workers: int = 2, limit_s: float = 5.0) -> None:
        self._pool = WorkerPool(workers, limit_s, PROGRAM)
        # Cached, because samples of a problem repeat their answers.
        self._ask = lru_cache(maxsize=KEPT_COMPARISONS)(self._pool.ask)

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; a comparison that needs one is a RuntimeError afterwards."""
        self._pool.close()

    def verify(self, answer: str, gold: str) -> Verdict:
        """Return whether two answers are the same."""
        return self.compare(answer, gold)[0]

    def gold_problem(self, gold: str) -> str | None:
        """Return why answers cannot be compared with a gold answer, and what to do; None if it is read completely."""
        text = normalize(gold)
        if is_number(text):
            return None
        if problem := "it is empty" if not text else _too_large(text):
            return problem
        verdict, reason = self._ask(text)
        return None if verdict == "read" else reason

    def compare(self, answer: str, gold: str) -> tuple[Verdict, str]:
        """Compare two answers as text, then as numbers, then by symbolic algebra; return the verdict and its reason."""
        if not gold.strip():
            return Verdict.GOLD_UNPARSED, "the gold answer is empty"
        if not answer.strip():
            return Verdict.NO_ANSWER, "the answer is empty"
        if same_string(answer, gold):
            return Verdict.CORRECT, "same text"
        answer, gold = with_decimal_points(normalize(answer), normalize(gold))
        equal = compare_numbers(answer, gold)
        if equal is not None:
            return (Verdict.CORRECT, "same number") if equal else (Verdict.WRONG, "different number")
        for name, side in (("answer", answer), ("gold answer", gold)):
            if problem := _too_large(side):
                return Verdict.ERROR, f"not compared: the {name} has {problem}"
        verdict, reason = self._ask(gold, answer)
        return Verdict(verdict), reason


def _too_large(text: str) -> str | None:
    if len(text) > MAX_CHARACTERS:
        return f"{len(text)} characters (limit {MAX_CHARACTERS})"
    depth = deepest = digits = longest = 0
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        digits = digits + 1 if character.isdigit() else 0
        deepest, longest = max(deepest, depth), max(longest, digits)
    if deepest > MAX_NESTING:
        return f"brackets nested {deepest} deep (limit {MAX_NESTING})"
    return f"a run of {longest} digits (limit {MAX_DIGITS})" if longest > MAX_DIGITS else None
