"""Files that are written in a stream: their row groups follow the rows, not how they were handed in."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from targets import output
from targets.output import ROWS_A_PORTION, Stream

SCHEMA = pa.schema([("text", pa.string())])


def groups(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        (10, [3 * ROWS_A_PORTION + 7]),
        (600, [2 * ROWS_A_PORTION, ROWS_A_PORTION + 7]),
        (2000, [ROWS_A_PORTION] * 3 + [7]),
    ],
    ids=["short", "longer", "long"],
)
def test_a_row_group_has_as_many_portions_as_fill_it(tmp_path: Path, monkeypatch, characters: int, expected: list[int]):
    monkeypatch.setattr(output, "BYTES_A_GROUP", 1 << 20)
    rows = [{"text": f"{number:06}" + "x" * characters} for number in range(3 * ROWS_A_PORTION + 7)]
    with Stream(tmp_path / "added", SCHEMA, {}) as stream:
        for row in rows:
            stream.add(row)
        stream.close()
    for size in (1, 100, 5000):
        with Stream(tmp_path / f"extended{size}", SCHEMA, {}) as stream:
            for start in range(0, len(rows), size):
                stream.extend(pa.Table.from_pylist(rows[start : start + size], schema=SCHEMA))
            stream.close()
        assert groups(tmp_path / f"extended{size}") == expected
    assert groups(tmp_path / "added") == expected
    assert pq.read_table(tmp_path / "added").to_pylist() == rows


def test_a_stream_without_rows_is_a_file_without_rows(tmp_path: Path):
    with Stream(tmp_path / "none", SCHEMA, {}) as stream:
        stream.close({"late": "known"})
    assert pq.read_table(tmp_path / "none").num_rows == 0
    assert pq.read_metadata(tmp_path / "none").metadata[b"late"] == b"known"
