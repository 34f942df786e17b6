"""Compare two values: numbers or expressions with their units, numbers in a base, and the entries of vectors."""

from typing import Any

from sympy import MatrixBase, MatrixExpr, Mul, Symbol, expand, pi

from grading.expressions.algebra import approximates, equal
from grading.expressions.forms import LARGEST_BASE, Based, Form, Value
from grading.expressions.units import DEGREE, PERCENT

SAME_DIGITS = 3  # if one side repeats at least this many digits with a base, the other has left the base out
MATRICES = (MatrixBase, MatrixExpr)
UNIT_VECTORS = tuple(Symbol(f"mathbf{{{letter}}}") for letter in "ijk")  # of \\mathbf{i}, \\mathbf{j}, \\mathbf{k}
_POUNDS = ({"pound", "lb"}, {"pound", "gbp"})  # a pound may be of money or of weight
CONSTANTS = ("C", "c", "K", "k")  # of an integration; c only where the other side has C
ARGUMENTS = frozenset("xt")  # of the functions that a constant may be a factor of


def same_value(one: Value, other: Value) -> bool:
    """Compare two values; a unit may be missing on one side, and a percentage may stand for its share."""
    if one.code or other.code:
        return one.code == other.code
    for matrix, vector in ((one, other), (other, one)):
        if (
            not is_matrix(vector.expression)
            and isinstance(matrix.expression, MatrixBase)
            and (entries := components(vector, len(matrix.expression)))
        ):
            listed = components(matrix, len(entries))
            return len(listed) == len(entries) and all(map(same_value, listed, entries))
    if one.unit != other.unit and PERCENT in (one.unit, other.unit):
        if one.unit and other.unit:
            return False
        percent, plain = (one, other) if one.unit == PERCENT else (other, one)
        return _same_numbers(percent, plain, 100) or (_same_numbers(percent, plain) and not _is_share(plain))
    if DEGREE in (one.unit, other.unit) and _is_angle(*((one, other) if one.unit == DEGREE else (other, one))):
        return True
    if one.unit and other.unit:
        return (one.unit == other.unit or {one.unit, other.unit} in _POUNDS) and _same_numbers(one, other)
    unit = one.unit or other.unit
    if unit and (one.expression.free_symbols or other.expression.free_symbols):
        quantity, plain = (one, other) if one.unit else (other, one)
        if not quantity.expression.free_symbols:
            return equal(quantity.expression * _letters(unit), plain.expression)
    return _same_numbers(one, other)


def _is_share(plain: Value) -> bool:
    """Return whether a number of at most 1 is rather a share than a number of percent: 0.5 is no 0.5%."""
    return bool(plain.expression.is_number and abs(plain.expression.evalf()) <= 1)


def _is_angle(degrees: Value, radians: Value) -> bool:
    """Return whether an angle in degrees is one in radians, which has the unit or is a multiple of pi."""
    if radians.unit != "rad" and (radians.unit or not radians.expression.has(pi)):
        return False
    return equal(degrees.expression * pi / 180, radians.expression)


def _letters(unit: str) -> Any:
    """Return a unit as the product of the letters that spell it, for ``5\\text{ m}^2`` beside ``5m^2``."""
    factors: list[Any] = []
    for factor in unit.split():
        name, _, exponent = factor.partition("^")
        micro = name[:1] == "u" and len(name) > 1
        letters = [Symbol("mu" if micro and not position else letter) for position, letter in enumerate(name)]
        if len(letters) > 1 and not micro:
            return Symbol(name)  # of which the order of the letters counts
        power = int(exponent or 1)
        factors += [letter**power for letter in letters] if power < 0 else [*letters[:-1], letters[-1] ** power]
    return Mul(*factors)


def _same_numbers(one: Value, other: Value, divisor: int = 1) -> bool:
    first, second = one.expression, other.expression
    if divisor != 1:
        first = first / divisor
    if equal(first, second):
        return True
    if first.free_symbols and second.free_symbols and not is_matrix(first) and not is_matrix(second):
        return _same_but_for_constant(first, second)
    if one.digits is not None and other.digits is not None:
        return False
    if one.digits is not None and divisor == 1 and not is_matrix(second):
        return approximates(first, one.digits, second)
    if other.digits is not None and not is_matrix(first):
        return approximates(second, other.digits, first)
    return False


def is_matrix(side: Any) -> bool:
    """Return whether an expression is a matrix, or has one among its parts."""
    return isinstance(side, MATRICES) or side.has(*MATRICES)


def same_number(one: Form, other: Form) -> bool | None:
    """Compare a number with its base to one with or without a base; None if neither has one."""
    if isinstance(one, Based) and isinstance(other, Based):
        return one.base == other.base and one.numeral.lstrip("0") == other.numeral.lstrip("0")
    based, plain = (one, other) if isinstance(one, Based) else (other, one)
    if not isinstance(based, Based):
        return None
    if not isinstance(plain, Value) or not plain.expression.is_Integer or plain.unit:
        return False
    if not 2 <= based.base <= LARGEST_BASE or any(int(digit, LARGEST_BASE) >= based.base for digit in based.numeral):
        return False
    if len(based.numeral) >= SAME_DIGITS and based.numeral == str(plain.expression):
        return True
    return int(based.numeral, based.base) == plain.expression


def components(form: Form, size: int) -> list[Value]:
    """Return the entries of a vector of ``size``: a matrix of one row or column, or a sum of unit vectors."""
    if not isinstance(form, Value) or form.unit:
        return []
    if isinstance(form.expression, MatrixBase):
        return [Value(entry) for entry in form.expression.flat()] if 1 in form.expression.shape else []
    if is_matrix(form.expression) or not form.expression.free_symbols.intersection(UNIT_VECTORS):
        return []
    total = expand(form.expression)
    entries = [total.coeff(vector) for vector in UNIT_VECTORS[:size]]
    rest = total - sum(entry * vector for entry, vector in zip(entries, UNIT_VECTORS, strict=False))
    return [Value(entry) for entry in entries] if expand(rest) == 0 else []


def _same_but_for_constant(one: Any, other: Any) -> bool:
    """Return whether two integrals or solutions are the same, whose constants are spelled ``C`` and ``c``."""
    for first, second in ((one, other), (other, one)):
        names = [{symbol.name for symbol in side.free_symbols} for side in (first, second)]
        spelled = [name for name in CONSTANTS[1:] if name in names[1] and name not in names[0]]
        if "C" in names[0] and "C" not in names[1] and len(spelled) == 1 and names[0] & ARGUMENTS:
            constant, name = Symbol("C"), Symbol(spelled[0])
            slope = first.diff(constant).doit()
            if constant not in slope.free_symbols and {symbol.name for symbol in slope.free_symbols} <= ARGUMENTS:
                return equal(first.xreplace({constant: name}), second)
    return False
