"""Read the content of data files: their columns, rows and digest.

A file that cannot be read (missing, of another kind, damaged, no row that parses) is an InputError. A row that cannot
be read is a `Rejection` in its place, so that the row is still counted.
"""

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from core.errors import InputError, first_line, reason
from targets.read.arrow_rows import arrow_rows, open_arrow, open_file, parquet_rows
from targets.read.csv_rows import csv_columns, csv_rows
from targets.read.data_files import COMPRESSIONS, TABLE_SUFFIXES, DataFile
from targets.read.json_rows import Row, array_rows, holds_array, lines, parse_line, read_chunks
from targets.source_settings import OPTION_COLUMNS, OPTIONAL_COLUMNS, REASONING_COLUMNS, ready_mappings
from targets.trace import Rejection

MARKED_ROWS = 256  # rows before the next mark of a file of lines, where it can be entered; at most eight times as many
LARGEST_PIECE = 1024  # rows of a piece, where a file has more than `MOST_PIECES` of them
MOST_PIECES = 16  # of less, and of what can only be read from its beginning: each of them reads what is before it
ROWS_TO_SAMPLE = 100  # rows read to learn the columns of a JSON file
HEAD_BYTES = 512  # that show of which kind a file is
# Keys of JSON rows that may be in late rows only.
LATE_KEYS = {name: f'"{name}"'.encode() for name in (*OPTIONAL_COLUMNS, *OPTION_COLUMNS, *REASONING_COLUMNS)}
LATE_KEYS |= {"system": b'"system":'}  # not the role of a message
OTHER_KINDS = (  # the beginning of a file, what it is, and the end of a name that says so
    (b"version https://git-lfs", "a pointer of Git LFS, not the data: run git lfs pull in its repository", None),
    (b"\x1f\x8b", "compressed with gzip: give it a name that ends in .gz", ".gz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: give it a name that ends in .zst", ".zst"),
    (b"PK\x03\x04", "a zip archive: unpack it", None),
    (b"PAR1", "a parquet file: give it a name that ends in .parquet", ".parquet"),
    (b"ARROW1", "an Arrow file: give it a name that ends in .arrow", ".arrow"),
    (b"\xff\xfe", "UTF-16 text: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", None),
    (b"\xfe\xff", "UTF-16 text: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", None),
    (b"<", "a web page or XML, not data: download the file itself", None),
)


def piece_rows(rows: int, read_together: int = 0) -> int:
    """The rows of a piece, of ``rows`` of which none can be read without up to ``read_together`` before it.

    >>> piece_rows(100), piece_rows(4096), piece_rows(10**6), piece_rows(10**6, read_together=10**6)
    (256, 256, 1024, 62720)
    """
    marks = min(-(-rows // (MOST_PIECES * MARKED_ROWS)), LARGEST_PIECE // MARKED_ROWS)
    marks = max(1, marks, -(-read_together // (MOST_PIECES * MARKED_ROWS)))
    return marks * MARKED_ROWS


class Mark(NamedTuple):
    """A row of a file of lines, where it begins in bytes (None: compressed), and a digest of the rows to the next mark.

    The line itself decides whether it is a mark, so that a row that comes or goes leaves the marks behind it.
    """

    row: int
    begin: int | None
    digest: str


@dataclass(frozen=True)
class Content:
    """What a file, a data set or a generator holds.

    ``digest``: of a file sha256 of its uncompressed bytes, or the etag of a remote parquet file; "" if the hub has to
    be asked. ``rows``: None if only a full read tells. ``columns``: None where they are always the same. ``step``: the
    rows of a piece that is read on its own. ``marks``: of a file of lines. ``stamp``: what changes when the file is
    written to or replaced, as it was before its content was read.
    """

    digest: str
    rows: int | None
    columns: Sequence[str] | None = None
    step: int = MARKED_ROWS
    marks: Sequence[Mark] = ()
    stamp: tuple[Any, ...] = ()

    def parts(self) -> list[list[Mark]]:
        """The marks of each piece, which begins with the first at or after a multiple of `step`."""
        parts: list[list[Mark]] = []
        least = 0
        for mark in self.marks:
            if mark.row >= least:
                parts.append([])
                least = (mark.row // self.step + 1) * self.step
            parts[-1].append(mark)
        return parts


def stamp_of(file: DataFile) -> tuple[Any, ...]:
    """What changes when a file is written to or replaced."""
    with _readable(file):
        info = file.filesystem.info(file.path)
    return tuple(info.get(name) for name in ("size", "mtime", "ino", "ETag", "etag"))


def inspect(file: DataFile, named: Sequence[str] = ()) -> Content:
    """The content of a file; InputError if it cannot be read. A remote parquet file is not read.

    The columns of a JSON file are the keys of its first rows, and of the others those that are ``named``, or in
    `LATE_KEYS`.
    """
    from fsspec.implementations.local import LocalFileSystem

    _check_kind(file)
    stamp = stamp_of(file)
    if file.is_parquet:
        local = isinstance(file.filesystem, LocalFileSystem)
        parquet = open_file(file)
        digest = _digest(file) if local else str(file.filesystem.checksum(file.path))
        groups = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        rows, columns, step = sum(groups), parquet.schema_arrow.names, piece_rows(sum(groups), max(groups, default=0))
    elif file.suffix == ".arrow":
        with open_arrow(file) as (schema, batches):
            digest, rows, columns = _digest(file), sum(batch.num_rows for batch in batches), schema.names
        step = piece_rows(rows, rows)
    elif file.suffix in TABLE_SUFFIXES:
        with _opened(file) as stream:
            columns = csv_columns(stream, f"source {file.address}", TABLE_SUFFIXES[file.suffix])
        digest, rows = _digest(file), sum(1 for _ in _csv_rows(file))
        step = piece_rows(rows, rows)
    else:
        return replace(_inspect_json(file, named), stamp=stamp)
    if repeated := [name for name, times in Counter(columns).items() if name and times > 1]:  # a header may end in ""
        raise InputError(
            f"source {file.address}: several columns are called {repeated[0]:.80}; rename or remove all but one of them"
        )
    return Content(digest, rows, columns, step, stamp=stamp)


def is_empty(file: DataFile) -> bool:
    """Whether a file holds no row: such shards are among the others of a dataset.

    Raises InputError if it cannot be read, or is of a kind that its name does not say.
    """
    _check_kind(file)
    if file.is_parquet:
        return not open_file(file).metadata.num_rows
    if file.suffix == ".arrow":
        with open_arrow(file) as (_, batches):
            return not any(batch.num_rows for batch in batches)
    return next(read_rows(file, ()), None) is None


def read_rows(
    file: DataFile, columns: Sequence[str], start: int = 0, stop: int | None = None, begin: int | None = None
) -> Iterator[tuple[int, Row]]:
    """(number, row) of the rows from ``start`` to before ``stop`` (None: all) in order; of tables only ``columns``.

    ``begin``: where row ``start`` begins in a file of lines, in bytes, if that is known.
    """
    end = float("inf") if stop is None else stop
    if file.is_parquet:
        return parquet_rows(file, columns, start, end)
    if file.suffix == ".arrow":
        return arrow_rows(file, columns, start, end)
    if begin is not None:
        return islice(enumerate(_lines_from(file, begin), start), None if stop is None else stop - start)
    rows = _csv_rows(file) if file.suffix in TABLE_SUFFIXES else _json_rows(file)
    return islice(enumerate(rows), start, stop)


def _lines_from(file: DataFile, begin: int) -> Iterator[Row]:
    with _opened(file) as stream:
        stream.seek(begin)
        yield from map(parse_line, lines(read_chunks(stream)))


def _csv_rows(file: DataFile) -> Iterator[Row]:
    with _opened(file) as stream:
        yield from csv_rows(stream, f"source {file.address}", TABLE_SUFFIXES[file.suffix])


def _json_rows(file: DataFile) -> Iterator[Row]:
    with _opened(file) as stream:
        is_array = holds_array(stream)
    with _opened(file) as stream:
        if is_array:
            yield from array_rows(stream, f"source {file.address}")
        else:
            yield from map(parse_line, lines(read_chunks(stream)))


def _inspect_json(file: DataFile, named: Sequence[str]) -> Content:
    columns = _sampled_columns(file, named)
    digest, count, last = hashlib.sha256(), 0, b""
    late = [*LATE_KEYS.items(), *((name, key) for name in named for key in _as_keys(name))]
    late = [(name, key) for name, key in late if name not in columns]
    longest = max((len(key) for _, key in late), default=1)

    def hashed(stream: Any) -> Iterator[bytes]:
        nonlocal last, late
        for chunk in read_chunks(stream):
            digest.update(chunk)
            text = last + chunk
            columns.extend(dict.fromkeys(name for name, key in late if key in text))
            late = [(name, key) for name, key in late if name not in columns]
            last = text[-longest:]
            yield chunk

    at: list[int] = []
    begins, digests = [(0, 0)], [hashlib.sha256()]
    with _opened(file) as stream:
        for line in lines(hashed(stream), at):
            data, size = repr(line).encode() if isinstance(line, Rejection) else line, count - begins[-1][0]
            chosen = size >= MARKED_ROWS and zlib.crc32(data) % (2 * MARKED_ROWS) == 0
            if chosen or size == 8 * MARKED_ROWS:
                begins.append((count, at[0]))
                digests.append(hashlib.sha256())
            digests[-1].update(data + b"\n")
            count += 1
    compressed = file.path.lower().endswith(tuple(filter(None, COMPRESSIONS)))
    places = zip(begins, digests, strict=True)
    marks = [Mark(row, None if compressed else begin, marked.hexdigest()) for (row, begin), marked in places]
    with _opened(file) as stream:
        is_array = holds_array(stream)
    if is_array:
        count = sum(1 for _ in _json_rows(file))
        return Content(digest.hexdigest(), count, columns, piece_rows(count, count))
    return Content(digest.hexdigest(), count, columns, piece_rows(count, count) if compressed else 1, marks)


def _as_keys(name: str) -> set[bytes]:
    """How a JSON object may write the key ``name``, with its colon."""
    texts = (json.dumps(name, ensure_ascii=ascii_only) for ascii_only in (True, False))
    return {f"{text}{colon}".encode() for text in texts for colon in (":", " :")}


def _sampled_columns(file: DataFile, named: Sequence[str]) -> list[str]:
    columns: dict[str, None] = {}
    rejections: list[Rejection] = []
    sampled, nested = 0, False
    for row in islice(_json_rows(file), ROWS_TO_SAMPLE):  # one at a time: a row may be long
        sampled, nested = sampled + 1, isinstance(row, dict) and _is_nested(row, named)
        if isinstance(row, Rejection):
            rejections.append(row)
        else:
            columns.update(dict.fromkeys(row))
    if not columns:
        raise InputError(f"source {file.address}: it holds no JSON row ({_why_no_row(file, rejections)})")
    if sampled == 1 and nested:
        raise InputError(
            f"source {file.address}: it holds one JSON object in which the rows, or their columns, are nested "
            f"({', '.join(islice(columns, 3))}, …); expected one JSON object per row: write the rows as JSON lines"
        )
    return list(columns)


def _why_no_row(file: DataFile, rejections: Sequence[Rejection]) -> str:
    with _opened(file) as stream:
        head = stream.read(HEAD_BYTES).strip()
    expected = "expected one JSON object per line"
    if head.startswith(b"{") and not rejections:
        return f"its objects have no keys; {expected}"
    first, ended, _ = head.partition(b"\n")
    if first.startswith(b"{") and ended and not first.rstrip().endswith(b"}"):
        return f"its objects go over several lines, or its lines end in a comma; {expected}: jq -c . FILE writes it so"
    return f"its first line: {rejections[0].detail}; {expected}" if rejections else f"it is empty; {expected}"


def _is_nested(row: dict[str, Any], named: Sequence[str]) -> bool:
    """Whether an object is no row of a trace, and holds lists or objects, which may be rows."""
    needed = [mapping.resolve(list(row)).columns() for mapping in ready_mappings().values()]
    fits = bool(named) or any(set(columns) <= row.keys() for columns in needed)
    return not fits and any(isinstance(value, list | dict) for value in row.values())


def _digest(file: DataFile) -> str:
    digest = hashlib.sha256()
    with _opened(file) as stream:
        for chunk in read_chunks(stream):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _opened(file: DataFile) -> Iterator[Any]:
    """The decompressed bytes of a file; InputError where they cannot be read."""
    if file.path.lower().endswith((".xz", ".lzma")):
        raise InputError(f"source {file.address}: an xz file decides how much memory it takes: compress it with gzip")
    with _readable(file), _decompressed(file) as stream:
        yield stream


@contextmanager
def _readable(file: DataFile) -> Iterator[None]:
    """Turn an error of reading ``file``, also one of the driver of its storage, into an InputError."""
    from fsspec.implementations.local import LocalFileSystem

    try:
        yield
    except InputError:
        raise
    except Exception as error:
        local = isinstance(file.filesystem, LocalFileSystem)
        if local and not isinstance(error, OSError | EOFError | zlib.error):
            raise
        # The message of another storage names its server.
        what = reason(error) if local else first_line(error)
        advice = "; its end is missing: get the whole file again" if isinstance(error, EOFError) else ""
        raise InputError(f"source {file.address}: cannot be read: {what}{advice}") from error


def _decompressed(file: DataFile) -> Any:
    if file.path.lower().endswith(".zst"):
        import pyarrow as pa

        return pa.CompressedInputStream(file.filesystem.open(file.path, "rb"), "zstd")
    return file.filesystem.open(file.path, "rb", compression="infer")


def _check_kind(file: DataFile) -> None:
    with _readable(file), file.filesystem.open(file.path, "rb") as stream:
        head = stream.read(HEAD_BYTES)
    _check_head(head, file)
    if file.is_parquet or file.suffix == ".arrow":
        return
    with _opened(file) as stream:
        head = stream.read(HEAD_BYTES)
    _check_head(head, file)


def _check_head(head: bytes, file: DataFile) -> None:
    for beginning, kind, suffix in OTHER_KINDS:
        if head.lstrip().startswith(beginning) and not (suffix and file.path.lower().endswith(suffix)):
            raise InputError(f"source {file.address}: it is {kind}")
