"""What the tests of preparation share: to prepare a small source, and to read what came out."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from training.targets.config import build_config
from training.targets.prepare import Prepared, prepare


def rows(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist()


def run(
    source: Path | str,
    out: Path,
    tokenizer: Path,
    *,
    benchmarks: Any = None,
    cache: Path | None = None,
    **settings: Any,
) -> Prepared:
    config = build_config({"source": str(source), "workers": 1, **settings})
    return prepare(config, out, tokenizer_json=tokenizer, benchmarks=benchmarks, cache=cache)
