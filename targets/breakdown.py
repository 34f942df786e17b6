"""How many traces of each license, teacher or other metadata were read, and how many of them were kept."""

from collections import Counter
from typing import Any

from targets.source import OF_ONE_TRACE
from targets.trace import Trace

MOST_VALUES = 200  # counted of each name, so that memory stays bounded
OTHERS = "(other values)"


class Breakdown:
    """Counts traces by each of their metadata."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, Counter[str]]] = {}

    def add(self, trace: Trace, what: str) -> None:
        """Count ``trace`` as ``what`` ("read" or "kept"). Values that come late among many are counted together."""
        for name, value in trace.metadata.items():
            if name in OF_ONE_TRACE:
                continue
            values = self._counts.setdefault(name, {})
            if value not in values and len(values) >= MOST_VALUES:
                value = OTHERS
            values.setdefault(value, Counter())[what] += 1

    def values(self) -> dict[str, dict[str, dict[str, int]]]:
        """{name: {value: {"read": n, "kept": n}}}, the most frequent first."""
        return {name: _by_size(values) for name, values in sorted(self._counts.items())}


def _by_size(values: dict[str, Any]) -> dict[str, dict[str, int]]:
    ordered = sorted(values.items(), key=lambda item: (-item[1]["read"], item[0]))
    return {value: {"read": counts["read"], "kept": counts["kept"]} for value, counts in ordered}
