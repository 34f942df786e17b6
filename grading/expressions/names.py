r"""Tell which side of a relation is a name, such as ``b``, ``f(x)`` or ``\text{area}``, of the value beside it."""

from collections.abc import Callable

from grading.expressions.tokens import TEXT, closing, divide, enclosed
from grading.vocabulary import COMPLEX, GREEK, WORD, is_word

_ACCENTS = ("hat", "bar", "vec", "mathbf", "overline", "mathcal", "dot")
_DENIALS = frozenset((  # words that make a name that of another value
    "not", "no", "never", "wrong", "incorrect", "false", "double", "half", "twice", "except", "least", "most", "more",
    "less", "than", "over", "under", "bound", "about", "approximately",
))  # fmt: skip
_STARTS = frozenset((*_ACCENTS, "ell", "hbar")) | GREEK
_FIGURES = ("\\angle", "\\triangle", "\\overline", "\\vec", "|")


def is_abbreviation(side: list[str]) -> bool:
    """Return whether a side is several capital letters, which name a quantity: ``MR = SRMC`` gives no value of MR."""
    letters = "".join(TEXT.sub(r"\1", "".join(side)).split())
    return len(letters) > 1 and letters.isalpha() and letters.isupper()


def name_of(side: list[str]) -> str | None:
    r"""Return the name that a side is, such as ``b``, ``x_1``, ``f(x)``, ``AB``, ``\text{area}``; None for others."""
    parts = [part for part in side if not part.isspace()]
    if not parts:
        return None
    is_name = _are_words("".join(side).split()) or next(
        (verdict for rule in _RULES if (verdict := rule(parts)) is not None), False
    )
    return "".join(parts) if is_name else None


def _are_words(words: list[str]) -> bool:
    return len(words[0]) > WORD and all(word.isalpha() and is_word(word) for word in words) and not _deny(words)


def _deny(words: list[str]) -> bool:
    return not _DENIALS.isdisjoint(map(str.lower, words))


def _is_text(parts: list[str]) -> bool | None:
    """Return whether words are alone, or before the points of a figure; None if the side starts with no words."""
    if not parts[0].startswith("\\text"):
        return None
    of_points = all(part in ("\\triangle", *"()[]") or part.isupper() for part in parts[1:])
    return of_points and not _deny(parts[0][6:-1].replace(":", " ").split())


def _is_extreme(parts: list[str]) -> bool | None:
    """Return whether a maximum, minimum or limit is one of something with letters: that of numbers is a number."""
    if parts[0] not in ("\\max", "\\min", "\\lim"):
        return None
    return len(parts) == 1 or any(map(str.isalpha, parts))


def _is_measure(parts: list[str]) -> bool | None:
    """Return True for the probability or mean of something, the area of a polygon, a part of a figure, and points."""
    if parts[0] in ("P", "E") and parts[1:2] == ["("] and closing(parts, 1) == len(parts) - 1:
        return True
    if parts[0] == "[" and len(parts) > 4 and parts[-1] == "]" and all(map(str.isupper, parts[1:-1])):
        return True
    if parts[0] in _FIGURES and all(part in "|{}" or part.isupper() for part in parts[1:]):
        return True
    return all(part.isalpha() and part.isupper() for part in parts) or None


def _are_names(parts: list[str]) -> bool | None:
    """Return whether a ratio or a tuple is one of names."""
    pieces, signs = divide(parts, (":",))
    if not signs and parts[0] == "(" and enclosed(parts):
        pieces, signs = divide(parts[1:-1], (",",))
        return bool(signs) and all(map(name_of, pieces))
    return all(map(name_of, pieces)) if signs else None


def _is_symbol(parts: list[str]) -> bool:
    """Return whether a letter with accents, indices, primes and arguments is one: no conjugate, which has a value."""
    first = parts[0]
    if first[1:] in ("overline", "bar") and COMPLEX.intersection(parts[1:]):
        return False
    if not ((len(first) == 1 and first.isalpha()) or first[1:] in _STARTS):
        return False
    position = _end(parts, 1) if first[1:] in _ACCENTS else 1
    while position < len(parts):
        if parts[position] == "'":
            position += 1
        elif parts[position] == "_" or (parts[position] == "^" and _is_mark(parts, position + 1)):
            position = _end(parts, position + 1)
        else:
            is_call = parts[position] == "(" and closing(parts, position) == len(parts) - 1
            return is_call and all(part.isalnum() or part in ",()" or part[1:] in GREEK for part in parts[position:])
    return True


def _end(parts: list[str], start: int) -> int:
    """Return the end of what stands at ``start``: a token, or a brace with its content."""
    return closing(parts, start) + 1 if parts[start : start + 1] == ["{"] else start + 1


def _is_mark(parts: list[str], start: int) -> bool:
    """Return whether an exponent marks a name: the inverse of a function, a prime, a star."""
    mark = "".join(parts[start : _end(parts, start)]).strip("{}")
    if mark == "-1":  # of a function or matrix; that of a number is another number
        return parts[0] in "fgh" or parts[0].isupper() or parts[-1] == ")"
    return mark in ("\\prime", "*", "\\prime\\prime")


_RULES: tuple[Callable[[list[str]], bool | None], ...] = (_is_text, _is_extreme, _is_measure, _are_names, _is_symbol)
