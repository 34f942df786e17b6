"""Text that matches a pattern, in time linear in its length."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import field_validator

from core.errors import InputError, first_line
from core.text.patterns import Pattern, compile_user_pattern
from grading.verdict import UnfitGold
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

    def expected(self, gold: str, fields: Mapping[str, Any]) -> Pattern:
        if not gold and self.options.pattern is None:
            raise UnfitGold("it is empty, and the verifier has no pattern")
        try:
            return compile_user_pattern(gold if self.options.pattern is None else self.options.pattern)
        except InputError as error:
            raise UnfitGold(first_line(error)) from None

    def compare(self, answer: str, expected: Pattern) -> tuple[bool, str]:
        whole = answer.encode(errors="replace").decode()  # RE2 reads valid Unicode
        match = expected.fullmatch(whole) if self.options.match == "full" else expected.search(whole)
        return match is not None, "matches" if match else "does not match"
