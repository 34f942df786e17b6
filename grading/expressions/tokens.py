r"""Split a normalised answer into tokens, and divide it outside of all brackets.

A token is a command, a number, a run of blanks, a ``\text{…}`` as a whole, or one character.
"""

from collections.abc import Callable, Iterable, Sequence

from core.text.patterns import compile_quick_pattern

TOKEN = compile_quick_pattern(r"(?s)\\text ?\{[^{}]*\}|\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\.\d+|\s+|.")
TEXT = compile_quick_pattern(r"\\text ?\{([^{}]*)\}")
OPENING = frozenset(("(", "[", "{", "\\{", "\\langle", "\\lfloor", "\\lceil", "\\begin"))
CLOSING = frozenset((")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil", "\\end"))


class Unread(Exception):
    """The text has a part that cannot be read, so none of it is read."""


def tokens(text: str) -> list[str]:
    r"""Return the tokens of ``text``; together they are ``text``.

    >>> tokens(r"2 \text{ m}+x_{10}")
    ['2', ' ', '\\text{ m}', '+', 'x', '_', '{', '10', '}']
    """
    return TOKEN.findall(text)


def strip(parts: Sequence[str]) -> list[str]:
    """Return ``parts`` without blanks at both ends."""
    first, last = 0, len(parts)
    while first < last and parts[first].isspace():
        first += 1
    while first < last and parts[last - 1].isspace():
        last -= 1
    return list(parts[first:last])


def closing(parts: Sequence[str], start: int) -> int:
    """Return the position of the bracket that closes the one at ``start``; Unread if none does."""
    depth = 0
    for position in range(start, len(parts)):
        depth += (parts[position] in OPENING) - (parts[position] in CLOSING)
        if depth == 0:
            return position
    raise Unread(f"nothing closes {parts[start]}")


def divide(parts: Sequence[str], at: Callable[[str], bool] | Iterable[str]) -> tuple[list[list[str]], list[str]]:
    """Divide ``parts`` at the separators outside all brackets; return the pieces and the separators between them."""
    is_separator = at if callable(at) else frozenset(at).__contains__
    pieces: list[list[str]] = [[]]
    separators: list[str] = []
    depth = 0
    for part in parts:
        depth += (part in OPENING) - (part in CLOSING)
        if depth < 0:
            raise Unread(f"nothing opens {part}")
        if depth == 0 and part not in CLOSING and is_separator(part):
            pieces.append([])
            separators.append(part)
        else:
            pieces[-1].append(part)
    if depth:
        raise Unread("a bracket is open")
    return [strip(piece) for piece in pieces], separators


def enclosed(parts: Sequence[str]) -> bool:
    """Return whether the first token is a bracket that the last one closes."""
    return len(parts) > 1 and parts[0] in OPENING and closing(parts, 0) == len(parts) - 1
