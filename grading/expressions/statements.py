r"""Compare what an answer states with what the gold answer asks for.

An answer may state more than its value: ``6 \cdot 7 = 42``, ``2\sqrt3 \approx 3.46``, conditions, or another letter for
an integer. That holds for the answer only. A gold answer asks for all that it states: ``x+y=5`` is a line, and not 5.
"""

from dataclasses import replace
from typing import Any

from sympy import Integers, Interval, Mod, Naturals, Rational, S, expand, oo, pi

from grading.expressions.algebra import clearly_different
from grading.expressions.compare import read_by_name, same, same_conditions
from grading.expressions.forms import Form, Group, Region, Relation, Value, mapped
from grading.expressions.regions import is_solved, numbers_of
from grading.expressions.values import is_matrix

_TERM_OR_FUNCTION = frozenset("_(")  # in the name of the term of a sequence or of a function
LEAST_ROUNDED = 1000  # a smaller whole number, or part, behind "approximately" may hide another one
_INTEGERS = frozenset("ijklmn")  # names of integers
LARGEST_START = 5  # of an integer: 3, of the corners of a polygon, restricts nothing, and 10 does
_POSITIVE = (Interval(0, oo), Interval.open(0, oo))
_DOMAINS = (S.Naturals, S.Naturals0, S.Integers, S.Rationals, S.Reals, S.Complexes, *_POSITIVE)  # of letters


def same_statement(gold: Form, answer: Form) -> tuple[bool, str]:
    """Return whether an answer is the gold answer, worked out; and what the names of letters had a part in, or why not.

    A relation that is the same as a solved gold answer has to be solved for its variable itself.
    """
    gold, answer = _asked(gold, answer), _settled(answer, gold)
    note = ""
    agree = same_conditions(gold, answer)
    if agree is None:
        agree = same_conditions(answer, gold)
    if agree is None:
        first, second, note = _without_integers(gold, answer)
        agree, note = same(first, second), note or read_by_name(first)
    if agree and is_solved(gold) and not is_solved(answer):
        return False, "unsolved"
    return agree, note


def _asked(gold: Form, answer: Form) -> Form:
    r"""Return what a gold answer asks for: a side of ``2\sqrt3 \approx 3.46``, the formula of ``a_n = 2n, n \ge 1``."""
    if isinstance(gold, Relation) and gold.signs[-1] == "approx":
        values = [*_numbers(gold.sides[:-1]), gold.sides[-1]]
        return next((value for value in values if same(value, answer)), values[0])
    if isinstance(gold, Group) and gold.kind == "list" and gold.items and not isinstance(answer, Group):
        formula = gold.items[0]
        if isinstance(formula, Relation) and formula.name and not _TERM_OR_FUNCTION.isdisjoint(formula.name):
            return _without_conditions(gold)
    return gold


def _settled(answer: Form, gold: Form) -> Form:
    """Return the part of an answer that compares with the gold answer, or the answer as it stands."""
    if isinstance(answer, Relation) and answer.signs[-1] == "approx":
        return _rounded(answer, gold)
    if isinstance(answer, Relation) and isinstance(gold, Value):
        return _result(answer) or answer
    if isinstance(answer, Group) and answer.kind == "list" and answer.items and not isinstance(gold, Group):
        if isinstance(gold, Value) and all(same(item, gold) for item in answer.items):
            return gold  # 14/3 or 4 2/3
        return _without_conditions(answer)
    return answer


def _numbers(sides: tuple[Form, ...]) -> list[Value]:
    return [side for side in sides if isinstance(side, Value) and side.expression.is_number]


def _result(chain: Relation) -> Value | None:
    r"""Return the value of ``2 \cdot 3 = 6`` and ``m+n = 6``: but for a sum of names, all sides are the same number.

    A problem that asks for m+n has a number as its gold answer, and one that asks for a line has an equation.
    """
    numbers = _numbers(chain.sides)
    others = [side for side in chain.sides if side not in numbers]
    if set(chain.signs) != {"="} or not numbers or len(others) > 1 or not all(map(_is_sum_of_names, others)):
        return None
    return numbers[-1] if all(same(number, numbers[-1]) for number in numbers) else None


def _is_sum_of_names(form: Form) -> bool:
    """Return whether a form is a sum of different letters, such as ``m+n``."""
    terms = form.expression.args if isinstance(form, Value) and form.expression.is_Add else ()
    return len(set(terms)) == len(terms) > 1 and all(term.is_Symbol and "(" not in term.name for term in terms)


def _rounded(answer: Relation, gold: Form) -> Form:
    r"""Return the exact or the rounded value of ``x = 2\sqrt3 \approx 3.46``, whichever the gold answer is."""
    *exact, rounded = answer.sides
    values = _numbers(tuple(exact))
    if not isinstance(rounded, Value) or not isinstance(gold, Value) or not _is_decimal(rounded):
        return answer
    if not all(_is_near(value, rounded) for value in values) or len(values) < len(exact) - bool(answer.name):
        return answer
    if values and gold.digits is None:
        return values[0]
    return next((value for value in values if same(value, gold)), rounded)


def _is_decimal(value: Value) -> bool:
    """Return whether a value is a decimal number, or as large or fine as one; money and small fractions are exact."""
    number = value.expression
    if not number.is_Rational or value.unit == "dollar":
        return False
    if value.digits is not None or number.is_Integer:
        return value.digits is not None or bool(abs(number) >= LEAST_ROUNDED)
    return number.q >= LEAST_ROUNDED and 10 ** (number.q.bit_length() // 3 + 4) % number.q == 0  # as 9.1 * 10^{-31} is


def _is_near(value: Value, rounded: Value) -> bool:
    if value.unit != rounded.unit and value.unit and rounded.unit:
        return False
    if rounded.digits is None:
        return not clearly_different(value.expression, rounded.expression)
    return bool(abs(value.expression - rounded.expression) <= Rational(1, 10**rounded.digits))


def _without_conditions(stated: Group) -> Form:
    r"""Return ``2n + 1`` of ``2n + 1, n \ge 1``: each condition says for which values a symbol of the formula stands.

    One that bounds a real number has a word such as "for" before it: ``y = 2x, x > 0`` may be a half of a line.
    """
    formula, *conditions = stated.items
    symbols = set[object]()
    for side in formula.sides if isinstance(formula, Relation) else (formula,):
        symbols |= side.expression.free_symbols if isinstance(side, Value) else set()
    if isinstance(formula, Relation) and set(formula.signs) != {"="}:
        return stated
    for condition in conditions:
        if not isinstance(condition, Relation) or condition.signs == ("=",):
            return stated
        letters = {side.expression for side in condition.sides if isinstance(side, Value)} & symbols
        if not letters or not _is_domain(condition, letters, formula, stated.junction == "where"):
            return stated
    return formula


def _is_domain(condition: Relation, letters: set[Any], formula: Form, is_said: bool) -> bool:
    """Return whether a condition only says what letters stand for; ``is_said``: with a word such as "for"."""
    if condition.signs in (("in",), ("notin",)):
        values = condition.sides[1]
        return condition.signs == ("in",) and isinstance(values, Region) and values.numbers in _DOMAINS
    if condition.signs == ("!=",):
        return not (isinstance(formula, Relation) and same(Relation(("!=",), formula.sides, formula.name), condition))
    if not {str(letter) for letter in letters} <= _INTEGERS:
        return is_said
    numbers = numbers_of(condition)
    return numbers is None or (numbers.sup == oo and numbers.inf <= LARGEST_START)


def _without_integers(gold: Form, answer: Form) -> tuple[Form, Form, str]:
    r"""Return two forms with one name of the integer in ``x = k\pi, k \in \mathbb{Z}``, and a note on it.

    Where the gold answer says that k is any integer, solutions are the same that differ by periods. Where neither says
    so, the integers k and n stand for each other as factors of pi.
    """
    declared = [_parameter(form) for form in (gold, answer)]
    values = {parameter[1] for parameter in declared if parameter}
    if len(values) > 1 or (None in declared and values == {Naturals}):
        return gold, answer, ""
    pairs = list(zip(declared, (gold, answer), strict=True))
    integer, other = (parameter[0] if parameter else _factor_of_pi(form) for parameter, form in pairs)
    gold, answer = (_all_but_last(form) if parameter else form for parameter, form in pairs)
    if integer is None or other is None:
        return gold, answer, ""
    if other != integer:
        answer = mapped(answer, lambda value: value.xreplace({other: integer}))
    if declared[0] and values == {Integers} and all(map(_are_solutions, (gold, answer))):
        gold, answer = (mapped(form, lambda value: _first_period(value, integer)) for form in (gold, answer))
    return gold, answer, "" if other == integer else f"with {other} for the integer {integer}"


def _are_solutions(form: Form) -> bool:
    """Return whether a form is values of a letter, or of angles, and no formula for a term or a function."""
    if isinstance(form, Value):
        return form.expression.has(pi)
    if isinstance(form, Relation):
        return form.name is not None and len(form.name.lstrip("\\")) in (1, 5) and form.name.lstrip("\\").isalpha()
    return isinstance(form, Group) and all(map(_are_solutions, form.items))


def _parameter(form: Form) -> tuple[Any, Any] | None:
    """Return the symbol and its values of the last item."""
    last = form.items[-1] if isinstance(form, Group) and form.kind == "list" and len(form.items) > 1 else None
    if not isinstance(last, Relation) or last.signs != ("in",):
        return None
    symbol, numbers = last.sides
    if not (isinstance(symbol, Value) and symbol.expression.is_Symbol and isinstance(numbers, Region)):
        return None
    return (symbol.expression, numbers.numbers) if numbers.numbers in _DOMAINS else None


def _all_but_last(form: Form) -> Form:
    assert isinstance(form, Group)
    return form.items[0] if len(form.items) == 2 else replace(form, items=form.items[:-1])


def _factor_of_pi(form: Form) -> Any:
    """Return the one letter for an integer that the values of a form have with pi; None if it is not one."""
    letters = set[Any]()

    def collect(value: Any) -> Any:
        if value.has(pi):
            letters.update(symbol for symbol in value.free_symbols if symbol.name in _INTEGERS)
        return value

    mapped(form, collect)
    return letters.pop() if len(letters) == 1 else None


def _first_period(value: Any, integer: Any) -> Any:
    r"""Return ``a + bk`` with the same solutions and ``0 \le a < b``; a formula that is not of this form as it is."""
    if is_matrix(Value(value)) or integer not in value.free_symbols:
        return value
    period, start = expand(value.diff(integer)), expand(value.xreplace({integer: S.Zero}))
    if period.free_symbols or start.free_symbols or not period.is_real or not start.is_real or period == 0:
        return value
    period = abs(period)
    return Mod(expand(start / period), 1) * period + period * integer
