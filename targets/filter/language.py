"""Identify the language of a text with py3langid, which is installed only where the setting ``languages`` is used."""

from functools import cache
from typing import Any

from core.errors import InputError
from core.text.patterns import compile_quick_pattern

WORD = compile_quick_pattern(r"\\[a-zA-Z]+|\$[^$]*\$|[^\W\d_]{2,}")
FEWEST_LETTERS = 40  # a text with fewer could be of any language
CHARACTERS = 2000  # of a text that are read
PACKAGE = "py3langid==0.4.0"


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
