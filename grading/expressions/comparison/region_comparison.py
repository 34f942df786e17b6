"""Compare two sets of numbers, and conditions with the numbers that meet them."""

from typing import Any

from sympy import FiniteSet, Interval, Union

from grading.expressions.comparison.algebra import equal
from grading.expressions.comparison.matching import matched
from grading.expressions.forms import Form, Group, Region
from grading.expressions.regions import numbers_listed, numbers_of, variable_of


def same_conditions(listed: Form, numbers: Form) -> bool | None:
    """Compare a list of conditions, or of intervals, with a set of numbers; None if they are no such pair."""
    if isinstance(numbers, Group) and numbers.kind == "list":
        return None
    region = numbers_listed(listed)
    return None if region is None else same_region(Region(region), numbers)


def same_region(one: Form, other: Form) -> bool:
    """Compare two sets of numbers, one of which is a relation or a set operation."""
    names = [variable_of(form) for form in (one, other)]
    if all(names) and names[0] != names[1]:
        return False
    first, second = numbers_of(one), numbers_of(other)
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
