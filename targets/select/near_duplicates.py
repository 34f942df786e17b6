"""Find near duplicates among problems that already agree in all that is compared exactly (`dedupe.describe`).

A pair is near if its edit similarity reaches the threshold. To compare all pairs takes quadratic time, so in a large
group two filters come first. MinHash gives each problem `BANDS` keys; near problems share one of them, unrelated ones
hardly ever do. Then the letters are counted: every insertion or deletion changes one count by one, so that texts cannot
be near if their counts differ more than the threshold allows. The second filter never loses a pair, and the first loses
one in a thousand of the pairs with the most unfavourable spread of edits.

`rensa.RMinHashLSH` would keep every signature: 5 KB per problem, where the keys take 0.5 KB.

The texts are read from the files of decisions, by the processes that compare them.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from targets.engine import Engine
from targets.files import moved_rows
from targets.select.dedupe import Pair, minhash_of, problem_text

if TYPE_CHECKING:
    import pyarrow as pa

SHINGLE = 3  # characters
BANDS = 128
MOST_ROWS = 16  # MinHash values of a band
MISSED = 1e-3  # of the pairs whose shingles are as little alike as the threshold allows
COMPARED_DIRECTLY = 64  # problems; in a group that is not larger, all pairs are compared
ROUNDING = 1e-6  # edits
LETTERS = 32  # counts of a text; characters that are equal modulo 32 share one
SEED = 0x9E3779B97F4A7C15  # odd; the values of a band are hashed as a polynomial in it modulo 2**64
PROBLEMS_PER_ITEM = 20_000

Rows = tuple[Path, np.ndarray, np.ndarray]  # file of decisions, numbers of its accepted traces, their positions


def near_duplicates(texts: Sequence[str], threshold: float) -> Iterator[tuple[int, int, float]]:
    """(number, number of the earliest text that it repeats, similarity in percent) of each repeated text.

    The earliest one repeats no text itself. ``threshold``: the least similarity in percent (``rapidfuzz.fuzz.ratio``).
    """
    from rapidfuzz import fuzz

    bands = band_rows(threshold) if len(texts) > COMPARED_DIRECTLY else 0
    groups = shared_bands(texts, bands) if bands else np.zeros((len(texts), 1), np.int64)  # or all share the only one
    distinct: defaultdict[int, list[int]] = defaultdict(list)  # the texts that repeat none, by group
    lengths, letters = np.zeros(len(texts), np.int32), np.zeros((len(texts), LETTERS), np.uint16)
    for number, text in enumerate(texts):
        lengths[number], letters[number] = len(text), _letters(text)
        own = groups[number][groups[number] >= 0].tolist()
        others = np.unique(np.concatenate([np.array(distinct[group], np.int32) for group in own] or [[]])).astype(int)
        edits = np.abs(letters[others].astype(np.int32) - letters[number]).sum(axis=1)  # at least
        allowed = (1 - threshold / 100) * (lengths[others] + lengths[number])
        for other in others[edits <= allowed + ROUNDING].tolist():
            if similarity := fuzz.ratio(text, texts[other], score_cutoff=threshold):
                yield number, other, similarity
                break
        else:
            for group in own:
                distinct[group].append(number)


def band_rows(threshold: float) -> int:
    """The MinHash values in each band: the most with which no more than `MISSED` of the pairs share none.

    Two texts with Jaccard similarity s share a band of r values with probability s^r. They are least alike for their
    similarity in percent if their edits are replaced characters that lie far apart: each changes `SHINGLE` shingles of
    both texts. 0: no number is small enough.

    >>> band_rows(95), band_rows(90), band_rows(60)
    (9, 4, 0)
    """
    shared = 1 - MISSED ** (1 / BANDS)  # the least probability of sharing one band
    changed = SHINGLE * (1 - threshold / 100)
    alike = max(0.0, (1 - changed) / (1 + changed))
    if alike in (0, 1):
        return MOST_ROWS * int(alike)
    return min(MOST_ROWS, int(math.log(shared) / math.log(alike)))


def shared_bands(texts: Sequence[str], rows: int) -> np.ndarray:
    """For each band of each text's MinHash the number of the group of texts that share it; -1: no other text does.

    Shape (texts, `BANDS`). ``rows``: MinHash values of a band.
    """
    powers = np.array([pow(SEED, power, 1 << 64) for power in range(1, rows + 1)], np.uint64)
    groups = np.empty((len(texts), BANDS), np.int32)
    for number, text in enumerate(texts):
        shingles = [text[i : i + SHINGLE] for i in range(max(1, len(text) - SHINGLE + 1))]
        values = np.array(minhash_of(shingles, BANDS * rows), np.uint64).reshape(BANDS, rows)
        groups[number] = (
            ((values * powers).sum(axis=1, dtype=np.uint64) >> np.uint64(32)).astype(np.uint32).view(np.int32)
        )
    before = 0  # groups of the bands before
    for band in range(BANDS):
        _, numbers, sizes = np.unique(groups[:, band], return_inverse=True, return_counts=True)
        shared = sizes > 1
        groups[:, band] = np.where(shared, before + np.cumsum(shared) - 1, -1)[numbers]
        before += int(shared.sum())
    return groups


def _letters(text: str) -> np.ndarray:
    """How often each letter occurs; shape (`LETTERS`,)."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) % LETTERS
    return np.minimum(np.bincount(codes, minlength=LETTERS), np.iinfo(np.uint16).max)


def read_accepted(path: Path, columns: Sequence[str], unread: set[str], moved: int = 0) -> "pa.Table":
    """``columns`` of the accepted traces of a file of decisions; the ids of all its traces leave ``unread``.

    ``moved``: see `targets.files.moved_rows`.
    """
    import pyarrow.parquet as pq

    more = ["source", "row"] if moved else []
    table = pq.ParquetFile(path, pre_buffer=False).read([*columns, *more], use_threads=False)
    table = moved_rows(table, moved)
    if unread:
        unread.difference_update(table["id"].to_pylist())
    return table.filter(table["spelling_key"].is_valid())


@dataclass(frozen=True)
class Problems:
    """Groups of problems, as the positions of their first traces, and where the traces are."""

    groups: Sequence[np.ndarray]
    rows: Sequence[Rows]
    threshold: float

    def __str__(self) -> str:
        return f"{sum(map(len, self.groups)):,} problems"

    def texts(self) -> dict[int, str]:
        """The `problem_text` of each trace, by its position."""
        texts: dict[int, str] = {}
        for path, numbers, positions in self.rows:
            problems = read_accepted(path, ["problem", "spelling_key"], set())["problem"].take(numbers)
            texts |= zip(positions.tolist(), map(problem_text, problems.to_pylist()), strict=True)
        return texts


def find_pairs(problems: Problems, _: object) -> list[Pair]:
    """The near duplicates in groups of problems."""
    return list(search_near(problems.groups, problems.texts(), problems.threshold))


def search_near(groups: Sequence[np.ndarray], texts: Mapping[int, str], threshold: float) -> Iterator[Pair]:
    """The near duplicates in each of ``groups`` of positions; ``texts``: by position."""
    for group in groups:
        own = [texts[position] for position in group.tolist()]
        for number, other, similarity in near_duplicates(own, threshold):
            yield int(group[number]), int(group[other]), similarity


@dataclass(frozen=True)
class NearSearch:
    """Searches the traces that a `targets.select.selection.Selection` has collected.

    ``left``: the numbers of the accepted traces of each of the files ``paths`` that have a position, in order.
    """

    threshold: float
    paths: Sequence[Path]
    left: Sequence[np.ndarray]
    engine: Engine

    def __call__(self, groups: Sequence[np.ndarray]) -> Iterator[Pair]:
        """The near duplicates in ``groups`` of positions."""
        items = [Problems(some, self._rows(some), self.threshold) for some in _batched(groups)]
        for pairs in self.engine.run(find_pairs, items, sum(map(len, groups))):
            yield from pairs

    @cached_property
    def _begins(self) -> np.ndarray:
        return np.cumsum([0, *map(len, self.left)])

    def _rows(self, groups: Sequence[np.ndarray]) -> list[Rows]:
        begins, positions = self._begins, np.unique(np.concatenate(groups))
        files = np.searchsorted(begins, positions, side="right") - 1
        of_file = [(number, positions[files == number]) for number in np.unique(files).tolist()]
        return [(self.paths[number], self.left[number][own - begins[number]], own) for number, own in of_file]


def _batched(groups: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    some: list[np.ndarray] = []
    for group in groups:
        some.append(group)
        if sum(map(len, some)) >= PROBLEMS_PER_ITEM:
            yield some
            some = []
    if some:
        yield some
