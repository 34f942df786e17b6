r"""The forms that an answer can have: a value, words, a list, a set, a tuple or interval, a relation, …"""

from dataclasses import dataclass
from typing import Any

LARGEST_BASE = 36  # ten digits and 26 letters
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}  # signs of a relation read backwards


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
    """Several forms. ``kind``: list | sequence | set | product | ratio | quantity, or the brackets of a tuple.

    ``junction``: "lor" or "land" between symbols or values of several names, where it makes a difference.
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
