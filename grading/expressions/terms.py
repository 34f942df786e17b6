r"""Write one mathematical expression, without relation, list or unit, as a formula that a grammar reads into sympy.

latex2sympy2's grammar must match the whole text, but its lexer takes the start of a command for another one
(``\leftarrow`` for ``\le``), and its conversion leaves out what it cannot compute with (the base of ``10_2``, the prime
of ``y'``). So only commands that it knows get there, every other token is refused, and what is left out is refused or
written otherwise.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from core.text.patterns import compile_full_match
from grading.expressions.answer_tokens import Unread, closing, strip
from grading.expressions.formula_grammar import read_formula
from grading.vocabulary import ACCENTS, FUNCTIONS, GREEK, SCHOOLS

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
_BARE_NAMES = FUNCTIONS | SCHOOLS.keys() | {"pi", "sqrt", "lg", "alpha", "beta", "theta", "lambda"}
_DECIMAL = compile_full_match(r"\d*\.\d+")
_INTEGER = compile_full_match(r"\d+")


def read_term(parts: Sequence[str]) -> Any:
    """Return the sympy expression or matrix that the tokens are; Unread if a token has no part in it."""
    parts = strip(parts)
    if not parts:
        raise Unread("nothing there")
    if parts[0] == "[" and closing(parts, 0) == len(parts) - 1:
        raise Unread("square brackets around one expression")
    text = "".join(_written(_with_mixed_numbers(parts)))
    return read_formula(f"+{text}" if text.startswith("{") else text)  # braces around all are a set to latex2sympy2


def _with_mixed_numbers(parts: list[str]) -> list[str]:
    """Return ``1 1/2`` and ``1\\frac12`` as fractions; Unread for other numbers that stand side by side."""
    result: list[str] = []
    position = 0
    while position < len(parts):
        part = parts[position]
        after = position + 1 + (position + 1 < len(parts) and parts[position + 1].isspace())
        is_script = result[-1:] in (["^"], ["_"])
        fraction = _fraction(parts, after) if _INTEGER(part) and not is_script else None
        if fraction:
            over, under, end = fraction
            if not 0 < over < under:
                raise Unread("a number before a fraction")
            result += ["{", "\\frac", "{", str(int(part) * under + over), "}", "{", str(under), "}", "}"]
            position = end
            continue
        if part[0].isdigit() and not is_script and after < len(parts) and parts[after][0] in "0123456789.":
            raise Unread("numbers side by side")
        result.append(part)
        position += 1
    return result


def _fraction(parts: list[str], start: int) -> tuple[int, int, int] | None:
    """Return numerator, denominator and end of a fraction of integers that starts at ``start``."""
    rest = [part for part in parts[start : start + 12] if not part.isspace()]
    if rest[:1] == ["\\frac"]:
        end = start + 1
        numbers: list[int] = []
        for _ in range(2):
            argument, end = _argument(parts, end)
            if len(argument) != 1 or not _INTEGER(argument[0]) or len(argument[0]) > 300:
                return None
            numbers.append(int(argument[0]))
        return (*numbers, end) if end == len(parts) or parts[end] not in ("^", "!") else None  # type: ignore[return-value]
    slash = parts[start : start + 3]
    if len(slash) == 3 and _INTEGER(slash[0]) and slash[1] == "/" and _INTEGER(slash[2]) and parts[start - 1].isspace():
        end = start + 3
        if max(map(len, slash)) > 300 or (
            end < len(parts) and (parts[end] in "^!/_" or parts[end][0] in "(\\" or parts[end].isalpha())
        ):
            raise Unread("a number before a fraction")
        return int(slash[0]), int(slash[2]), end
    return None


def _argument(parts: list[str], start: int) -> tuple[list[str], int]:
    """Return the argument of a command that starts at ``start``, and its end; of a number without braces one digit."""
    while start < len(parts) and parts[start].isspace():
        start += 1
    if start >= len(parts):
        raise Unread("an argument is missing")
    part = parts[start]
    if part == "{":
        end = closing(parts, start)
        return strip(parts[start + 1 : end]), end + 1
    if _INTEGER(part) and len(part) > 1:
        parts[start : start + 1] = [part[0], part[1:]]
        return [part[0]], start + 1
    if part in ("\\frac", "\\binom"):
        _, end = _argument(parts, start + 1)
        _, end = _argument(parts, end)
        return parts[start:end], end
    if part == "\\sqrt":
        end = start + 1
        if end < len(parts) and parts[end] == "[":
            end = closing(parts, end) + 1
        _, end = _argument(parts, end)
        return parts[start:end], end
    if part in CLOSING_OR_OPERATOR:
        raise Unread("an argument is missing")
    return [part], start + 1


CLOSING_OR_OPERATOR = frozenset("+-*/^_!|,&)]}")


def _written(parts: list[str]) -> Iterator[str]:
    """Rewrite the tokens for the grammar; Unread for tokens that it would reject or read wrongly."""
    position, degrees = 0, _in_degrees(parts)
    parts = list(parts)
    base = ""  # the base of the indices and exponents
    integral = "\\int" in parts
    while position < len(parts):
        part = parts[position]
        position += 1
        base = part if part not in ("^", "_") and not part.isspace() else base
        if part.isspace():
            written = " "
        elif part.isdigit() and part.isascii():
            written, position = _whole_number(parts, position, degrees)
        elif _DECIMAL(part):
            written, position = _decimal_number(parts, position, degrees)
        elif part in ("\\frac", "\\binom"):
            written, position = _quotient(parts, position)
        elif part == "\\sqrt":
            written, position = _root(parts, position)
        elif part in ("^", "_"):
            written, position = _script(parts, position, part, base)
        elif part == "'":
            count = 1 + sum(1 for _ in takewhile(lambda token: token == "'", parts[position:]))
            written, position = "^{" + "\\prime " * count + "}", position + count - 1
        elif part == "\\begin":
            written, position = _matrix(parts, position)
        elif part[1:] in ACCENTS:
            written, position = _accented(parts, position)
        elif part in ("\\angle", "\\triangle"):
            written, position = _figure(parts, position)
        elif part == "e" and "".join(parts[position:]).lstrip().startswith("_"):
            written = "\\mathrm{e}"
        elif part == "!" and position < len(parts) and parts[position] == "!":
            raise Unread("a double factorial")
        else:
            written = _symbol(part, integral)
        yield written


def _whole_number(parts: list[str], position: int, degrees: bool) -> tuple[str, int]:
    """Read a whole number before ``position``, with its degree sign, and its end."""
    number = parts[position - 1]
    if degrees and (end := _is_degree(parts, position)):
        return f"{{\\frac{{{number} \\pi}}{{180}}}}", end
    if len(number.lstrip("0")) > 1000:
        raise Unread("a long number")
    return number, position


def _decimal_number(parts: list[str], position: int, degrees: bool) -> tuple[str, int]:
    """Read a decimal number before ``position`` as a fraction, with its degree sign, and its end."""
    whole, _, digits = parts[position - 1].partition(".")
    if position < len(parts) and parts[position] == ".":
        raise Unread("a number with two points")
    if degrees and (end := _is_degree(parts, position)):
        return f"{{\\frac{{{int(whole + digits)} \\pi}}{{{180 * 10 ** len(digits)}}}}}", end
    return f"{{\\frac{{{int(whole + digits)}}}{{1{'0' * len(digits)}}}}}", position


def _quotient(parts: list[str], position: int) -> tuple[str, int]:
    """Read a fraction, derivative or binomial coefficient whose command stands before ``position``, and its end."""
    command = parts[position - 1]
    over, position = _argument(parts, position)
    under, position = _argument(parts, position)
    if command == "\\frac" and (name := _derivative(over, under)):
        return name, position
    return f"{command}{{{''.join(_written(over))}}}{{{''.join(_written(under))}}}", position


def _root(parts: list[str], position: int) -> tuple[str, int]:
    """Read a root whose command stands before ``position``, and its end."""
    root: list[str] = []
    if position < len(parts) and parts[position] == "[":
        end = closing(parts, position)
        root, position = parts[position + 1 : end], end + 1
    start = position
    argument, position = _argument(parts, position)
    follows_digit = position < len(parts) and parts[position][0].isdigit() and parts[position - 1][0].isdigit()
    if follows_digit and parts[start] != "{":
        raise Unread("a root of several digits without braces")
    index = f"[{''.join(_written(root))}]" if root else ""
    return f"\\sqrt{index}{{{''.join(_written(argument))}}}", position


def _accented(parts: list[str], position: int) -> tuple[str, int]:
    """Read a name under the accent before ``position``, and its end."""
    accent = parts[position - 1]
    argument, position = _argument(parts, position)
    name = "".join(argument)
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
        return f"{sign}{{{''.join(_written([parts[start]]))}}}", start + 1
    if start < len(parts) and parts[start] in "+-":
        argument, end = _argument(parts, start + 1)
        argument = [parts[start], *argument]
    elif start < len(parts) and parts[start] == "(" and sign == "^":
        end = closing(parts, start) + 1
        argument = parts[start:end]
    else:
        argument, end = _argument(parts, start)
    if sign == "_" and base in ("\\sum", "\\prod") and "=" in argument:
        start = argument.index("=")
        first, last = ("".join(_written(side)) for side in (argument[:start], argument[start + 1 :]))
        return f"_{{{first}={last}}}", end
    if sign == "_" and base not in ("\\log", "\\int", "\\lim", "\\sum", "\\prod"):
        name = "".join(part[6:-1] if part.startswith("\\text{") else part.lstrip("\\") for part in argument)
        name = "".join(name.split())
        if name.replace(",", "").isalnum() and name.isascii():
            return f"_{{{name if name.isdigit() else ' '.join(name)}}}", end
    return f"{sign}{{ {''.join(_written(argument))}}}", end


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
    if sign not in (["d"], ["\\partial"]) or top[:1] != sign or len(bottom) < 2 or bottom[1] in CLOSING_OR_OPERATOR:
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
    rows: list[list[list[str]]] = [[[]]]
    depth = 0
    for part in parts[start:end]:
        depth += (part == "{") - (part == "}")
        if part == "\\\\" and not depth:
            rows.append([[]])
        elif part == "&" and not depth:
            rows[-1].append([])
        else:
            rows[-1][-1].append(part)
    if not any(strip(cell) for cell in rows[-1]):
        rows.pop()
    written = "\\\\".join("&".join("".join(_written(_with_mixed_numbers(strip(cell)))) for cell in row) for row in rows)
    return (
        f"\\begin{{{kind}}}{written}\\end{{{kind}}}",
        closing(parts, end + 1) + 1,
    )


def with_functions(parts: Sequence[str]) -> list[str]:
    r"""Rewrite function names of other conventions and bare names as commands: ``arctg``, ``\lg``, ``sqrt(2)``."""
    result: list[str] = []
    position = 0
    while position < len(parts):
        end = position
        while end < len(parts) and len(parts[end]) == 1 and parts[end].isalpha() and parts[end].isascii():
            end += 1
        run = "".join(parts[position:end])
        if end == position:
            part = parts[position]
            name, end = (part[1:] if part[1:].isalpha() and part[0] == "\\" else ""), position + 1
            run, letters = name, [part]
        else:
            name, letters = (run if run in _BARE_NAMES else ""), list(run)
        if name == "lg":
            result += ["\\log", "_", "{", "10", "}"]
        elif name in SCHOOLS:
            result.append(f"\\{SCHOOLS[name]}")
        elif name == "sqrt" and letters != ["\\sqrt"]:
            if end < len(parts) and parts[end] == "(":
                close = closing(parts, end)
                result += ["\\sqrt", "{", *with_functions(parts[end + 1 : close]), "}"]
                end = close + 1
            else:
                result.append("\\sqrt")
        elif name in _BARE_NAMES and letters[0][0] != "\\":
            result.append(f"\\{name}")
        else:
            result += letters
        position = end
    return result
