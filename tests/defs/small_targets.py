"""A few targets: the steps that make them, small settings, and traces in a file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

INPUTS = ("models/base", "benchmarks/suite")
TARGETS = ("targets/prepared", "targets/rejected", "targets/train")
OWN = {"benchmarks__limit": "20"}  # with sources of the test's
SMALL = {"targets__embedded_rows": "300", **OWN}


def good_row(k: int) -> dict[str, str]:
    return {
        "problem": f"{k}+{k}=?",
        "answer": str(2 * k),
        "response": f"<think>\nTwice {k} is {2 * k}.\n</think>\n\nIt is \\boxed{{{2 * k}}}.",
    }


def write_rows(path: Path, rows: list[dict[str, str]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)
