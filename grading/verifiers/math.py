"""Mathematics: ``math`` compares exactly, ``math_whole_text`` applies the rule of LUFFY's published reward."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import field_validator

from grading.answers.extraction import text_after_thoughts
from grading.pool import WorkerPool
from grading.verdict import Grade, Verdict
from grading.verifiers.verifier import Resources, Verifier, VerifierOptions


class MathVerifier(Verifier):
    """The answer has the value of the gold answer, as `grading.grader` compares them."""

    def __init__(self, options: VerifierOptions, resources: Resources) -> None:
        super().__init__(options, resources)
        from grading.grader import Grader  # here, since the code location reads the options and grades nothing

        self._grader = Grader(resources.workers, resources.limit_s)

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        verdict, reason = self._grader.compare(answer, gold)
        return Grade(verdict, answer, reason)

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        return self._grader.gold_problem(gold)

    def close(self) -> None:
        self._grader.close()


class WholeTextOptions(VerifierOptions):
    """The rule itself says where the answer is."""

    answer: str = "after_thoughts"

    @field_validator("answer")
    @classmethod
    def _is_fixed(cls, value: str) -> str:
        raise ValueError("math_whole_text takes any answer after the thoughts: leave answer out")


class WholeTextVerifier(Verifier):
    """math-verify finds the value of the gold answer anywhere after the thoughts (`grading.whole_text`)."""

    Options = WholeTextOptions

    def __init__(self, options: VerifierOptions, resources: Resources) -> None:
        super().__init__(options, resources)
        self._pool = WorkerPool(resources.workers, resources.limit_s, ("grading.whole_text",))

    def part(self, response: str, *, thinking: bool) -> str | None:
        return text_after_thoughts(response, thinking=thinking)

    def verify(self, response: str, gold: str, **sample: Any) -> Grade:
        return replace(super().verify(response, gold, **sample), extracted=None)

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        verdict, reason = self._pool.ask(answer, gold)
        return Grade(Verdict(verdict), None, reason)

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        return None if gold.strip() else "it is empty"

    def close(self) -> None:
        self._pool.close()
