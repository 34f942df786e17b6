"""Rows of parquet, JSONL and JSON files, wherever fsspec reaches: local, ``s3://``, ``gs://``, ``memory://``.

A file that cannot be read (missing, not a parquet, damaged, no row that parses) is an InputError. A row that cannot be
read is a `Rejection` in its place, so that the row is still counted.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from core.errors import InputError
from targets.trace import Rejection

SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
ROWS_PER_READ = 256
ROWS_TO_SAMPLE = 100  # rows read to learn the columns of a JSONL file
CHUNK_BYTES = 1 << 20

Row = dict[str, Any] | Rejection


@dataclass(frozen=True)
class DataFile:
    """One file of a source; its rows are called after ``name``, which is the same on every machine."""

    filesystem: Any  # fsspec.AbstractFileSystem
    path: str
    name: str

    @property
    def is_parquet(self) -> bool:
        return self.path.endswith(".parquet")


def find_files(spec: str) -> list[DataFile]:
    """The data files of a path, folder or glob, sorted by name; InputError if there are none."""
    import fsspec

    if "\0" in spec:
        raise InputError(f"source {spec!r}: the path holds a NUL character")
    try:
        filesystem, path = fsspec.core.url_to_fs(spec)
        if filesystem.isfile(path):
            return [DataFile(filesystem, path, _printable(PurePosixPath(path).name))]
        if filesystem.isdir(path):
            entries, root = filesystem.find(path), path
        elif any(character in spec for character in "*?["):
            entries = [entry for entry in filesystem.glob(path) if filesystem.isfile(entry)]
            fixed = path[: min(path.find(c) for c in "*?[" if c in path)]
            root = fixed.rpartition("/")[0]
        else:
            remote = ", or the storage does not answer" if "://" in spec else ""
            raise InputError(f"source {spec}: no such file or folder{remote}")
    except (ImportError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"source {spec}: cannot be reached: {error}") from error
    files = []
    for entry in sorted(entries):
        relative = entry[len(root) :].lstrip("/")
        if relative.endswith(SUFFIXES) and not any(part.startswith(".") for part in relative.split("/")):
            files.append(DataFile(filesystem, entry, _printable(relative)))
    if not files:
        raise InputError(f"source {spec}: no data file there; expected names ending in {', '.join(SUFFIXES)}")
    return files


def with_unique_names(files: Sequence[DataFile]) -> list[DataFile]:
    """``files``, where those of the same name (from two folders) are called by their whole path."""
    names = [file.name for file in files]
    unique = [replace(file, name=file.path) if names.count(file.name) > 1 else file for file in files]
    if twice := sorted({file.path for file in unique if [f.path for f in unique].count(file.path) > 1}):
        raise InputError(f"sources name {twice[0]} more than once, so its rows would count twice")
    return unique


def column_names(file: DataFile) -> list[str]:
    """Top-level columns; of JSON rows, the keys of the first rows."""
    if file.is_parquet:
        return _open_parquet(file).schema_arrow.names
    columns: dict[str, None] = {}
    rejections: list[Rejection] = []
    for count, (_, row) in enumerate(_json_rows(file)):
        if count == ROWS_TO_SAMPLE:
            break
        if isinstance(row, Rejection):
            rejections.append(row)
        else:
            columns.update(dict.fromkeys(row))
    if not columns:
        why = f"its first line: {rejections[0].detail}" if rejections else "it is empty"
        raise InputError(f"source {file.path}: it holds no JSON row ({why}); expected one JSON object per line")
    return list(columns)


def row_groups(file: DataFile) -> int:
    """Pieces of a parquet file that can be read independently; 1 for any other file."""
    return _open_parquet(file).num_row_groups if file.is_parquet else 1


def read_rows(file: DataFile, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[tuple[int, Row]]:
    """(number, row) of every row in order; of a parquet only ``columns``, and only the row ``groups``."""
    if not file.is_parquet:
        yield from _json_rows(file)
        return
    import pyarrow as pa

    parquet = _open_parquet(file)
    sizes = [parquet.metadata.row_group(k).num_rows for k in range(parquet.num_row_groups)]
    number = sum(sizes[: groups[0]]) if groups else 0
    try:
        for batch in parquet.iter_batches(ROWS_PER_READ, columns=list(columns), row_groups=groups):
            for row in batch_rows(batch):
                yield number, row
                number += 1
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"source {file.path}: damaged after row {number}: {_short(error)}") from error


def batch_rows(batch: Any) -> Iterator[Row]:
    """Rows of a RecordBatch or Table; one whose text is not UTF-8 becomes a `Rejection`."""
    try:
        yield from batch.to_pylist()
        return
    except UnicodeDecodeError:
        pass  # one row spoils the whole batch: find it
    for index in range(batch.num_rows):
        try:
            yield batch.slice(index, 1).to_pylist()[0]
        except UnicodeDecodeError as error:
            yield Rejection("bad_text", f"not UTF-8: {error.reason} at byte {error.start}")


def fingerprint(file: DataFile) -> tuple[str, int]:
    """sha256 of the content, and the number of rows. A remote parquet file is named by its etag and not read."""
    from fsspec.implementations.local import LocalFileSystem

    if file.is_parquet and not isinstance(file.filesystem, LocalFileSystem):
        digest, rows = str(file.filesystem.checksum(file.path)), 0
    else:
        digest, rows = _digest(file)
    if file.is_parquet:
        rows = _open_parquet(file).metadata.num_rows
    elif file.path.removesuffix(".gz").endswith(".json"):
        rows = sum(1 for _ in _json_rows(file))
    return digest, rows


def _digest(file: DataFile) -> tuple[str, int]:
    """sha256 of the (uncompressed) bytes and the number of lines that are not blank."""
    digest, lines = hashlib.sha256(), 0
    with file.filesystem.open(file.path, "rb", compression="infer") as stream:
        if file.is_parquet:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
        else:
            for line in stream:
                digest.update(line)
                lines += bool(line.strip())
    return digest.hexdigest(), lines


def _open_parquet(file: DataFile) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Buffering ahead would keep what has been read until the file ends.
        return pq.ParquetFile(file.filesystem.open(file.path, "rb"), pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"source {file.path}: not a readable parquet file: {_short(error)}") from error


def _json_rows(file: DataFile) -> Iterator[tuple[int, Row]]:
    try:
        with file.filesystem.open(file.path, "rb", compression="infer") as stream:
            head = stream.read(1)
            while head.isspace():
                head = stream.read(1)
            stream.seek(0)
            rows = _array(stream.read(), file) if head == b"[" else map(_parse, filter(bytes.strip, stream))
            yield from enumerate(rows)
    except (OSError, EOFError) as error:
        raise InputError(f"source {file.path}: cannot be read: {_short(error)}") from error


def _parse(line: bytes) -> Row:
    try:
        row = json.loads(line)
    except UnicodeDecodeError as error:
        return Rejection("bad_text", f"not UTF-8: {error.reason} at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return Rejection("unreadable", f"not JSON: {_short(error)}")
    return (
        row
        if isinstance(row, dict)
        else Rejection("wrong_type", f"a row that is a {type(row).__name__}, not an object")
    )


def _array(content: bytes, file: DataFile) -> Iterator[Row]:
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"source {file.path}: not JSON: {_short(error)}") from error
    for row in rows:
        yield row if isinstance(row, dict) else Rejection("wrong_type", f"a row that is a {type(row).__name__}")


def _printable(name: str) -> str:
    """A file's name in ids, which are written as UTF-8."""
    return name.encode("utf-8", "replace").decode()


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
