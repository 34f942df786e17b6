r"""Give the integer in ``x = k\pi, k \in \mathbb{Z}`` the same name in two answers."""

from typing import Any

from sympy import S

from grading.expressions.forms import Form, Group, Region, Relation, Value, renamed


def without_parameters(one: Form, other: Form) -> tuple[Form, Form]:
    """Return the forms without their integers, which have the same name then; as they are if their values differ."""
    parameters = _parameter(one), _parameter(other)
    given = [parameter for parameter in parameters if parameter]
    values = {numbers for _, numbers in given}
    if len(values) != 1 or (None in parameters and values != {S.Integers}):
        return one, other
    first, second = (
        renamed(_all_but_last(form), {parameter[0]: given[0][0]}) if parameter else form
        for form, parameter in zip((one, other), parameters, strict=True)
    )
    return first, second


def _parameter(form: Form) -> tuple[Any, Any] | None:
    """Return the symbol and its values of the last item."""
    last = form.items[-1] if isinstance(form, Group) and form.kind == "list" and len(form.items) > 1 else None
    if not isinstance(last, Relation) or last.signs != ("in",):
        return None
    symbol, numbers = last.sides
    if not (isinstance(symbol, Value) and symbol.expression.is_Symbol and isinstance(numbers, Region)):
        return None
    return (symbol.expression, numbers.numbers) if numbers.numbers in (S.Integers, S.Naturals) else None


def _all_but_last(form: Form) -> Form:
    assert isinstance(form, Group)
    return form.items[0] if len(form.items) == 2 else Group(form.kind, form.items[:-1], form.junction)
