"""The grader of mathematics: it takes a response and a gold answer, and returns a verdict.

The answer is in the last box after the last ``</think>``, and a thinking response that never closes its thoughts has no
answer. Both answers are read to their end and compared exactly (`grading.expressions`). A verdict always has a reason.
The rule of LUFFY's published reward can be chosen instead (`grading.whole_text`).
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from core.errors import InputError
from grading.answers.extraction import answer_part, extract_boxed, text_after_thoughts
from grading.answers.pairs import compare_numbers, is_number
from grading.answers.spelling import normalize, same_string
from grading.pool import PROGRAM, WHOLE_TEXT_PROGRAM, WorkerPool
from grading.verdict import Grade, Verdict

RULES = ("boxed", "whole-text")
TRUNCATED = ("zero", "by_text")  # what a response that was cut at the token limit scores
MAX_CHARACTERS = 1_100  # the longest gold of the paper's nine benchmarks has under 300
MAX_NESTING = 40
MAX_DIGITS = 1_000
KEPT_COMPARISONS = 65_536


class Grader:
    """Grades responses; it is thread-safe, and a context manager that ends its worker processes.

    Args:
        workers: processes that compare answers; they start when the first pair needs symbolic algebra.
        limit_s: seconds per comparison.
        rule: where a mathematical answer is: "boxed", or "whole-text" as in LUFFY's published reward.
    """

    def __init__(self, workers: int = 2, limit_s: float = 5.0, *, rule: str = "boxed") -> None:
        if rule not in RULES:
            raise InputError(f"unknown rule {rule!r}: expected one of {', '.join(RULES)}")
        self._workers, self._rule = workers, rule
        self._pool = WorkerPool(workers, limit_s, PROGRAM if rule == "boxed" else WHOLE_TEXT_PROGRAM)
        # Cached, because samples of a problem repeat their answers.
        self._ask = lru_cache(maxsize=KEPT_COMPARISONS)(self._pool.ask)

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; a comparison that needs one is a RuntimeError afterwards."""
        self._pool.close()

    def grade(self, text: str, gold: str, *, thinking: bool = True, truncated: bool = False) -> Grade:
        """Grade a response; one that was ``truncated`` at the token limit scores 0 whatever it contains."""
        if self._rule == "whole-text":
            return self._grade_whole_text(text, gold, thinking=thinking, truncated=truncated)
        part = answer_part(text, thinking=thinking)
        extracted = None if part is None else extract_boxed(part)
        if truncated:
            return Grade(Verdict.TRUNCATED, extracted, "stopped at the token limit")
        if part is None:
            return Grade(Verdict.NO_THINK_END, None, "no </think>")
        if extracted is None:
            return Grade(Verdict.NO_ANSWER, None, "nothing boxed")
        verdict, reason = self.compare(extracted, gold)
        return Grade(verdict, extracted, reason)

    def _grade_whole_text(self, text: str, gold: str, *, thinking: bool, truncated: bool) -> Grade:
        if truncated:
            return Grade(Verdict.TRUNCATED, None, "stopped at the token limit")
        part = text_after_thoughts(text, thinking=thinking)
        if part is None:
            return Grade(Verdict.NO_THINK_END, None, "no </think>")
        verdict, reason = self._ask(part, gold)
        return Grade(Verdict(verdict), None, reason)

    def grade_many(
        self, items: Iterable[tuple[str, str]], *, thinking: bool = True, truncated: Iterable[bool] | None = None
    ) -> list[Grade]:
        """Grades of (text, gold) pairs in order, in parallel; equal pairs are graded once."""
        pairs = list(items)
        flags = [False] * len(pairs) if truncated is None else list(truncated)
        keys = list(zip(pairs, flags, strict=True))
        unique = list(dict.fromkeys(keys))
        with ThreadPoolExecutor(self._workers) as threads:
            grades = threads.map(lambda key: self.grade(*key[0], thinking=thinking, truncated=key[1]), unique)
            by_key = dict(zip(unique, grades, strict=True))
        return [by_key[key] for key in keys]

    def verify(self, answer: str, gold: str) -> Verdict:
        """Return whether two bare answers (contents of boxes) are the same."""
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
        """Compare two bare answers as text, then as numbers, then by symbolic algebra."""
        if not gold.strip():
            return Verdict.GOLD_UNPARSED, "the gold answer is empty"
        if not answer.strip():
            return Verdict.NO_ANSWER, "the answer is empty"
        if same_string(answer, gold):
            return Verdict.CORRECT, "same text"
        answer, gold = normalize(answer), normalize(gold)
        equal = compare_numbers(answer, gold)
        if equal is not None:
            return (Verdict.CORRECT, "same number") if equal else (Verdict.WRONG, "another number")
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
