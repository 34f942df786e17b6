"""Text that is equal to the gold answer after the differences that the options ignore."""

import string
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal, get_args

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.answers.extraction import BOXED
from grading.answers.spelling import TEXT
from grading.verdict import UnfitGold
from grading.verifiers.verifier import Verifier, VerifierOptions

_ARTICLE = compile_quick_pattern(r"(?i)(?<!\S)(?:an?|the)\s(?=\s*\w{2})")  # before a word: it is vitamin A
_THOUSAND = compile_full_match(r"\d{3}\D?")
_WITH_MEANING = frozenset("+-<>=~^&|#*/%−")  # O- and O+, x<y and x>y, C and C++
_SIGNS = frozenset(string.punctuation) - _WITH_MEANING
Difference = Literal["case", "space", "punctuation", "articles"]
DIFFERENCES: tuple[Difference, ...] = get_args(Difference)


class ExactOptions(VerifierOptions):
    """``ignore``: differences that do not count. Blanks at both ends never count, nor how a letter is composed."""

    ignore: tuple[Difference, ...] = ("space",)


class ExactVerifier(Verifier):
    """The answer is the text of the gold answer. In a box, ``\\text{…}`` around words does not count."""

    Options = ExactOptions

    def expected(self, gold: str, fields: Mapping[str, Any]) -> str:
        if not normalize_text(gold, self.options.ignore):
            raise UnfitGold("nothing of it is left after what is ignored" if gold.strip() else "it is empty")
        return gold

    def compare(self, answer: str, expected: str) -> tuple[bool, str]:
        sides = [TEXT.sub(r"\1", text) if self.options.answer == BOXED else text for text in (answer, expected)]
        stated, gold = (normalize_text(side, self.options.ignore) for side in sides)
        if stated == gold:
            return True, "same text"
        stated, gold = (normalize_text(side, DIFFERENCES) for side in sides)
        return False, "different text" + ", but for differences that `ignore` can name" * (stated == gold != "")


def normalize_text(text: str, ignored: tuple[Difference, ...]) -> str:
    """Return ``text`` without the differences that are ignored, in Unicode's composed form.

    >>> normalize_text("The  Eiffel Tower!", ("case", "space", "punctuation", "articles"))
    'eiffel tower'
    """
    text = unicodedata.normalize("NFC", text).strip()
    if "case" in ignored:
        text = text.casefold()
    if "punctuation" in ignored:
        text = _without_punctuation(text)
    if "articles" in ignored:
        text = _ARTICLE.sub("", text)
    return " ".join(text.split()) if "space" in ignored else text.strip()


def _without_punctuation(text: str) -> str:
    """Return ``text`` without its punctuation, except for signs with a meaning and signs of numbers: before a digit
    ``.``, between digits all but the commas of thousands.
    """
    kept: list[str] = []
    for index, sign in enumerate(text):
        before, following = kept[-1] if kept else " ", text[index + 1 : index + 5]
        in_number = following[:1].isdigit() and (
            not (sign == "," and _THOUSAND(following)) if before.isdigit() else sign in "-–." and not before.isalnum()
        )
        joins_words = sign == "-" and before.isalnum() and following[:2].isalpha() and len(following) > 1
        is_sign = (
            joins_words or sign in _SIGNS or (unicodedata.category(sign).startswith("P") and sign not in _WITH_MEANING)
        )
        if in_number or not is_sign:
            kept.append(sign)
    return "".join(kept)
