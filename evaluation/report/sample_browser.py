"""Show the graded samples of an evaluation on one page for people."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from core.browser.page import Page, Row, write_page
from core.schemas import TURNS

FACETS = ("verdict", "benchmark", "subject", "finish reason")


def browse(results: Mapping[str, pa.Table], out: Path) -> int:
    """Write the page of GRADED tables, by benchmark, to ``out``; returns the number of rows on it."""
    count = sum(table.num_rows for table in results.values())
    summary = {name: f"{table.num_rows:,} samples" for name, table in results.items()}
    return write_page(Page("Samples", FACETS, summary), _rows(results), count, out)


def _rows(results: Mapping[str, pa.Table]) -> Iterator[Row]:
    for name, table in results.items():
        for batch in table.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                yield Row(
                    id=f"{name}/{row['id']}/{row['sample']}",
                    facets=(row["verdict"], name, row["subject"] or "", row["finish_reason"]),
                    problem=row["prompt"],
                    gold=row["gold"],
                    response=row["response"],
                    length=len(row["response"]),
                    turns=[(turn["role"], turn["content"]) for turn in row.get(TURNS.name) or ()],
                    notes={
                        "tokens": f"{row['tokens']:,}",
                        "score": f"{row['score']:g}",
                        "extracted": row["extracted"] or "",
                        "why": row["reason"] or "",
                    },
                )
