"""Convert forms into sets of real numbers: intervals, finite sets, and the solutions of inequalities."""

from typing import Any

from sympy import Complement, FiniteSet, Ge, Gt, Intersection, Interval, Le, Lt, Reals, S, Symbol, Union, oo, solveset

from grading.expressions.forms import FLIPPED, Builder, Form, Group, Region, Relation, Value


def numbers_of(form: Form | None) -> Any:
    """Return the set of real numbers that a form describes, as sympy's set; None if it describes none.

    An inequality stands for the values of its one symbol.
    """
    if isinstance(form, Region):
        return form.numbers
    if isinstance(form, Group):
        return _numbers_of_group(form)
    if isinstance(form, Relation):
        return _solutions(form)
    if isinstance(form, Builder):
        return _built(form)
    return None


def _numbers_of_group(form: Group) -> Any:
    values = [item.expression for item in form.items if isinstance(item, Value) and item.unit is None]
    if form.kind == "set" and len(values) == len(form.items):
        return FiniteSet(*values)
    if form.kind in ("()", "(]", "[)", "[]") and len(values) == len(form.items) == 2 and all(map(_is_bound, values)):
        low, high = values
        return Interval(low, high, form.kind[0] == "(", form.kind[1] == ")")
    if form.kind == "lor":
        parts = [_point(item) or numbers_of(item) for item in form.items]
        return None if any(part is None for part in parts) else Union(*parts)
    if form.kind == "land":
        parts = [numbers_of(item) for item in form.items]
        return None if any(part is None for part in parts) else Intersection(*parts)
    return None


def _point(form: Form) -> Any:
    """Return the one number that ``x = 1`` states; None for other forms."""
    if not isinstance(form, Relation) or form.signs != ("=",) or not form.name:
        return None
    name, value = form.sides
    if not (isinstance(name, Value) and isinstance(value, Value) and name.expression.is_Symbol) or value.unit:
        return None
    return FiniteSet(value.expression) if not value.expression.free_symbols else None


def numbers_listed(form: Form) -> Any:
    """Return the numbers that a list of conditions or of intervals describes; None for another list.

    Conditions on one symbol hold together, as in ``x > 1, x < 2``, unless no number meets them all: then they are
    alternatives, as in ``x < 1, x > 2``. None if one of them adds nothing. Pairs ``(1,2), (3,4)`` may be points.
    """
    if not isinstance(form, Group) or form.kind != "list":
        return None
    parts = [numbers_of(item) for item in form.items]
    if any(part is None for part in parts):
        return None
    if all(isinstance(item, Group) for item in form.items):
        intervals = all(isinstance(part, Interval) for part in parts)
        certain = any(
            part.start.is_infinite or part.end.is_infinite for part in parts if isinstance(part, Interval)
        ) or any(isinstance(item, Group) and item.kind in ("[)", "(]") for item in form.items)
        return Union(*parts) if intervals and certain and _disjoint(parts) else None
    if not all(isinstance(item, Relation) and variable_of(item) is not None for item in form.items if not _in(item)):
        return None
    if len({variable_of(item) for item in form.items if not _in(item)}) != 1:
        return None
    together = Intersection(*parts)
    if together.is_empty:
        return Union(*parts)
    bounds = [part for part in parts if part != S.Reals]
    return together if len(bounds) == 1 or all(together != part for part in bounds) else None


def _in(form: Form) -> bool:
    return isinstance(form, Relation) and form.signs == ("in",)


def _disjoint(parts: list[Any]) -> bool:
    return all(one.intersect(other).is_empty for place, one in enumerate(parts) for other in parts[:place])


def _is_bound(value: Any) -> bool:
    return bool(value.is_Symbol or value.free_symbols or value.is_extended_real)


def variable_of(form: Form) -> Any:
    """Return the one symbol of a relation; None if it has several or none."""
    sides = form.sides if isinstance(form, Relation) else ()
    symbols: set[Any] = set()
    for side in sides:
        if isinstance(side, Value):
            symbols |= side.expression.free_symbols
    return symbols.pop() if len(symbols) == 1 else None


def _solutions(form: Relation) -> Any:
    if form.signs in (("in",), ("notin",)) and form.name:
        region = numbers_of(form.sides[1])
        return region if region is None or form.signs == ("in",) else Complement(Reals, region)
    if not all(isinstance(side, Value) and side.unit is None for side in form.sides):
        return None
    sides = [side.expression for side in form.sides if isinstance(side, Value)]
    if form.signs == ("!=",) and sides[0].is_Symbol and not sides[1].has(sides[0]):
        return Complement(Reals, FiniteSet(sides[1]))
    if not set(form.signs) <= {"<", "<=", ">", ">="}:
        return None
    region = Reals
    for sign, first, second in zip(form.signs, sides[:-1], sides[1:], strict=True):
        part = _half_line(sign, first, second)
        if part is None:
            return None
        region = region.intersect(part)
    return region


def _half_line(sign: str, first: Any, second: Any) -> Any:
    if second.is_Symbol and not first.is_Symbol:
        first, second, sign = second, first, FLIPPED[sign]
    if first.is_Symbol and first not in second.free_symbols:
        if sign in ("<", "<="):
            return Interval(-oo, second, True, sign == "<")
        return Interval(second, oo, sign == ">", True)
    symbols = first.free_symbols | second.free_symbols
    if len(symbols) != 1:
        return None
    (symbol,) = symbols
    real = Symbol("t", real=True)
    relation = {"<": Lt, "<=": Le, ">": Gt, ">=": Ge}[sign](
        first.xreplace({symbol: real}), second.xreplace({symbol: real})
    )
    if relation in (True, False):
        return S.Reals if relation else S.EmptySet
    try:
        return solveset(relation, real, S.Reals)
    except (NotImplementedError, ValueError, TypeError):
        return None


def _built(form: Builder) -> Any:
    r"""Return ``\{x \mid x > 2\}`` and ``\{x \in \mathbb{R} \mid x > 2\}``."""
    element, conditions = form.element, form.conditions
    domain = S.Reals
    if isinstance(element, Relation) and element.signs == ("in",):
        domain, element = numbers_of(element.sides[1]), element.sides[0]
    if not isinstance(element, Value) or not element.expression.is_Symbol or domain is None:
        return None
    listed = (
        conditions.items if isinstance(conditions, Group) and conditions.kind in ("list", "land") else (conditions,)
    )
    for condition in listed:
        if not isinstance(condition, Relation | Group):
            return None
        members = condition.items if isinstance(condition, Group) else (condition,)
        if any(
            isinstance(member, Relation) and variable_of(member) not in (None, element.expression) for member in members
        ):
            return None
        region = numbers_of(condition)
        if region is None:
            return None
        domain = domain.intersect(region)
    return domain
