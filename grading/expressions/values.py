"""Compare two values: numbers or expressions with their units, numbers in a base, and the entries of vectors."""

from typing import Any

from sympy import MatrixBase, Mul, Symbol, expand, nan, pi

from grading.expressions.algebra import approximates, equal
from grading.expressions.forms import Form, Value
from grading.expressions.units import DEGREE, PERCENT, TOTAL, total_of

SAME_DIGITS = 3  # if one side repeats at least this many digits with a base, the other has left the base out
UNIT_VECTORS = tuple(Symbol(f"mathbf{{{letter}}}") for letter in "ijk")  # of \\mathbf{i}, \\mathbf{j}, \\mathbf{k}
_EITHER = ({"pound", "lb"}, {"pound", "gbp"}, {"\u00a5", "yen"}, {"\u00a5", "yuan"})  # one name or sign for two units
CONSTANTS = ("c", "K", "k")  # names of C, the constant of an integration
ARGUMENTS = frozenset("xt")  # of the functions that a constant may be a factor of


def same_value(one: Value, other: Value) -> bool:
    """Compare two values; a unit may be missing on one side, and a percentage may stand for its share."""
    if one.code or other.code:
        return one.code == other.code
    if one.numeral or other.numeral:
        return _same_numeral(one, other)
    if one.times and other.times and one.times != other.times:
        return False
    for matrix, vector in ((one, other), (other, one)):
        if is_matrix(matrix) and not is_matrix(vector) and (entries := components(vector, len(matrix.expression))):
            listed = components(matrix, len(entries))
            return len(listed) == len(entries) and all(map(same_value, listed, entries))
    units = {one.unit, other.unit} - {None}
    if PERCENT in units and one.unit != other.unit:
        percent, plain = (one, other) if one.unit == PERCENT else (other, one)
        is_same = _same_numbers(percent, plain, 100) or (_same_numbers(percent, plain) and not _is_share(plain))
        return len(units) == 1 and is_same
    if DEGREE in units and _is_angle(*((one, other) if one.unit == DEGREE else (other, one))):
        return True
    if any(TOTAL in (unit or "") for unit in units):
        first, second = total_of([one]), total_of([other])
        return first is not None and second is not None and first[1] == second[1] and equal(first[0], second[0])
    if len(units) == 2 and units not in _EITHER:
        return False
    for quantity, plain in ((one, other), (other, one)):
        if quantity.unit and not plain.unit and plain.expression.free_symbols:
            return equal(quantity.expression * _letters(quantity.unit), plain.expression) or _same_numbers(one, other)
    return _same_numbers(one, other)


def _is_share(plain: Value) -> bool:
    """Return whether a number of at most 1 is rather a share than a number of percent: 0.5 is no 0.5%."""
    return bool(plain.expression.is_number and abs(plain.expression.evalf()) <= 1)


def _is_angle(degrees: Value, radians: Value) -> bool:
    """Return whether an angle in degrees is one in radians, which has the unit or is a multiple of pi."""
    is_radian = radians.unit == "rad" or (not radians.unit and radians.expression.has(pi))
    return is_radian and equal(degrees.expression * pi / 180, radians.expression)


def _letters(unit: str) -> Any:
    """Return a unit as the product of the letters that spell it, to compare ``5\\text{ m}^2`` with ``5m^2``."""
    factors: list[Any] = []
    for factor in unit.split():
        name, _, exponent = factor.partition("^")
        if len(name) > 1 and name[0] != "u":
            return Symbol(name)  # of which the order of the letters counts
        letters = [Symbol("mu"), Symbol(name[1:])] if len(name) > 1 else [Symbol(name)]
        power = int(exponent or 1)
        factors += [letter**power for letter in letters] if power < 0 else [*letters[:-1], letters[-1] ** power]
    return Mul(*factors)


def _same_numbers(one: Value, other: Value, divisor: int = 1) -> bool:
    first, second = one.expression, other.expression
    if divisor != 1:
        first = first / divisor
    if equal(first, second):
        return True
    if is_matrix(one) or is_matrix(other):
        return False
    if first.free_symbols and second.free_symbols:
        return _same_but_for_constant(first, second) or _same_but_for_constant(second, first)
    if (one.digits is None) == (other.digits is None) or divisor != 1:
        return False
    decimal, value = (one, second) if other.digits is None else (other, first)
    return approximates(decimal.expression, decimal.digits or 0, value)


def is_matrix(form: Form) -> bool:
    """Return whether a form is a matrix."""
    return isinstance(form, Value) and isinstance(form.expression, MatrixBase)


def _same_numeral(one: Value, other: Value) -> bool:
    """Compare a number in a base to one with or without a base, which may have been left out behind its digits."""
    if one.numeral and other.numeral:
        return one.numeral[1] == other.numeral[1] and one.numeral[0].lstrip("0") == other.numeral[0].lstrip("0")
    based, plain = (one, other) if one.numeral else (other, one)
    if not based.numeral or not plain.expression.is_Integer or plain.unit or based.expression is nan:
        return False
    left_out = len(based.numeral[0]) >= SAME_DIGITS and based.numeral[0] == str(plain.expression)
    return left_out or based.expression == plain.expression


def components(form: Form, size: int) -> list[Value]:
    """Return the entries of a vector of ``size``: a matrix of one row or column, or a sum of unit vectors."""
    if not isinstance(form, Value) or form.unit:
        return []
    if is_matrix(form):
        return [Value(entry) for entry in form.expression.flat()] if 1 in form.expression.shape else []
    if not form.expression.free_symbols.intersection(UNIT_VECTORS):
        return []
    total = expand(form.expression)
    entries = [total.coeff(vector) for vector in UNIT_VECTORS[:size]]
    rest = total - sum(entry * vector for entry, vector in zip(entries, UNIT_VECTORS, strict=False))
    return [Value(entry) for entry in entries] if expand(rest) == 0 else []


def _same_but_for_constant(first: Any, second: Any) -> bool:
    """Return whether two integrals or solutions are the same, with the constant C of the first spelled otherwise."""
    names, others = ({symbol.name for symbol in side.free_symbols} for side in (first, second))
    spelled = [name for name in CONSTANTS if name in others and name not in names]
    if "C" not in names or "C" in others or len(spelled) != 1 or not names & ARGUMENTS:
        return False
    slope = first.diff(Symbol("C")).doit()
    is_linear = {symbol.name for symbol in slope.free_symbols} <= ARGUMENTS
    return is_linear and equal(first.xreplace({Symbol("C"): Symbol(spelled[0])}), second)
