r"""Tell which side of a relation is a name, such as ``b``, ``f(x)`` or ``\text{area}``, of the value beside it."""

from grading.expressions.answer_tokens import TEXT, closing, divide, enclosed
from grading.vocabulary import COMPLEX, GREEK, WORD, is_word

_ACCENTS = ("hat", "bar", "vec", "mathbf", "overline", "mathcal", "dot")
_DENIALS = frozenset((  # words that make a name that of another value
    "not", "no", "never", "wrong", "incorrect", "false", "double", "half", "twice", "except", "least", "most", "more",
    "less", "than", "over", "under", "bound", "about", "approximately",
))  # fmt: skip
_NAME_STARTS = (*_ACCENTS, "ell", "hbar")


def is_abbreviation(side: list[str]) -> bool:
    """Return whether a side is several capital letters, which name a quantity: ``MR = SRMC`` gives no value of MR."""
    letters = "".join(TEXT.sub(r"\1", "".join(side)).split())
    return len(letters) > 1 and letters.isalpha() and letters.isupper()


def name_of(side: list[str]) -> str | None:
    r"""Return the name that a side is, such as ``b``, ``x_1``, ``f(x)``, ``AB``, ``\text{area}``; None for others."""
    parts = [part for part in side if not part.isspace()]
    text = "".join(parts)
    if not parts:
        return None
    if parts[0].startswith("\\text"):  # alone, or before the points of a figure
        of_points = all(part in ("\\triangle", *"()[]") or part.isupper() for part in parts[1:])
        return text if of_points and _DENIALS.isdisjoint(parts[0][6:-1].lower().replace(":", " ").split()) else None
    if parts[0] in ("\\max", "\\min", "\\lim"):  # of numbers it is one itself
        return text if len(parts) == 1 or any(map(str.isalpha, parts)) else None
    if parts[0] in ("P", "E") and parts[1:2] == ["("] and closing(parts, 1) == len(parts) - 1:
        return text  # of an event or a variable, which may be a relation
    if parts[0] == "[" and len(parts) > 4 and parts[-1] == "]" and all(map(str.isupper, parts[1:-1])):
        return text  # the area of a polygon
    words = "".join(side).split()
    if (
        len(words[0]) > WORD
        and all(map(str.isalpha, words))
        and all(map(is_word, words))
        and _DENIALS.isdisjoint(map(str.lower, words))
    ):
        return text
    pieces, colons = divide(parts, (":",))
    if colons:
        return text if all(map(name_of, pieces)) else None
    if parts[0] in ("\\angle", "\\triangle", "\\overline", "\\vec", "|") and all(
        part in "|{}" or part.isupper() for part in parts[1:]
    ):
        return text
    if all(part.isalpha() and part.isupper() for part in parts):
        return text
    if enclosed(parts) and parts[0] == "(":  # (x, y) = ...
        pieces, commas = divide(parts[1:-1], (",",))
        return text if commas and all(map(name_of, pieces)) else None
    first = parts[0]
    if first[1:] in ("overline", "bar") and COMPLEX.intersection(parts[1:]):
        return None  # the conjugate of a number is another number
    if not ((len(first) == 1 and first.isalpha()) or first[1:] in GREEK or first[1:] in _NAME_STARTS):
        return None
    position = 1
    if first[1:] in _ACCENTS:
        position = closing(parts, 1) + 1 if parts[1:2] == ["{"] else 2
    while position < len(parts):
        if parts[position] == "_" or (parts[position] == "^" and _is_mark(parts, position)):
            position = closing(parts, position + 1) + 1 if parts[position + 1 : position + 2] == ["{"] else position + 2
        elif parts[position] == "'":
            position += 1
        elif parts[position] == "(" and closing(parts, position) == len(parts) - 1:
            return (
                text if all(part.isalnum() or part in ",()" or part[1:] in GREEK for part in parts[position:]) else None
            )
        else:
            return None
    return text


def _is_mark(parts: list[str], position: int) -> bool:
    """Return whether an exponent marks a name: the inverse of a function, a prime, a star."""
    text = "".join(
        parts[position + 1 : closing(parts, position + 1) + 1]
        if parts[position + 1 : position + 2] == ["{"]
        else parts[position + 1 : position + 2]
    )
    if text.strip("{}") == "-1":  # of a function or matrix; that of a number is another number
        return parts[0] in "fgh" or parts[0].isupper() or parts[-1] == ")"
    return text.strip("{}") in ("\\prime", "*", "\\prime\\prime")
