r"""What an answer is: its kind, which the gold answer decides, and its form."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

# Signs of a relation read backwards.
FLIPPED: Mapping[str, str] = {
    **{"<": ">", "<=": ">=", ">": "<", ">=": "<="},
    **{sign: sign for sign in ("=", "!=", "approx", "parallel", "perp")},
}
BRACKETS = frozenset(("()", "[]", "(]", "[)"))  # kinds of tuples and intervals
Agree = Callable[[Any, Any], bool]


class Kind(StrEnum):
    """How a gold answer is compared; an answer is read as the same kind or is wrong."""

    NUMBER = "number"
    RATIO = "ratio"
    QUANTITY = "quantity"
    FORMULA = "formula"
    RELATION = "relation"
    SET = "set"
    INTERVAL = "interval"
    TUPLE = "tuple"
    LIST = "list"
    MATRIX = "matrix"
    DATE = "date"
    TIME = "time"
    CHOICE = "choice"
    TEXT = "text"


@dataclass(frozen=True)
class Value:
    """An expression or a matrix, with its unit.

    Args:
        digits: of a plain decimal number, those after the point.
        code: capital letters side by side, such as ``XYZ``, which keep their order.
        times: how often a root counts, where that is said.
        numeral: of a number in a base, its digits and the base.
    """

    expression: Any
    unit: str | None = None
    digits: int | None = None
    code: str | None = None
    times: int | None = None
    numeral: tuple[str, int] | None = None


@dataclass(frozen=True)
class Words:
    """Text without a formula, folded by `grading.expressions.texts`."""

    text: str


@dataclass(frozen=True)
class Day:
    """A day, or a month where ``day`` is None; ``weekday``, of which Monday is 0, and year where they are stated."""

    year: int | None
    month: int
    day: int | None
    weekday: int | None = None


@dataclass(frozen=True)
class Time:
    """A time of day; ``half``: "am" or "pm" where it is stated, ``padded``: whether the hour starts with a zero."""

    hour: int
    minute: int
    second: int = 0
    half: str | None = None
    padded: bool = False


@dataclass(frozen=True)
class Group:
    """Several forms.

    Args:
        kind: list | sequence | set | ratio | lor | land, or the brackets of a tuple.
        junction: "lor", or "land" between symbols, values of several names or labelled parts, where it makes a
            difference; "where" if a word is before the conditions of a formula.
        time: what a ratio such as 4:10 is, where the other answer looks like a time of day too.
    """

    kind: str
    items: tuple["Form", ...]
    junction: str | None = None
    time: Time | None = None


@dataclass(frozen=True)
class Relation:
    """A chain such as ``a <= x < b``; ``name``: the first side, if it is a name such as ``b``, ``f(x)`` or ``AB``."""

    signs: tuple[str, ...]
    sides: tuple["Form", ...]
    name: str | None = None


@dataclass(frozen=True)
class Region:
    """A set of numbers that sympy knows, such as a union of intervals; ``solved``: whether no condition is open."""

    numbers: Any
    solved: bool = True


Form = Value | Words | Day | Time | Group | Relation | Region
DOTS = Words("...")


def items_of(form: Form) -> tuple[Form, ...]:
    """Return the items of a group, and any other form as the only item."""
    return form.items if isinstance(form, Group) else (form,)


def mapped(form: Form, change: Callable[[Any], Any]) -> Form:
    """Return a form with ``change`` of the expressions of its values and parts."""
    if isinstance(form, Value):
        return replace(form, expression=change(form.expression))
    if isinstance(form, Group):
        return replace(form, items=tuple(mapped(item, change) for item in form.items))
    if isinstance(form, Relation):
        return replace(form, sides=tuple(mapped(side, change) for side in form.sides))
    return form


def matched(ones: Sequence[Any], others: Iterable[Any], agree: Agree) -> bool:
    """Return whether the items can be paired so that each agrees with its partner; their order does not count."""
    left = list(others)
    if len(ones) != len(left):
        return False
    for one in ones:
        partner = next((position for position, other in enumerate(left) if agree(one, other)), None)
        if partner is None:
            return False
        del left[partner]
    return True


def distinct(items: Iterable[Any], agree: Agree) -> list[Any]:
    """Return the items without those that agree with one before."""
    result: list[Any] = []
    for item in items:
        if not any(agree(item, other) for other in result):
            result.append(item)
    return result
