"""Convert forms into sets of real numbers: intervals, finite sets, and the solutions of inequalities.

A relation is a set of numbers only if its variable is its one symbol. Where it is compared with an interval of symbols,
such as (a,b), its variable is the one that stands alone between the others.
"""

from itertools import combinations
from typing import Any

from sympy import (
    Abs,
    Complement,
    FiniteSet,
    Ge,
    Gt,
    Intersection,
    Interval,
    Le,
    Lt,
    Reals,
    S,
    Symbol,
    Union,
    oo,
    solveset,
)

from grading.expressions.algebra import equal
from grading.expressions.forms import FLIPPED, Form, Group, Region, Relation, Value, items_of, matched

_OF_OTHERS = ("\\lim", "\\max", "\\min", "P(", "E(")  # names of values in which a variable is bound
_USUAL = frozenset("txyz")  # names of variables, as against those of parameters


def numbers_of(form: Form | None, *, symbolic: bool = False) -> Any:
    """Return the set of real numbers that a form describes, as sympy's set; None if it describes none.

    Args:
        symbolic: whether the bounds of a relation may have symbols.
    """
    if isinstance(form, Region):
        return form.numbers
    if isinstance(form, Group):
        return _numbers_of_group(form, symbolic)
    return _solutions(form, symbolic) if isinstance(form, Relation) else None


def _numbers_of_group(form: Group, symbolic: bool) -> Any:
    values = [item.expression for item in form.items if isinstance(item, Value) and item.unit is None]
    if form.kind == "set" and len(values) == len(form.items):
        return FiniteSet(*values)
    if form.kind in ("()", "(]", "[)", "[]") and len(values) == len(form.items) == 2:
        are_bounds = all(value.free_symbols or value.is_extended_real for value in values)
        return Interval(values[0], values[1], form.kind[0] == "(", form.kind[1] == ")") if are_bounds else None
    if form.kind in ("lor", "land"):
        parts = [_point(item) or numbers_of(item, symbolic=symbolic) for item in form.items]
        if any(part is None for part in parts) or len({variable_of(item) for item in form.items} - {None}) > 1:
            return None
        return Union(*parts) if form.kind == "lor" else Intersection(*parts)
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
        disjoint = all(one.intersect(other).is_empty for one, other in combinations(parts, 2))
        return Union(*parts) if intervals and certain and disjoint else None
    variables = {variable_of(item) for item in form.items if not (isinstance(item, Relation) and item.signs == ("in",))}
    if len(variables) != 1 or None in variables:
        return None
    together = Intersection(*parts)
    if together.is_empty:
        return Union(*parts)
    bounds = [part for part in parts if part != S.Reals]
    return together if len(bounds) == 1 or all(together != part for part in bounds) else None


def symbols_of(form: Form) -> set[Any]:
    """Return the symbols in the sides of a relation."""
    sides = form.sides if isinstance(form, Relation) else ()
    return set[Any]().union(*(side.expression.free_symbols for side in sides if isinstance(side, Value)))


def variable_of(form: Form) -> Any:
    """Return the one symbol of a relation; None if it has several or none."""
    symbols = symbols_of(form)
    return symbols.pop() if len(symbols) == 1 else None


def is_relation(form: Form) -> bool:
    """Return whether a form states relations, of which the variable is a part."""
    return isinstance(form, Relation) or (isinstance(form, Group) and any(map(is_relation, form.items)))


def _solutions(form: Relation, symbolic: bool) -> Any:
    if form.signs in (("in",), ("notin",)) and form.name:
        region = numbers_of(form.sides[1])
        return region if region is None or form.signs == ("in",) else Complement(Reals, region)
    if not all(isinstance(side, Value) and side.unit is None for side in form.sides):
        return None
    sides = [side.expression for side in form.sides if isinstance(side, Value)]
    variable = variable_of(form) or (_lone(sides) if symbolic else None)
    if variable is None:
        return None
    if form.signs == ("!=",) and variable in sides:
        return Complement(Reals, FiniteSet(sides[1 - sides.index(variable)]))
    if not set(form.signs) <= {"<", "<=", ">", ">="}:
        return None
    if len(sides) == 3 and sides[1] == variable and not {sign[0] for sign in form.signs} - {"<"}:
        return Interval(sides[0], sides[2], form.signs[0] == "<", form.signs[1] == "<")
    region = Reals
    for sign, first, second in zip(form.signs, sides[:-1], sides[1:], strict=True):
        part = _half_line(sign, first, second, variable)
        if part is None:
            return None
        region = region.intersect(part)
    return region


def _lone(sides: list[Any]) -> Any:
    """Return the symbol that stands alone between others, or is the one usual name of a variable."""
    if len(sides) == 3:
        return sides[1] if sides[1].is_Symbol and not sides[0].has(sides[1]) and not sides[2].has(sides[1]) else None
    usual = [side for side in sides if side.is_Symbol and side.name in _USUAL]
    return usual[0] if len(usual) == 1 and not any(side.has(usual[0]) for side in sides if side != usual[0]) else None


def _half_line(sign: str, first: Any, second: Any, variable: Any) -> Any:
    if second == variable:
        first, second, sign = second, first, FLIPPED[sign]
    if first == variable and variable not in second.free_symbols:
        if sign in ("<", "<="):
            return Interval(-oo, second, True, sign == "<")
        return Interval(second, oo, sign == ">", True)
    if first.free_symbols | second.free_symbols != {variable}:
        return None
    real = Symbol("t", real=True)
    relation = {"<": Lt, "<=": Le, ">": Gt, ">=": Ge}[sign](
        first.xreplace({variable: real}), second.xreplace({variable: real})
    )
    if relation in (True, False):
        return S.Reals if relation else S.EmptySet
    try:
        return solveset(relation, real, S.Reals)
    except (NotImplementedError, ValueError, TypeError):
        return None


def is_solved(form: Form) -> bool:
    """Return whether each relation for one variable has it, or its absolute value, alone on a side."""
    if isinstance(form, Group):
        return all(map(is_solved, form.items))
    if isinstance(form, Region):
        return form.solved
    if not isinstance(form, Relation) or (variable := variable_of(form)) is None:
        return True
    if form.name and form.name.startswith(_OF_OTHERS):
        return True
    sides = [side.expression for side in form.sides if isinstance(side, Value)]
    with_variable = [side for side in sides if side.has(variable)]
    return len(with_variable) == 1 and with_variable[0] in (variable, Abs(variable))


def built(element: Form, conditions: Form) -> Region | None:
    r"""Return ``\{x \mid x > 2\}`` and ``\{x \in \mathbb{R} \mid x > 2\}`` as numbers; None for other sets."""
    domain = S.Reals
    if isinstance(element, Relation) and element.signs == ("in",):
        domain, element = numbers_of(element.sides[1]), element.sides[0]
    if not isinstance(element, Value) or not element.expression.is_Symbol or domain is None:
        return None
    is_list = isinstance(conditions, Group) and conditions.kind in ("list", "land")
    for condition in items_of(conditions) if is_list else (conditions,):
        region = numbers_of(condition)
        if region is None or any(symbols_of(member) - {element.expression} for member in items_of(condition)):
            return None
        domain = domain.intersect(region)
    return Region(domain, solved=all(map(is_solved, items_of(conditions))))


def same_region(one: Form, other: Form) -> bool:
    """Compare two sets of numbers, one of which is a relation or a set operation."""
    related = [is_relation(form) for form in (one, other)]
    names = [
        {variable_of(item) for item in (form.items if isinstance(form, Group) else (form,))} for form in (one, other)
    ]
    if all(related) and names[0] != names[1]:
        return False
    symbolic = not all(related)
    first, second = numbers_of(one, symbolic=symbolic), numbers_of(other, symbolic=symbolic)
    if first is None or second is None:
        return False
    return first == second or matched(_pieces(first), _pieces(second), _same_piece)


def _pieces(region: Any) -> tuple[Any, ...]:
    return region.args if isinstance(region, Union) else (region,)


def _same_piece(one: Any, other: Any) -> bool:
    if isinstance(one, Interval) and isinstance(other, Interval):
        return (
            (one.left_open, one.right_open) == (other.left_open, other.right_open)
            and equal(one.start, other.start)
            and equal(one.end, other.end)
        )
    if isinstance(one, FiniteSet) and isinstance(other, FiniteSet):
        return matched(one.args, other.args, equal)
    return one == other
