"""Decide whether an answer is the gold answer: the rules for two forms, of which the gold answer is the first."""

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from sympy import S, numer, together

from grading.expressions.algebra import INTEGERS, ROUNDED, equal, is_in_pieces, ratio
from grading.expressions.forms import (
    BRACKETS,
    FLIPPED,
    Day,
    Form,
    Group,
    Region,
    Relation,
    Time,
    Value,
    Words,
    distinct,
    items_of,
    mapped,
    matched,
)
from grading.expressions.regions import numbers_listed, numbers_of, same_region, variable_of
from grading.expressions.texts import same_day, same_time
from grading.expressions.values import components, is_matrix, same_value
from grading.vocabulary import COMPLEX

_FUNCTION_OF_X = frozenset(("y", "f(x)", "y(x)"))


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


def same_conditions(listed: Form, numbers: Form) -> bool | None:
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


def same(gold: Form, answer: Form) -> bool:
    """Return whether two forms, or items of them, state the same."""
    gold, answer = _without_name(gold, answer), _without_name(answer, gold)
    if isinstance(gold, Value) and isinstance(answer, Value):
        return same_value(gold, answer)
    agree = None
    if isinstance(gold, Group) and isinstance(answer, Group):
        agree = _same_group(gold, answer)
    elif isinstance(gold, Relation) and isinstance(answer, Relation):
        agree = _same_relation(gold, answer)
    elif isinstance(gold, Day) and isinstance(answer, Day):
        agree = same_day(gold, answer)
    for single, many in ((gold, answer), (answer, gold)):
        if agree is None and isinstance(single, Time | Words):
            time = many.time if isinstance(many, Group) else many
            agree = same_time(single, time) if isinstance(single, Time) and isinstance(time, Time) else single == many
        if agree is None and isinstance(many, Group):
            agree = _same_single(single, many)
    return same_region(gold, answer) if agree is None else agree


def _same_single(single: Form, many: Group) -> bool | None:
    """Compare a vector with a tuple, a set of one element with it, and a fraction with a ratio; None for others."""
    are_rows = many.kind in ("()", "[]") and all(isinstance(item, Group) for item in many.items)
    if isinstance(single, Value) and is_matrix(single) and are_rows:
        rows = [list(map(Value, row)) for row in single.expression.tolist()]
        return len(rows) == len(many.items) and all(map(_in_order, rows, map(items_of, many.items)))
    if many.kind == "()" and (vector := components(single, len(many.items))):
        return _in_order(vector, many.items)
    if many.kind == "set" and len(many.items) == 1 and not isinstance(single, Region):
        is_other = isinstance(single, Group) and single.kind not in BRACKETS
        return None if is_other else same(single, many.items[0])
    if many.kind == "ratio" and len(many.items) == 2 and isinstance(single, Value) and not single.unit:
        first, second = (item.expression for item in many.items if isinstance(item, Value))
        return not single.expression.is_Integer and equal(first / second, single.expression)
    return None


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
    gold, answer = _without_indices(gold, answer), _without_indices(answer, gold)
    kinds = {gold.kind, answer.kind}
    if {gold.junction, answer.junction} == {"lor", "land"}:
        return False
    if "set" in kinds and kinds <= {"set", "list", "lor"}:
        return matched(distinct(gold.items, _same_item), distinct(answer.items, _same_item), _same_item)
    if kinds == {"list", "lor"} and len(set(map(variable_of, (*gold.items, *answer.items))) - {None}) > 1:
        return False  # x > 0, y > 0 hold together
    if kinds == {"lor"} and numbers_of(gold) is not None and numbers_of(answer) is not None:
        return None
    if kinds <= {"list", "lor"} and _names_in(gold) != _names_in(answer):
        return _in_order(_by_name(gold), _by_name(answer))  # x = 3, y = 4 compared with 3, 4
    if kinds <= {"list", "lor"} or kinds <= {"list", "land"}:
        return matched(gold.items, answer.items, _same_item)
    if kinds == {"ratio"}:
        return same_time(gold.time, answer.time) if gold.time and answer.time else _proportional(gold, answer)
    may_be_interval = gold.kind == "()" and len(gold.items) == 2 and gold.junction is None
    if may_be_interval and answer.kind == "list" and not _names_in(answer):
        return False
    if kinds in ({"list", "()"}, {"sequence", "()"}):  # a bare list compared with a tuple: its order counts
        return not _is_loose(gold) and not _is_loose(answer) and _in_order(_by_name(gold), _by_name(answer))
    if len(kinds) == 1:
        return _in_order(gold.items, answer.items)
    may_be_set = kinds & {"lor", "land"} or ("set" in kinds and kinds & BRACKETS)
    return None if may_be_set else False


def _without_indices(group: Group, other: Group) -> Group:
    """Return ``x_1 = 2, x_2 = 5`` as values of x, if the other group has only values of x."""
    first = next(iter(other.items), None)
    names = {item.name if isinstance(item, Relation) else None for item in other.items}
    if not isinstance(first, Relation) or names != {first.name}:
        return group
    named = [item for item in group.items if isinstance(item, Relation) and item.signs == ("=",)]
    if [item.name for item in named] != [f"{first.name}_{index}" for index, _ in enumerate(group.items, start=1)]:
        return group
    return Group("list", tuple(Relation(("=",), (first.sides[0], item.sides[1]), first.name) for item in named))


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


def _proportional(gold: Group, answer: Group) -> bool:
    golds, answers = ([item.expression for item in group.items if isinstance(item, Value)] for group in (gold, answer))
    if len(golds) != len(answers):
        return False
    pairs = list(zip(golds, answers, strict=True))
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
    sides = [side.expression for side in relation.sides if isinstance(side, Value) and not side.unit and not side.times]
    if len(relation.sides) != 2 or len(sides) != 2 or any(map(is_matrix, relation.sides)):
        return None
    return sides[0] - sides[1]
