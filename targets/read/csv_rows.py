"""Read rows of CSV files: every value is a text, and an empty cell is no value."""

import codecs
import csv
from collections.abc import Iterator
from typing import Any

from core.errors import InputError, first_line
from targets.read.json_rows import LARGEST_ROW, Row
from targets.trace import Rejection


def csv_rows(stream: Any, where: str, delimiter: str) -> Iterator[Row]:
    """The rows below the header of a binary stream; one with more or fewer values becomes a `Rejection`.

    Raises InputError, which begins with ``where``, for a file that is not CSV.
    """
    reader = _reader(stream, delimiter)
    header = _next(reader, where)
    while (values := _next(reader, where)) is not None:
        if not values or header is None:
            continue
        if len(values) == len(header):
            yield {name: value or None for name, value in zip(header, values, strict=True)}
        else:
            yield Rejection("unreadable", f"{len(values)} values where the header has {len(header)}")


def csv_columns(stream: Any, where: str, delimiter: str) -> list[str]:
    """The header of a CSV file."""
    return _next(_reader(stream, delimiter), where) or []


def _reader(stream: Any, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(LARGEST_ROW)
    # Bytes that are not UTF-8 become lone surrogates, for which the row is rejected.
    text = codecs.getreader("utf-8-sig")(stream, "surrogateescape")
    return csv.reader(text, delimiter=delimiter, strict=True)


def _next(reader: Iterator[list[str]], where: str) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        raise InputError(
            f"{where}: not CSV ({first_line(error)}); put values with commas or newlines in quotes"
        ) from error
