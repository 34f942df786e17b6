"""A table in one or several files: which files are its own, and what is read of them."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.parquet import read_batches, read_shards, shard_path, shards


def write(path: Path, *values: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": list(values)}), path)
    return path


def test_a_folder_named_like_a_column_is_none(tmp_path: Path) -> None:
    table = tmp_path / "seed=3" / "train.parquet"
    for number in range(2):
        write(shard_path(table, number, 2), number)
    assert read_shards(table).to_pydict() == {"value": [0, 1]}
    write(table.with_name("one.parquet"), 5)
    assert read_shards(table.with_name("one.parquet")).to_pydict() == {"value": [5]}


def test_a_name_without_numbers_is_another_table(tmp_path: Path) -> None:
    whole = write(tmp_path / "train.parquet", 1)
    write(tmp_path / "train-first-of-three.parquet", 2)
    assert shards(whole) == [whole]


def test_a_table_with_damaged_values_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": [f"{number} {number**7}" for number in range(2000)]}), file, compression="zstd")
    content = bytearray(file.read_bytes())
    content[100:3000] = bytes(2900)  # of the values; the footer is whole
    file.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"{file}: not a readable parquet file (")):
        read_shards(file)
    with pytest.raises(InputError, match=re.escape(f"{file}: not a readable parquet file (")):
        list(read_batches(file, 100))
    with pytest.raises(InputError, match=r"absent\.parquet: no such file; copy or write"):
        read_shards(tmp_path / "absent.parquet")
