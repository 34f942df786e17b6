"""Decide whether an answer is the gold answer: the rules for two forms, of which the gold answer is the first."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

from sympy import Integers, Mod, Naturals, S, numer, pi, simplify, together

from grading.expressions.algebra import INTEGERS, ROUNDED, equal, is_in_pieces, ratio
from grading.expressions.forms import FLIPPED, Form, Group, Region, Relation, Time, Value, items_of, mapped
from grading.expressions.matching import distinct, matched
from grading.expressions.regions import numbers_listed, numbers_of, same_region
from grading.expressions.texts import same_time
from grading.expressions.values import components, is_matrix, same_number, same_value
from grading.vocabulary import COMPLEX

Rule = Callable[[Any, Any], bool | None]  # None: of other forms
_FUNCTION_OF_X = frozenset(("y", "f(x)", "y(x)"))
_TUPLES = frozenset(("()", "[]", "(]", "[)"))
_INTEGERS = frozenset("jklmn")  # names of the integer of periodic solutions


def same_answer(gold: Form, answer: Form) -> tuple[bool, str]:
    """Return whether an answer is the gold answer, and what the names of letters had a part in."""
    if (agree := _either_way(_same_conditions)(gold, answer)) is not None:
        return agree, ""
    gold, answer, note = without_integers(gold, answer)
    return same(gold, answer), note or read_by_name(gold)


def read_by_name(form: Form) -> str:
    """Describe letters that are complex numbers or integers by their names, where a formula depends on it."""
    notes: list[str] = []

    def note(value: Any) -> Any:
        names = {symbol.name for symbol in value.free_symbols}
        if names & COMPLEX and is_in_pieces(value):
            notes.append(f"with {', '.join(sorted(names & COMPLEX))} as a complex number")
        elif names and names <= INTEGERS and value.has(*ROUNDED):
            notes.append(f"with {', '.join(sorted(names))} as an integer")
        return value

    mapped(form, note)
    return next(iter(notes), "")


def same(gold: Form, answer: Form) -> bool:
    """Return whether two forms, or items of them, state the same."""
    gold, answer = _without_name(gold, answer), _without_name(answer, gold)
    gold, answer = _by_coordinates(gold, answer), _by_coordinates(answer, gold)
    for kinds, rule in _RULES:
        if isinstance(gold, kinds) and isinstance(answer, kinds) and (agree := rule(gold, answer)) is not None:
            return agree
    return same_region(gold, answer)


def _either_way(rule: Rule) -> Rule:
    """Return a rule of two different kinds for either order of them."""

    def either(one: Form, other: Form) -> bool | None:
        agree = rule(one, other)
        return rule(other, one) if agree is None else agree

    return either


def _same_conditions(listed: Form, numbers: Form) -> bool | None:
    """Compare a list of conditions, or of intervals, with a set of numbers; None if they are no such pair."""
    if isinstance(numbers, Group) and numbers.kind == "list":
        return None
    region = numbers_listed(listed)
    if region is None:
        return None
    names = {item.name for item in items_of(listed) if isinstance(item, Relation)}
    if isinstance(numbers, Relation) and numbers.name and names and numbers.name not in names:
        return False
    return same_region(Region(region), numbers)


def without_integers(gold: Form, answer: Form) -> tuple[Form, Form, str]:
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
    return (symbol.expression, numbers.numbers) if numbers.numbers in (Integers, Naturals) else None


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
    if is_matrix(value) or integer not in value.free_symbols:
        return value
    period = value.diff(integer).doit()
    start = value.xreplace({integer: S.Zero}).doit()
    period, start = simplify(period), simplify(start)
    if period.free_symbols or start.free_symbols or not period.is_real or not start.is_real or period == 0:
        return value
    period = abs(period)
    return Mod(simplify(start / period), 1) * period + period * integer


def _without_name(form: Form, other: Form) -> Form:
    """Return the value of ``b = 2`` or ``x = 1, x = 2`` if the other form states only values."""
    if isinstance(form, Group) and form.kind == "list":
        named = [item for item in form.items if isinstance(item, Relation)]
        others = items_of(other)
        is_named = len(named) == len(form.items) and len({item.name for item in named}) == 1
        if not is_named or not others or _has_relation(others):
            return form
        return Group("list", tuple(_without_name(item, others[0]) for item in named), form.junction)
    if not isinstance(form, Relation) or not form.name or _is_reordered(form.name) or _has_relation([other]):
        return form
    if form.signs == ("in",):
        return form.sides[1]
    if set(form.signs) != {"="} or isinstance(other, Region):
        return form
    values = form.sides[1:]
    return values[-1] if all(same(values[0], value) for value in values[1:]) else form


def _has_relation(forms: Sequence[Form]) -> bool:
    return any(isinstance(form, Relation) or (isinstance(form, Group) and _has_relation(form.items)) for form in forms)


def _by_coordinates(form: Form, other: Form) -> Form:
    """Return ``(a,b) = (2,3)`` as ``a = 2, b = 3`` if the other form is such a list."""
    if not (isinstance(form, Relation) and form.signs == ("=",) and isinstance(other, Group) and _names_in(other)):
        return form
    names, values = form.sides
    if not (isinstance(names, Group) and isinstance(values, Group) and names.kind == values.kind == "()"):
        return form
    pairs = [
        Relation(("=",), (name, value), str(name.expression))
        for name, value in zip(names.items, values.items, strict=False)
        if isinstance(name, Value)
    ]
    return Group("list", tuple(pairs)) if len(pairs) == len(names.items) == len(values.items) else form


def _names_in(group: Group) -> set[str | None]:
    """Return the names that its relations give to their values, if there are several."""
    names = {item.name for item in group.items if isinstance(item, Relation)}
    return names if len(names) > 1 else set()


def _by_name(group: Group) -> Sequence[Form]:
    """Return the items in the order of coordinates, if their names give them one."""
    named = {item.name or "": item for item in group.items if isinstance(item, Relation)}
    if len(named) < len(group.items) or not _are_coordinates(named):
        return group.items
    return [named[name] for name in sorted(named)]


def _is_reordered(name: str) -> bool:
    """Return whether a name such as ``(y,x)`` or ``b:a`` lists coordinates in an order of its own."""
    names = name.strip("()").replace(":", ",").split(",")
    return _are_coordinates(names) and names != sorted(names)


def _are_coordinates(names: Sequence[str] | dict[str, Any]) -> bool:
    return "".join(sorted(names)) in ascii_lowercase


def _same_group(gold: Group, answer: Group) -> bool | None:
    """Compare two groups; None if their kinds can only be compared as sets, of numbers or of one tuple."""
    kinds = {gold.kind, answer.kind}
    if {gold.junction, answer.junction} == {"lor", "land"}:
        return False
    if "set" in kinds and kinds <= {"set", "list", "lor"}:
        return matched(distinct(gold.items, _same_item), distinct(answer.items, _same_item), _same_item)
    if kinds == {"lor"} and numbers_of(gold) is not None and numbers_of(answer) is not None:
        return None
    if kinds <= {"list", "lor"} and _names_in(gold) != _names_in(answer):
        return _in_order(_by_name(gold), _by_name(answer))  # x = 3, y = 4 beside 3, 4
    if kinds <= {"list", "lor"} or kinds <= {"list", "land"}:
        return matched(gold.items, answer.items, _same_item)
    if kinds == {"list", "quantity"} and all(_unit_of(item) for item in (*gold.items, *answer.items)):
        return _in_order(gold.items, answer.items)
    if kinds == {"ratio"}:
        return same_time(gold.time, answer.time) if gold.time and answer.time else _proportional(gold, answer)
    if kinds in ({"list", "()"}, {"sequence", "()"}):  # a bare list beside a tuple: its order counts
        return not _is_loose(gold) and not _is_loose(answer) and _in_order(_by_name(gold), _by_name(answer))
    if len(kinds) == 1:
        return _in_order(gold.items, answer.items)
    may_be_set = kinds & {"lor", "land"} or ("set" in kinds and kinds & _TUPLES)
    return None if may_be_set else False


def _is_loose(group: Group) -> bool:
    """Return whether a list has no order: one of alternatives, or of groups."""
    return group.kind == "list" and (group.junction == "lor" or any(isinstance(item, Group) for item in group.items))


def _in_order(golds: Sequence[Form], answers: Sequence[Form]) -> bool:
    return len(golds) == len(answers) and all(map(_same_item, golds, answers))


def _same_item(gold: Form, answer: Form) -> bool:
    """Compare items of groups, in which a set of one element is not that element."""
    return _is_singleton(gold) == _is_singleton(answer) and same(gold, answer)


def _is_singleton(form: Form) -> bool:
    return isinstance(form, Group) and form.kind == "set" and len(distinct(form.items, _same_item)) == 1


def _unit_of(form: Form) -> str | None:
    return form.unit if isinstance(form, Value) else None


def _proportional(gold: Group, answer: Group) -> bool:
    pairs = [
        (a.expression, b.expression)
        for a, b in zip(gold.items, answer.items, strict=False)
        if isinstance(a, Value) and isinstance(b, Value)
    ]
    if len(gold.items) != len(answer.items) or len(pairs) != len(gold.items):
        return False
    first, second = next(((a, b) for a, b in pairs if not equal(a, S.Zero)), (S.Zero, S.Zero))
    return not equal(second, S.Zero) and all(equal(first * b, a * second) for a, b in pairs)


def _same_relation(gold: Relation, answer: Relation) -> bool | None:
    """Compare two relations side by side; None if only the numbers that meet them are compared.

    Equations, and inequalities of two sides, are also the same if one is a multiple of the other.
    """
    if gold.name != answer.name and _FUNCTION_OF_X.issuperset((gold.name, answer.name)):
        return gold.signs == answer.signs == ("=",) and same(gold.sides[1], answer.sides[1])
    for candidate in (answer, _reversed(answer)):
        if candidate and gold.signs == candidate.signs and all(map(same, gold.sides, candidate.sides)):
            return True
    if _has_code(gold) and _has_code(answer):
        return False
    first, second = _difference(gold), _difference(answer)
    if first is None or second is None:
        return None
    sign, other_sign = gold.signs[0], answer.signs[0]
    factor = ratio(first, second)
    if factor is None and sign == other_sign == "=":
        factor = ratio(numer(together(first)), numer(together(second)))
    if factor is None or (sign not in ("=", "!=") and not factor.is_real):
        return None
    is_flipped = sign not in ("=", "!=") and factor < 0
    return other_sign == (FLIPPED[sign] if is_flipped else sign) or None


def _has_code(relation: Relation) -> bool:
    return any(isinstance(side, Value) and side.code for side in relation.sides)


def _reversed(relation: Relation) -> Relation | None:
    if not all(sign in FLIPPED for sign in relation.signs):
        return None
    return Relation(tuple(FLIPPED[sign] for sign in reversed(relation.signs)), relation.sides[::-1])


def _difference(relation: Relation) -> Any:
    """Return the left side without the right one; None unless a relation has two sides, and both are expressions."""
    sides = [side.expression for side in relation.sides if isinstance(side, Value) and side.unit is None]
    if len(relation.sides) != 2 or len(sides) != 2 or any(map(is_matrix, sides)):
        return None
    return sides[0] - sides[1]


def _same_words(one: Form, other: Form) -> bool | None:
    """Compare text, dates and times of day, which are never anything else."""
    if isinstance(one, Time) and (time := other.time if isinstance(other, Group) else other):
        return isinstance(time, Time) and same_time(one, time)
    return one == other if not isinstance(one, Value | Group | Relation | Region) else None


def _same_entries(single: Form, many: Form) -> bool | None:
    """Compare a vector with a tuple."""
    if not isinstance(many, Group) or many.kind != "()" or not (vector := components(single, len(many.items))):
        return None
    return _in_order(vector, many.items)


def _same_element(single: Form, many: Form) -> bool | None:
    """Compare a set of one element with that element."""
    if not isinstance(many, Group) or many.kind != "set" or len(many.items) != 1 or isinstance(single, Region):
        return None
    return None if isinstance(single, Group) and single.kind not in _TUPLES else same(single, many.items[0])


def _same_quotient(single: Form, many: Form) -> bool | None:
    """Compare a ratio with a fraction; one term of it, as 3 of 3:1, is none."""
    if not isinstance(single, Value) or not isinstance(many, Group) or many.kind != "ratio" or len(many.items) != 2:
        return None
    first, second = (item.expression for item in many.items if isinstance(item, Value))
    return not single.expression.is_Integer and single.unit is None and equal(first / second, single.expression)


_RULES: tuple[tuple[Any, Rule], ...] = (  # for two forms of a kind
    (Value, same_value),
    (Form, same_number),
    (Group, _same_group),
    (Relation, _same_relation),
    (Form, _either_way(_same_words)),
    (Form, _either_way(_same_entries)),
    (Form, _either_way(_same_element)),
    (Form, _either_way(_same_quotient)),
)
