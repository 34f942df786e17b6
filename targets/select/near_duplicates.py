"""Find near duplicates among problems that already agree in all that is compared exactly (`dedupe.describe`).

A pair is near if its edit similarity reaches the threshold. To compare all pairs takes quadratic time, so in a large
group two filters come first. MinHash gives each problem `BANDS` keys; near problems share one of them, unrelated ones
hardly ever do. Then the letters are counted: every insertion or deletion changes one count by one, so that texts whose
counts differ more than the threshold allows cannot be near. The second filter never loses a pair, and the first loses
one in a thousand of those whose edits are spread as unfavourably as they can be.

`rensa.RMinHashLSH` would keep every signature: 5 KB per problem, where the keys take 0.5 KB.

The texts are read from the files of decisions, by the processes that compare them.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from targets.engine import Engine
from targets.select.dedupe import Pair, problem_text

if TYPE_CHECKING:
    import pyarrow as pa

SHINGLE = 3  # characters
BANDS = 128
MOST_ROWS = 16  # MinHash values of a band
MISSED = 1e-3  # of the pairs whose shingles are `least_jaccard` alike
COMPARED_DIRECTLY = 64  # problems; in a group that is not larger, all pairs are compared
ROUNDING = 1e-6  # edits
LETTERS = 32  # counts of a text; characters that are equal modulo 32 share one
PROBLEMS_AT_ONCE = 1024
SEED = 0x9E3779B97F4A7C15  # odd; the values of a band are hashed as a polynomial in it modulo 2**64

PROBLEMS_PER_ITEM = 20_000
COMPARED_PER_ITEM = 4096  # problems of a group, each with all before it

Text = Callable[[int], str]
Rows = tuple[Path, np.ndarray, np.ndarray]  # file of decisions, numbers of its accepted traces, their positions


def near_duplicates(
    count: int, text: Text, threshold: float, bands: np.ndarray | None = None
) -> Iterator[tuple[int, int, float]]:
    """(position, position of the earliest problem that it repeats, similarity in percent) of each repeated problem.

    The earliest one repeats no problem itself.

    Args:
        count: of the problems of the group.
        text: of the problem at a position from 0.
        threshold: the least similarity in percent (``rapidfuzz.fuzz.ratio``).
        bands: `minhash_bands` of the problems, if they have been computed.
    """
    from rapidfuzz import fuzz

    if bands is None and count > COMPARED_DIRECTLY:
        bands = minhash_bands(count, text, threshold)
    candidates = _BandCandidates(_groups(bands)) if bands is not None and len(bands) else _AllCandidates()
    lengths, letters = np.zeros(count, np.int32), np.zeros((count, LETTERS), np.uint16)
    for position in range(count):
        problem = text(position)
        lengths[position], letters[position] = len(problem), _letters(problem)
        others = candidates.of(position)
        if len(others):
            edits = np.abs(letters[others].astype(np.int32) - letters[position]).sum(axis=1)  # at least
            allowed = (1 - threshold / 100) * (lengths[others] + lengths[position])
            others = others[edits <= allowed + ROUNDING]
        for other in others.tolist():
            if similarity := fuzz.ratio(problem, text(other), score_cutoff=threshold):
                yield position, other, similarity
                break
        else:
            candidates.add(position)


def least_jaccard(threshold: float) -> float:
    """The Jaccard similarity of the shingles of two texts that are ``threshold`` percent similar, if their edits are
    replaced characters that lie far apart.

    Each changes `SHINGLE` shingles of both texts. Edits in one place, such as a replaced word, change fewer.
    """
    changed = SHINGLE * (1 - threshold / 100)
    return max(0.0, (1 - changed) / (1 + changed))


def band_rows(threshold: float) -> int:
    """The MinHash values in each band: the most with which no more than `MISSED` of the pairs share none.

    Two texts with Jaccard similarity s share a band of r values with probability s^r. 0: no number is small enough.

    >>> band_rows(95), band_rows(90), band_rows(60)
    (9, 4, 0)
    """
    shared = 1 - MISSED ** (1 / BANDS)  # the least probability of sharing one band
    alike = least_jaccard(threshold)
    if alike in (0, 1):
        return MOST_ROWS * int(alike)
    return min(MOST_ROWS, int(math.log(shared) / math.log(alike)))


class _AllCandidates:
    """The problems that repeat none, in order."""

    def __init__(self) -> None:
        self._distinct = array("i")

    def of(self, position: int) -> np.ndarray:
        return np.array(self._distinct, np.int32)

    def add(self, position: int) -> None:
        self._distinct.append(position)


class _BandCandidates:
    """The problems that repeat none, by the groups that share a band. ``groups``: see `_groups`."""

    def __init__(self, groups: np.ndarray) -> None:
        self._groups = groups
        self._members: defaultdict[int, array[int]] = defaultdict(lambda: array("i"))

    def _groups_of(self, position: int) -> list[int]:
        groups = self._groups[position]
        return groups[groups >= 0].tolist()

    def of(self, position: int) -> np.ndarray:
        """The candidates before ``position``, ascending."""
        members = [self._members[group] for group in self._groups_of(position) if group in self._members]
        if not members:
            return np.empty(0, np.int32)
        return np.unique(np.concatenate([np.array(of, np.int32) for of in members]))

    def add(self, position: int) -> None:
        for group in self._groups_of(position):
            self._members[group].append(position)


def minhash_bands(count: int, text: Text, threshold: float) -> np.ndarray:
    """A key of each band of each problem's MinHash; shape (count, `BANDS`), uint32.

    Empty where bands would lose pairs of that similarity.
    """
    rows = band_rows(threshold)
    if not rows:
        return np.empty((0, BANDS), np.uint32)
    bands = np.empty((count, BANDS), np.uint32)
    powers = np.array([pow(SEED, power, 1 << 64) for power in range(1, rows + 1)], np.uint64)
    positions = iter(range(count))
    while some := list(islice(positions, PROBLEMS_AT_ONCE)):
        values = np.array([_minhash(text(position), BANDS * rows) for position in some], np.uint64)
        keys = (values.reshape(len(some), BANDS, rows) * powers).sum(axis=2, dtype=np.uint64)
        bands[some] = keys >> np.uint64(32)
    return bands


def _groups(bands: np.ndarray) -> np.ndarray:
    """The number of the group of problems that share a key, in the place of the key; -1 for a key of one problem.

    >>> _groups(np.array([[7, 1], [8, 1], [7, 2]], np.uint32)).tolist()
    [[0, 1], [-1, 1], [0, -1]]
    """
    groups = bands.view(np.int32)
    before = 0  # groups of the bands before
    for band in range(bands.shape[1]):
        _, numbers, sizes = np.unique(bands[:, band], return_inverse=True, return_counts=True)
        shared = sizes > 1
        of_key = np.where(shared, before + np.cumsum(shared) - 1, -1)
        groups[:, band] = of_key[numbers]
        before += int(shared.sum())
    return groups


def _minhash(text: str, values: int) -> list[int]:
    from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]  # a compiled module without stubs

    minhash = RMinHash(num_perm=values, seed=0)
    minhash.update([text[i : i + SHINGLE] for i in range(max(1, len(text) - SHINGLE + 1))])
    return minhash.digest()


def _letters(text: str) -> np.ndarray:
    """How often each letter occurs; shape (`LETTERS`,)."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) % LETTERS
    return np.minimum(np.bincount(codes, minlength=LETTERS), np.iinfo(np.uint16).max)


def read_accepted(path: Path, columns: Sequence[str], unread: set[str]) -> "pa.Table":
    """``columns`` of the accepted traces of a file of decisions; the ids of all its traces leave ``unread``."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path, pre_buffer=False).read(list(columns), use_threads=False)
    if unread:
        unread.difference_update(table["id"].to_pylist())
    return table.filter(table["spelling_key"].is_valid())


@dataclass(frozen=True)
class Problems:
    """Groups of problems, as the positions of their first traces, and where the traces are.

    ``bands``: the MinHash of each group that is more than one item of work, else None.
    """

    groups: Sequence[np.ndarray]
    rows: Sequence[Rows]
    threshold: float
    bands: Sequence[np.ndarray | None] = ()

    def __str__(self) -> str:
        return f"{sum(map(len, self.groups)):,} problems"

    @cached_property
    def texts(self) -> dict[int, str]:
        """The `problem_text` of each trace, by its position."""
        texts: dict[int, str] = {}
        for path, numbers, positions in self.rows:
            problems = read_accepted(path, ["problem", "spelling_key"], set())["problem"].take(numbers)
            texts |= zip(positions.tolist(), map(problem_text, problems.to_pylist()), strict=True)
        return texts


def compute_bands(problems: Problems, _: object) -> np.ndarray:
    """The MinHash of the problems of one group."""
    (group,) = problems.groups
    positions, texts = group.tolist(), problems.texts
    return minhash_bands(len(positions), lambda number: texts[positions[number]], problems.threshold)


def find_pairs(problems: Problems, _: object) -> list[Pair]:
    """The near duplicates in groups of problems."""
    return list(search_near(problems.groups, problems.texts, problems.threshold, problems.bands))


def search_near(
    groups: Sequence[np.ndarray],
    texts: Mapping[int, str],
    threshold: float,
    bands: Sequence[np.ndarray | None] | None = None,
) -> Iterator[Pair]:
    """The near duplicates among problems that already agree in all that is compared exactly.

    ``texts``: by position; ``bands``: of each group its `minhash_bands`, or None.
    """
    for group, computed in zip(groups, bands or [None] * len(groups), strict=True):
        own = [texts[position] for position in group.tolist()]
        for position, other, similarity in near_duplicates(len(own), own.__getitem__, threshold, computed):
            yield int(group[position]), int(group[other]), similarity


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
        bands = self._bands_of_large(groups)
        items = []
        for numbers in _batched([len(group) for group in groups]):
            some = [groups[number] for number in numbers]
            items.append(Problems(some, self._rows(some), self.threshold, [bands.get(number) for number in numbers]))
        for pairs in self.engine.run(find_pairs, items, sum(map(len, groups))):
            yield from pairs

    @cached_property
    def _begins(self) -> np.ndarray:
        """The first position of each file."""
        return np.cumsum([0, *map(len, self.left)])

    def _rows(self, groups: Sequence[np.ndarray]) -> list[Rows]:
        """Where the traces at the positions of some groups are."""
        begins, positions = self._begins, np.unique(np.concatenate(groups))
        files = np.searchsorted(begins, positions, side="right") - 1
        of_file = [(number, positions[files == number]) for number in np.unique(files).tolist()]
        return [(self.paths[number], self.left[number][own - begins[number]], own) for number, own in of_file]

    def _bands_of_large(self, groups: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """The MinHash of the problems of each group that is more than one item, by its number.

        It is most of the work of such a group, and the items share it, so that no process has all of it.
        """
        parts = [
            (number, group[start : start + COMPARED_PER_ITEM])
            for number, group in enumerate(groups)
            if len(group) > COMPARED_PER_ITEM
            for start in range(0, len(group), COMPARED_PER_ITEM)
        ]
        items = [Problems([part], self._rows([part]), self.threshold) for _, part in parts]
        computed: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        rows = sum(len(part) for _, part in parts)
        for (number, _), bands in zip(parts, self.engine.run(compute_bands, items, rows), strict=True):
            computed[number].append(bands)
        return {number: np.concatenate(bands) for number, bands in computed.items()}


def _batched(sizes: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of groups of these ``sizes``, in lists of about `PROBLEMS_PER_ITEM` problems."""
    some, count = [], 0
    for number, size in enumerate(sizes):
        some.append(number)
        count += size
        if count >= PROBLEMS_PER_ITEM:
            yield some
            some, count = [], 0
    if some:
        yield some
