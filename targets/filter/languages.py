"""Identify the language of a text with py3langid, which is installed only where the setting ``languages`` is used, or
guess it by script and function words: enough to see that a source has changed its own, in microseconds.
"""

from collections import Counter
from collections.abc import Set
from functools import cache
from typing import Any
from unicodedata import name

from core.errors import InputError
from core.text.patterns import compile_quick_pattern

WORD = compile_quick_pattern(r"\\[a-zA-Z]+|\$[^$]*\$|[^\W\d_]{2,}")
FEWEST_LETTERS = 40  # a text with fewer could be of any language
CHARACTERS = 2000  # of a text that are read
PACKAGE = "py3langid==0.4.0"
FUNCTION_WORDS = {
    "en": "the and of is that so we this with then which from are not has",
    "de": "und der die das ist nicht wir mit also ein eine von dann sich für",
    "fr": "le la les et est nous que des une donc pour dans pas sont avec",
    "es": "el los las y es que por una del entonces con para no son como",
    "it": "il che di è per una sono della quindi con non gli nel allora come",
    "pt": "os as é que não uma são com para do então por dos mas como",
    "nl": "het een van en is dat niet we dus met voor zijn dan op maar",
    "pl": "i w na jest że nie się z do to więc są dla jak co",
    "tr": "ve bir bu için ile olan ise çok da de olarak daha sonra kadar gibi",
    "vi": "là và của các một không cho được có này với ta thì khi trong",
}
WORDS = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
MOST_WORDS = 200  # of another script that are looked at
OTHER_SCRIPT = 0.25  # share of the words


def identify_language(text: str) -> str | None:
    r"""The ISO 639-1 code of the language of a text, by its words outside of formulas; None if these are too few."""
    words = [word for word in WORD.findall(text[:CHARACTERS]) if word[0] not in "\\$"]
    return _identifier().classify(" ".join(words))[0] if sum(map(len, words)) >= FEWEST_LETTERS else None


def check_languages(names: list[str]) -> None:
    """Raise InputError if py3langid is missing, or does not know one of the languages."""
    known = _identifier().labels if names else []
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"languages: {unknown[0]!r} is none that py3langid knows; expected codes such as en, de, zh")


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            f"languages: py3langid is not installed in this interpreter; pip install {PACKAGE}, or remove the setting"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def dominant_language(words: Set[str]) -> str:
    """Return the language of a text with these words, else the name of their script; "" where neither shows.

    >>> dominant_language({"the", "sum", "is", "7"}), dominant_language({"сумма", "чисел", "равна"})
    ('en', 'cyrillic')
    """
    foreign = [word for word in words if not word.isascii()][:MOST_WORDS]
    scripts = Counter(name(word[0], "").split(" ")[0].split("-")[0].lower() for word in foreign)
    script, count = scripts.most_common(1)[0] if scripts else ("", 0)
    letters = sum(not word.isdigit() for word in words)
    if script != "latin" and count > OTHER_SCRIPT * min(letters, 4 * MOST_WORDS):
        return script
    language, count = max(((language, len(words & of)) for language, of in WORDS.items()), key=lambda pair: pair[1])
    return language if count > 1 else ""
