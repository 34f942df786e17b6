"""Parquet files that users give: their tables with the columns and types of a schema, or one message."""

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(
    path: Path, schema: "pa.Schema", advice: str, *, optional: Collection[str] = (), largest: int | None = None
) -> "pa.Table":
    """The columns of ``schema`` from a parquet file, with the file's own metadata.

    ``largest``: bytes that its texts may take; None, for files that the project wrote: any.

    Raises:
        InputError: the file is missing or damaged, or a column is missing, has another type, or has an empty place
            though it is not among ``optional``. The message ends in ``advice``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from core.files import read_parquet
    from core.parquet.batches import read_bounded

    if largest is not None:
        table = read_bounded(path, advice, largest, schema.names)
    else:
        present = schema.names
        with contextlib.suppress(OSError, pa.ArrowInvalid):  # `read_parquet` says what is wrong
            present = pq.read_schema(path).names
        table = read_parquet(path, advice, columns=[name for name in schema.names if name in present])
    if missing := [name for name in schema.names if name not in table.schema.names]:
        raise InputError(f"{path}: no column {', '.join(missing)}; {advice}")
    columns = []
    for field in schema:
        column = table[field.name]
        if not _holds(column.type, field.type):
            raise InputError(f"{path}: column {field.name}: expected {field.type}, got {column.type}; {advice}")
        if column.null_count and field.name not in optional:
            row = column.is_null().index(True).as_py()
            raise InputError(f"{path}: column {field.name}: row {row} is empty; {advice}")
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{path}: column {field.name}: {reason}; {advice}") from error
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(table.schema.metadata))


def _holds(given: "pa.DataType", expected: "pa.DataType") -> bool:
    """Whether values of one type are values of the other; a cast alone would also make texts of numbers and dates."""
    import pyarrow.types as t

    if t.is_dictionary(given):
        return _holds(given.value_type, expected)
    if t.is_null(given):
        return True
    if t.is_string(expected):
        return t.is_string(given) or t.is_large_string(given) or t.is_string_view(given)
    if t.is_list(expected):
        lists = t.is_list(given) or t.is_large_list(given)
        return lists and _holds(given.value_type, expected.value_type)
    if t.is_struct(expected):
        names = {field.name: field.type for field in given.fields} if t.is_struct(given) else {}
        return all(field.name in names and _holds(names[field.name], field.type) for field in expected.fields)
    if t.is_integer(expected):
        return t.is_integer(given)
    return t.is_integer(given) or t.is_floating(given)
