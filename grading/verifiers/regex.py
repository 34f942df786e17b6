"""Text that matches a pattern, in time linear in its length."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import field_validator

from core.errors import InputError, first_line
from core.text.patterns import compile_user_pattern
from grading.verdict import Grade, Verdict
from grading.verifiers.verifier import Verifier, VerifierOptions


class RegexOptions(VerifierOptions):
    """``pattern``: of every row, in RE2's syntax; by default the gold answer of a row is its pattern."""

    pattern: str | None = None
    match: Literal["full", "partial"] = "full"

    @field_validator("pattern")
    @classmethod
    def _is_read(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            compile_user_pattern(pattern)
        return pattern


class RegexVerifier(Verifier):
    """The answer, or with ``match: partial`` a part of it, matches."""

    Options = RegexOptions

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        try:
            pattern = compile_user_pattern(self.options.pattern or gold)
        except InputError as error:
            return Grade(Verdict.GOLD_UNPARSED, answer, first_line(error))
        whole = answer.encode(errors="replace").decode()  # RE2 reads valid Unicode
        match = pattern.fullmatch(whole) if self.options.match == "full" else pattern.search(whole)
        return Grade(Verdict.CORRECT if match else Verdict.WRONG, answer, "matches" if match else "does not match")

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        if self.options.pattern is not None:
            return None
        if not gold:
            return "it is empty, and the verifier has no pattern"
        try:
            compile_user_pattern(gold)
        except InputError as error:
            return str(error)
        return None
