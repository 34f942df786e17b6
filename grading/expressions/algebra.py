"""Decide whether two sympy expressions are equal: exact arithmetic for numbers, exact points for formulas.

sympy raises the precision of a difference until its first digits are certain, up to `MOST_DIGITS`. A difference without
a certain digit by then is zero. So ``2^{-2000}`` differs from ``2^{-2001}``, which no float can tell apart, and equal
nested roots agree although nothing simplifies them.
"""

from collections.abc import Iterator
from typing import Any

import sympy
from sympy.functions.elementary.hyperbolic import HyperbolicFunction

from grading.expressions.vocabulary import PLAIN_DIGITS

UNEVALUATED = (sympy.Derivative, sympy.Integral, sympy.Limit, sympy.Product, sympy.Sum)
UNDEFINED = (sympy.nan, sympy.zoo)
# What sympy raises for an expression that has no number at a point: the callers then decide otherwise.
NO_NUMBER = (ArithmeticError, NotImplementedError, TypeError, ValueError, AttributeError)
MOST_DIGITS = 1500
DIGITS_AT_POINTS = 100  # of a difference of formulas at a point, where no cancellation needs more
POINTS = (  # exact values of the first symbol, and what each next symbol adds: two positive points, one negative
    ((8137, 9973), (3171, 9967)),
    ((15923, 9949), (2139, 9941)),
    ((-13931, 9931), (-2713, 9929)),
)
# Formulas in pieces, and those with roots, are also compared far away and around their own constants.
FAR = ((73127, 9973), (238151, 9967), (-96149, 9941), (-1013567, 9931))
BESIDE = ((3771, 9967), (-3769, 9973))
MOST_CONSTANTS = 6
PIECEWISE = (sympy.Abs, sympy.floor, sympy.ceiling, sympy.Max, sympy.Min, sympy.Mod, sympy.sign, sympy.frac, sympy.log)
COMPLEX = frozenset("zw")  # names of complex numbers
CLEARLY = 1e-3  # relative difference of clearly different values
TINY = 1e-100  # what a zero may be rounded to


def equal(one: Any, other: Any) -> bool:
    """Return whether two expressions or matrices have the same value for all values of their symbols."""
    one, other = (side.doit() if isinstance(side, sympy.MatrixExpr) else side for side in (one, other))
    if isinstance(one, sympy.MatrixBase) or isinstance(other, sympy.MatrixBase):
        if not (isinstance(one, sympy.MatrixBase) and isinstance(other, sympy.MatrixBase)) or one.shape != other.shape:
            return False
        return all(equal(first, second) for first, second in zip(one.flat(), other.flat(), strict=True))
    if one == other:
        return True
    if clearly_different(one, other):
        return False
    one, other = _evaluated(one), _evaluated(other)
    if one == other:
        return True
    if one.is_Rational and other.is_Rational:
        return False
    if one.is_infinite or other.is_infinite:
        return False
    settled = _vanishes(one, other)
    return _simplifies(one - other) if settled is None else settled


def approximates(decimal: Any, digits: int, value: Any) -> bool:
    """Return whether a decimal number with ``digits`` decimals is ``value``, rounded or cut there."""
    if digits < PLAIN_DIGITS or value.free_symbols or not value.is_real:
        return False
    if abs(value - decimal) > abs(decimal) * sympy.Rational(1, 1000):
        return False
    scaled = _evaluated(value) * 10**digits
    return decimal * 10**digits in (
        sympy.floor(scaled + sympy.Rational(1, 2)),
        sympy.floor(abs(scaled)) * (1 if scaled > 0 else -1),
    )


def ratio(one: Any, other: Any) -> Any:
    """Return the constant c with ``one`` = c ``other``, if there is one other than zero; else None."""
    if one.free_symbols != other.free_symbols or not one.free_symbols:
        return None
    for point in _points(one, other):
        first, second = (side.xreplace(point) for side in (one, other))
        if _is_zero(first) or _is_zero(second):
            continue
        factor = first / second
        return factor if equal(one, factor * other) else None
    return None


def _is_zero(number: Any) -> bool:
    if number in UNDEFINED or number.is_infinite or number.is_zero:
        return True
    try:
        return abs(complex(number.evalf(15))) < 1e-12
    except OverflowError:
        return False


def clearly_different(one: Any, other: Any) -> bool:
    """Return whether two expressions clearly differ in value, which is faster to see than whether they are equal."""
    if _slow(one) or _slow(other):
        return False
    agree = False
    for point in _points(one, other):
        try:
            first, second = (complex(side.evalf(15, subs=point)) for side in (one, other))
            differ = abs(first - second) > max(CLEARLY * max(abs(first), abs(second)), TINY)
        except NO_NUMBER:
            return False  # no number: exact comparison decides
        if differ and _comparable(one, other, point):
            return True
        agree = agree or not differ
    return not agree  # they differ everywhere, though nowhere as real numbers


def _slow(side: Any) -> bool:
    return side.has(*UNEVALUATED, sympy.MatrixExpr)


def _evaluated(side: Any) -> Any:
    """Replace integrals, sums, limits and factorials by their values, if sympy finds these."""
    value = side.doit()
    if _slow(value):
        value = value.xreplace({part: sympy.Symbol(str(part)) for part in value.atoms(*UNEVALUATED)})
    return value.rewrite(sympy.exp) if value.has(HyperbolicFunction) else value


def _points(one: Any, other: Any) -> Iterator[dict[Any, Any]]:
    symbols = {symbol: symbol.name for symbol in one.free_symbols | other.free_symbols}
    names = sorted(set(symbols.values()))
    for first, step in _coordinates(one, other) if symbols else POINTS[:1]:
        yield {
            symbol: sympy.Rational(*first)
            + names.index(name) * sympy.Rational(*step)
            + (sympy.I * sympy.Rational(3, 7) if name in COMPLEX else 0)
            for symbol, name in symbols.items()
        }


def _coordinates(one: Any, other: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield what `_points` are made of: the first symbol's value, and the distance from each symbol to the next."""
    yield from POINTS
    if not any(_in_pieces(side) for side in (one, other)):
        return
    steps = [step for _, step in POINTS]
    for number, first in enumerate(FAR):
        yield first, steps[number % len(steps)]
    constants = {abs(part) for side in (one, other) for part in side.atoms(sympy.Rational) if abs(part) >= 1}
    for constant in sorted(constants)[-MOST_CONSTANTS:]:
        for sign in (1, -1):
            for number, (over, under) in enumerate(BESIDE):
                value = sign * constant + sympy.Rational(over, under)
                yield (int(value.p), int(value.q)), steps[number]


def _in_pieces(side: Any) -> bool:
    return side.has(*PIECEWISE) or any(map(_is_root, side.atoms(sympy.Pow)))


def _is_root(power: Any) -> bool:
    return not power.exp.is_integer and power.base is not sympy.E and bool(power.base.free_symbols)


def _vanishes(one: Any, other: Any) -> bool | None:
    """Return whether the difference is zero at every point where both sides are real; None without such a point.

    At a positive point where only one side is real, they agree if they do at another positive one.
    """
    difference, compared, half_defined = one - other, False, False
    for point in _points(one, other):
        zero = _certain_zero(difference, point)
        if zero is None:
            return None
        positive = all(value.is_positive for value in point.values())
        if zero:
            compared = True
            if positive:
                half_defined = False
        elif _comparable(one, other, point):
            return False
        elif positive and not compared and _is_real(one, point) != _is_real(other, point):
            half_defined = True
    return not half_defined if compared else None


def _comparable(one: Any, other: Any, point: dict[Any, Any]) -> bool:
    """Return whether different values at a point are those of different formulas: both are real there, or complex."""
    if not point or any(name in COMPLEX for name in map(str, point)):
        return True
    return _is_real(one, point) and _is_real(other, point)


def _is_real(side: Any, point: dict[Any, Any]) -> bool:
    """Return whether no part of a formula leaves the real numbers at a point, as the root of a negative number does."""
    try:
        value = complex(side.evalf(15, subs=point))
        if abs(value.imag) > 1e-9 * abs(value):
            return False
        inner = [power.base for power in side.atoms(sympy.Pow) if _is_root(power)]
        inner += [part.args[0] for part in side.atoms(sympy.log)]
        return all(part.evalf(15, subs=point).is_nonnegative for part in inner)
    except NO_NUMBER:
        return False


def _certain_zero(difference: Any, point: dict[Any, Any]) -> bool | None:
    """Return whether a number is zero; None if no precision shows a first digit, or it is no number."""
    if difference == 0:
        return True
    try:
        value = difference.evalf(3, subs=point, maxn=DIGITS_AT_POINTS if point else MOST_DIGITS)
        parts = value.as_real_imag()
    except NO_NUMBER:
        return None
    if value in UNDEFINED or not all(part.is_Number for part in parts):
        return None
    return all(part == 0 or (isinstance(part, sympy.Float) and part._prec == 1) for part in parts)


def _simplifies(difference: Any) -> bool:
    return sympy.simplify(difference) == 0
