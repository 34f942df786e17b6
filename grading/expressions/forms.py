r"""The forms that an answer can have: a value, words, a list, a set, a tuple or interval, a relation, …"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

LARGEST_BASE = 36  # ten digits and 26 letters
FLIPPED = {
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "=": "=",
    "!=": "!=",
    "approx": "approx",
}  # signs of a relation read backwards


@dataclass(frozen=True)
class Value:
    """An expression or a matrix, with its unit; ``digits``: of a plain decimal number, those after the point."""

    expression: Any
    unit: str | None = None
    digits: int | None = None


@dataclass(frozen=True)
class Based:
    """A number written in a base."""

    numeral: str
    base: int


@dataclass(frozen=True)
class Words:
    """Prose without a formula."""

    text: str


@dataclass(frozen=True)
class Group:
    """Several forms.

    ``kind``: list | sequence | set | product | ratio | to | piecewise | quantity, or the brackets of a tuple.
    ``junction``: "lor", or "land" between symbols or values of several names, where it makes a difference.
    """

    kind: str
    items: tuple["Form", ...]
    junction: str | None = None


@dataclass(frozen=True)
class Relation:
    """A chain such as ``a <= x < b``; ``name``: the first side, if it is a name such as ``b``, ``f(x)`` or ``AB``."""

    signs: tuple[str, ...]
    sides: tuple["Form", ...]
    name: str | None = None


@dataclass(frozen=True)
class Region:
    """A set of numbers that sympy knows, such as a union of intervals."""

    numbers: Any


@dataclass(frozen=True)
class Builder:
    """The set of ``element`` for all that meet the conditions."""

    element: "Form"
    conditions: "Form"


@dataclass(frozen=True)
class Congruence:
    """``left`` = ``right`` modulo ``modulus``; without ``left`` the residue alone."""

    left: Any
    right: Any
    modulus: Any


Form = Value | Based | Words | Group | Relation | Region | Builder | Congruence
DOTS = Words("...")
OTHERWISE = Words("otherwise")  # the condition of the last piece of a function


def items_of(form: Form) -> tuple[Form, ...]:
    """Return the items of a group, and any other form as the only item."""
    return form.items if isinstance(form, Group) else (form,)


def renamed(form: Form, symbols: Mapping[Any, Any]) -> Form:
    """Return a form with other symbols in its values and those of its parts."""
    if isinstance(form, Value):
        return replace(form, expression=form.expression.xreplace(symbols))
    if isinstance(form, Group):
        return replace(form, items=tuple(renamed(item, symbols) for item in form.items))
    if isinstance(form, Relation):
        return replace(form, sides=tuple(renamed(side, symbols) for side in form.sides))
    return form
