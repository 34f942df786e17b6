"""The rows of a training set that are looked at before a training."""

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from core.parquet import count_rows, shards
from core.schemas import TARGET

PROMPTS = 20


def sample_rows(targets: Path) -> list[dict[str, Any]]:
    """Return those of `PROMPTS` rows of a table of targets, always the same ones, that have a target.

    Only the row groups with these rows are read, because a training set may have millions of rows.
    """
    count = count_rows(targets)
    chosen = sorted(random.Random(0).sample(range(count), min(PROMPTS, count)))
    rows, start = [], 0
    for file in map(pq.ParquetFile, shards(targets)):
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            if within := [row - start for row in chosen if start <= row < end]:
                rows += file.read_row_group(group, TARGET.names).take(within).to_pylist()
            start = end
    return [row for row in rows if row["target"]]
