r"""Turn a formula that `grading.expressions.reading.terms` has written into a sympy expression.

lark reads what most answers consist of (numbers, names, arithmetic, powers, fractions, roots, functions, matrices), and
latex2sympy2 what is left, such as integrals, sums and limits. Both make the same expression of a formula, so that it
does not matter which of them reads the other side of a comparison. Where latex2sympy2 sees a call in what looks like a
product, such as ``x^{2}(y)``, the formula is left to it.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import sympy
from lark import Lark, Token, Tree
from sympy.core.function import AppliedUndef

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.expressions.answer_tokens import Unread
from grading.expressions.reading.latex2sympy2_grammar import by_latex2sympy2
from grading.vocabulary import ACCENTS, ELEMENTARY, GREEK

_INVERTED = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"))  # f^{-1} is the inverse
_ACCENT_NAMES = {"overline": "bar", "overrightarrow": "vec", "widetilde": "tilde"} | dict.fromkeys(
    ("mathrm", "mathbf", "mathcal"), "math"
)
_COMMANDS = (*sorted(GREEK), "ell", "hbar", "nabla", "square", "prime")
_LETTERS = rf"[abcf-zA-DF-HJ-Z]|\\(?:{'|'.join(_COMMANDS)})(?![a-zA-Z])"
_ACCENTED = rf"\\(?:{'|'.join(sorted(ACCENTS))}|mathrm)\{{[^{{}}]*\}}"
_INDEX = r"_\s*\{ *[0-9a-zA-Z][0-9a-zA-Z ]*(?:, *[0-9a-zA-Z][0-9a-zA-Z ]*)*\}"
_NAME = rf"(?:{_LETTERS}|{_ACCENTED})\s*(?:{_INDEX}\s*)?"
_PARTS = compile_full_match(rf"({_LETTERS}|{_ACCENTED})(\s*)({_INDEX}\s*)?")
_PIECE = compile_quick_pattern(r"d +[a-zA-Z]|\S")  # of an index: latex2sympy2 reads d and a letter as one differential
# A function without parentheses takes the factors behind it up to the next function: `open` is such an argument, which
# starts with no parenthesis, and `plain` are factors without functions. lark shifts where it could also reduce, so that
# the innermost function takes what it can.
GRAMMAR = rf"""
?start: sum | matrix
?sum: product | sum "+" product -> add | sum "-" product -> subtract
?product: signed | product _TIMES signed -> multiply | product _OVER signed -> divide
?signed: "+" signed | "-" signed -> negative | factors
?factors: (plain | called)+

?plain: plain_power | plain "!" -> factorial
?plain_power: plain_base | plain_base "^" _braced -> power
?plain_base: group | bare_base
group: "(" sum ")"
?bare: bare_power | bare "!" -> factorial
?bare_power: bare_base | bare_base "^" _braced -> power
?bare_base: _braced -> braces
    | "[" sum "]" -> group
    | _FRACTION _braced _braced -> divide
    | _BINOMIAL _braced _braced -> binomial
    | LEFT sum RIGHT -> enclosed
    | NUMBER
    | INFINITY
    | NAME

?called: closed | (FUNCTION | LOGARITHM INDEX?) exponent? open_product -> open
?closed: closed_power | closed "!" -> factorial
?closed_power: closed_base | closed_base "^" _braced -> power
?closed_base: (FUNCTION | LOGARITHM INDEX?) exponent? "(" sum ")" -> applied
    | _ROOT ("[" sum "]")? _braced -> root
    | _EXPONENTIAL ("^" _braced)? -> exponential
    | CALL
exponent: "^" _braced
_braced: "{{" sum "}}"
?open_product: open_signed
    | open_product _TIMES plain_signed -> multiply
    | open_product _OVER plain_signed -> divide
?open_signed: "+" plain_signed | "-" plain_signed -> negative | open_factors
?open_factors: (bare | called) plain* -> factors
?plain_signed: "+" plain_signed | "-" plain_signed -> negative | plain_factors
?plain_factors: (plain | called) plain* -> factors

matrix: _BEGIN row (_ROW row)* _END
row: sum ("&" sum)*

_TIMES: "*" | "\\cdot" | "\\times"
_OVER: "/" | "\\div"
_FRACTION: "\\frac"
_BINOMIAL: "\\binom"
_ROOT: "\\sqrt"
LEFT: "\\lfloor" | "\\lceil" | "\\lvert"
RIGHT: "\\rfloor" | "\\rceil" | "\\rvert"
INFINITY: "\\infty"
_EXPONENTIAL: "e"
NUMBER: /\d+/
NAME: /{_NAME}/
INDEX: /{_INDEX}/
CALL.1: /{_NAME}\(\s*(?:\d+\s*|{_NAME})\)/
FUNCTION: /\\(?:{"|".join(ELEMENTARY)})(?![a-zA-Z])/
LOGARITHM: /\\(?:log|ln)(?![a-zA-Z])/
_BEGIN: /\\begin\{{[pb]matrix\}}/
_END: /\\end\{{[pb]matrix\}}/
_ROW: "\\\\"
%ignore /\s+/
"""


@lru_cache(maxsize=2048)
def read_formula(text: str) -> Any:
    """Return the sympy expression or matrix that a formula is; Unread if it is none, or nothing reads it."""
    try:
        form = by_grammar(text)
    except Exception:  # of the grammar, or of sympy at an operand: latex2sympy2 reads it, or says what is wrong
        form = by_latex2sympy2(text)
    if not isinstance(form, sympy.Expr | sympy.MatrixBase):
        raise Unread("no expression")
    return _canonical(form)


def by_grammar(text: str) -> Any:
    """Return the expression of a formula by the grammar above; an exception of lark or sympy if it has none."""
    return _value(_grammar().parse(_with_sides(text)))


def _with_sides(text: str) -> str:
    """Return ``|x|`` with bars that say which of them opens, if there are two."""
    if text.count("|") != 2:
        return text
    before, inside, after = text.split("|")
    return f"{before}\\lvert {inside}\\rvert {after}"


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic")


def _value(node: Any) -> Any:
    """Return the expression of a tree or token of the grammar; sympy evaluates nothing but numbers."""
    if isinstance(node, Token):
        return _TOKENS[node.type](str(node))
    match node.data, node.children:
        case "group" | "braces", [inside]:
            return _value(inside)
        case "add", [one, other]:
            return _flat(sympy.Add, _value(one), _value(other))
        case "subtract", [one, other]:
            return _flat(sympy.Add, _value(one), _negative(_value(other)))
        case "negative", [side]:
            return _negative(_value(side))
        case "multiply", [one, other]:
            return _flat(sympy.Mul, _value(one), _value(other))
        case "divide", [one, other]:
            return _quotient(_value(one), _value(other))
        case "factors", factors:
            return _product(factors)
        case "power", [base, exponent]:
            return sympy.Pow(_value(base), _value(exponent), evaluate=False)
        case "factorial", [side]:
            return sympy.factorial(_value(side), evaluate=False)
        case "binomial", [over, under]:
            return sympy.binomial(_value(over), _value(under))
        case "enclosed", [left, inside, right]:
            return _enclosed(left, _value(inside), right)
        case "root", [inside]:
            return sympy.Pow(_value(inside), sympy.S.Half, evaluate=False)
        case "root", [index, inside]:
            return sympy.Pow(_value(inside), 1 / _value(index), evaluate=False)
        case "exponential", exponent:
            return sympy.exp(_value(exponent[0]) if exponent else 1)
        case "applied" | "open", [function, *options, argument]:
            return _applied(function, options, _value(argument))
        case "matrix", rows:
            return sympy.ImmutableMatrix([[_value(cell) for cell in row.children] for row in rows]).doit()
    raise Unread(f"no rule for {node.data}")


def _flat(kind: Any, *sides: Any) -> Any:
    """Return the sum or product of ``sides``, with the terms of those that are of this kind themselves."""
    parts = [part for side in sides for part in (side.args if isinstance(side, kind) else (side,))]
    return kind(*parts, evaluate=False)


def _negative(side: Any) -> Any:
    return -side if side.is_Number else _flat(sympy.Mul, sympy.S.NegativeOne, side)


def _quotient(over: Any, under: Any) -> Any:
    if over.is_Integer and under.is_Integer:
        return sympy.Rational(over, under)
    return sympy.Mul(over, sympy.Pow(under, -1, evaluate=False), evaluate=False)


def _product(factors: list[Any]) -> Any:
    """Return the product of factors that stand side by side."""
    for one, other in pairwise(factors):
        if _calls(one, other):
            raise Unread("a call that latex2sympy2 reads")
    values = [_value(factor) for factor in factors]
    return values[0] if len(values) == 1 else sympy.Mul(*values, evaluate=False)


def _calls(one: Any, other: Any) -> bool:
    """Return whether latex2sympy2 takes a name for a function of the bracket behind it, or in the argument before."""
    if _is(other, "CALL"):
        return _is(one, "open")
    while _is(other, "power", "factorial", "braces"):
        other = other.children[0]
    if not _is(other, "group"):
        return False
    inside = other.children[0]
    if _is(inside, "power"):
        inside = inside.children[0]
    is_name = _is(one, "NAME") or (_is(one, "power") and _is(one.children[0], "NAME"))
    return is_name and isinstance(inside, Token)


def _is(node: Any, *kinds: str) -> bool:
    return (node.type if isinstance(node, Token) else node.data) in kinds


def _enclosed(left: str, inside: Any, right: str) -> Any:
    function = {"floor": sympy.floor, "ceil": sympy.ceiling, "vert": sympy.Abs}[left[2:]]
    if left[2:] != right[2:]:
        raise Unread(f"{left} and {right}")
    return function(inside, evaluate=False)


def _name(text: str) -> Any:
    letters, _, index = _parts_of_name(text)
    if letters == "\\pi" and not index:
        return sympy.pi
    if "{" in letters:
        accent, _, name = letters[1:-1].partition("{")
        letters = f"{_ACCENT_NAMES.get(accent, accent)}{{{''.join(name.split())}}}"
    ending = f"_{{{index}}}" if len(index) > 1 else f"_{index}" if index else ""
    return sympy.Symbol(letters.removeprefix("\\") + ending)


def _call(text: str) -> Any:
    """Return ``f(x)`` as an undefined function, whose name is the text, without blanks but that behind a command."""
    name, _, argument = text.partition("(")
    letters, blank, index = _parts_of_name(name)
    is_command = letters.startswith("\\") and "{" not in letters
    function = letters + (" " if blank and is_command else "") + (f"_{{{index}}}" if index else "")
    return sympy.Function(function)(by_grammar(argument.removesuffix(")")))


def _parts_of_name(text: str) -> tuple[str, str, str]:
    """Return the letters or command of a name, the blanks behind them, and what is in the braces of its index."""
    parts = _PARTS(text)
    assert parts, text  # it is a token of the grammar
    letters, blank, index = parts.groups(default="")
    return letters, blank, "".join(_PIECE.findall(index))[2:-1]


def _applied(function: str, options: list[Any], argument: Any) -> Any:
    """Return a function of ``argument``; options: the base of a logarithm, an exponent of the function."""
    base = next((option[1:] for option in options if isinstance(option, Token)), None)
    exponent = next((_value(option.children[0]) for option in options if isinstance(option, Tree)), None)
    if exponent == 0:
        raise Unread("latex2sympy2 leaves an exponent of 0 out")
    name = function[1:]
    if name in ("log", "ln"):
        natural = sympy.E if name == "ln" else 10
        value = sympy.log(argument, by_grammar(base) if base else natural, evaluate=False)
    else:
        name = ELEMENTARY[name]
        if exponent == -1 and name in _INVERTED:
            name, exponent = f"a{name}", None
        value = getattr(sympy, name)(argument, evaluate=False)
    return value if exponent is None else sympy.Pow(value, exponent, evaluate=False)


_TOKENS: dict[str, Callable[[str], Any]] = {
    "NUMBER": sympy.Rational,
    "INFINITY": lambda _: sympy.oo,
    "NAME": _name,
    "CALL": _call,
}


def _canonical(form: Any) -> Any:
    """Return ``i`` as the imaginary unit, real odd roots of negative numbers, and unknown functions as symbols."""
    if not form.has(sympy.Sum, sympy.Product):  # in a sum or product, i counts
        form = form.xreplace({symbol: sympy.I for symbol in form.free_symbols if symbol.name == "i"})
    form = form.xreplace({power: _real(power) for power in form.atoms(sympy.Pow) if _is_odd_root(power)})
    return form.xreplace({call: sympy.Symbol(str(call)) for call in form.atoms(AppliedUndef)})


def _is_odd_root(power: Any) -> bool:
    return bool(power.exp.is_Rational and power.exp.q > 1 and power.exp.q % 2 and power.base.is_negative)


def _real(power: Any) -> Any:
    return (-1) ** power.exp.p * sympy.Pow(-power.base, power.exp, evaluate=False)
