"""Rows of parquet files in batches that bound memory: sizes are looked at before texts are made."""

from collections.abc import Iterator, Sequence
from typing import Any

from core.errors import InputError, first_line
from core.parquet.batches import bounded_batches, open_parquet, text_bytes
from targets.read.json_rows import LARGEST_ROW, Row
from targets.trace import Rejection


def open_file(file: Any) -> Any:
    """The `pyarrow.parquet.ParquetFile` of a `DataFile`; InputError if it is none."""
    return open_parquet(file.filesystem.open(file.path, "rb"), f"source {file.path}")


def parquet_rows(file: Any, columns: Sequence[str], groups: Sequence[int] | None) -> Iterator[tuple[int, Row]]:
    """(number, row) of the rows in row ``groups`` (None: all), with only ``columns``.

    Raises InputError for a damaged file and for a row group whose columns are too large to be read.
    """
    import pyarrow as pa

    where, metadata = f"source {file.path}", open_file(file).metadata
    chosen = range(metadata.num_row_groups) if groups is None else groups
    number = sum(metadata.row_group(group).num_rows for group in range(chosen[0] if chosen else 0))
    for group in chosen:
        first, rows = number, metadata.row_group(group).num_rows
        try:
            with file.filesystem.open(file.path, "rb") as stream:
                for batch in bounded_batches(stream, metadata, group, columns, where):
                    for row in batch_rows(batch):
                        yield number, row
                        number += 1
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{where}: damaged after row {number}: {first_line(error)}") from error
        if number - first != rows:
            raise InputError(
                f"{where}: row group {group} has {number - first:,} rows where its footer says {rows:,}: the file is "
                "damaged; copy or write it again"
            )


def batch_rows(batch: Any) -> Iterator[Row]:
    """Rows of a RecordBatch or Table, some at a time; one that is too large or not UTF-8 becomes a `Rejection`."""
    size = sum(map(text_bytes, batch.columns))
    if size > LARGEST_ROW:
        if batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from batch_rows(batch.slice(0, half))
            yield from batch_rows(batch.slice(half))
        else:
            yield Rejection("too_large", f"a row of {size:,} bytes (limit {LARGEST_ROW:,})")
        return
    try:
        yield from batch.to_pylist()
        return
    except (UnicodeDecodeError, ValueError, OverflowError) as error:
        if batch.num_rows == 1:
            yield _unreadable(error)
            return
    for index in range(batch.num_rows):  # one row spoils the whole batch: find it
        yield from batch_rows(batch.slice(index, 1))


def _unreadable(error: Exception) -> Rejection:
    if isinstance(error, UnicodeDecodeError):
        return Rejection("bad_text", f"not UTF-8: {error.reason} at byte {error.start}")
    return Rejection("wrong_type", f"a value that Python cannot hold: {first_line(error)}")
