"""Read the keys of accepted traces, and the texts of problems to compare, from files of decisions."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from targets.engine import Engine
from targets.select.dedupe import Pair, problem_text, search_near

if TYPE_CHECKING:
    import pyarrow as pa

PROBLEMS_PER_ITEM = 20_000
COMPARED_PER_ITEM = 4096  # problems of a group, each with all before it
Rows = tuple[Path, np.ndarray, np.ndarray]  # file of decisions, numbers of its accepted traces, their positions


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
    from targets.select.near_duplicates import minhash_bands

    (group,) = problems.groups
    positions, texts = group.tolist(), problems.texts
    return minhash_bands(len(positions), lambda number: texts[positions[number]], problems.threshold)


def find_pairs(problems: Problems, _: object) -> list[Pair]:
    """The near duplicates in groups of problems."""
    return list(search_near(problems.groups, problems.texts.__getitem__, problems.threshold, problems.bands))


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
