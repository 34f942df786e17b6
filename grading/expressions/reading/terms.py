r"""Write one mathematical expression, without relation, list or unit, as a formula that a grammar reads into sympy.

latex2sympy2's grammar must match the whole text, but its lexer takes the start of a command for another one
(``\leftarrow`` for ``\le``), and its conversion leaves out what it cannot compute with (the base of ``10_2``, the prime
of ``y'``). So only commands that it knows get there, every other token is refused, and what is left out is refused or
written otherwise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from core.text.patterns import compile_full_match
from grading.expressions.answer_tokens import Unread, closing, divide, strip
from grading.expressions.reading.formula_grammar import read_formula
from grading.expressions.reading.mixed_numbers import NO_ARGUMENT, argument, with_mixed_numbers
from grading.vocabulary import ACCENTS, FUNCTIONS, GREEK

_OPERATORS = frozenset((
    "cdot", "times", "div", "infty", "lfloor", "rfloor", "lceil", "rceil", "prime", "int", "sum", "prod", "lim",
    "to",
))  # fmt: skip
_SYMBOLS = frozenset(("ell", "hbar", "partial", "nabla", "square"))
_COMMANDS = frozenset(f"\\{name}" for name in FUNCTIONS | GREEK | _OPERATORS | _SYMBOLS)
_CHARACTERS = frozenset("+-*/()[]{}^_!|,&")
_MATRICES = frozenset(("pmatrix", "bmatrix", "matrix", "vmatrix"))
# Alone, these letters are a differential, a power of ten and the imaginary unit in its grammar.
_UPRIGHT_LETTERS = frozenset("dEI")
_NUMBER = compile_full_match(r"[0-9]+|\d*\.\d+")
_LONGEST = 1000  # digits of a number


def read_term(parts: Sequence[str]) -> Any:
    """Return the sympy expression or matrix that the tokens are; Unread if a token has no part in it."""
    parts = strip(parts)
    if not parts:
        raise Unread("nothing there")
    if parts[0] == "[" and closing(parts, 0) == len(parts) - 1:
        raise Unread("square brackets around one expression")
    text = _write(with_mixed_numbers(parts))
    return read_formula(f"+{text}" if text.startswith("{") else text)  # braces around all are a set to latex2sympy2


def _write(parts: Sequence[str]) -> str:
    """Rewrite the tokens for the grammar; Unread for tokens that it would reject or read wrongly."""
    return "".join(_written(list(parts)))


def _written(parts: list[str]) -> Iterator[str]:
    position, degrees, integral = 0, _in_degrees(parts), "\\int" in parts
    base = ""  # the base of the indices and exponents
    while position < len(parts):
        part = parts[position]
        position += 1
        base = part if part not in ("^", "_") and not part.isspace() else base
        if part.isspace():
            written = " "
        elif _NUMBER(part):
            written, position = _number(parts, position, degrees)
        elif part in ("^", "_"):
            written, position = _script(parts, position, part, base)
        elif part in _WRITERS:
            written, position = _WRITERS[part](parts, position)
        elif part == "e" and "".join(parts[position:]).lstrip().startswith("_"):
            written = "\\mathrm{e}"
        elif part == "!" and parts[position : position + 1] == ["!"]:
            raise Unread("a double factorial")
        else:
            written = _symbol(part, integral)
        yield written


def _number(parts: list[str], position: int, degrees: bool) -> tuple[str, int]:
    """Read a number before ``position``, a decimal one as a fraction, with its degree sign, and its end."""
    whole, _, digits = parts[position - 1].partition(".")
    if len(whole.lstrip("0")) > _LONGEST or parts[position : position + 1] == ["."]:
        raise Unread("a long number, or one with two points")
    if degrees and (end := _is_degree(parts, position)):
        return f"{{\\frac{{{int(whole + digits)} \\pi}}{{{180 * 10 ** len(digits)}}}}}", end
    return (f"{{\\frac{{{int(whole + digits)}}}{{1{'0' * len(digits)}}}}}" if digits else whole), position


def _primes(parts: list[str], position: int) -> tuple[str, int]:
    """Read the primes of which the first stands before ``position``, and their end."""
    count = 1 + sum(1 for _ in takewhile(lambda token: token == "'", parts[position:]))
    return "^{" + "\\prime " * count + "}", position + count - 1


def _quotient(parts: list[str], position: int) -> tuple[str, int]:
    """Read a fraction, derivative or binomial coefficient whose command stands before ``position``, and its end."""
    command = parts[position - 1]
    over, position = argument(parts, position)
    under, position = argument(parts, position)
    if command == "\\frac" and (name := _derivative(over, under)):
        return name, position
    return f"{command}{{{_write(over)}}}{{{_write(under)}}}", position


def _root(parts: list[str], position: int) -> tuple[str, int]:
    """Read a root whose command stands before ``position``, and its end."""
    root: list[str] = []
    if position < len(parts) and parts[position] == "[":
        end = closing(parts, position)
        root, position = parts[position + 1 : end], end + 1
    start = position
    inside, position = argument(parts, position)
    follows_digit = position < len(parts) and parts[position][0].isdigit() and parts[position - 1][0].isdigit()
    if follows_digit and parts[start] != "{":
        raise Unread("a root of several digits without braces")
    index = f"[{_write(root)}]" if root else ""
    return f"\\sqrt{index}{{{_write(inside)}}}", position


def _accented(parts: list[str], position: int) -> tuple[str, int]:
    """Read a name under the accent before ``position``, and its end."""
    accent = parts[position - 1]
    inside, position = argument(parts, position)
    name = "".join(inside)
    if not name.replace(" ", "").replace("\\", "").isalnum():
        raise Unread(f"{accent} of a formula")
    return f"{accent}{{{name}}}", position


def _figure(parts: list[str], position: int) -> tuple[str, int]:
    """Read an angle or a triangle, whose points have one order however they are listed, and its end."""
    command, end = parts[position - 1], position
    while end < len(parts) and (parts[end].isspace() or (parts[end].isalpha() and len(parts[end]) == 1)):
        end += 1
    name = "".join(parts[position:end]).replace(" ", "")
    if not name:
        raise Unread(f"{command} of nothing")
    name = min(name, name[::-1]) if command == "\\angle" else "".join(sorted(name))
    return f"\\mathrm{{{command[1:]}{name}}}", end


def _symbol(part: str, integral: bool) -> str:
    """Read a letter, command or character; Unread for one that the grammar does not know."""
    if part in ("\\gamma", "\\Gamma"):
        return f"\\mathrm{{{part[1:]}}}"
    if part.startswith("\\text"):
        raise Unread("words in a formula")
    if part in _UPRIGHT_LETTERS and not (part == "d" and integral):
        return f"\\mathrm{{{part}}}"
    if (len(part) == 1 and part.isalpha() and part.isascii()) or part in _COMMANDS:
        return f"{part} "
    if part in _CHARACTERS:
        return part
    raise Unread(f"{part} is unknown")


def _script(parts: list[str], position: int, sign: str, base: str) -> tuple[str, int]:
    """Return an index or exponent, and its end. An index may be a word; degree signs count in trigonometry only."""
    if sign == "^" and (end := _is_degree(parts, position - 1)):
        return "", end
    if sign == "_" and base and base[0] in "0123456789.":
        raise Unread("a number with an index")
    start = position
    while start < len(parts) and parts[start].isspace():
        start += 1
    if start < len(parts) and parts[start][0].isdigit():
        return f"{sign}{{{_write([parts[start]])}}}", start + 1
    if start < len(parts) and parts[start] in "+-":
        inside, end = argument(parts, start + 1)
        inside = [parts[start], *inside]
    elif start < len(parts) and parts[start] == "(" and sign == "^":
        end = closing(parts, start) + 1
        inside = parts[start:end]
    else:
        inside, end = argument(parts, start)
    if sign == "_" and base in ("\\sum", "\\prod") and "=" in inside:
        start = inside.index("=")
        return f"_{{{_write(inside[:start])}={_write(inside[start + 1 :])}}}", end
    if sign == "_" and base not in ("\\log", "\\int", "\\lim", "\\sum", "\\prod"):
        name = "".join(part[6:-1] if part.startswith("\\text{") else part.lstrip("\\") for part in inside)
        name = "".join(name.split())
        if name.replace(",", "").isalnum() and name.isascii():
            return f"_{{{name if name.isdigit() else ' '.join(name)}}}", end
    return f"{sign}{{ {_write(inside)}}}", end


def _is_degree(parts: list[str], position: int) -> int:
    r"""Return the end of ``^\circ`` or ``^{\circ}`` at ``position``; 0 if it is not there."""
    rest = parts[position : position + 4]
    if rest[:1] != ["^"]:
        return 0
    if rest[1:2] in (["\\circ"], ["\\degree"]):
        return position + 2
    return position + 4 if rest[1:] in (["{", "\\circ", "}"], ["{", "\\degree", "}"]) else 0


def _in_degrees(parts: list[str]) -> bool:
    return any(part[1:] in FUNCTIONS for part in parts if part.startswith("\\"))


def _derivative(over: list[str], under: list[str]) -> str | None:
    """Return a name for ``dy/dx``, which is no quotient; None for other fractions."""
    top, bottom = ([part for part in side if not part.isspace()] for side in (over, under))
    sign = bottom[:1]
    if sign not in (["d"], ["\\partial"]) or top[:1] != sign or len(bottom) < 2 or bottom[1] in NO_ARGUMENT:
        return None
    name = "".join(part.lstrip("\\") for part in (*top, "over", *bottom) if part not in "{}")
    kept = "".join(character if character.isalnum() else f"u{ord(character):x}" for character in name)
    return f"\\mathrm{{{kept}}}"


def _matrix(parts: list[str], position: int) -> tuple[str, int]:
    r"""Read a matrix, from after its ``\begin`` to its end."""
    kind = "".join(parts[position + 1 : closing(parts, position)]) if parts[position : position + 1] == ["{"] else ""
    start = closing(parts, position) + 1 if kind else position
    if kind == "array" and parts[start : start + 1] == ["{"]:
        start, kind = closing(parts, start) + 1, "matrix"
    end = closing(parts, position - 1)
    if kind not in _MATRICES or parts[end + 1 : end + 2] != ["{"]:
        raise Unread(f"an environment {kind}")
    kind = "pmatrix" if kind == "matrix" else kind
    if "\\begin" in parts[start:end]:
        raise Unread("a matrix in a matrix")
    rows = [divide(row, ("&",))[0] for row in divide(parts[start:end], ("\\\\",))[0]]
    if not any(rows[-1]):
        rows.pop()
    written = "\\\\".join("&".join(_write(with_mixed_numbers(cell)) for cell in row) for row in rows)
    return f"\\begin{{{kind}}}{written}\\end{{{kind}}}", closing(parts, end + 1) + 1


_WRITERS: Mapping[str, Callable[[list[str], int], tuple[str, int]]] = {
    **dict.fromkeys((f"\\{accent}" for accent in ACCENTS), _accented),
    **dict.fromkeys(("\\frac", "\\binom"), _quotient),
    **dict.fromkeys(("\\angle", "\\triangle"), _figure),
    "\\sqrt": _root,
    "\\begin": _matrix,
    "'": _primes,
}
