"""Read the keys of accepted traces, and the texts of problems to compare, from files of decisions."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from targets.engines.tasks import Engine, Tools
from targets.select.dedupe import Pair, problem_text, search_near
from targets.settings import TargetSettings

if TYPE_CHECKING:
    import pyarrow as pa

PROBLEMS_PER_TASK = 20_000
COMPARED_PER_TASK = 4096  # problems of a group, each with all before it
T = TypeVar("T")
Rows = tuple[Path, np.ndarray, np.ndarray]  # file of decisions, numbers of its accepted traces, their positions


def read_accepted(path: Path, columns: Sequence[str], unread: set[str]) -> "pa.Table":
    """``columns`` of the accepted traces of a file of decisions; the ids of all its traces leave ``unread``."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path, pre_buffer=False).read(list(columns), use_threads=False)
    if unread:
        unread.difference_update(table["id"].to_pylist())
    return table.filter(table["spelling_key"].is_valid())


@dataclass(frozen=True)
class Places:
    """Where the traces are that a `targets.select.selection.Selection` has collected.

    ``left``: the numbers of the accepted traces of each of the files ``paths`` that have a position, in order.
    """

    config: TargetSettings
    paths: Sequence[Path]
    left: Sequence[np.ndarray]
    engine: Engine

    def search(self, groups: Sequence[np.ndarray]) -> Iterator[Pair]:
        """The near duplicates in ``groups`` of positions."""
        threshold, bands = self.config.near_duplicate, self._bands_of_large(groups)
        tasks = [
            SearchNear(some, self._rows(some), threshold, [bands.get(number) for number in numbers])
            for numbers in _batched(range(len(groups)), [len(group) for group in groups])
            for some in [[groups[number] for number in numbers]]
        ]
        for pairs in self.engine.run(tasks, sum(map(len, groups))):
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
        """The MinHash of the problems of each group that is more than one task, by its number.

        It is most of the work of such a group, and the tasks share it, so that no process has all of it.
        """
        parts = [
            (number, group[start : start + COMPARED_PER_TASK])
            for number, group in enumerate(groups)
            if len(group) > COMPARED_PER_TASK
            for start in range(0, len(group), COMPARED_PER_TASK)
        ]
        tasks = [ComputeBands(part, self._rows([part]), self.config.near_duplicate) for _, part in parts]
        computed: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        for (number, _), bands in zip(parts, self.engine.run(tasks, sum(len(part) for _, part in parts)), strict=True):
            computed[number].append(bands)
        return {number: np.concatenate(bands) for number, bands in computed.items()}


def _batched(items: Sequence[T], sizes: Sequence[int]) -> Iterator[list[T]]:
    """``items`` in lists of about `PROBLEMS_PER_TASK` problems."""
    some, count = [], 0
    for item, size in zip(items, sizes, strict=True):
        some.append(item)
        count += size
        if count >= PROBLEMS_PER_TASK:
            yield some
            some, count = [], 0
    if some:
        yield some


@dataclass(frozen=True)
class ComputeBands:
    """The task to compute the MinHash of the problems at ``positions``."""

    positions: np.ndarray
    rows: Sequence[Rows]
    threshold: float

    def __call__(self, tools: Tools) -> np.ndarray:
        from targets.select.near_duplicates import minhash_bands

        texts, positions = _texts(self.rows), self.positions.tolist()
        return minhash_bands(len(positions), lambda number: texts[positions[number]], self.threshold)

    def __str__(self) -> str:
        return "computed the MinHash of problems"


@dataclass(frozen=True)
class SearchNear:
    """The task to search ``groups`` of problems, which are the accepted traces ``rows`` (file, numbers, positions)."""

    groups: Sequence[np.ndarray]
    rows: Sequence[Rows]
    threshold: float
    bands: Sequence[np.ndarray | None]

    def __call__(self, tools: Tools) -> list[Pair]:
        return list(search_near(self.groups, _texts(self.rows).__getitem__, self.threshold, self.bands))

    def __str__(self) -> str:
        return "compared problems"


def _texts(rows: Sequence[Rows]) -> dict[int, str]:
    """The `problem_text` of the traces in ``rows``, by their positions."""
    texts: dict[int, str] = {}
    for path, numbers, positions in rows:
        problems = read_accepted(path, ["problem", "spelling_key"], set())["problem"].take(numbers)
        texts |= zip(positions.tolist(), map(problem_text, problems.to_pylist()), strict=True)
    return texts
