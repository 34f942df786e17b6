"""Read rows of parquet files, and of the Arrow files of ``Dataset.save_to_disk``, a batch at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from core.errors import InputError, first_line
from core.parquet import ROWS_PER_READ, open_parquet
from targets.read.json_rows import LARGEST_ROW, Row
from targets.trace import Rejection

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_FILE = b"ARROW1"  # the beginning of an Arrow file; a stream has none
END = b"\xff" * 4 + bytes(4)  # of a stream: a message without a length


def open_file(file: Any) -> Any:
    """The `pyarrow.parquet.ParquetFile` of a `DataFile`; InputError if it is none."""
    return open_parquet(file.filesystem.open(file.path, "rb"), f"source {file.address}")


def parquet_rows(file: Any, columns: Sequence[str], start: int, stop: float) -> Iterator[tuple[int, Row]]:
    """(number, row) of the rows from ``start`` to before ``stop``, with only ``columns``.

    Raises InputError for a damaged file.
    """
    import pyarrow as pa

    where, parquet = f"source {file.address}", open_file(file)
    sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
    end = 0
    for group, size in enumerate(sizes):
        begin, end = end, end + size
        if end <= start or begin >= stop:
            continue
        number = max(begin, start)
        try:
            batches = parquet.iter_batches(ROWS_PER_READ, columns=list(columns), row_groups=[group], use_threads=False)
            for row in _rows_of(_between(batches, start - begin, stop - begin)):
                yield number, row
                number += 1
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{where}: damaged after row {number}: {first_line(error)}") from error
        if number != min(end, stop):
            raise InputError(
                f"{where}: row group {group} ends at row {number:,} where its footer says {end:,}: the file is "
                "damaged; copy or write it again"
            )


def arrow_rows(file: Any, columns: Sequence[str], start: int, stop: float) -> Iterator[tuple[int, Row]]:
    """(number, row) of an Arrow file from ``start`` to before ``stop``, with only ``columns``.

    Raises InputError for a damaged file.
    """
    with open_arrow(file) as (_, batches):
        selected = (batch.select(columns) for batch in _between(batches, start, stop))
        yield from enumerate(_rows_of(selected), start)


def _between(batches: "Iterator[pa.RecordBatch]", start: int, stop: float) -> "Iterator[pa.RecordBatch]":
    """The rows of ``batches`` from ``start``, which may be negative, to before ``stop``."""
    end = 0
    for batch in batches:
        begin, end = end, end + batch.num_rows
        if end > start:
            first = max(0, start - begin)
            yield batch.slice(first, int(min(end, stop)) - begin - first)
        if end >= stop:
            return


@contextmanager
def open_arrow(file: Any) -> "Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]":
    """The schema and the batches of an Arrow file or stream; InputError if it is damaged."""
    import pyarrow as pa

    try:
        with file.filesystem.open(file.path, "rb") as stream:
            head = stream.read(len(ARROW_FILE))
            stream.seek(0)
            if head == ARROW_FILE:
                reader = pa.ipc.open_file(stream)
                yield reader.schema, (reader.get_batch(number) for number in range(reader.num_record_batches))
            else:
                reader = pa.ipc.open_stream(stream)
                yield reader.schema, _complete(reader, stream)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"source {file.address}: not a readable Arrow file: {first_line(error)}") from error


def _complete(reader: Any, stream: Any) -> "Iterator[pa.RecordBatch]":
    """The batches of ``reader``; OSError if no end follows them, which Arrow itself does not ask for."""
    yield from reader
    stream.seek(stream.tell() - len(END))
    if stream.read(len(END)) != END:
        raise OSError("its end is missing: it was cut, or its writer was stopped; copy or write it again")


def _rows_of(batches: "Iterator[pa.RecordBatch]") -> Iterator[Row]:
    for batch in batches:
        yield from chain.from_iterable(batch_rows(batch))


def batch_rows(batch: Any) -> Iterator[list[Row]]:
    """Rows of a RecordBatch or Table, some at a time; one that is too large or not UTF-8 becomes a `Rejection`."""
    if batch.nbytes > LARGEST_ROW:
        if batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from batch_rows(batch.slice(0, half))
            yield from batch_rows(batch.slice(half))
        else:
            yield [Rejection("too_large", f"a row of {batch.nbytes:,} bytes (limit {LARGEST_ROW:,})")]
        return
    try:
        yield _short_floats(batch).to_pylist(maps_as_pydicts="strict")
        return
    except (UnicodeDecodeError, ValueError, KeyError, OverflowError) as error:
        if batch.num_rows == 1:
            yield [_unreadable(error)]
            return
    for index in range(batch.num_rows):  # one row spoils the whole batch: find it
        yield from batch_rows(batch.slice(index, 1))


def _unreadable(error: Exception) -> Rejection:
    if isinstance(error, UnicodeDecodeError):
        return Rejection("bad_text", f"not UTF-8: {error.reason} at byte {error.start}")
    return Rejection("wrong_type", f"a value that Python cannot hold: {first_line(error)}")


def _short_floats(batch: Any) -> Any:
    """``batch`` with 12345.67 for the number of 32 bits that is nearest to it, which is 12345.669921875."""
    for index, field in enumerate(batch.schema):
        as_text, as_double = _replaced(field.type, "string"), _replaced(field.type, "float64")
        if as_text != field.type:
            column = batch.column(index).cast(as_text).cast(as_double)
            batch = batch.set_column(index, field.with_type(as_double), column)
    return batch


def _replaced(kind: "pa.DataType", by: str) -> "pa.DataType":
    """A type with numbers of 32 or 16 bits as the type called ``by``, in structs and lists, too."""
    import pyarrow as pa

    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        return pa.type_for_alias(by)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_replaced(field.type, by)) for field in kind.fields])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values = kind.value_field.with_type(_replaced(kind.value_type, by))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(values, kind.list_size)
        return pa.list_(values) if pa.types.is_list(kind) else pa.large_list(values)
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(_replaced(kind.item_type, by)))
    return kind
