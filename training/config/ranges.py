"""Check numbers that a user sets against their ranges in ``ranges.yaml``.

Hydra is not needed here, and neither is torch: a value out of its range is refused before anything starts.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import InputError
from core.files import read_yaml
from core.text.patterns import compile_full_match

TABLE = Path(__file__).with_name("ranges.yaml")
RULE = compile_full_match(
    r"a (?P<whole>whole )?number(?: (?P<low>from|above) (?P<least>\S+))?(?: (?P<high>up to|below) (?P<most>\S+))?"
)
NOT_SET = (None, "auto")


class Range(NamedTuple):
    """The numbers from ``least`` to ``most``; a bound may be excluded."""

    text: str
    whole: bool
    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False

    @classmethod
    def parse(cls, text: str) -> "Range":
        """Return the range that ``text`` describes.

        >>> Range.parse("a number above 0 up to 1").holds(0)
        False
        """
        rule = RULE(text)
        assert rule, f"{TABLE}: {text!r} is no range"
        least, most = float(rule["least"] or -math.inf), float(rule["most"] or math.inf)
        return cls(text, bool(rule["whole"]), least, most, rule["low"] == "above", rule["high"] == "below")

    def holds(self, value: Any) -> bool:
        """Return whether ``value`` is a finite number of the range."""
        kind = int if self.whole else int | float
        if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
            return False
        too_low = value <= self.least if self.above else value < self.least
        too_high = value >= self.most if self.below else value > self.most
        return not (too_low or too_high)


@cache
def ranges() -> dict[str, Range]:
    """Return the range of each key of the table."""
    return {key: Range.parse(text) for key, text in read_yaml(TABLE, "table of ranges").items()}


def check_ranges(value_of: Callable[[str], Any]) -> None:
    """Raise InputError for a number out of its range; ``value_of`` gives the value of a key."""
    for key, allowed in ranges().items():
        value = value_of(key)
        if value in NOT_SET:
            continue
        for number in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if not allowed.holds(number):
                raise InputError(f"{key}: got {number!r:.80}, expected {allowed.text}")
