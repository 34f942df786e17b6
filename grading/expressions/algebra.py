"""Decide whether two sympy expressions are equal: exact arithmetic for numbers, exact points for formulas.

sympy raises the precision of a difference until its first digits are certain, up to `MOST_DIGITS`. A difference without
a certain digit by then is zero. So ``2^{-2000}`` differs from ``2^{-2001}``, which no float can tell apart, and equal
nested roots agree although nothing simplifies them.
"""

import cmath
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import sympy
from sympy.functions.elementary.hyperbolic import HyperbolicFunction

from grading.vocabulary import COMPLEX, PLAIN_DIGITS

FLOATS: dict[Any, Callable[..., complex]] = {
    **{getattr(sympy, name): getattr(cmath, name) for name in ("sin", "cos", "tan", "exp", "sinh", "cosh", "tanh")},
    sympy.Abs: lambda value: complex(abs(value)),
}
CANCELLED = 1e-6  # share of a sum below which its digits have cancelled
MOST_POWER = 60  # of a symbol in an exact value
UNDEFINED = (sympy.nan, sympy.zoo)
# What sympy raises for an expression that has no number at a point: the callers then decide otherwise.
NO_NUMBER = (ArithmeticError, NotImplementedError, TypeError, ValueError, AttributeError)
MOST_DIGITS = 1500
DIGITS_AT_POINTS = 100  # of a difference of formulas at a point, where no cancellation needs more
# At a point, the symbol at position k of the sorted names is first + step (ratio^k - 1), so that no simple relation
# holds between the symbols. They increase, decrease, or are all negative.
FIRSTS = (sympy.Rational(8137, 9973), sympy.Rational(15923, 9949), sympy.Rational(-13931, 9931))
SPREADS = tuple(
    (sympy.Rational(step, 9967), sympy.Rational(ratio, 9949))
    for step, ratio in ((16127, 11853), (12941, 7127), (-11213, 12347))
)
# Formulas in pieces, and those with roots, are also compared far away, with mixed signs, and around their constants.
FAR = tuple(sympy.Rational(*first) for first in ((73127, 9973), (238151, 9967), (-96149, 9941), (-1013567, 9931)))
BESIDE = (sympy.Rational(3771, 9967), sympy.Rational(-3769, 9973))
MOST_CONSTANTS, MOST_BREAKS = 6, 12
ROUNDED = (sympy.floor, sympy.ceiling, sympy.Mod, sympy.frac)
PIECEWISE = (*ROUNDED, sympy.Abs, sympy.Max, sympy.Min, sympy.sign, sympy.log)
INTEGER_POINTS, MODULUS = 24, 97  # at point m, the symbol at position k is m^(k+1) modulo a prime
INTEGERS = frozenset("kmn")  # names of integers, if they stand in something rounded
CLEARLY = 1e-3  # relative difference of clearly different values
TINY = 1e-100  # what a zero may be rounded to


def equal(one: Any, other: Any) -> bool:
    """Return whether two expressions or matrices have the same value for all values of their symbols."""
    shapes = [side.shape if isinstance(side, sympy.MatrixBase) else None for side in (one, other)]
    if any(shapes):
        return shapes[0] == shapes[1] and all(map(equal, one.flat(), other.flat()))
    if one == other or (one.is_Rational and other.is_Rational):
        return one == other and not one.has(*UNDEFINED)
    if one.has(*UNDEFINED) or other.has(*UNDEFINED):
        return False
    if (exact := _same_rational_function(one, other)) is not None:
        return exact
    if clearly_different(one, other):
        return False
    one, other = _evaluated(one), _evaluated(other)
    if one == other or one.is_infinite or other.is_infinite:
        return bool(one == other)
    settled = _vanishes(one, other)
    return sympy.simplify(one - other) == 0 if settled is None else settled


def approximates(decimal: Any, digits: int, value: Any) -> bool:
    """Return whether a decimal number with ``digits`` decimals is ``value``, rounded or cut there."""
    if digits < PLAIN_DIGITS or value.free_symbols or not value.is_real:
        return False
    if abs(value - decimal) > abs(decimal) * sympy.Rational(1, 1000):
        return False
    scaled = value * 10**digits
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
        if equal(first, sympy.S.Zero) or equal(second, sympy.S.Zero):
            continue
        factor = first / second
        return factor if equal(one, factor * other) else None
    return None


def clearly_different(one: Any, other: Any) -> bool:
    """Return whether two expressions clearly differ in value, which is faster to see than whether they are equal."""
    for point in _points(one, other):
        try:
            floats = {symbol: complex(value) for symbol, value in point.items()}
            first, second = (_number_at(side, point, floats) for side in (one, other))
            if abs(first - second) <= max(CLEARLY * max(abs(first), abs(second)), TINY):
                return False
        except NO_NUMBER:
            return False  # no number: exact comparison decides
        if _comparable(one, other, point):
            return True
    return True  # they differ everywhere, though nowhere as real numbers


def _same_rational_function(one: Any, other: Any) -> bool | None:
    """Return whether two quotients of polynomials agree at the `FIRSTS`; None for other formulas.

    The points are quotients of large primes, at which no two different quotients of usual degrees agree.
    """
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    try:
        for number, first in enumerate(FIRSTS):
            values = (Fraction(int(value.p), int(value.q)) for value in _spread(first, number, len(symbols)))
            point = dict(zip(symbols, values, strict=True))
            if _fraction_at(one, point) != _fraction_at(other, point):
                return False
    except (ArithmeticError, LookupError):
        return None
    return True


def _fraction_at(side: Any, point: dict[Any, Fraction]) -> Fraction:
    """Return the exact value of a quotient of polynomials at a point; LookupError for other formulas."""
    if side.is_Rational:
        return Fraction(int(side.p), int(side.q))
    if side.is_Symbol:
        return point[side]
    if side.is_Add:
        return sum((_fraction_at(part, point) for part in side.args), Fraction(0))
    if side.is_Mul:
        return math.prod((_fraction_at(part, point) for part in side.args), start=Fraction(1))
    if side.is_Pow and side.exp.is_Integer and abs(side.exp) <= MOST_POWER:
        return _fraction_at(side.base, point) ** int(side.exp)
    raise LookupError(side)


def _number_at(side: Any, point: dict[Any, Any], floats: dict[Any, complex]) -> complex:
    """Return the value of a formula at a point: by floats, unless digits cancel or a function is none of `FLOATS`."""
    try:
        return _float_at(side, floats)
    except (ArithmeticError, LookupError, ValueError):
        return complex(_at(side, point, 15))


def _float_at(side: Any, point: dict[Any, complex]) -> complex:
    if side in point:
        return point[side]
    if side.is_Rational:
        return complex(side.p / side.q)
    if side.is_Number or side.is_NumberSymbol or side is sympy.I:
        return complex(side)
    if side.is_Add:
        parts = [_float_at(part, point) for part in side.args]
        total = sum(parts)
        if abs(total) < CANCELLED * max(map(abs, parts)):
            raise ArithmeticError("digits cancel")
        return total
    if side.is_Mul:
        return math.prod((_float_at(part, point) for part in side.args), start=1 + 0j)
    if side.is_Pow:
        return _float_at(side.base, point) ** _float_at(side.exp, point)
    return FLOATS[side.func](*(_float_at(part, point) for part in side.args))


def _evaluated(side: Any) -> Any:
    return side.rewrite(sympy.exp) if side.has(HyperbolicFunction) else side


def _points(one: Any, other: Any) -> Iterator[dict[Any, Any]]:
    symbols = {symbol: symbol.name for symbol in one.free_symbols | other.free_symbols}
    names = sorted(set(symbols.values()))
    for values in _coordinates((one, other), names) if names else [[]]:
        point = dict(zip(names, values, strict=True))
        yield {
            symbol: point[name] + (sympy.I * sympy.Rational(3, 7) if name in COMPLEX else 0)
            for symbol, name in symbols.items()
        }


def _coordinates(sides: tuple[Any, Any], names: list[str]) -> Iterator[list[Any]]:
    """Yield the values of the names at each of the `_points`."""
    count, rounded = len(names), any(side.has(*ROUNDED) for side in sides)
    if rounded or any(map(_alternating, sides)):
        for number in range(1, INTEGER_POINTS + 1):
            yield [sympy.Integer(pow(number, position + 1, MODULUS)) for position in range(count)]
    if rounded and INTEGERS.issuperset(names):
        return
    yield from (_spread(first, number, count) for number, first in enumerate(FIRSTS))
    if any(map(is_in_pieces, sides)):
        yield from (_spread(first, number, count) for number, first in enumerate(FAR))
        yield from _with_mixed_signs(count)
        yield from (_spread(first, number, count) for number, first in _around_constants(sides))
        breaks = sorted(set[Any]().union(*map(_breaks, sides)))[:MOST_BREAKS] if count == 1 else []
        yield from ([(low + high) / 2] for low, high in pairwise(breaks))


def _spread(first: Any, number: int, count: int) -> list[Any]:
    step, ratio = SPREADS[number % len(SPREADS)]
    return [first + step * (ratio**position - 1) for position in range(count)]


def _with_mixed_signs(count: int) -> Iterator[list[Any]]:
    """Yield points at which any two of the symbols have different signs once each way, in either order of size."""
    for bit, number, sign in product(range((count - 1).bit_length()), (0, 1), (0, 1)):
        values = _spread(FIRSTS[number], number, count)
        yield [-value if (position >> bit) % 2 == sign else value for position, value in enumerate(values)]


def _around_constants(sides: tuple[Any, Any]) -> Iterator[tuple[int, Any]]:
    constants = {abs(part) for side in sides for part in side.atoms(sympy.Rational) if abs(part) >= 1}
    for constant in sorted(constants)[-MOST_CONSTANTS:]:
        for sign in (1, -1):
            yield from ((number, sign * constant + beside) for number, beside in enumerate(BESIDE))


def _breaks(side: Any) -> set[Any]:
    """Return where the absolute values of linear formulas of one symbol are 0."""
    breaks = set[Any]()
    for part in side.atoms(sympy.Abs):
        for symbol in part.free_symbols:
            slope, start = part.args[0].diff(symbol), part.args[0].xreplace({symbol: sympy.S.Zero})
            if slope.is_Rational and slope and start.is_Rational:
                breaks.add(-start / slope)
    return breaks


def _alternating(side: Any) -> set[Any]:
    """Return the powers such as ``(-1)^n``, which are real at integers only."""
    return {power for power in side.atoms(sympy.Pow) if power.base.is_negative and power.exp.free_symbols}


def _at(side: Any, point: dict[Any, Any], digits: int, **options: Any) -> Any:
    """Return the value at a point; what depends on integers is exact, because sympy approximates them otherwise."""
    if exact := side.atoms(*ROUNDED) | _alternating(side):
        side = side.xreplace({part: part.xreplace(point) for part in exact})
    return side.evalf(digits, subs=point, **options)


def is_in_pieces(side: Any) -> bool:
    """Return whether a formula has absolute values, roots or the like, which depend on what its letters stand for."""
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
    """Return whether different values at a point show different formulas: both are real there, or complex."""
    if not point or any(name in COMPLEX for name in map(str, point)):
        return True
    return _is_real(one, point) and _is_real(other, point)


def _is_real(side: Any, point: dict[Any, Any]) -> bool:
    """Return whether no part of a formula leaves the real numbers at a point, as the root of a negative number does."""
    try:
        value = complex(_at(side, point, 15))
        if abs(value.imag) > 1e-9 * abs(value):
            return False
        inner = [power.base for power in side.atoms(sympy.Pow) if _is_root(power)]
        inner += [part.args[0] for part in side.atoms(sympy.log)]
        return all(_at(part, point, 15).is_nonnegative for part in inner)
    except NO_NUMBER:
        return False


def _certain_zero(difference: Any, point: dict[Any, Any]) -> bool | None:
    """Return whether a number is zero; None if no precision shows a first digit, or it is no number."""
    if difference == 0:
        return True
    try:
        value = _at(difference, point, 3, maxn=DIGITS_AT_POINTS if point else MOST_DIGITS)
        parts = value.as_real_imag()
    except NO_NUMBER:
        return None
    if value in UNDEFINED or not all(part.is_Number for part in parts):
        return None
    return all(part == 0 or (isinstance(part, sympy.Float) and part._prec == 1) for part in parts)
