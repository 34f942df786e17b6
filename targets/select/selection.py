"""Select targets among the accepted traces: by the exclusions of settings and files, by duplicates, and by caps.

Caps limit the share of each source in the targets (by its cap, and by its relative weight), then the share of each
domain, then the tokens of all of them. Targets are only left out, never repeated. Which ones stay is drawn by a hash of
their ids, so that the draw is the same in any order of work, and more rows of one source move few targets of another.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from targets.select.dedupe import Duplicates, SearchPairs
from targets.select.exclusions import Exclusions
from targets.settings import TargetSettings
from targets.source_settings import Source
from targets.trace import Rejection

if TYPE_CHECKING:
    import pyarrow as pa

Limit = tuple[np.ndarray, Callable[[int], Rejection]]
KEPT, CHOSEN_AGAINST, REPEATED = 0, 1, 2  # outcomes of accepted traces; REPEATED: see `Outcome.reasons`


@dataclass(frozen=True)
class Outcome:
    """What becomes of the accepted traces of a piece, in order; of those that are `REPEATED`, why."""

    states: np.ndarray  # int8
    reasons: Sequence[Rejection]

    @property
    def kept(self) -> int:
        return int((self.states == KEPT).sum())


class Selection:
    """Collects the keys of pieces (`add`), decides among their traces (`decide`), and says what was decided.

    ``columns``: what is needed of the accepted traces (DECISION). ``problems_of_golds``: problems with different gold
    answers, once it has decided.
    """

    problems_of_golds = 0

    def __init__(self, exclusions: Exclusions, folder: Path) -> None:
        self._exclusions = exclusions
        self._duplicates, self._caps = Duplicates(exclusions.config, folder), SourceCaps(exclusions.config)
        self._states: list[np.ndarray] = []
        self.columns = [*self._duplicates.columns, "prompt_tokens", "target_tokens", "has_log_probs"]

    def add(self, keys: "pa.Table", source: int) -> None:
        """Collect the accepted traces of a piece of the source with this number, with their `columns`."""
        import pyarrow as pa

        against = self._exclusions.rejects(keys)
        self._states.append(np.where(against, CHOSEN_AGAINST, KEPT).astype(np.int8))
        left = keys.filter(pa.array(~against))
        self._duplicates.add(left)
        self._caps.add(left, source)

    def left(self) -> list[np.ndarray]:
        """The numbers of the accepted traces of each piece among which the positions count."""
        return [np.flatnonzero(states == KEPT) for states in self._states]

    def decide(self, search: SearchPairs) -> list[Outcome]:
        """Choose among the traces; the outcome of each piece.

        Args:
            search: finds the near duplicates in groups of problems, by the positions of their first traces among those
                that the exclusions leave.
        """
        repeated = self._duplicates.decide(search(self._duplicates.find_problems()))
        self.problems_of_golds, reasons = repeated.problems_of_golds, repeated.reasons
        excess = self._caps.draw(repeated.positions)
        over = list(excess)
        positions = np.concatenate([repeated.positions, np.array(over, np.int64)])
        order = np.argsort(positions, kind="stable")
        positions = positions[order]
        outcomes, begin, first = [], 0, 0
        for states in self._states:
            left = np.flatnonzero(states == KEPT)
            last = int(np.searchsorted(positions, begin + len(left)))
            states[left[positions[first:last] - begin]] = REPEATED
            why = [
                Rejection(reasons[n], repeated.details[n].as_py(), repeated.kept[n].as_py())
                if n < len(reasons)
                else excess[over[n - len(reasons)]]
                for n in order[first:last].tolist()
            ]
            outcomes.append(Outcome(states, why))
            begin, first = begin + len(left), last
        return outcomes


class SourceCaps:
    """Collects accepted traces (`add`), and draws among those that are no duplicates (`draw`).

    Positions count the accepted traces in order, from 0. Fourteen bytes of memory per trace, none where nothing
    is limited.
    """

    def __init__(self, config: TargetSettings) -> None:
        self._config, self._sources = config, config.sources
        self._limited = bool(config.domain_caps or config.token_budget)
        self._limited |= any(source.cap or source.weight for source in self._sources)
        self._owners, self._ranks, self._tokens = array("H"), array("Q"), array("I")

    def add(self, keys: "pa.Table", number: int) -> None:
        """Collect accepted traces of the source with this number."""
        if self._limited:
            self._owners.extend([number] * len(keys))
            self._ranks.extend(rank(f"{self._config.seed}/mixture/{name}") for name in keys["id"].to_pylist())
            self._tokens.extend(keys["target_tokens"].to_pylist())

    def draw(self, duplicates: np.ndarray) -> dict[int, Rejection]:
        """Why each trace goes that is over a limit; the traces at the positions ``duplicates`` are not among them."""
        goes: dict[int, Rejection] = {}
        if not self._limited:
            return goes
        order = np.argsort(np.asarray(self._ranks), kind="stable")
        left = np.ones(len(order), bool)
        left[duplicates] = False
        owners = np.asarray(self._owners)
        for over, why in self._limits(owners, order, left):
            positions = over[left[over]]
            left[positions] = False
            goes |= {position: why(position) for position in positions.tolist()}
        return goes

    def _limits(self, owners: np.ndarray, order: np.ndarray, left: np.ndarray) -> Iterator[Limit]:
        """The positions over each limit, and why they go; ``left``: the traces that the limits before have left."""
        drawn = order[left[order]]  # the first ones stay
        of_source = [drawn[owners[drawn] == number] for number in range(len(self._sources))]
        for own, quota in zip(of_source, quotas([len(own) for own in of_source], self._sources), strict=True):
            yield own[quota:], lambda position: Rejection("over_source_cap", self._source_limits(owners[position]))
        for domain, cap in self._config.domain_caps.items():
            numbers = [number for number, source in enumerate(self._sources) if source.ability == domain]
            drawn = order[left[order] & np.isin(owners[order], numbers)]
            rejection = Rejection("over_domain_cap", f"not among the {cap:,} targets of {domain}")
            yield drawn[cap:], lambda _, rejection=rejection: rejection
        if self._config.token_budget:
            drawn = order[left[order]]
            tokens = np.cumsum(np.asarray(self._tokens)[drawn], dtype=np.int64)
            rejection = Rejection(
                "over_token_budget", f"not among the targets drawn ({self._config.token_budget:,} tokens)"
            )
            yield drawn[tokens > self._config.token_budget], lambda _: rejection

    def _source_limits(self, number: int) -> str:
        source = self._sources[number]
        limits = {"cap": source.cap, "weight": source.weight}
        detail = ", ".join(f"{name} {value:g}" for name, value in limits.items() if value is not None)
        return f"not drawn from {source.path} ({detail})"


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
