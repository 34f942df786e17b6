"""Read parquet files from users, or refuse them with one message."""

import contextlib
import glob
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError, reason
from core.files import digest_bytes, digest_file
from core.text.patterns import compile_full_match

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_READ = 256
BUFFER_BYTES = 1 << 20
COPY = "copy or write the file again"
SHARD = compile_full_match(r"([^/]{1,200})-[0-9]{5}-of-[0-9]{5}")


def shard_path(path: Path, number: int, count: int) -> Path:
    """Return the path of file ``number`` of the table ``path``; ``path`` itself if ``count`` is 1.

    >>> shard_path(Path("out/train.parquet"), 1, 12).name
    'train-00001-of-00012.parquet'
    """
    return path if count == 1 else _numbered(path, number, count)


def _numbered(path: Path, number: int, count: int) -> Path:
    return path.with_name(f"{path.stem}-{number:05d}-of-{count:05d}{path.suffix}")


def shard_files(path: Path) -> list[Path]:
    """Return the files next to ``path`` with names that make them a part of this table, in order."""
    found = path.parent.glob(f"{glob.escape(path.stem)}-?????-of-?????{glob.escape(path.suffix)}")
    return sorted(file for file in found if SHARD(file.stem))


def table_of_shard(path: Path) -> Path | None:
    """Return the table that ``path`` is one of several files of, by its name; None for any other name.

    >>> table_of_shard(Path("out/train-00001-of-00012.parquet")).as_posix()
    'out/train.parquet'
    """
    parts = SHARD(path.stem)
    return path.with_name(f"{parts.group(1)}{path.suffix}") if parts else None


def shards(path: Path) -> list[Path]:
    """Return the files of the table ``path``, in order: itself, or the ``NAME-00000-of-000NN.parquet`` next to it.

    If there is neither, it is ``path``, so that reading it fails with its name.

    Raises:
        InputError: one of several files is missing, or there are files of several tables of this name.
    """
    path = Path(path)
    there = shard_files(path)
    if not there:
        return [path]
    count = max(1, int(there[0].stem[-5:]))
    expected = [_numbered(path, number, count) for number in range(count)]
    if path.exists() or there != expected:
        named = ", ".join(file.name for file in [*([path] if path.exists() else []), *there][:4])
        raise InputError(
            f"{path}: expected {expected[0].name} to {expected[-1].name}, or {path.name} alone; found {named}, …: "
            "remove what does not belong there, or write the files again"
        )
    return there


def is_there(path: Path) -> bool:
    """Return whether there is a table ``path``, in one or several files; InputError like `shards`."""
    return shards(path)[0].is_file()


@contextlib.contextmanager
def readable(path: Path, advice: str) -> Iterator[None]:
    """Turn the errors of reading ``path`` as parquet into an InputError that ends with ``advice``."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {advice}") from None
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a readable parquet file ({reason(error)}); {advice}") from error


def read_parquet(path: Path, advice: str, **options: Any) -> "pa.Table":
    """Return the table of a parquet file, its texts checked to be UTF-8; ``options`` go to ``pq.read_table``.

    Raises InputError, which ends in ``advice``, if the file is missing or damaged.
    """
    import pyarrow.parquet as pq

    with readable(path, advice):
        table = pq.read_table(path, **options)
        table.validate(full=True)
    return table


def read_shards(path: Path, advice: str = COPY, **options: Any) -> "pa.Table":
    """Read the table ``path``, without columns from folder names; ``options`` are arguments of ``pq.read_table``.

    Raises InputError, which ends in ``advice``, if it is missing or damaged.
    """
    import pyarrow.parquet as pq

    none: Any = None  # the types of pyarrow do not know that it may be None
    with readable(path, advice):
        return pq.read_table(shards(path), partitioning=none, **options)


def digest_shards(path: Path) -> str:
    """Return the digest of the bytes of the table ``path``, or of any other file; several files have one digest."""
    digests = [digest_file(file) for file in shards(path)]
    return digests[0] if len(digests) == 1 else digest_bytes("".join(digests).encode())


def count_rows(path: Path) -> int:
    """Return the rows of the table ``path``."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in shards(path))


def read_batches(path: Path, rows: int, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of the table ``path``, at most ``rows`` at a time; InputError if it is damaged."""
    import pyarrow.parquet as pq

    for file in shards(path):
        with readable(file, COPY):
            yield from pq.ParquetFile(file, pre_buffer=False).iter_batches(rows, columns=columns)


def open_parquet(stream: Any, where: str) -> Any:
    """Open a binary stream as a `pyarrow.parquet.ParquetFile`; InputError, beginning with ``where``, if it is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Buffering ahead would keep what has been read until the file ends.
        return pq.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{where}: not a readable parquet file: {reason(error)}") from error


def read_table(path: Path, schema: "pa.Schema", advice: str, *, optional: Collection[str] = ()) -> "pa.Table":
    """Return the columns of ``schema`` from a parquet file, with the metadata of the file.

    ``optional``: columns that may be missing, or have empty places.

    Raises:
        InputError: the file is missing or damaged, or a column is missing, has another type, or has an empty place
            though it is not among ``optional``. The message ends in ``advice``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    present = schema.names
    with contextlib.suppress(OSError, pa.ArrowInvalid):  # `read_parquet` says what is wrong
        present = pq.read_schema(path).names
    table = read_parquet(path, advice, columns=[name for name in schema.names if name in present])
    if missing := [name for name in schema.names if name not in table.schema.names and name not in optional]:
        raise InputError(f"{path}: no column {', '.join(missing)}; {advice}")
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
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
    """Return whether values of one type are values of the other; a cast would also turn numbers into texts."""
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
