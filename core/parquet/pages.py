"""What a parquet file holds, by the headers of its pages: the sizes in its footer are not what a reader goes by.

A header is a struct in Thrift's compact protocol (https://github.com/apache/parquet-format). A small file can hold any
amount of text: a page of blanks shrinks to nothing, and a dictionary page stores a text once, however many rows repeat
it.
"""

from dataclasses import dataclass
from typing import Any

from core.errors import InputError

LARGEST_FOOTER = 32 << 20  # bytes; in memory it takes up to 15 times as much
MOST_PAGES = 200_000  # of one column in one row group
HEADER_BYTES = 256  # of a page's header without statistics
LARGEST_HEADER = 1 << 20
DICTIONARY = 2  # type of a page
DICTIONARY_ENCODINGS = {2, 8}
DELTA_TEXTS = 7  # an encoding in which a value repeats the beginning of the one before it


@dataclass(frozen=True)
class ColumnSizes:
    """What the pages of a column in one row group hold."""

    values: int
    bytes: int  # of the pages, decompressed
    largest_page: int
    dictionary: int  # bytes of the dictionary, which may be one text
    repeated: int  # bytes of text that come of it at most
    delta: int  # bytes of text that come of delta-encoded pages at most


def check_footer(stream: Any, where: str) -> None:
    """Raise InputError, which begins with ``where``, for a footer that would fill the memory."""
    size = stream.seek(0, 2)
    if size < 12:
        return  # no parquet, as its reader will say
    stream.seek(size - 8)
    length = int.from_bytes(stream.read(4), "little")
    if LARGEST_FOOTER < length < size:
        raise InputError(
            f"{where}: its footer has {length:,} bytes (limit {LARGEST_FOOTER:,}); write the file again with fewer "
            "columns and larger row groups"
        )


def column_sizes(stream: Any, column: Any, where: str) -> ColumnSizes:
    """The sizes of a column chunk, `pyarrow.parquet.ColumnChunkMetaData`; InputError if a page's header is damaged."""
    start, end = column.data_page_offset, column.total_compressed_size
    if column.dictionary_page_offset is not None and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    end += start
    values = total = largest = dictionary = repeated = delta = pages = 0
    while start < end:
        fields, length = _header(stream, start, where)
        size, compressed = fields.get((2,), -1), fields.get((3,), -1)
        if size < 0 or compressed < 0:
            raise InputError(f"{where}: the header of a page is damaged; write the file again")
        pages += 1
        if pages > MOST_PAGES:
            raise InputError(f"{where}: more than {MOST_PAGES:,} pages; write the file again with larger ones")
        total, largest = total + size, max(largest, size)
        if fields.get((1,)) == DICTIONARY:
            dictionary = max(dictionary, size)
        else:  # a data page of version 1 or 2
            count = fields.get((5, 1), fields.get((8, 1), 0))
            encoding = fields.get((5, 2), fields.get((8, 4), 0))
            if count < 0:
                raise InputError(f"{where}: a page of {count} values: the file is damaged; write it again")
            values += count
            repeated += dictionary * count if encoding in DICTIONARY_ENCODINGS else 0
            delta += size * count if encoding == DELTA_TEXTS else 0
        start += length + compressed
    return ColumnSizes(values, total, largest, dictionary, repeated, delta)


def _header(stream: Any, position: int, where: str) -> tuple[dict[tuple[int, ...], int], int]:
    """The whole numbers in the page header at ``position``, by the numbers of their fields, and its length."""
    size = HEADER_BYTES
    while True:
        stream.seek(position)
        data = stream.read(size)
        try:
            fields: dict[tuple[int, ...], int] = {}
            return fields, _Reader(data).struct(fields, ())
        except IndexError:  # it goes on
            if len(data) < size or size >= LARGEST_HEADER:
                raise InputError(f"{where}: the header of a page is damaged; write the file again") from None
            size *= 16


class _Reader:
    """Reads one struct; IndexError where the data end before it."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def struct(self, fields: dict[tuple[int, ...], int], path: tuple[int, ...]) -> int:
        """Add the whole numbers of a struct to ``fields``; the position after it."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind, name = head & 15, (*path, number)
            if kind == 3:
                self._byte()
            elif kind in (4, 5, 6):
                fields[name] = self._integer()
            elif kind == 8:
                length = self._varint()  # before the position is read
                self._position += length
            elif kind == 12 and len(path) < 4:
                self.struct(fields, name)
            elif kind not in (1, 2):
                raise IndexError
        return self._position

    def _byte(self) -> int:
        self._position += 1
        return self._data[self._position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value, shift = value | (byte & 0x7F) << shift, shift + 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
