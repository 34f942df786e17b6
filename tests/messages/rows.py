"""What a row of bad inputs is, and the files that rows write.

A row is ``(command, files, phrase)``: the command line, with ``VARIABLE=value`` before it where one is meant; the files
that are written into a copy of the good inputs (``model/``, ``suite.parquet``, ``graded/``, …: see ``conftest.py``)
before it is run there; and a part of the message. ``{here}`` in a command is that copy. The content of a file is its
text or bytes; ``GONE`` removes it.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

GONE = None
Content = str | bytes | Callable[[Path], Any] | None
Row = tuple[str, dict[str, Content], str]


def safetensors(header: bytes, data: bytes = b"") -> bytes:
    """A safetensors file with this header."""
    return struct.pack("<Q", len(header)) + header + data


def parquet(**columns: Any) -> Callable[[Path], None]:
    """A parquet file with these columns."""

    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), path)

    return write


def retyped(column: str, values: Callable[[int], Any] | list[Any]) -> Callable[[Path], None]:
    """The file that is there, with other values in one column; a function gets the number of rows."""

    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        others = values(table.num_rows) if callable(values) else pa.array(values)
        index = table.schema.names.index(column)
        pq.write_table(table.set_column(index, column, others), path)

    return write


def far_dates(rows: int) -> Any:
    """Dates that Python cannot hold."""
    import pyarrow as pa

    return pa.array([10**9] * rows, pa.date32())


def numbers(rows: int) -> Any:
    import pyarrow as pa

    return pa.array(list(range(rows)))


def nulls(rows: int) -> Any:
    import pyarrow as pa

    return pa.nulls(rows, pa.string())


DEEP = "[" * 100_000


def name(row: Row) -> str:
    """The identity of a row's test."""
    command, files, _ = row
    return " ".join([command, *files])
