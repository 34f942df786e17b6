"""The rows of a training set that are looked at before a training."""

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

PROMPTS = 20


def sample_rows(targets: Path) -> list[dict[str, Any]]:
    """`PROMPTS` rows of a file of targets, always the same ones."""
    file = pq.ParquetFile(targets)
    chosen = sorted(random.Random(0).sample(range(file.metadata.num_rows), min(PROMPTS, file.metadata.num_rows)))
    rows, start = [], 0
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if within := [row - start for row in chosen if start <= row < start + count]:
            rows += file.read_row_group(group).take(within).to_pylist()
        start += count
    return rows
