"""Text that is equal to the gold answer after the differences that the options ignore."""

import string
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal, get_args

from grading.verdict import Grade, Verdict
from grading.verifiers.verifier import Verifier, VerifierOptions

ARTICLES = frozenset({"a", "an", "the"})
Difference = Literal["case", "space", "punctuation", "articles"]
DIFFERENCES: tuple[Difference, ...] = get_args(Difference)


class ExactOptions(VerifierOptions):
    """``ignore``: differences that do not count. Blanks at both ends never count, nor how a letter is composed."""

    ignore: tuple[Difference, ...] = ("space",)


class ExactVerifier(Verifier):
    """The answer is the text of the gold answer."""

    Options = ExactOptions

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        ignored = self.options.ignore
        expected = normalize_text(gold, ignored)
        if not expected:
            return Grade(Verdict.GOLD_UNPARSED, answer, self.gold_problem(gold) or "")
        if normalize_text(answer, ignored) == expected:
            return Grade(Verdict.CORRECT, answer, "same text")
        alike = normalize_text(answer, DIFFERENCES) == normalize_text(gold, DIFFERENCES) != ""
        advice = ", but for differences that `ignore` can name" if alike else ""
        return Grade(Verdict.WRONG, answer, f"another text{advice}")

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        if not gold.strip():
            return "it is empty"
        return None if normalize_text(gold, self.options.ignore) else "nothing of it is left after what is ignored"


def normalize_text(text: str, ignored: tuple[Difference, ...]) -> str:
    """Return ``text`` without the differences that are ignored, in Unicode's composed form.

    >>> normalize_text("The  Eiffel Tower!", ("case", "space", "punctuation", "articles"))
    'eiffel tower'
    """
    text = unicodedata.normalize("NFC", text).strip()
    if "case" in ignored:
        text = text.casefold()
    if "punctuation" in ignored:
        text = "".join(sign for sign in text if not unicodedata.category(sign).startswith("P") and sign not in _SIGNS)
    if "articles" in ignored:
        text = " ".join(word for word in text.split(" ") if word.casefold() not in ARTICLES)
    return " ".join(text.split()) if "space" in ignored else text.strip()


_SIGNS = frozenset(string.punctuation)
