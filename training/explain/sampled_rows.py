"""The rows of a training set that are looked at before a training."""

import random
from pathlib import Path
from typing import Any

from core.parquet import count_rows, read_batches
from core.schemas import TARGET

PROMPTS = 20
ROWS_PER_READ = 256


def sample_rows(targets: Path) -> list[dict[str, Any]]:
    """Those of `PROMPTS` rows of a table of targets, always the same ones, that have a target."""
    count = count_rows(targets)
    chosen = sorted(random.Random(0).sample(range(count), min(PROMPTS, count)))
    rows, start = [], 0
    for batch in read_batches(targets, ROWS_PER_READ, TARGET.names):
        if within := [row - start for row in chosen if start <= row < start + batch.num_rows]:
            rows += batch.take(within).to_pylist()
        start += batch.num_rows
    return [row for row in rows if row["target"]]
