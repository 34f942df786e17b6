"""Check numbers and names that a user sets against what ``ranges.yaml`` allows.

Neither OmegaConf nor torch is needed here: a value that is not allowed is refused before anything starts.
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
    r"(?:a (?P<whole>whole )?number|(?P<two>two) numbers)(?: (?P<low>from|above) (?P<least>\S+))?"
    r"(?: (?P<high>up to|below) (?P<most>\S+))?"
)
NAMES = "one of "
NOT_SET = (None, "auto")


class Range(NamedTuple):
    """The numbers from ``least`` to ``most``, of which a bound may be excluded, or else the ``names``."""

    text: str
    whole: bool
    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False
    two: bool = False  # a list of two of them
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Range":
        """Return the range that ``text`` describes.

        >>> Range.parse("a number above 0 up to 1").holds(0)
        False
        >>> Range.parse("one of rl, sft").holds("sft")
        True
        """
        if text.startswith(NAMES):
            return cls(text, whole=False, names=tuple(text.removeprefix(NAMES).split(", ")))
        rule = RULE(text)
        assert rule, f"{TABLE}: {text!r} is no range"
        least, most = float(rule["least"] or -math.inf), float(rule["most"] or math.inf)
        above, below = rule["low"] == "above", rule["high"] == "below"
        return cls(text, bool(rule["whole"]), least, most, above, below, two=bool(rule["two"]))

    def holds(self, value: Any) -> bool:
        """Return whether ``value`` is one of the names, or a finite number of the range."""
        if self.names:
            return value in self.names
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
    """Raise InputError for a number or name that is not allowed; ``value_of`` gives the value of a key."""
    for key, allowed in ranges().items():
        value = value_of(key)
        if value in NOT_SET and not allowed.names:
            continue
        parts = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        wrong = [parts] if allowed.two and len(parts) != 2 else [part for part in parts if not allowed.holds(part)]
        if wrong:
            raise InputError(f"{key}: got {wrong[0]!r:.80}, expected {allowed.text}")
