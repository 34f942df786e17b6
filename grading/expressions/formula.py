r"""Read one formula, without relation, list or unit, into a sympy expression.

The grammar, over the tokens of `grading.expressions.tokens`:

    sum     = product (("+" | "-") product)*
    product = signed (("*" | \cdot | \times | "/" | \div) signed)*
    signed  = ("+" | "-")* factor+                  factors side by side are a product, as in 2x(y+1)
    factor  = atom ("^" argument | "!" | "'")*
    atom    = number | name | call | "(" sum ")" | "|" sum "|" | \frac argument argument | \sqrt argument | matrix | ...
    call    = function scripts (bracketed | factor+)  without brackets up to the next function: \sin 2x \cos y

What has a token that no rule takes is not read, nor a power of too many digits, such as ``9^{9^9}``.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from string import ascii_letters, ascii_lowercase
from typing import Any

import sympy

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.expressions.tokens import CLOSING, OPENING, Unread, closing, divide, strip
from grading.vocabulary import ACCENTS, COMPLEX, ELEMENTARY, FUNCTIONS, GREEK, SCHOOLS, WORD, is_word

LONGEST = 1100  # digits of a number
MOST_BITS, MOST_BITS_OF_ROOT, MOST_FACTORIAL = 40_000, 4_000, 5_000  # others take seconds
_NUMBER = compile_full_match(r"\d+(?:\.\d+)?|\.\d+")
_SIDE = r"(?:\{ (\d{1,30}) \}|(\d)(?!\d))"
_FRACTION = compile_quick_pattern(  # behind a whole number, of tokens with blanks between them
    rf"(?:\\frac (?:{_SIDE} {_SIDE}|(\d)(\d)(?!\d))|(?<!\d)(\d{{1,30}}) / (\d{{1,30}})(?= [)}}+,|-]|\Z))(?! [\^!])"
)
_INVERTED = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"))  # f^{-1} is the inverse
_SYMBOLS = frozenset(f"\\{name}" for name in (*GREEK, "gamma", "Gamma", "ell", "hbar", "nabla", "square", "partial"))
_ACCENTED = frozenset(f"\\{accent}" for accent in (*ACCENTS, "mathrm"))
_CALLED = frozenset("fghFGH")  # letters that are functions before any parenthesis
_TIMES, _OVER = ("*", "\\cdot", "\\times"), ("/", "\\div")
_SEVERAL = ("max", "min", "gcd", "lcm")
_ENDS = frozenset((*CLOSING, *_TIMES, *_OVER, "+", "-", "&", "\\\\", ",", "^", "_", "!", "'"))
_PAIRS = {"(": ")", "{": "}", "[": "]", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
_ROUNDED = {"\\lfloor": sympy.floor, "\\lceil": sympy.ceiling}
_MATRICES = frozenset(("pmatrix", "bmatrix", "matrix", "smallmatrix", "array", "psmallmatrix", "bsmallmatrix"))
_TRANSPOSED = frozenset(("T", "t", "\\top", "\\intercal", "\\textT", "\\mathsfT", "\\mathrmT", "\\prime", "'"))
_BARE = str.maketrans("", "", "{} ")
BARE_NAMES = FUNCTIONS | SCHOOLS.keys() | {"pi", "sqrt", "lg", "alpha", "beta", "theta", "lambda"}


def read_formula(parts: list[str]) -> Any:
    """Return the sympy expression or matrix that the tokens are; Unread if a token has no part in it."""
    parts = strip(parts)
    if parts[:1] == ["["] and closing(parts, 0) == len(parts) - 1:
        raise Unread("square brackets around one expression")
    return _read(tuple(parts))


@lru_cache(maxsize=2048)
def _read(parts: tuple[str, ...]) -> Any:
    try:
        return _Formula(with_functions(list(parts))).whole()
    except (TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, sympy.ShapeError) as error:
        raise Unread(f"{type(error).__name__} of sympy") from None


def with_functions(parts: list[str]) -> list[str]:
    r"""Return the tokens with bare names of functions as commands, and names of other countries as the usual ones.

    >>> with_functions(["2", "s", "i", "n", "4"]), with_functions(["\\lg", "x"]), with_functions(["\\arctg"])
    (['2', '\\sin', '4'], ['\\log', '_', '{', '10', '}', 'x'], ['\\arctan'])
    """
    result: list[str] = []
    position = 0
    while position < len(parts):
        end = position
        while end < len(parts) and len(parts[end]) == 1 and parts[end] in ascii_letters:
            end += 1
        letters = parts[position : max(end, position + 1)]
        position += len(letters)
        name = "".join(letters).removeprefix("\\")
        is_prose = len(letters) > WORD and is_word(name) and name not in BARE_NAMES and result[-1:] != ["{"]
        if name in ("mod", "to") or is_prose:
            raise Unread(f"{name} in a formula")
        if name == "lg":
            result += ["\\log", "_", "{", "10", "}"]
        elif name in SCHOOLS:
            result.append(f"\\{SCHOOLS[name]}")
        else:
            result += [f"\\{name}"] if len(letters) > 1 and name in BARE_NAMES else letters
    return result


class _Formula:
    """The tokens of one formula and a position in them; a method reads what the rule of its name describes."""

    def __init__(self, parts: list[str], *, trigonometric: bool = False) -> None:
        self.parts = [part for part in parts if not part.isspace()]
        self.position = 0
        self.bars = 0  # that are open
        self.trigonometric = trigonometric or any(part[1:] in FUNCTIONS for part in parts if part[0] == "\\")

    @property
    def next(self) -> str:
        return self.parts[self.position] if self.position < len(self.parts) else ""

    def take(self) -> str:
        if self.position >= len(self.parts):
            raise Unread("the formula ends too early")
        self.position += 1
        return self.parts[self.position - 1]

    def expect(self, part: str) -> None:
        if self.take() != part:
            raise Unread(f"{part} is missing")

    def inner(self, parts: list[str]) -> Any:
        """Return the value of tokens that stand for themselves, such as an argument in braces."""
        return _Formula(parts, trigonometric=self.trigonometric).whole()

    def whole(self) -> Any:
        value = self.sum()
        if self.next:
            raise Unread(f"{self.next} is not supported in a formula")
        return value

    def sum(self) -> Any:
        value = self.product()
        while self.next in ("+", "-"):
            sign, other = self.take(), self.product()
            value = value + other if sign == "+" else value - other
        return value

    def product(self) -> Any:
        value = self.signed()
        while self.next in (*_TIMES, *_OVER):
            sign, other = self.take(), self.signed()
            value = value * other if sign in _TIMES else _quotient(value, other)
        return value

    def signed(self) -> Any:
        if self.next in ("+", "-"):
            return self.signed() if self.take() == "+" else -self.signed()
        return self.factors()

    def factors(self, *, plain: bool = False) -> Any:
        """Read factors side by side; ``plain``: the argument of a function, which ends before the next function."""
        value = self.factor()
        while self.starts_factor() and not (plain and self.next[1:] in FUNCTIONS):
            before = self.parts[self.position - 1]
            if _NUMBER(self.next) and (_NUMBER(before) or before in ascii_lowercase):
                raise Unread("a number behind another one, or behind a letter")
            value = value * self.factor()
        return value

    def starts_factor(self) -> bool:
        return bool(self.next) and self.next not in _ENDS and not (self.next == "|" and self.bars)

    def factor(self) -> Any:
        value = self.atom()
        while self.next in ("^", "!"):
            if self.take() == "!":
                if self.next == "!":
                    raise Unread("a double factorial")
                if value.is_number and not value <= MOST_FACTORIAL:
                    raise Unread("a factorial that is too large")
                value = sympy.factorial(value)
                continue
            exponent = self.exponent()
            if exponent and set(exponent) == {"\\prime"} and value.is_Symbol:
                value = sympy.Symbol(str(value) + "'" * len(exponent))
            elif exponent == ["\\circ"]:
                value = value * sympy.pi / 180 if self.trigonometric else value
            elif isinstance(value, sympy.MatrixBase):
                is_transposed = "".join(exponent).translate(_BARE) in _TRANSPOSED
                value = value.T if is_transposed else value ** int(self.inner(exponent))
            else:
                value = _power(value, self.inner(exponent))
        return value

    def argument(self) -> list[str]:
        """Take the tokens of an argument: those in braces, or of one atom; of a number one digit."""
        if self.next == "{":
            self.take()
            return self.until_closed()
        if self.next in _ENDS:
            raise Unread("an argument is missing")
        if self.next.isdigit() and len(self.next) > 1:
            digits = self.next
            self.parts[self.position : self.position + 1] = [digits[0], digits[1:]]
        start = self.position
        if self.next in _SYMBOLS or len(self.next) == 1:
            self.take()
        else:
            self.atom()
        return self.parts[start : self.position]

    def until_closed(self) -> list[str]:
        """Take what stands before the bracket that closes the one that has been taken, and this bracket."""
        start = self.position
        end = closing(self.parts, start - 1)
        self.position = end + 1
        return self.parts[start:end]

    def exponent(self) -> list[str]:
        r"""Take an exponent: ``{...}``, ``12``, ``-1``, ``(n+1)``, a letter or a command."""
        sign = [self.take()] if self.next in ("+", "-") else []
        if self.next == "(":
            self.take()
            return [*sign, "(", *self.until_closed(), ")"]
        if _NUMBER(self.next) or self.next in ("\\circ", "\\prime", "'", "\\top", "\\intercal", "\\text{T}"):
            return [*sign, self.take()]
        return [*sign, *self.argument()]

    def atom(self) -> Any:
        part = self.take()
        if _NUMBER(part):
            return self.number(part)
        if part[0] == "\\" and part[1:] in FUNCTIONS:
            return self.function(part[1:])
        if part in _PAIRS:
            return self.group(part)
        if rule := _ATOMS.get(part):
            return rule(self)
        if (len(part) == 1 and part in ascii_letters) or part in _SYMBOLS or part in _ACCENTED:
            return self.name(part)
        raise Unread(f"{part} is not supported in a formula")

    def group(self, opening: str) -> Any:
        inside = self.until_closed()
        if self.parts[self.position - 1] != _PAIRS[opening]:
            raise Unread("brackets of different kinds")
        value = self.inner(inside)
        return _ROUNDED[opening](value) if opening in _ROUNDED else value

    def number(self, part: str) -> Any:
        """Read a number, as a mixed one with the fraction of integers behind it."""
        if len(part.lstrip("0")) > LONGEST or self.next == ".":
            raise Unread("a long number, or one with two points")
        fraction = _FRACTION.match(" ".join(self.parts[self.position : self.position + 8])) if part.isdigit() else None
        if fraction is None:
            return sympy.Rational(part)
        over, under = (int(digits) for digits in fraction.groups() if digits)
        if not 0 < over < under:
            raise Unread("a number before a fraction")
        self.position += fraction.group().count(" ") + 1
        return int(part) + sympy.Rational(over, under)

    def name(self, part: str) -> Any:
        """Read a letter with its accent, index and primes; a call such as f(x) is a symbol of its own."""
        letters = part.removeprefix("\\")
        if part in _ACCENTED:
            content = "".join(self.argument())
            if not content.replace("\\", "").isalnum():
                raise Unread(f"{part} of a formula")
            letters = f"{letters}{{{content}}}"
        primes = ""
        while self.next in ("_", "'"):
            primes, letters = (primes + self.take(), letters) if self.next == "'" else (primes, letters + self.index())
        letters += primes
        if letters == "pi":
            return sympy.pi
        if self.next == "(" and (arguments := self.arguments_of(letters)) is not None:
            letters += f"({', '.join(map(str, arguments))})"
        return {"e": sympy.E, "i": sympy.I}.get(letters) or sympy.Symbol(letters)

    def index(self) -> str:
        """Take an index, which is part of a name."""
        self.take()
        inside = [self.take()] if _NUMBER(self.next) or self.next.startswith("\\text") else self.argument()
        words = (part[part.index("{") + 1 : -1] if part.startswith("\\text") else part.lstrip("\\") for part in inside)
        text = "".join(words)
        if not text or any(part in OPENING or part == "\\circ" for part in inside if part not in "({"):
            raise Unread("an index")
        return f"_{''.join(text.split())}"

    def arguments_of(self, letters: str) -> list[Any] | None:
        """Take the arguments of a call; None if a product with a bracket follows the letters."""
        end = closing(self.parts, self.position)
        pieces, commas = divide(self.parts[self.position + 1 : end], (",",))
        is_plain = len(pieces[0]) == 1 and (pieces[0][0] in _SYMBOLS or pieces[0][0].isalnum())
        called = letters[0] in _CALLED or "'" in letters
        if letters in ("e", "i") or not (commas or called or (is_plain and pieces[0][0] not in ("i", "e"))):
            return None
        self.position = end + 1
        return [self.inner(piece) for piece in pieces]

    def function(self, name: str) -> Any:
        base = exponent = None
        while self.next in ("^", "_"):
            if self.take() == "^":
                exponent = self.inner(self.exponent())
            elif name == "log":
                base = self.inner([self.take()] if _NUMBER(self.next) else self.argument())
            else:
                raise Unread(f"{name} with an index")
        if name in _SEVERAL:
            return self.several(name)
        if self.next in ("(", "{"):
            return _applied(name, base, exponent, self.group(self.take()))
        argument = self.factors(plain=True)
        while self.next == "/" and (_NUMBER(follows := self.parts[self.position + 1]) or follows == "\\pi"):
            self.take()
            argument = _quotient(argument, self.factors(plain=True))
        return _applied(name, base, exponent, argument)

    def several(self, name: str) -> Any:
        r"""Read a function of several values, in parentheses or as a set."""
        if self.take() not in ("(", "\\{"):
            raise Unread(f"{name} without parentheses")
        values = [self.inner(piece) for piece in divide(self.until_closed(), (",",))[0]]
        if name in ("max", "min"):
            return (sympy.Max if name == "max" else sympy.Min)(*values)
        if all(value.is_Integer for value in values):
            return sympy.Integer((math.gcd if name == "gcd" else math.lcm)(*map(int, values)))
        return sympy.Symbol(f"{name}({', '.join(sorted(map(str, values)))})")

    def quotient(self) -> Any:
        over, under = self.argument(), self.argument()
        if over[:1] == under[:1] and over[:1] in (["d"], ["\\partial"]) and len(under) > 1 and under[1] not in _ENDS:
            return sympy.Symbol("".join((*over, "/", *under)))  # a derivative
        return _quotient(self.inner(over), self.inner(under))

    def binomial(self) -> Any:
        over, under = self.inner(self.argument()), self.inner(self.argument())
        if over.is_Integer and under.is_Integer and min(under, over - under) > MOST_FACTORIAL:
            raise Unread("a binomial coefficient that is too large")
        return sympy.binomial(over, under)

    def root(self) -> Any:
        index = sympy.Integer(2)
        if self.next == "[":
            self.take()
            index = self.inner(self.until_closed())
        braced = self.next in ("{", "(")
        inside = [self.take(), *self.until_closed(), ")"] if self.next == "(" else self.argument()
        if not braced and _NUMBER(self.next) and _NUMBER(inside[-1]):
            raise Unread("a root of several digits without braces")
        return _power(self.inner(inside), 1 / index)

    def between_bars(self) -> Any:
        self.bars += 1
        value = self.sum()
        self.bars -= 1
        self.expect("|")
        return sympy.Abs(value)

    def figure(self) -> Any:
        """Read an angle or a triangle; the order of the points of a triangle makes no difference."""
        command, start = self.parts[self.position - 1], self.position
        while self.next.isalpha() or self.next in ("_", "{", "}") or (self.next.isdigit() and self.position > start):
            self.take()
        points = "".join(self.parts[start : self.position]).translate(_BARE)
        points = min(points, points[::-1]) if command == "\\angle" else "".join(sorted(points))
        return sympy.Symbol(f"{command[1:]} {points}")

    def matrix(self) -> Any:
        begin = self.position - 1
        end = closing(self.parts, begin)
        self.expect("{")
        kind = "".join(self.until_closed())
        if kind == "array" and self.next == "{":
            self.take()
            self.until_closed()
        rows = [divide(row, ("&",))[0] for row in divide(self.parts[self.position : end], ("\\\\",))[0]]
        self.position = end + 1
        self.expect("{")
        if kind not in _MATRICES or "".join(self.until_closed()) != kind:
            raise Unread(f"an environment {kind}")
        rows = rows if any(rows[-1]) else rows[:-1]
        return sympy.ImmutableMatrix([[self.inner(cell) for cell in row] for row in rows])


_ATOMS: Mapping[str, Callable[[_Formula], Any]] = {
    "\\frac": _Formula.quotient,
    "\\binom": _Formula.binomial,
    "\\sqrt": _Formula.root,
    "|": _Formula.between_bars,
    "\\begin": _Formula.matrix,
    "\\infty": lambda _: sympy.oo,
    **dict.fromkeys(("\\angle", "\\triangle"), _Formula.figure),
}


def _quotient(over: Any, under: Any) -> Any:
    return sympy.nan if under == 0 else over / under


def _power(base: Any, exponent: Any) -> Any:
    """Return a power of at most `MOST_BITS`; an odd root is the real one, also of a negative number."""
    if base.is_number and exponent.is_Rational:
        bits = math.log2(abs(base.p) + base.q) if base.is_Rational else 1
        if abs(exponent) * bits > MOST_BITS or (exponent.q > 1 and bits > MOST_BITS_OF_ROOT):
            raise Unread("a power that is too large")
    is_odd_root = exponent.is_Rational and exponent.q > 1 and exponent.q % 2
    if is_odd_root and (base.is_negative if base.is_number else COMPLEX.isdisjoint(map(str, base.free_symbols))):
        return (sympy.sign(base) if exponent.p % 2 else 1) * sympy.Abs(base) ** exponent
    return base**exponent


def _applied(name: str, base: Any, exponent: Any, argument: Any) -> Any:
    if name in ("log", "ln"):
        value = sympy.log(argument, (sympy.E if name == "ln" else 10) if base is None else base)
    else:
        name = ELEMENTARY[name]
        if exponent == -1 and name in _INVERTED:
            name, exponent = f"a{name}", None
        value = getattr(sympy, name)(argument)
    return value if exponent is None else value**exponent
