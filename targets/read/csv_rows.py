"""Read rows of CSV files: every value is a text, and an empty cell is no value."""

import csv
import io
from collections.abc import Iterator
from itertools import chain
from typing import Any

from core.errors import InputError, first_line
from targets.read.json_rows import CHUNK_BYTES, LARGEST_ROW, Row
from targets.trace import Rejection

QUOTE = '"'
DELIMITERS = ",;\t|"  # between the values of a row
LINE_ENDS = ("\n", "\r")


def csv_rows(stream: Any, where: str, delimiter: str) -> Iterator[Row]:
    """The rows below the header of a binary stream.

    A row with more or fewer values, or of more than `LARGEST_ROW` characters, becomes a `Rejection`. Raises InputError,
    which begins with ``where``, for a file that is not CSV.
    """
    lines = _Lines(stream)
    reader, header = _open(lines, where, delimiter)
    while True:
        try:
            values = _next(reader, lines, where)
        except _TooLarge:
            size = lines.skip_row()
            if lines.open_quote:
                raise _unclosed(lines, where) from None
            yield Rejection("too_large", f"a row of {size:,} characters (limit {LARGEST_ROW:,})")
            continue
        if values is None:
            return
        if not values:
            continue
        if len(values) == len(header):
            yield {name: value or None for name, value in zip(header, values, strict=True)}
        else:
            yield Rejection("unreadable", f"{len(values)} values where the header has {len(header)}")


def csv_columns(stream: Any, where: str, delimiter: str) -> list[str]:
    """The header of a CSV file."""
    return _open(_Lines(stream), where, delimiter)[1]


class _TooLarge(Exception):
    """A row has more than `LARGEST_ROW` characters."""


class _Lines:
    """The lines of a binary stream, of which a `csv.reader` takes one or several for a row.

    Only CR and LF end a line: `codecs.getreader` would also split at U+2028 and the like.
    """

    def __init__(self, stream: Any) -> None:
        csv.field_size_limit(LARGEST_ROW)
        # Bytes that are not UTF-8 become lone surrogates, for which the row is rejected.
        self._text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
        self._size, self._quotes, self._ended = 0, 0, 0
        self.line = ""  # "" at the end of the stream, too
        self.row = 1  # the number of the line at which the row begins

    def begin_row(self) -> None:
        self.row, self._size, self._quotes = self._ended + 1, 0, 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        self._read(LARGEST_ROW + 1 - self._size)
        if self._size > LARGEST_ROW:
            raise _TooLarge
        if not self.line:
            raise StopIteration
        return self.line

    def skip_row(self) -> int:
        """Read the rest of a row, which ends with the first line after which every quote is closed; its characters."""
        while self.line and (self.open_quote or not self.line.endswith(LINE_ENDS)):
            self._read(CHUNK_BYTES)
        return self._size

    @property
    def open_quote(self) -> bool:
        return self._quotes % 2 == 1

    def _read(self, most: int) -> None:
        self.line = self._text.readline(most)
        self._size += len(self.line)
        self._quotes += self.line.count(QUOTE)
        self._ended += self.line.endswith(LINE_ENDS)


def _open(lines: _Lines, where: str, delimiter: str) -> tuple[Iterator[list[str]], list[str]]:
    """Return a reader of the rows below the header, and the header, by which another delimiter is recognised."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        names = _next(reader, lines, where)
    except _TooLarge as error:
        raise InputError(
            f"{where}: its first row has more than {LARGEST_ROW:,} characters; expected a header"
        ) from error
    if not names:
        raise InputError(f"{where}: its first line is empty; expected a header, and a row for each trace below it")
    found = max(DELIMITERS, key=names[0].count)
    if len(names) == 1 and found in names[0]:
        reader = csv.reader(chain([lines.line], lines), delimiter=found, strict=True)
        names = _next(reader, lines, where) or names
    return reader, names


def _next(reader: Iterator[list[str]], lines: _Lines, where: str) -> list[str] | None:
    lines.begin_row()
    try:
        return next(reader, None)
    except csv.Error as error:
        if not lines.line:
            raise _unclosed(lines, where) from error
        raise InputError(
            f"{where}: not CSV: the row at line {lines.row}: {first_line(error)}; put values with commas, quotes or "
            "newlines in quotes, and double the quotes in them"
        ) from error


def _unclosed(lines: _Lines, where: str) -> InputError:
    return InputError(
        f"{where}: not CSV: it ends within a quoted value of the row at line {lines.row}; if the file was cut, copy or "
        "write it again, else close the quote"
    )
