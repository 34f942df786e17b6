"""Find partners in two collections whose order does not count."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Agree = Callable[[Any, Any], bool]


def matched(ones: Sequence[Any], others: Iterable[Any], agree: Agree) -> bool:
    """Return whether each item has a partner of its own that agrees with it."""
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
