"""The parquet files of targets: their row groups follow the rows, and a cache file has the fields of a trace."""

from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.schemas import DECISION
from targets import files as module
from targets.files import ROWS_PER_TABLE, TableWriter
from targets.trace import Trace

SCHEMA = pa.schema([("text", pa.string())])


def groups(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        (10, [3 * ROWS_PER_TABLE + 7]),
        (600, [2 * ROWS_PER_TABLE, ROWS_PER_TABLE + 7]),
        (2000, [ROWS_PER_TABLE] * 3 + [7]),
    ],
    ids=["short", "longer", "long"],
)
def test_a_row_group_has_as_many_tables_as_fill_it(tmp_path: Path, monkeypatch, characters: int, expected: list[int]):
    monkeypatch.setattr(module, "BYTES_PER_GROUP", 1 << 20)
    rows = [{"text": f"{number:06}" + "x" * characters} for number in range(3 * ROWS_PER_TABLE + 7)]
    with TableWriter(tmp_path / "rows", SCHEMA, {}) as writer:
        for row in rows:
            writer.add(row)
        writer.close()
    assert groups(tmp_path / "rows") == expected
    assert pq.read_table(tmp_path / "rows").to_pylist() == rows


def test_a_cache_file_has_the_fields_of_a_trace(tmp_path: Path):
    trace = Trace(
        "a:0",
        "a",
        0,
        problem="p",
        metadata={"a": "b"},
        prompt=[{"role": "user", "content": "p"}],
        target_tokens=3,
        minhash=b"m",
    )
    assert set(DECISION.names) == {field.name for field in fields(Trace)} - {"system", "target_token_ids"}
    with TableWriter(tmp_path / "decisions", DECISION, {}) as writer:
        writer.add(trace.decision_row())
        writer.close()
    assert [Trace.from_decision(row) for row in pq.read_table(tmp_path / "decisions").to_pylist()] == [trace]
