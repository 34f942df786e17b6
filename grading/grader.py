"""One grader for rewards, target verification and benchmarks: a response and a gold answer in, a verdict out.

The rule: the answer is the last box after the LAST ``</think>``; a thinking response that never closes its thoughts has
no answer (the reference grades its whole text); equality by math-verify, or by letter for multiple choice. A verdict
always says why; nothing becomes a bare False.
"""

import json
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError
from core.prompts import PromptRecord
from grading.answers import (
    answer_part,
    compare_numbers,
    contradiction,
    extract_boxed,
    extract_choice,
    normalize,
    percent_forms,
    reconcile,
    same_choice,
    same_string,
)
from grading.pool import WorkerPool
from grading.verdict_cache import VerdictStore

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["GRADERS", "Grade", "Grader", "Verdict", "answer_part", "extract_boxed", "extract_choice", "grade_table"]

GRADERS = ("math", "choice")
MAX_CHARACTERS = 1_000  # the longest gold of the paper's nine benchmarks has under 300
MAX_NESTING = 40
MAX_DIGITS = 300
KEPT_COMPARISONS = 65_536


class Verdict(StrEnum):
    """What grading a sample found. Only CORRECT scores 1."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # nothing boxed (or chosen) in the answer part
    NO_THINK_END = "no_think_end"  # a thinking response without </think>
    TRUNCATED = "truncated"  # generation stopped at the token limit
    GOLD_UNPARSED = "gold_unparsed"  # the benchmark's answer is not understood: not the model's fault
    TIMEOUT = "timeout"  # the comparison did not end in time
    ERROR = "error"  # the pair could not be compared


@dataclass(frozen=True)
class Grade:
    """A verdict, the answer it is about, and why."""

    verdict: Verdict
    extracted: str | None = None
    reason: str = ""

    @property
    def score(self) -> float:
        """1.0 or 0.0."""
        return 1.0 if self.verdict is Verdict.CORRECT else 0.0


class Grader:
    """Thread-safe; ``workers`` comparison processes start when the first pair needs symbolic algebra.

    Use as a context manager, or call `close`. ``limit_s``: seconds for one comparison. ``shared``: a file through which
    graders of this machine tell each other what they found.
    """

    def __init__(self, workers: int = 2, limit_s: float = 5.0, shared: Path | None = None) -> None:
        self._workers = workers
        self._pool = WorkerPool(workers, limit_s)
        self._store = VerdictStore(shared) if shared else None
        self._settled = lru_cache(maxsize=KEPT_COMPARISONS)(self._ask)  # samples of a problem repeat their answers

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; grading afterwards is a RuntimeError where a worker would be needed."""
        self._pool.close()
        if self._store:
            self._store.close()
            self._store = None

    def grade(
        self, text: str, gold: str, kind: str = "math", *, thinking: bool = True, truncated: bool = False
    ) -> Grade:
        """Grade a response. ``truncated``: it hit the token limit, which scores 0 whatever it holds."""
        if kind not in GRADERS:
            raise ValueError(f"unknown grader {kind!r}: expected one of {', '.join(GRADERS)}")
        part = answer_part(text, thinking=thinking)
        extracted = None if part is None else (extract_boxed if kind == "math" else extract_choice)(part)
        if truncated:
            return Grade(Verdict.TRUNCATED, extracted, "stopped at the token limit")
        if part is None:
            return Grade(Verdict.NO_THINK_END, None, "no </think>")
        if extracted is None:
            return Grade(Verdict.NO_ANSWER, None, "nothing boxed" if kind == "math" else "no option chosen")
        if kind == "choice":
            correct = same_choice(extracted, gold)
            return Grade(Verdict.CORRECT if correct else Verdict.WRONG, extracted, "by letter")
        verdict, reason = self._compare(extracted, gold)
        return Grade(verdict, extracted, reason)

    def grade_many(
        self, items: Iterable[tuple[str, str, str]], *, thinking: bool = True, truncated: Iterable[bool] | None = None
    ) -> list[Grade]:
        """Grades of (text, gold, kind) triples in order; equal triples are graded once, in parallel."""
        triples = [tuple(item) for item in items]
        flags = [False] * len(triples) if truncated is None else list(truncated)
        if len(flags) != len(triples):
            raise ValueError(f"{len(triples)} responses but {len(flags)} truncation flags")
        keyed = [(*triple, flag) for triple, flag in zip(triples, flags, strict=True)]
        unique = list(dict.fromkeys(keyed))
        with ThreadPoolExecutor(self._workers) as threads:
            grades = threads.map(lambda k: self.grade(k[0], k[1], k[2], thinking=thinking, truncated=k[3]), unique)
            known = dict(zip(unique, grades, strict=True))
        return [known[key] for key in keyed]

    def verify(self, answer: str, gold: str) -> Verdict:
        """Whether two bare answers (contents of boxes) are the same."""
        return self._compare(answer, gold)[0]

    def parses(self, gold: str) -> bool:
        """Whether a gold answer is one that answers can be compared with (boxed, as math-verify reads it)."""
        text = percent_forms("", normalize(gold))[-1][1]
        if compare_numbers(text, text):
            return True
        if not text or _too_large(text):
            return False
        # Compared with a value no gold has, so that the string shortcut cannot hide an unparsable gold.
        return self._settled("\\text{luffy-parse-probe}", text)[0] in ("wrong", "correct")

    def _compare(self, answer: str, gold: str) -> tuple[Verdict, str]:
        if not gold.strip():
            return Verdict.GOLD_UNPARSED, "the gold answer is empty"
        if not answer.strip():
            return Verdict.NO_ANSWER, "the answer is empty"
        if same_string(answer, gold):
            return Verdict.CORRECT, "same text"
        results = (self._settle(*pair) for pair in percent_forms(*reconcile(normalize(answer), normalize(gold))))
        first = next(results)
        if first[0] in (Verdict.CORRECT, Verdict.TIMEOUT):  # the limit holds for the pair, whatever forms it has
            return first
        return next((result for result in results if result[0] is Verdict.CORRECT), first)

    def _settle(self, answer: str, gold: str) -> tuple[Verdict, str]:
        """Verdict on a normalised pair: as numbers, by its form, by symbolic algebra."""
        equal = compare_numbers(answer, gold)
        if equal is not None:
            return (Verdict.CORRECT, "same number") if equal else (Verdict.WRONG, "another number")
        for name, side in (("answer", answer), ("gold answer", gold)):
            if problem := _too_large(side):
                return Verdict.ERROR, f"not compared: the {name} has {problem}"
        if problem := contradiction(answer, gold):
            return Verdict.WRONG, problem
        verdict, reason = self._settled(answer, gold)
        return Verdict(verdict), reason

    def _ask(self, answer: str, gold: str) -> tuple[str, str]:
        if self._store is None:
            return self._pool.ask(answer, gold)
        found = self._store.find(answer, gold)
        if found is None:
            found = self._pool.ask(answer, gold)
            self._store.keep(answer, gold, *found)
        return found


def grade_table(samples: "pa.Table", suite: "pa.Table", grader: Grader, *, thinking: bool | None = None) -> "pa.Table":
    """SAMPLE rows of one benchmark with their verdicts, as a GRADED table of the same rows in the same order.

    ``thinking``: an answer counts only after ``</think>``; None: as the template says that the samples were drawn with.
    Raises InputError for a grader that does not exist, and where samples and suite do not cover the same problems or
    a problem has fewer samples than another: a missing row would pass for a score otherwise.
    """
    import pyarrow as pa

    from core.schemas import GRADED

    rows = samples.to_pylist()
    names = {row["benchmark"] for row in rows}
    if len(names) != 1:
        raise InputError(f"samples of {', '.join(sorted(names)) or 'no benchmark'}: expected rows of exactly one")
    problems = {row["id"]: row for row in suite.to_pylist() if row["benchmark"] in names}
    counts = Counter(row["id"] for row in rows)
    if twice := len(rows) - len({(row["id"], row["sample"]) for row in rows}):
        raise InputError(
            f"samples of {', '.join(names)}: {twice} rows repeat a sample of the same problem; generate them again"
        )
    if counts.keys() != problems.keys() or len(set(counts.values())) > 1:
        raise InputError(
            f"samples of {', '.join(names)}: {len(rows)} rows over {len(counts)} problems do not cover the "
            f"{len(problems)} problems of the suite equally; generate them again with this suite"
        )
    if unknown := {row["grader"] for row in problems.values()} - set(GRADERS):
        raise InputError(
            f"suite, {', '.join(names)}: no grader {', '.join(map(repr, sorted(unknown)))}; expected one of "
            f"{', '.join(GRADERS)}"
        )
    needs_end = PromptRecord.of(samples).thinking if thinking is None else thinking
    grades = grader.grade_many(
        ((row["response"] or "", problems[row["id"]]["gold"], problems[row["id"]]["grader"]) for row in rows),
        thinking=needs_end,
        truncated=[row["finish_reason"] == "length" for row in rows],
    )
    graded = [
        {
            **row,
            "gold": problems[row["id"]]["gold"],
            "extracted": grade.extracted,
            "verdict": str(grade.verdict),
            "reason": grade.reason,
            "subject": problems[row["id"]]["subject"],
            "score": grade.score,
        }
        for row, grade in zip(rows, grades, strict=True)
    ]
    assert len(graded) == samples.num_rows, "a sample was lost in grading"
    metadata = {**(samples.schema.metadata or {}), b"grading": json.dumps({"thinking": needs_end})}
    return pa.Table.from_pylist(graded, schema=GRADED.with_metadata(metadata))


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
