"""Decide whether two forms are the same answer; it makes no difference which of them is the gold answer."""

from collections.abc import Callable, Iterable, Sequence
from string import ascii_lowercase
from typing import Any

from sympy import Abs, FiniteSet, Interval, S, Union, numer, together

from grading.expressions.algebra import equal, ratio
from grading.expressions.forms import (
    FLIPPED,
    OTHERWISE,
    Based,
    Builder,
    Congruence,
    Form,
    Group,
    Region,
    Relation,
    Value,
    Words,
    renamed,
)
from grading.expressions.regions import numbers_listed, numbers_of, variable_of
from grading.expressions.value_comparison import components, is_matrix, same_number, same_value

_FUNCTION_OF_X = frozenset(("y", "f(x)", "y(x)"))
_OF_OTHERS = ("\\lim", "\\max", "\\min", "P(", "E(")  # names of values in which a variable is bound
UNORDERED = ("list", "set", "product", "lor", "land")


def same(one: Form, other: Form) -> bool:
    """Return whether two forms state the same answer."""
    for listed, numbers in ((one, other), (other, one)):
        if (region := numbers_listed(listed)) is not None and not (
            isinstance(numbers, Group) and numbers.kind == "list"
        ):
            return _same_region(Region(region), numbers)
    if (parameters := (_parameter(one), _parameter(other))) != (None, None):
        one, other = _without_parameters((one, other), parameters)
    one, other = _without_name(one, other), _without_name(other, one)
    one, other = _by_coordinates(one, other), _by_coordinates(other, one)
    if isinstance(one, Value) and isinstance(other, Value):
        return same_value(one, other)
    if isinstance(one, Based) or isinstance(other, Based):
        return same_number(one, other)
    if isinstance(one, Group) and isinstance(other, Group) and (agree := _same_group(one, other)) is not None:
        return agree
    if isinstance(one, Relation) and isinstance(other, Relation):
        if one.name != other.name and _FUNCTION_OF_X.issuperset((one.name, other.name)):
            return one.signs == other.signs == ("=",) and same(one.sides[1], other.sides[1])
        if _same_relation(one, other):
            return True
    if isinstance(one, Builder) and isinstance(other, Builder) and _same_builder(one, other):
        return True
    for residue, value in ((one, other), (other, one)):
        if isinstance(residue, Congruence) and residue.left is None and isinstance(value, Value):
            return value.unit is None and equal(residue.right, value.expression)
    if isinstance(one, Congruence) or isinstance(other, Congruence):
        return isinstance(one, Congruence) and isinstance(other, Congruence) and _same_congruence(one, other)
    if isinstance(one, Words) or isinstance(other, Words):
        return one == other
    for single, many in ((one, other), (other, one)):
        if isinstance(many, Group) and many.kind == "()" and (vector := components(single, len(many.items))):
            return _in_order(vector, many.items)
        if (
            isinstance(many, Group)
            and many.kind == "set"
            and len(many.items) == 1
            and not isinstance(single, Group | Region)
        ):
            return same(single, many.items[0])
        if (
            isinstance(many, Group)
            and (many.kind == "ratio" or (many.kind == "time" and all(map(_has_no_unit, many.items))))
            and isinstance(single, Value)
            and len(many.items) == 2
        ):
            first, second = (item.expression for item in many.items if isinstance(item, Value))
            if single.expression.is_Integer:
                return False  # one term of the ratio: 3 is no 3:1
            return equal(first / second, single.expression) and single.unit is None
    return _same_region(one, other)


def leaves_open(answer: Form, gold: Form) -> bool:
    """Return whether a relation that is the `same` as a solved gold answer is not solved for its variable itself."""
    return _is_solved(gold) and not _is_solved(answer)


def _is_solved(form: Form) -> bool:
    """Return whether each relation for one variable has it, or its absolute value, alone on a side."""
    if isinstance(form, Group):
        return all(map(_is_solved, form.items))
    if isinstance(form, Builder):
        return _is_solved(form.conditions)
    if not isinstance(form, Relation) or (variable := variable_of(form)) is None:
        return True
    if form.name and form.name.startswith(_OF_OTHERS):
        return True
    sides = [side.expression for side in form.sides if isinstance(side, Value)]
    alone = [side in (variable, Abs(variable)) for side in sides]
    return sum(alone) == 1 and not any(
        side.has(variable) for side, is_alone in zip(sides, alone, strict=True) if not is_alone
    )


def _without_name(form: Form, other: Form) -> Form:
    """Return the value of ``b = 2`` or ``x = 1, x = 2`` if the other form states only values."""
    if isinstance(form, Group) and form.kind == "list" and form.items:
        named = [item for item in form.items if isinstance(item, Relation)]
        others = other.items if isinstance(other, Group) else (other,)
        if len(named) == len(form.items) and len({item.name for item in named}) == 1 and not _has_relation(others):
            return Group("list", tuple(_without_name(item, others[0]) if others else item for item in named))
        return form
    if (
        not isinstance(form, Relation)
        or not form.name
        or isinstance(other, Relation | Builder)
        or _is_reordered(form.name)
        or _has_relation([other])
    ):
        return form
    if isinstance(other, Region) and form.signs != ("in",):
        return form
    if form.signs == ("in",):
        return form.sides[1]
    if set(form.signs) != {"="}:
        return form
    values = form.sides[1:]
    return values[-1] if all(same(values[0], value) for value in values[1:]) else form


def _by_coordinates(form: Form, other: Form) -> Form:
    """Return ``(a,b) = (2,3)`` as ``a = 2, b = 3`` if the other form is such a list."""
    if not (isinstance(form, Relation) and form.signs == ("=",) and isinstance(other, Group) and _names(other)):
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


def _parameter(form: Form) -> tuple[Any, Any] | None:
    r"""Return the symbol and its values of the last item in ``x = k\pi, k \in \mathbb{Z}``."""
    last = form.items[-1] if isinstance(form, Group) and form.kind == "list" and len(form.items) > 1 else None
    if not isinstance(last, Relation) or last.signs != ("in",):
        return None
    symbol, numbers = last.sides
    if not (isinstance(symbol, Value) and symbol.expression.is_Symbol and isinstance(numbers, Region)):
        return None
    return (symbol.expression, numbers.numbers) if numbers.numbers in (S.Integers, S.Naturals) else None


def _without_parameters(forms: tuple[Form, Form], parameters: tuple[Any, Any]) -> tuple[Form, Form]:
    """Return the forms without their integers, which have the same name then; as they are if their values differ."""
    values = {parameter[1] for parameter in parameters if parameter}
    if len(values) > 1 or (None in parameters and values != {S.Integers}):
        return forms
    symbol = next(parameter[0] for parameter in parameters if parameter)
    left = [
        renamed(_all_but_last(form), {parameter[0]: symbol}) if parameter else form
        for form, parameter in zip(forms, parameters, strict=True)
    ]
    return left[0], left[1]


def _all_but_last(form: Form) -> Form:
    assert isinstance(form, Group)
    return form.items[0] if len(form.items) == 2 else Group(form.kind, form.items[:-1], form.junction)


def _is_reordered(name: str) -> bool:
    """Return whether a name such as ``(y,x)`` or ``b:a`` lists coordinates in an order of its own."""
    names = name.strip("()").replace(":", ",").split(",")
    return _are_coordinates(names) and names != sorted(names)


def _has_relation(forms: Sequence[Form]) -> bool:
    return any(
        isinstance(form, Relation)
        or (isinstance(form, Group) and form.kind != "piecewise" and _has_relation(form.items))
        for form in forms
    )


def _same_group(one: Group, other: Group) -> bool | None:
    """Compare two groups; None if their kinds can only be compared as sets of numbers."""
    kinds = {one.kind, other.kind}
    if {one.junction, other.junction} == {"lor", "land"}:
        return False
    if len(kinds) == 1 and one.kind == "set":
        return _matched(_distinct(one.items), _distinct(other.items))
    if kinds <= {"list", "lor", "set"}:
        if kinds == {"lor"} and numbers_of(one) is not None and numbers_of(other) is not None:
            return None
        if "set" in kinds:
            return _matched(_distinct(one.items), _distinct(other.items))
        if _names(one) == _names(other):
            return _matched(one.items, other.items)
        return _in_order(_by_name(one), _by_name(other))  # x = 3, y = 4 beside 3, 4
    if kinds == {"list", "quantity"} and _are_quantities(one) and _are_quantities(other):
        return _in_order(one.items, other.items)
    if kinds <= {"list", "land"}:
        return _matched(one.items, other.items)
    if kinds == {"ratio", "to"}:  # 3 to 5, which may be a range
        return _proportional(one, other)
    if kinds == {"piecewise"}:
        return _matched(one.items, other.items, _same_piece)
    if kinds == {"ratio"} or (kinds == {"ratio", "time"} and all(map(_has_no_unit, (*one.items, *other.items)))):
        return _proportional(one, other)
    if kinds == {"list", "()"} or kinds == {"sequence", "()"}:  # a bare list beside a tuple: its order counts
        if _is_list_of(one) or _is_list_of(other):
            return False
        return _in_order(_by_name(one), _by_name(other))
    if len(kinds) == 1:
        return _matched(one.items, other.items) if one.kind in UNORDERED else _in_order(one.items, other.items)
    for single, many in ((one, other), (other, one)):
        if many.kind == "set" and len(many.items) == 1 and single.kind in ("()", "[]", "(]", "[)"):
            return same(single, many.items[0])
    if kinds & {"lor", "land"}:
        return None
    return False


def _names(group: Group) -> set[str | None]:
    """Return the names that its relations give to their values, if there are several."""
    names = {item.name for item in group.items if isinstance(item, Relation)}
    return names if len(names) > 1 else set()


def _by_name(group: Group) -> Sequence[Form]:
    """Return the items in the order of coordinates, if names such as x, y, z or a, b give them one."""
    by_name = {item.name or "": item for item in group.items if isinstance(item, Relation)}
    if len(by_name) < len(group.items) or not _are_coordinates(by_name):
        return group.items
    return [by_name[name] for name in sorted(by_name)]


def _are_coordinates(names: Iterable[str]) -> bool:
    return "".join(sorted(names)) in ascii_lowercase


def _are_quantities(group: Group) -> bool:
    return all(isinstance(item, Value) and item.unit for item in group.items)


def _is_list_of(group: Group) -> bool:
    return group.kind == "list" and any(isinstance(item, Group) for item in group.items)


def _distinct(items: Sequence[Form]) -> list[Form]:
    result: list[Form] = []
    for item in items:
        if not any(_same_item(item, other) for other in result):
            result.append(item)
    return result


def _matched(ones: Sequence[Form], others: Sequence[Form], agree: Callable[[Form, Form], bool] | None = None) -> bool:
    """Return whether each form has a partner that states the same."""
    agree = agree or _same_item
    if len(ones) != len(others):
        return False
    left = list(others)
    for one in ones:
        for position, other in enumerate(left):
            if agree(one, other):
                del left[position]
                break
        else:
            return False
    return True


def _same_piece(one: Form, other: Form) -> bool:
    """Compare two pieces of functions, a value and its condition; "otherwise" is any condition."""
    assert isinstance(one, Group) and isinstance(other, Group)
    (value, condition), (other_value, other_condition) = one.items, other.items
    if not same(value, other_value):
        return False
    return OTHERWISE in (condition, other_condition) or same(condition, other_condition)


def _in_order(ones: Sequence[Form], others: Sequence[Form]) -> bool:
    return len(ones) == len(others) and all(map(_same_item, ones, others))


def _same_item(one: Form, other: Form) -> bool:
    """Compare items of groups, in which a set of one element is not that element."""
    return _is_singleton(one) == _is_singleton(other) and same(one, other)


def _is_singleton(form: Form) -> bool:
    return isinstance(form, Group) and form.kind == "set" and len(_distinct(form.items)) == 1


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


def _same_congruence(one: Congruence, other: Congruence) -> bool:
    if not equal(one.modulus, other.modulus):
        return False
    if one.left is not None and other.left is not None and not equal(one.left, other.left):
        return False
    multiple = ((one.right - other.right) / one.modulus).doit()
    return bool(multiple.is_Integer)


def _same_builder(one: Builder, other: Builder) -> bool:
    return same(one.element, other.element) and same(one.conditions, other.conditions)


def _same_relation(one: Relation, other: Relation) -> bool:
    for candidate in (other, _reversed(other)):
        if (
            candidate
            and one.signs == candidate.signs
            and all(same(a, b) for a, b in zip(one.sides, candidate.sides, strict=True))
        ):
            return True
    if len(one.signs) != 1 or len(other.signs) != 1:
        return False
    differences = [_difference(relation) for relation in (one, other)]
    if None in differences:
        return False
    first, second = differences
    factor = ratio(first, second)
    sign, other_sign = one.signs[0], other.signs[0]
    if factor is None and sign == other_sign == "=":
        factor = ratio(numer(together(first)), numer(together(second)))
    if factor is None:
        return False
    if sign in ("=", "!="):
        return sign == other_sign
    if not factor.is_real:
        return False
    return other_sign == (sign if factor > 0 else FLIPPED[sign])


def _reversed(relation: Relation) -> Relation | None:
    if not all(sign in FLIPPED for sign in relation.signs):
        return None
    return Relation(tuple(FLIPPED[sign] for sign in reversed(relation.signs)), relation.sides[::-1])


def _difference(relation: Relation) -> Any:
    sides = [side.expression for side in relation.sides if isinstance(side, Value) and side.unit is None]
    if len(sides) != 2 or any(map(is_matrix, sides)):
        return None
    return sides[0] - sides[1]


def _same_region(one: Form, other: Form) -> bool:
    """Compare two sets of numbers, one of which is a relation or a set operation."""
    names = [variable_of(form) for form in (one, other)]
    if all(names) and names[0] != names[1]:
        return False
    first, second = numbers_of(one), numbers_of(other)
    if first is None or second is None:
        return False
    return _same_numbers_of(first, second)


def _same_numbers_of(one: Any, other: Any) -> bool:
    if one == other:
        return True
    pieces = [set_.args if isinstance(set_, Union) else (set_,) for set_ in (one, other)]
    if len(pieces[0]) != len(pieces[1]):
        return False
    left = list(pieces[1])
    for piece in pieces[0]:
        for position, candidate in enumerate(left):
            if isinstance(piece, Interval) and isinstance(candidate, Interval):
                agree = (
                    (piece.left_open, piece.right_open) == (candidate.left_open, candidate.right_open)
                    and equal(piece.start, candidate.start)
                    and equal(piece.end, candidate.end)
                )
            elif isinstance(piece, FiniteSet) and isinstance(candidate, FiniteSet):
                agree = _matched([Value(value) for value in piece.args], [Value(value) for value in candidate.args])
            else:
                agree = piece == candidate
            if agree:
                del left[position]
                break
        else:
            return False
    return True
