"""Rows of parquet, JSONL and JSON files, wherever fsspec reaches: local, ``s3://``, ``gs://``, ``memory://``.

A file that cannot be read (missing, not a parquet, damaged, no row that parses) is an InputError. A row that cannot be
read is a `Rejection` in its place, so that the row is still counted.
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from core.errors import InputError, first_line
from targets.read.json_rows import Row, json_rows, lines, read_chunks
from targets.read.parquet_rows import open_file, parquet_rows
from targets.trace import Rejection

SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
ROWS_TO_SAMPLE = 100  # rows read to learn the columns of a JSONL file
MOST_COLUMNS = 10_000


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
    """``files``, where those of the same name are called by as many folders of their path as tell them apart."""
    unique = list(files)
    while any(file.name != longer.name for file, longer in zip(unique, _longer_names(unique), strict=True)):
        unique = _longer_names(unique)
    if twice := sorted({file.path for file in unique if [f.path for f in unique].count(file.path) > 1}):
        raise InputError(f"sources name {twice[0]} more than once, so its rows would count twice")
    return unique


def _longer_names(files: Sequence[DataFile]) -> list[DataFile]:
    """``files``, where those of the same name take one more folder of their path into it, if there is one."""
    names = Counter(file.name for file in files)

    def longer(file: DataFile) -> DataFile:
        parts = PurePosixPath(file.path).parts[-(len(PurePosixPath(file.name).parts) + 1) :]
        return replace(file, name=_printable("/".join(parts))) if names[file.name] > 1 else file

    return [longer(file) for file in files]


def column_names(file: DataFile) -> list[str]:
    """Top-level columns; of JSON rows, the keys of the first rows."""
    if file.is_parquet:
        return open_file(file).schema_arrow.names
    columns: dict[str, None] = {}
    rejections: list[Rejection] = []
    for _, row in islice(_json_rows(file), ROWS_TO_SAMPLE):
        if isinstance(row, Rejection):
            rejections.append(row)
        else:
            columns.update(dict.fromkeys(row))
        if len(columns) > MOST_COLUMNS:
            raise InputError(
                f"source {file.path}: the rows have more than {MOST_COLUMNS:,} different keys; expected one JSON "
                "object per line with the columns of a trace"
            )
    if not columns:
        why = f"its first line: {rejections[0].detail}" if rejections else "it is empty"
        raise InputError(f"source {file.path}: it holds no JSON row ({why}); expected one JSON object per line")
    return list(columns)


def row_groups(file: DataFile) -> int:
    """Pieces of a parquet file that can be read independently; 1 for any other file."""
    return open_file(file).num_row_groups if file.is_parquet else 1


def read_rows(file: DataFile, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[tuple[int, Row]]:
    """(number, row) of every row in order; of a parquet only ``columns``, and only the row ``groups``."""
    return parquet_rows(file, columns, groups) if file.is_parquet else _json_rows(file)


def fingerprint(file: DataFile) -> tuple[str, int]:
    """sha256 of the content, and the number of rows. A remote parquet file is named by its etag and not read."""
    from fsspec.implementations.local import LocalFileSystem

    if file.is_parquet and not isinstance(file.filesystem, LocalFileSystem):
        digest, rows = str(file.filesystem.checksum(file.path)), 0
    else:
        digest, rows = _digest(file)
    if file.is_parquet:
        metadata = open_file(file).metadata
        rows = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    elif file.path.removesuffix(".gz").endswith(".json"):
        rows = sum(1 for _ in _json_rows(file))
    return digest, rows


def _digest(file: DataFile) -> tuple[str, int]:
    """sha256 of the (uncompressed) bytes and the number of lines that are not blank."""
    digest, count = hashlib.sha256(), 0

    def hashed(stream: Any) -> Iterator[bytes]:
        for chunk in read_chunks(stream):
            digest.update(chunk)
            yield chunk

    with _opened(file) as stream:
        chunks = hashed(stream)
        count = sum(1 for _ in (chunks if file.is_parquet else lines(chunks)))
    return digest.hexdigest(), count


def _json_rows(file: DataFile) -> Iterator[tuple[int, Row]]:
    with _opened(file) as stream:
        yield from enumerate(json_rows(stream, f"source {file.path}"))


@contextmanager
def _opened(file: DataFile) -> Iterator[Any]:
    """The decompressed bytes of a file; InputError where they cannot be read."""
    if file.path.endswith((".xz", ".lzma")):
        raise InputError(f"source {file.path}: an xz file decides how much memory it takes: compress it with gzip")
    try:
        with file.filesystem.open(file.path, "rb", compression="infer") as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"source {file.path}: cannot be read: {first_line(error)}") from error


def _printable(name: str) -> str:
    """A file's name in ids, which are written as UTF-8."""
    return name.encode("utf-8", "replace").decode()
