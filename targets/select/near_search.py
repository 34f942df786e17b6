"""Read the keys of accepted traces, and the texts of problems that may be near duplicates, from files of decisions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from targets.engines.tasks import Engine, Tools
from targets.select.dedupe import Pair, problem_text, search_near

if TYPE_CHECKING:
    import pyarrow as pa

PROBLEMS_PER_TASK = 20_000


def read_accepted(path: Path, columns: Sequence[str], unread: set[str]) -> "pa.Table":
    """``columns`` of the accepted traces of a file of decisions; the ids of all its traces leave ``unread``."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path, pre_buffer=False).read(list(columns), use_threads=False)
    if unread:
        unread.difference_update(table["id"].to_pylist())
    return table.filter(table["spelling_key"].is_valid())


class Places:
    """Where the traces are that a `targets.select.selection.Selection` has collected."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def search(
        self, groups: Sequence[np.ndarray], left: Callable[[], Sequence[np.ndarray]], threshold: float, engine: Engine
    ) -> Iterator[Pair]:
        """The near duplicates in ``groups`` of positions; ``left``: the accepted traces of each file that have one."""
        if not groups:
            return
        places = left()
        begins = np.cumsum([0, *map(len, places)])
        tasks, some, count = [], [], 0
        for group in groups:
            some.append(group)
            count += len(group)
            if count >= PROBLEMS_PER_TASK:
                tasks.append(self._task(some, places, begins, threshold))
                some, count = [], 0
        tasks += [self._task(some, places, begins, threshold)] if some else []
        for pairs in engine.run(tasks, sum(map(len, groups))):
            yield from pairs

    def _task(
        self, groups: list[np.ndarray], places: Sequence[np.ndarray], begins: np.ndarray, threshold: float
    ) -> "SearchNear":
        positions = np.sort(np.concatenate(groups))
        files = np.searchsorted(begins, positions, side="right") - 1
        rows = []
        for number in np.unique(files).tolist():
            own = positions[files == number]
            rows.append((self._paths[number], places[number][own - begins[number]], own))
        return SearchNear(groups, rows, threshold)


@dataclass(frozen=True)
class SearchNear:
    """The task to search ``groups`` of problems, which are the accepted traces ``rows`` (file, numbers, positions)."""

    groups: Sequence[np.ndarray]
    rows: Sequence[tuple[Path, np.ndarray, np.ndarray]]
    threshold: float

    def __call__(self, tools: Tools) -> list[Pair]:
        texts: dict[int, str] = {}
        for path, numbers, positions in self.rows:
            problems = read_accepted(path, ["problem", "spelling_key"], set())["problem"].take(numbers)
            texts.update(zip(positions.tolist(), map(problem_text, problems.to_pylist()), strict=True))
        return list(search_near(self.groups, texts.__getitem__, self.threshold))

    def __str__(self) -> str:
        return "compared problems"
