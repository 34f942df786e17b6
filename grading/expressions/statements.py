r"""Take the value out of an answer that states more: ``6 \cdot 7 = 42``, ``2\sqrt3 \approx 3.46``.

That holds for the answer only. A gold answer asks for all that it states: ``x+y=5`` is a line, and not 5.
"""

from sympy import Pow, Rational

from grading.expressions.algebra import clearly_different
from grading.expressions.compare import same
from grading.expressions.forms import Form, Group, Relation, Value
from grading.expressions.regions import is_solved

_TERM_OR_FUNCTION = frozenset("_(")  # in the name of the term of a sequence or of a function
LEAST_ROUNDED = 1000  # a smaller whole number behind "approximately" may hide another one


def asked(expected: Form, stated: Form) -> Form:
    r"""Return what a gold answer asks for: a side of ``2\sqrt3 \approx 3.46``, the formula of ``a_n = 2n, n \ge 1``."""
    if isinstance(expected, Relation) and expected.signs[-1] == "approx":
        exact = [value for value in map(_number, expected.sides[:-1]) if value]
        values = [*exact, expected.sides[-1]]
        return next((value for value in values if same(value, stated)), values[0])
    if isinstance(expected, Group) and expected.kind == "list" and expected.items and not isinstance(stated, Group):
        formula = expected.items[0]
        if isinstance(formula, Relation) and formula.name and not _TERM_OR_FUNCTION.isdisjoint(formula.name):
            return _without_conditions(expected)
    return expected


def settled(stated: Form, expected: Form) -> Form:
    """Return the part of an answer that compares with the gold answer, or the answer as it stands."""
    if isinstance(stated, Relation) and stated.signs[-1] == "approx":
        return _rounded(stated, expected)
    if isinstance(stated, Relation) and isinstance(expected, Value):
        return _result(stated) or stated
    if isinstance(stated, Group) and stated.kind == "list" and stated.items and not isinstance(expected, Group):
        if isinstance(expected, Value) and all(same(item, expected) for item in stated.items):
            return expected  # 14/3 or 4 2/3
        return _without_conditions(stated)
    return stated


def _number(form: Form) -> Value | None:
    return form if isinstance(form, Value) and form.expression.is_number else None


def _result(chain: Relation) -> Value | None:
    r"""Return the value of ``2 \cdot 3 = 6`` and ``m+n = 6``: but for a sum of names, all sides are the same number.

    A problem that asks for m+n has a number as its gold answer, and one that asks for a line has an equation.
    """
    numbers = [number for number in map(_number, chain.sides) if number]
    others = [side for side in chain.sides if not _number(side)]
    if set(chain.signs) != {"="} or not numbers or len(others) > 1 or not all(map(_is_sum_of_names, others)):
        return None
    return numbers[-1] if all(same(number, numbers[-1]) for number in numbers) else None


def _is_sum_of_names(form: Form) -> bool:
    """Return whether a form is a sum of different letters, such as ``m+n``."""
    terms = form.expression.args if isinstance(form, Value) and form.expression.is_Add else ()
    return len(set(terms)) == len(terms) > 1 and all(term.is_Symbol and "(" not in term.name for term in terms)


def _rounded(stated: Relation, expected: Form) -> Form:
    r"""Return the exact or the rounded value of ``x = 2\sqrt3 \approx 3.46``, whichever the gold answer is."""
    *exact, last = stated.sides
    rounded = _number(last)
    if rounded is None or not _is_decimal(rounded):
        return stated
    values = [value for value in map(_number, exact) if value]
    if not all(_is_near(value, rounded) for value in values) or len(values) < len(exact) - bool(stated.name):
        return stated
    if not isinstance(expected, Value):
        return (values or [rounded])[0] if isinstance(expected, Relation) and expected.signs[-1] == "approx" else stated
    if values and expected.digits is None:
        return values[0]
    return next((value for value in values if same(value, expected)), rounded)


def _is_decimal(value: Value) -> bool:
    """Return whether a value is a decimal number or has a power of ten; amounts of money and fractions are exact."""
    number = value.expression.doit()
    if not number.is_Rational or value.unit == "dollar":
        return False
    if value.digits is None and number.is_Integer:
        return bool(abs(number) >= LEAST_ROUNDED)
    return value.digits is not None or any(power.base == 10 for power in value.expression.atoms(Pow))


def _is_near(value: Value, rounded: Value) -> bool:
    if value.unit != rounded.unit and value.unit and rounded.unit:
        return False
    if rounded.digits is None:
        return not clearly_different(value.expression, rounded.expression)
    return bool(abs(value.expression - rounded.expression) <= Rational(1, 10**rounded.digits))


def _without_conditions(stated: Group) -> Form:
    r"""Return ``2n + 1`` of ``2n + 1, n \ge 1``: each condition is on a symbol of the formula."""
    formula, *conditions = stated.items
    symbols = set[object]()
    for side in formula.sides if isinstance(formula, Relation) else (formula,):
        symbols |= side.expression.free_symbols if isinstance(side, Value) else set()
    if isinstance(formula, Relation) and set(formula.signs) != {"="}:
        return stated
    for condition in conditions:
        if not isinstance(condition, Relation) or condition.signs == ("=",):
            return stated
        if not any(isinstance(side, Value) and side.expression in symbols for side in condition.sides):
            return stated
    return formula


def leaves_open(answer: Form, gold: Form) -> bool:
    """Return whether a relation that is the same as a solved gold answer is not solved for its variable itself."""
    return is_solved(gold) and not is_solved(answer)
