"""Read rows of JSON files in bounded memory: lines, or the elements of one array.

A row of more than `LARGEST_ROW` bytes is never held in memory, whatever the file decompresses to. Arrays are decoded
by Python's own parser: ijson refuses a whole file for one NaN or one number of 65 bits, and puts "?" for half of a
surrogate pair without a word.
"""

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any

from core.errors import InputError, first_line
from targets.trace import Rejection

CHUNK_BYTES = 1 << 20
LARGEST_ROW = 16 << 20  # bytes; parsed, lists of short values take up to 24 times as much
BLANKS = " \t\n\r"
BLANK_BYTES = BLANKS.encode()

Row = dict[str, Any] | Rejection


def read_chunks(stream: Any) -> Iterator[bytes]:
    """The content of a binary stream."""
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def holds_array(stream: Any) -> bool:
    """Whether the content of a binary stream begins as an array does; a byte order mark and blanks may precede it."""
    chunks = (chunk.removeprefix(codecs.BOM_UTF8).lstrip(BLANK_BYTES) for chunk in read_chunks(stream))
    return next(filter(None, chunks), b"").startswith(b"[")


def lines(chunks: Iterable[bytes], begins: list[int] | None = None) -> Iterator[bytes | Rejection]:
    """The lines that are not blank; one of more than `LARGEST_ROW` bytes becomes a `Rejection`.

    ``begins``: becomes a list of one value, the position in bytes at which the line begins that was given last.
    """
    kept: list[bytes] = []
    size, blank = 0, True
    read = 0  # bytes before this line
    for chunk in chunks:
        pieces = chunk.split(b"\n")
        for number, piece in enumerate(pieces):
            size, blank = size + len(piece), blank and not piece.strip()
            if size <= LARGEST_ROW:
                kept.append(piece)
            else:
                kept.clear()
            if number < len(pieces) - 1:  # a newline follows
                if begins is not None:
                    begins[:] = [read]
                if not blank:
                    yield _line(kept, size)
                read += size + 1
                kept, size, blank = [], 0, True
    if begins is not None:
        begins[:] = [read]
    if not blank:
        yield _line(kept, size)


def _line(pieces: list[bytes], size: int) -> bytes | Rejection:
    if size > LARGEST_ROW:
        return Rejection("too_large", f"a line of {size:,} bytes (limit {LARGEST_ROW:,}): split it into rows")
    return b"".join(pieces)


def parse_line(line: bytes | Rejection) -> Row:
    """The object of a line, or why there is none."""
    if isinstance(line, Rejection):
        return line
    try:
        row = json.loads(line)
    except UnicodeDecodeError as error:
        return Rejection("bad_text", f"not UTF-8: {error.reason} at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return Rejection("unreadable", f"not JSON: {first_line(error)}")
    return _object(row)


def _object(row: Any) -> Row:
    if isinstance(row, dict):
        return row
    return Rejection("wrong_type", f"a row that is a {type(row).__name__}, not an object")


def array_rows(stream: Any, where: str) -> Iterator[Row]:
    """The elements of the array that a stream holds, decoded one after the other.

    Raises InputError, which begins with ``where``, if the content is no array, or if anything follows the array.
    """
    decode = json.JSONDecoder().raw_decode
    text = _Window(stream, f"{where}: not JSON")
    text.expect("[")
    number = 0
    while (following := text.peek()) != "]":
        if number:
            text.expect(",")
            following = text.peek()
        if following == "]":
            raise InputError(f"{where}: not JSON: element {number} is missing after a comma")
        while True:
            try:
                row, end = decode(text.text, text.position)
                problem = "it ends too early"
            except ValueError as error:
                row, end, problem = None, len(text.text), first_line(error)
            except RecursionError as error:
                raise InputError(f"{where}: not JSON: element {number}: {first_line(error)}") from error
            if end < len(text.text):  # a number at the end may go on
                break
            if len(text.text) - text.position > LARGEST_ROW:
                raise InputError(
                    f"{where}: element {number} has more than {LARGEST_ROW:,} bytes, or is not JSON ({problem}); "
                    "write one JSON object per line, or make the element smaller"
                )
            if not text.grow():
                raise InputError(f"{where}: not JSON: element {number}: {problem}")
        text.position = end
        number += 1
        yield _object(row)
    text.position += 1
    if text.skip_blanks():
        raise InputError(
            f"{where}: more data follow the array of {number:,} rows ({text.text[text.position :][:20]!r}); write one "
            "array, or one JSON object per line"
        )


class _Window:
    """The part of a UTF-8 stream that is being decoded: ``text`` from ``position`` on."""

    def __init__(self, stream: Any, where: str) -> None:
        self.text, self.position = "", 0
        self._stream, self._where = stream, where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()

    def grow(self) -> bool:
        """Read as much as is there again, so that decoding anew takes no more than twice the time."""
        chunk = self._stream.read(max(CHUNK_BYTES, len(self.text) - self.position))
        try:
            new = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise InputError(f"{self._where}: not UTF-8: {error.reason}") from error
        self.text, self.position = self.text[self.position :] + new, 0
        return bool(chunk)

    def skip_blanks(self) -> bool:
        """Move to the next character that is not blank; False if there is none."""
        while True:
            while self.position < len(self.text):
                if self.text[self.position] not in BLANKS:
                    return True
                self.position += 1
            if not self.grow():
                return False

    def peek(self) -> str:
        """The next character that is not blank."""
        if not self.skip_blanks():
            raise InputError(f"{self._where}: the array is not closed")
        return self.text[self.position]

    def expect(self, character: str) -> None:
        if (following := self.peek()) != character:
            raise InputError(f"{self._where}: expected {character!r}, found {following!r}")
        self.position += 1
