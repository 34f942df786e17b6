"""Tell words from products of letters, and fold what makes no difference between words."""

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.expressions.answer_tokens import TEXT
from grading.expressions.forms import Words
from grading.vocabulary import WORD, is_word

_PROSE = compile_full_match(r"[a-zA-Z][a-zA-Z '\-]*[a-zA-Z.!?]")
_ARTICLE = compile_quick_pattern(r"\A(?i:an?|the) (?=[a-zA-Z]{3})")
_FUNCTIONS = frozenset(("sin", "cos", "tan", "log", "exp", "sqrt", "arctg", "arcsin", "arccos", "arctan"))


def prose_of(text: str) -> str:
    r"""Return a text without ``\text`` and repeated blanks."""
    return " ".join(TEXT.sub(r"\1", text).split())


def as_words(prose: str, *, is_text: bool) -> Words | None:
    r"""Return prose as words, if it is a ``\text`` or one of them is no product of letters."""
    if not _PROSE(prose) or not (is_text or _has_word(prose)):
        return None
    folded = (
        word.casefold() if len(word) < WORD or is_word("".join(filter(str.isalpha, word))) else word
        for word in _ARTICLE.sub("", prose).split()
    )  # of letters that are no word, such as ``HTHT``, the case counts
    return Words(" ".join(folded).rstrip(".!?"))


def _has_word(prose: str) -> bool:
    """Return whether one of the words has four letters, or three with a vowel, or is a series such as ``HTT``."""
    if prose.lower() == "no":
        return True
    return _FUNCTIONS.isdisjoint(prose.split()) and any(map(_is_long, prose.replace("-", " ").split()))


def _is_long(word: str) -> bool:
    if len(word) != WORD:
        return len(word) > WORD
    is_series = word.isupper() and len(set(word)) < WORD
    return is_series or (word != "abc" and not frozenset("aeiouAEIOU").isdisjoint(word))
