"""Decide whether two forms are the same answer; it makes no difference which of them is the gold answer."""

from collections.abc import Callable, Sequence
from typing import Any

from sympy import S, numer, together

from grading.expressions.comparison.algebra import equal, ratio
from grading.expressions.comparison.coordinates import by_coordinates, by_name, is_reordered, names_in
from grading.expressions.comparison.matching import distinct, matched
from grading.expressions.comparison.parameters import without_parameters
from grading.expressions.comparison.region_comparison import same_conditions, same_region
from grading.expressions.comparison.value_comparison import components, is_matrix, same_number, same_value
from grading.expressions.forms import (
    FLIPPED,
    OTHERWISE,
    Builder,
    Congruence,
    Form,
    Group,
    Region,
    Relation,
    Value,
    Words,
    items_of,
)
from grading.expressions.regions import numbers_of

Rule = Callable[[Any, Any], bool | None]  # None: of other forms
_FUNCTION_OF_X = frozenset(("y", "f(x)", "y(x)"))
_TUPLES = frozenset(("()", "[]", "(]", "[)"))


def same(one: Form, other: Form) -> bool:
    """Return whether two forms state the same answer."""
    if (agree := _either_way(same_conditions)(one, other)) is not None:
        return agree
    one, other = without_parameters(one, other)
    one, other = _without_name(one, other), _without_name(other, one)
    one, other = by_coordinates(one, other), by_coordinates(other, one)
    for kinds, rule in _RULES:
        if isinstance(one, kinds) and isinstance(other, kinds) and (agree := rule(one, other)) is not None:
            return agree
    return same_region(one, other)


def _either_way(rule: Rule) -> Rule:
    """Return a rule of two different kinds for either order of them."""

    def either(one: Form, other: Form) -> bool | None:
        agree = rule(one, other)
        return rule(other, one) if agree is None else agree

    return either


def _without_name(form: Form, other: Form) -> Form:
    """Return the value of ``b = 2`` or ``x = 1, x = 2`` if the other form states only values."""
    if isinstance(form, Group) and form.kind == "list":
        named = [item for item in form.items if isinstance(item, Relation)]
        others = items_of(other)
        is_named = len(named) == len(form.items) and len({item.name for item in named}) == 1
        if not is_named or not others or _has_relation(others):
            return form
        return Group("list", tuple(_without_name(item, others[0]) for item in named), form.junction)
    if not isinstance(form, Relation) or not form.name or is_reordered(form.name):
        return form
    if isinstance(other, Builder) or _has_relation([other]):
        return form
    if form.signs == ("in",):
        return form.sides[1]
    if set(form.signs) != {"="} or isinstance(other, Region):
        return form
    values = form.sides[1:]
    return values[-1] if all(same(values[0], value) for value in values[1:]) else form


def _has_relation(forms: Sequence[Form]) -> bool:
    return any(
        isinstance(form, Relation)
        or (isinstance(form, Group) and form.kind != "piecewise" and _has_relation(form.items))
        for form in forms
    )


def _same_group(one: Group, other: Group) -> bool | None:
    """Compare two groups; None if their kinds can only be compared as sets, of numbers or of one tuple."""
    kinds = {one.kind, other.kind}
    if {one.junction, other.junction} == {"lor", "land"}:
        return False
    if "set" in kinds and kinds <= {"set", "list", "lor"}:
        return matched(distinct(one.items, _same_item), distinct(other.items, _same_item), _same_item)
    if kinds == {"lor"} and numbers_of(one) is not None and numbers_of(other) is not None:
        return None
    if kinds <= {"list", "lor"} and names_in(one) != names_in(other):
        return _in_order(by_name(one), by_name(other))  # x = 3, y = 4 beside 3, 4
    if kinds <= {"list", "lor"} or kinds <= {"list", "land"} or kinds == {"product"}:
        return matched(one.items, other.items, _same_item)
    if kinds == {"list", "quantity"} and all(_unit_of(item) for item in (*one.items, *other.items)):
        return _in_order(one.items, other.items)
    if kinds <= {"ratio", "to"} and "ratio" in kinds:  # 3 to 5, which may be a range
        return _proportional(one, other)
    if kinds == {"ratio", "time"} and all(map(_has_no_unit, (*one.items, *other.items))):
        return _proportional(one, other)
    if kinds == {"piecewise"}:
        return matched(one.items, other.items, _same_piece)
    if kinds in ({"list", "()"}, {"sequence", "()"}):  # a bare list beside a tuple: its order counts
        return not _is_loose(one) and not _is_loose(other) and _in_order(by_name(one), by_name(other))
    if len(kinds) == 1:
        return _in_order(one.items, other.items)
    may_be_set = kinds & {"lor", "land"} or ("set" in kinds and kinds & _TUPLES)
    return None if may_be_set else False


def _is_loose(group: Group) -> bool:
    """Return whether a list has no order: one of alternatives, or of groups."""
    return group.kind == "list" and (group.junction == "lor" or any(isinstance(item, Group) for item in group.items))


def _in_order(ones: Sequence[Form], others: Sequence[Form]) -> bool:
    return len(ones) == len(others) and all(map(_same_item, ones, others))


def _same_item(one: Form, other: Form) -> bool:
    """Compare items of groups, in which a set of one element is not that element."""
    return _is_singleton(one) == _is_singleton(other) and same(one, other)


def _is_singleton(form: Form) -> bool:
    return isinstance(form, Group) and form.kind == "set" and len(distinct(form.items, _same_item)) == 1


def _unit_of(form: Form) -> str | None:
    return form.unit if isinstance(form, Value) else None


def _has_no_unit(form: Form) -> bool:
    return isinstance(form, Value) and form.unit is None


def _proportional(one: Group, other: Group) -> bool:
    pairs = [
        (a.expression, b.expression)
        for a, b in zip(one.items, other.items, strict=False)
        if isinstance(a, Value) and isinstance(b, Value)
    ]
    if len(one.items) != len(other.items) or len(pairs) != len(one.items):
        return False
    first, second = next(((a, b) for a, b in pairs if not equal(a, S.Zero)), (S.Zero, S.Zero))
    return not equal(second, S.Zero) and all(equal(first * b, a * second) for a, b in pairs)


def _same_piece(one: Group, other: Group) -> bool:
    """Compare two pieces of functions, a value and its condition; "otherwise" is any condition."""
    (value, condition), (other_value, other_condition) = one.items, other.items
    return same(value, other_value) and (OTHERWISE in (condition, other_condition) or same(condition, other_condition))


def _same_relation(one: Relation, other: Relation) -> bool | None:
    """Compare two relations, sides or differences of sides; None if only the numbers that meet them are compared."""
    if one.name != other.name and _FUNCTION_OF_X.issuperset((one.name, other.name)):
        return one.signs == other.signs == ("=",) and same(one.sides[1], other.sides[1])
    for candidate in (other, _reversed(other)):
        if candidate and one.signs == candidate.signs and all(map(same, one.sides, candidate.sides)):
            return True
    first, second = _difference(one), _difference(other)
    if first is None or second is None:
        return None
    sign, other_sign = one.signs[0], other.signs[0]
    factor = ratio(first, second)
    if factor is None and sign == other_sign == "=":
        factor = ratio(numer(together(first)), numer(together(second)))
    if factor is None or (sign not in ("=", "!=") and not factor.is_real):
        return None
    is_flipped = sign not in ("=", "!=") and factor < 0
    return other_sign == (FLIPPED[sign] if is_flipped else sign) or None


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


def _same_builder(one: Builder, other: Builder) -> bool | None:
    return (same(one.element, other.element) and same(one.conditions, other.conditions)) or None


def _same_congruence(one: Form, other: Form) -> bool | None:
    """Compare a congruence with another one, or a residue with a number."""
    if not isinstance(one, Congruence):
        return None
    if isinstance(other, Value) and one.left is None:
        return other.unit is None and equal(one.right, other.expression)
    if not isinstance(other, Congruence) or not equal(one.modulus, other.modulus):
        return False
    if one.left is not None and other.left is not None and not equal(one.left, other.left):
        return False
    return bool(((one.right - other.right) / one.modulus).doit().is_Integer)


def _same_words(one: Form, other: Form) -> bool | None:
    return one == other if isinstance(one, Words) else None


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
    if not isinstance(single, Value) or not isinstance(many, Group) or len(many.items) != 2:
        return None
    if many.kind != "ratio" and not (many.kind == "time" and all(map(_has_no_unit, many.items))):
        return None
    first, second = (item.expression for item in many.items if isinstance(item, Value))
    return not single.expression.is_Integer and single.unit is None and equal(first / second, single.expression)


_RULES: tuple[tuple[Any, Rule], ...] = (  # for two forms of a kind
    (Value, same_value),
    (Form, same_number),
    (Group, _same_group),
    (Relation, _same_relation),
    (Builder, _same_builder),
    (Form, _either_way(_same_congruence)),
    (Form, _either_way(_same_words)),
    (Form, _either_way(_same_entries)),
    (Form, _either_way(_same_element)),
    (Form, _either_way(_same_quotient)),
)
