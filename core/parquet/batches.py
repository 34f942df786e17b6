"""The rows of parquet files in batches that bound memory: sizes are looked at before texts are made."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError, first_line
from core.parquet.pages import ColumnSizes, check_footer, column_sizes

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_READ = 256
LARGEST_COLUMN = 512 << 20  # bytes of one column in one row group
LARGEST_PAGES = 256 << 20  # bytes of one page of each column that is read
MOST_VALUES = 50_000_000  # in the columns of one row group; one row may hold all of them
READ_BYTES = 256 << 20  # that the rows of one read may take
SMALL_BYTES = 64 << 20  # that may be kept in memory for a whole row group
VALUE_BYTES = 16  # that a value takes beside its text
BUFFER_BYTES = 1 << 20


def open_parquet(stream: Any, where: str) -> Any:
    """The `pyarrow.parquet.ParquetFile` of a binary stream.

    Raises InputError, which begins with ``where``, if it is none or has too large a footer.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        check_footer(stream, where)
        # Buffering ahead would keep what has been read until the file ends.
        return pq.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{where}: not a readable parquet file: {first_line(error)}") from error


def bounded_batches(stream: Any, metadata: Any, group: int, columns: Sequence[str], where: str) -> Iterator[Any]:
    """The `pyarrow.RecordBatch`es of a row group with only ``columns``, none with much more than `READ_BYTES` of text.

    Raises:
        InputError: the columns are too large to be read, or their sizes are damaged.
        pyarrow.ArrowException, OSError: the data are damaged.
    """
    import pyarrow.parquet as pq

    repeated, rows = _plan(stream, metadata, group, columns, f"{where}: row group {group}")
    parquet = pq.ParquetFile(
        stream, metadata=metadata, read_dictionary=repeated, pre_buffer=False, buffer_size=BUFFER_BYTES
    )
    yield from parquet.iter_batches(rows, columns=list(columns), row_groups=[group])


def read_bounded(path: Path, advice: str, largest: int, columns: Sequence[str] | None = None) -> "pa.Table":
    """The table of a parquet file with those of ``columns`` (None: all) that it has.

    Raises InputError, which ends in ``advice``, if the file is missing or damaged, or if its texts take more than
    ``largest`` bytes.
    """
    import pyarrow as pa

    try:
        with Path(path).open("rb") as stream:
            file = open_parquet(stream, str(path))
            names = [name for name in file.schema_arrow.names if columns is None or name in columns]
            batches, size = [], 0
            for group in range(file.num_row_groups):
                for batch in bounded_batches(stream, file.metadata, group, names, str(path)):
                    size += sum(map(text_bytes, batch.columns))
                    if size > largest:
                        raise InputError(f"{path}: more than {largest:,} bytes of text and values; {advice}")
                    batches.append(batch.cast(_plain(batch.schema)))
            schema = _plain(pa.schema([file.schema_arrow.field(name) for name in names]))
            table = pa.Table.from_batches(batches, schema.with_metadata(file.schema_arrow.metadata))
            table.validate(full=True)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {advice}") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable parquet file ({first_line(error)}); {advice}") from error
    return table


def _plain(schema: "pa.Schema") -> "pa.Schema":
    """``schema`` without dictionaries: which columns are read as such differs from row group to row group."""
    import pyarrow as pa

    return pa.schema([field.with_type(_plain_type(field.type)) for field in schema])


def _plain_type(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind.fields])
    return kind


def _plan(stream: Any, metadata: Any, group: int, columns: Sequence[str], where: str) -> tuple[list[str], int]:
    """Which columns to read as dictionaries, and how many rows at a time, so that no read makes too much text."""
    row_group = metadata.row_group(group)
    repeated: list[str] = []
    values = pages = 0
    bytes_per_row = 1
    for index in range(row_group.num_columns):
        column, schema = row_group.column(index), metadata.schema.column(index)
        if column.path_in_schema.split(".")[0] not in columns:
            continue
        about = f"{where}, column {column.path_in_schema}"
        sizes = column_sizes(stream, column, about)
        values, pages = values + sizes.values, pages + sizes.largest_page
        if sizes.bytes > LARGEST_COLUMN or values > MOST_VALUES or pages > LARGEST_PAGES:
            raise InputError(
                f"{about}: {sizes.values:,} values and {sizes.bytes:,} bytes in pages of up to "
                f"{sizes.largest_page:,} bytes are more than fit into memory (limits {MOST_VALUES:,}, "
                f"{LARGEST_COLUMN:,} and {LARGEST_PAGES:,}); write the file again with smaller row groups and pages"
            )
        as_dictionary, per_row = _column_plan(sizes, schema, max(1, row_group.num_rows), about)
        bytes_per_row += per_row
        if as_dictionary:
            repeated.append(column.path_in_schema)
    return repeated, max(1, min(ROWS_PER_READ, READ_BYTES // bytes_per_row))


def _column_plan(sizes: ColumnSizes, schema: Any, rows: int, about: str) -> tuple[bool, int]:
    """Whether to read a column as a dictionary, and else the bytes of text that a row of it may hold."""
    fixed = schema.length * sizes.values if schema.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0
    text = max(fixed, sizes.delta, sizes.repeated)
    if text <= READ_BYTES or schema.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return False, 0
    nested = schema.max_repetition_level > 0
    if sizes.repeated > READ_BYTES and not fixed:
        small = sizes.bytes - sizes.dictionary <= SMALL_BYTES
        if small or nested or sizes.dictionary > READ_BYTES // ROWS_PER_READ * 4:
            return True, 0
    largest = max(schema.length if fixed else 0, sizes.dictionary, sizes.largest_page if sizes.delta else 0)
    if nested or largest > READ_BYTES:
        raise InputError(
            f"{about}: {sizes.values:,} values that may hold {text:,} bytes are more than fit into memory; write the "
            "file again with plain encoding and smaller row groups"
        )
    return False, largest


def text_bytes(array: Any) -> int:
    """Bytes of the texts that an array makes, and `VALUE_BYTES` for each value."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return sum(map(text_bytes, array.chunks))
    kind, size = array.type, VALUE_BYTES * len(array)
    if pa.types.is_dictionary(kind):
        return size + _sum(_lengths(array.dictionary).take(array.indices))
    if pa.types.is_struct(kind):
        return size + sum(map(text_bytes, array.flatten()))
    if pa.types.is_nested(kind) and hasattr(array, "flatten"):
        return size + text_bytes(array.flatten())
    return size + _sum(_lengths(array))


def _sum(numbers: Any) -> int:
    import pyarrow.compute as pc

    return pc.call_function("sum", [numbers]).as_py() or 0


def _lengths(array: Any) -> Any:
    """Bytes of each text of an array, as int64, which their sum needs; nothing for values of other types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(is_kind(array.type) for is_kind in (*kinds, pa.types.is_fixed_size_binary)):
        return pc.call_function("binary_length", [array]).cast(pa.int64())
    return pa.nulls(len(array), pa.int64())
