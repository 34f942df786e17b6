"""Thrift's compact protocol, as far as parquet uses it: to write footers that do not tell the truth."""

from pathlib import Path
from typing import Any

BINARY, LIST, STRUCT = 8, 9, 12
INTEGERS = (4, 5, 6)  # of 16, 32 and 64 bits

Struct = dict[int, tuple[int, Any]]  # number of a field -> (type, value)


def read_struct(data: bytes, position: int = 0) -> tuple[Struct, int]:
    """The struct at ``position``, and where it ends."""
    fields: Struct = {}
    number = 0
    while head := data[position]:
        position += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, position = _read_integer(data, position)
        value, position = _read(data, position, kind)
        fields[number] = (kind, value)
    return fields, position + 1


def write_struct(fields: Struct) -> bytes:
    """The bytes of a struct."""
    parts = []
    for number, (kind, value) in sorted(fields.items()):
        parts.append(bytes([kind]) + _zigzag(number) + _write(kind, value))
    return b"".join(parts) + b"\0"


def edit_footer(path: Path, edit: Any) -> None:
    """Let ``edit`` change the footer of a parquet file, a `Struct`, in place."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = read_struct(data[-8 - length : -8])
    edit(footer)
    written = write_struct(footer)
    path.write_bytes(data[: -8 - length] + written + len(written).to_bytes(4, "little") + b"PAR1")


def _read(data: bytes, position: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, position
    if kind == 3:
        return data[position], position + 1
    if kind in INTEGERS:
        return _read_integer(data, position)
    if kind == BINARY:
        length, position = _read_varint(data, position)
        return data[position : position + length], position + length
    if kind == STRUCT:
        return read_struct(data, position)
    assert kind == LIST, kind
    size, element = data[position] >> 4, data[position] & 15
    position += 1
    if size == 15:
        size, position = _read_varint(data, position)
    values = []
    for _ in range(size):
        value, position = _read(data, position, element)
        values.append(value)
    return (element, values), position


def _write(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value])
    if kind in INTEGERS:
        return _zigzag(value)
    if kind == BINARY:
        return _varint(len(value)) + value
    if kind == STRUCT:
        return write_struct(value)
    element, values = value
    return bytes([240 | element]) + _varint(len(values)) + b"".join(_write(element, each) for each in values)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value, shift, position = value | (byte & 127) << shift, shift + 7, position + 1
        if byte < 128:
            return value, position


def _read_integer(data: bytes, position: int) -> tuple[int, int]:
    value, position = _read_varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes(parts) + bytes([value])


def _zigzag(value: int) -> bytes:
    return _varint((value << 1 if value >= 0 else (-value << 1) - 1) & (1 << 64) - 1)
