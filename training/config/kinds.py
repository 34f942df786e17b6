"""What a value of the configuration must be, in words that are both the rule and the end of its message."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from core.text.patterns import compile_full_match

NUMBER = compile_full_match(
    r"(?:an? (?P<whole>whole )?number|(?P<two>two) numbers)(?: (?P<low>from|above) (?P<least>\S+))?"
    r"(?: (?P<high>up to|below) (?P<most>\S+))?"
)
NAMES, AUTO, NULL = "one of ", "auto, or ", ", or null"
HANDED_ON = "anything"
TYPES = {"true or false": bool, "a text": str, "a list": list, "a mapping of its keys": dict, HANDED_ON: object}


class Kind(NamedTuple):
    """The values that ``text`` describes."""

    text: str
    accepts: Callable[[Any], bool]

    def holds(self, value: Any) -> bool:
        """Return whether ``value`` is allowed; null and auto (the machine decides) are where the text says so."""
        if (value is None and self.text.endswith(NULL)) or (value == "auto" and self.text.startswith(AUTO)):
            return True
        return self.accepts(value)

    def check(self, value: Any) -> Any:
        """Return ``value``; ValueError unless it is allowed."""
        if not self.holds(value):
            raise ValueError(f"got {value!r:.80}, expected {self.text}")
        return value


@cache
def kind(text: str) -> Kind:
    """Return the kind that ``text`` describes.

    >>> kind("a number above 0 up to 1").holds(0), kind("auto, or one of rl, sft").holds("auto")
    (False, True)
    """
    rule = text.removeprefix(AUTO).removesuffix(NULL)
    if rule in TYPES:
        return Kind(text, lambda value: isinstance(value, TYPES[rule]))
    if rule.startswith(NAMES):
        names = rule.removeprefix(NAMES).split(", ")
        return Kind(text, lambda value: value in names)
    return Kind(text, _numbers(rule))


def _numbers(rule: str) -> Callable[[Any], bool]:
    """Return the test for the finite numbers of a range, or for a list of two of them."""
    number = NUMBER(rule)
    assert number, f"{rule!r} is no kind of value"
    least, most = float(number["least"] or -math.inf), float(number["most"] or math.inf)

    def accepts(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if number["whole"] else int | float):
            return False
        low = value > least if number["low"] == "above" else value >= least
        return low and (value < most if number["high"] == "below" else value <= most) and math.isfinite(value)

    if number["two"]:
        return lambda value: isinstance(value, list) and len(value) == 2 and all(map(accepts, value))
    return accepts


def must_be(text: str) -> BeforeValidator:
    """Return the check of a field of a pydantic model: its value must be what ``text`` says."""
    return BeforeValidator(kind(text).check)


def text_of(field: FieldInfo) -> str:
    """Return what `must_be` says of a field; "" if nothing does."""
    owners = [getattr(mark.func, "__self__", None) for mark in field.metadata if isinstance(mark, BeforeValidator)]
    return next((owner.text for owner in owners if isinstance(owner, Kind)), "")
