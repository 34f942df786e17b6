"""Limit the share of each source in the targets: by its cap, and by its weight beside the other sources.

Targets are only left out, never repeated. Which ones stay is drawn by a hash of their ids, so that the draw is the same
in any order of work, and more rows of one source move few targets of another.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from targets.config import PrepareConfig
from targets.source import Source
from targets.trace import Rejection, Trace


class SourceCaps:
    """Collects accepted traces (`add`), draws among those that are no duplicates (`draw`), and says which are left out.

    Positions are those of the accepted traces in order, from 0. Ten bytes of memory per trace, none where no source has
    a cap or a weight.
    """

    def __init__(self, config: PrepareConfig) -> None:
        self._seed, self._sources = config.seed, config.sources
        self._limited = any(source.cap or source.weight for source in self._sources)
        self._owners, self._ranks = array("H"), array("Q")
        self._excess: list[int] = []

    def add(self, traces: Iterable[Trace], number: int) -> None:
        """Collect accepted traces of the source with this number."""
        for trace in traces if self._limited else ():
            self._owners.append(number)
            self._ranks.append(rank(f"{self._seed}/mixture/{trace.id}"))

    def draw(self, duplicates: Iterable[int]) -> None:
        """Choose among the traces whose positions are not in ``duplicates``."""
        import numpy as np

        if not self._limited:
            return
        left = np.ones(len(self._owners), bool)
        left[np.fromiter(duplicates, np.int64)] = False
        owners, ranks = np.asarray(self._owners), np.asarray(self._ranks)
        positions = [np.flatnonzero(left & (owners == number)) for number in range(len(self._sources))]
        for own, quota in zip(positions, quotas([len(own) for own in positions], self._sources), strict=True):
            self._excess += own[np.argsort(ranks[own], kind="stable")][quota:].tolist()
        self._excess.sort()

    def rejections(self) -> Iterator[tuple[int, Rejection]]:
        """(position, why it goes) of every trace over the cap or the weight of its source, by position."""
        for position in self._excess:
            source = self._sources[self._owners[position]]
            limits = {"cap": source.cap, "weight": source.weight}
            detail = ", ".join(f"{name} {value:g}" for name, value in limits.items() if value is not None)
            yield position, Rejection("over_source_cap", f"not drawn from {source.path} ({detail})")


def quotas(available: Sequence[int], sources: Sequence[Source]) -> list[int]:
    """The number of targets from each source, of ``available`` ones.

    Sources with a weight w share as w / sum(w); the one that runs out first decides how many that is. A source without
    targets leaves its share to the others.

    >>> quotas([30, 20, 7], [Source(path="a", weight=3), Source(path="b", weight=1), Source(path="c", cap=5)])
    [30, 10, 5]
    """
    counts = [min(count, source.cap or count) for count, source in zip(available, sources, strict=True)]
    weights = [Fraction(str(source.weight)) if source.weight else None for source in sources]
    scales = [count / weight for count, weight in zip(counts, weights, strict=True) if weight and count]
    return [int(min(scales) * w) if w and count else count for count, w in zip(counts, weights, strict=True)]


def rank(text: str) -> int:
    """A number of 64 bits by which texts are drawn."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
