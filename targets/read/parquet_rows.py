"""Rows of parquet files in batches that bound memory: sizes are looked at before texts are made.

A small file can hold any amount of text: a dictionary page stores a text once, however many rows repeat it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from core.errors import InputError
from targets.read.json_rows import CHUNK_BYTES, LARGEST_ROW, Row, first_line
from targets.trace import Rejection

ROWS_PER_READ = 256
LARGEST_COLUMN = 512 << 20  # bytes of one column in one row group
MOST_VALUES = 50_000_000  # in one column of one row group; one row may hold all of them
READ_BYTES = 256 << 20  # that the rows of one read may take
SMALL_BYTES = 64 << 20  # that may be kept in memory for a whole row group
VALUE_BYTES = 16  # that a value takes beside its text


def open_parquet(file: Any) -> Any:
    """The `pyarrow.parquet.ParquetFile` of a `DataFile`; InputError if it is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Buffering ahead would keep what has been read until the file ends.
        return pq.ParquetFile(file.filesystem.open(file.path, "rb"), pre_buffer=False, buffer_size=CHUNK_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"source {file.path}: not a readable parquet file: {first_line(error)}") from error


def parquet_rows(file: Any, columns: Sequence[str], groups: Sequence[int] | None) -> Iterator[tuple[int, Row]]:
    """(number, row) of the rows in row ``groups`` (None: all), with only ``columns``.

    Raises InputError for a damaged file and for a row group whose columns are too large to be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = open_parquet(file).metadata
    chosen = range(metadata.num_row_groups) if groups is None else groups
    number = sum(metadata.row_group(group).num_rows for group in range(chosen[0] if chosen else 0))
    for group in chosen:
        try:
            with file.filesystem.open(file.path, "rb") as stream:
                repeated, rows = _plan(stream, metadata.row_group(group), group, columns, file.path)
                parquet = pq.ParquetFile(
                    stream, metadata=metadata, read_dictionary=repeated, pre_buffer=False, buffer_size=CHUNK_BYTES
                )
                for batch in parquet.iter_batches(rows, columns=list(columns), row_groups=[group]):
                    for row in batch_rows(batch):
                        yield number, row
                        number += 1
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"source {file.path}: damaged after row {number}: {first_line(error)}") from error


def _plan(stream: Any, row_group: Any, group: int, columns: Sequence[str], path: str) -> tuple[list[str], int]:
    """Which columns to read as dictionaries, and how many rows at a time, so that no read makes too much text."""
    repeated: list[str] = []
    bytes_per_row = 1
    for index in range(row_group.num_columns):
        column = row_group.column(index)
        if column.path_in_schema.split(".")[0] not in columns:
            continue
        if column.total_uncompressed_size > LARGEST_COLUMN or column.num_values > MOST_VALUES:
            raise InputError(
                f"source {path}: row group {group}, column {column.path_in_schema}: {column.num_values:,} values and "
                f"{column.total_uncompressed_size:,} bytes are more than fit into memory (limits {MOST_VALUES:,} "
                f"and {LARGEST_COLUMN:,}); write the file again with smaller row groups"
            )
        if column.physical_type != "BYTE_ARRAY" or column.dictionary_page_offset is None:
            continue
        dictionary = _dictionary_bytes(stream, column)
        if dictionary * column.num_values <= READ_BYTES:
            continue
        if column.total_uncompressed_size - dictionary <= SMALL_BYTES or dictionary > READ_BYTES // ROWS_PER_READ * 4:
            repeated.append(column.path_in_schema)
        else:
            bytes_per_row += dictionary * -(-column.num_values // max(1, row_group.num_rows))
    return repeated, max(1, min(ROWS_PER_READ, READ_BYTES // bytes_per_row))


def _dictionary_bytes(stream: Any, column: Any) -> int:
    """Size of a column's dictionary: the second number in the Thrift header of its page."""
    stream.seek(column.dictionary_page_offset)
    header = stream.read(16)
    position, value = 0, 0
    for _ in range(2):
        value, shift, position = 0, 0, position + 1  # the field's type, then a zigzag varint
        while position < len(header):
            byte = header[position]
            value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
            if byte < 0x80:
                break
    return value >> 1


def batch_rows(batch: Any) -> Iterator[Row]:
    """Rows of a RecordBatch or Table, some at a time; one that is too large or not UTF-8 becomes a `Rejection`."""
    size = sum(map(_text_bytes, batch.columns))
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


def _text_bytes(array: Any) -> int:
    """Bytes of the texts that an array makes, and `VALUE_BYTES` for each value."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return sum(map(_text_bytes, array.chunks))
    kind, size = array.type, VALUE_BYTES * len(array)
    if pa.types.is_dictionary(kind):
        return size + _sum(_lengths(array.dictionary).take(array.indices))
    if pa.types.is_struct(kind):
        return size + sum(map(_text_bytes, array.flatten()))
    if pa.types.is_nested(kind) and hasattr(array, "flatten"):
        return size + _text_bytes(array.flatten())
    return size + _sum(_lengths(array))


def _sum(numbers: Any) -> int:
    import pyarrow.compute as pc

    return pc.call_function("sum", [numbers]).as_py() or 0


def _lengths(array: Any) -> Any:
    """Bytes of each text of an array, as int64, which their sum needs; nothing for values of other types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(is_kind(array.type) for is_kind in kinds):
        return pc.call_function("binary_length", [array]).cast(pa.int64())
    return pa.nulls(len(array), pa.int64())
