"""Mathematics: ``math`` compares expressions exactly, ``math_whole_text`` applies the rule of LUFFY's published reward.

Both are `grading.grader.Grader`, so that their verdicts and worker processes are those of the grader.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import field_validator

from grading.answers.extraction import BOXED
from grading.verdict import Grade
from grading.verifiers.verifier import Item, Resources, Verifier, VerifierOptions


class MathVerifier(Verifier):
    """The answer has the value of the gold answer."""

    rule: ClassVar[str] = "boxed"

    def __init__(self, options: VerifierOptions, resources: Resources) -> None:
        super().__init__(options, resources)
        from grading.grader import Grader  # here, since the code location reads the options and grades nothing

        self._grader = Grader(resources.workers, resources.limit_s, rule=self.rule)

    def verify(
        self,
        response: str,
        gold: str,
        *,
        fields: Mapping[str, Any] | None = None,
        thinking: bool = True,
        truncated: bool = False,
    ) -> Grade:
        if self.options.answer != BOXED:
            return super().verify(response, gold, fields=fields, thinking=thinking, truncated=truncated)
        return self._grader.grade(response, gold, thinking=thinking, truncated=truncated)

    def verify_many(self, items: Iterable[Item], *, thinking: bool = True) -> list[Grade]:
        listed = list(items)
        if self.options.answer != BOXED:
            return super().verify_many(listed, thinking=thinking)
        pairs = [(item.response, item.gold) for item in listed]
        return self._grader.grade_many(pairs, thinking=thinking, truncated=[item.truncated for item in listed])

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        verdict, reason = self._grader.compare(answer, gold)
        return Grade(verdict, answer, reason)

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        return self._grader.gold_problem(gold)

    def close(self) -> None:
        self._grader.close()


class WholeTextOptions(VerifierOptions):
    """The rule itself says where the answer is."""

    @field_validator("answer")
    @classmethod
    def _is_fixed(cls, value: str) -> str:
        raise ValueError("math_whole_text takes any answer after the thoughts: leave answer out")


class WholeTextVerifier(MathVerifier):
    """math-verify finds the value of the gold answer anywhere after the thoughts."""

    Options = WholeTextOptions
    rule = "whole-text"
