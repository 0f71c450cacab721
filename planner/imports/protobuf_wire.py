"""Protocol Buffers on the wire: messages with their lengths before them, and their fields.

No schema is loaded and no code generated: a reader names the numbers of the fields that it wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from planner.imports.text_files import MOST_BYTES, unpacked
from simkernel.errors import BadFile

MOST_MESSAGE = 1 << 26
"""Bytes of one message; own choice: a node of a graph has some hundreds."""

LONGEST_VARINT = 10  # 64 bits, seven a byte

Field = tuple[int, int | bytes]
"""Number of a field, and its value: an integer, or bytes of anything else."""


def messages(path: Path) -> Iterator[bytes]:
    """Every message of a file, plain or gzipped.

    Raises
    ------
    BadFile : it cannot be read, is truncated, or holds what is no such message
    """
    with unpacked(path) as file:
        total = 0
        while (size := _length(file, path.name)) is not None:
            total += size
            if size > MOST_MESSAGE or total > MOST_BYTES:
                raise BadFile(
                    f"{path.name} has a message of {size:,} bytes or more than "
                    f"{MOST_BYTES:,} in all; is it an execution trace?"
                )
            data = file.read(size)
            if len(data) < size:
                raise BadFile(f"{path.name} is truncated: it ends in the middle of a message")
            yield data


def fields(data: bytes) -> Iterator[Field]:
    """Fields of a message, in order.

    Raises
    ------
    ValueError : it is cut short or no message
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < 0x80 else varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == 2:
            is_short = at < end and data[at] < 0x80
            size, at = (data[at], at + 1) if is_short else varint(data, at)
            value = data[at : at + size]
            at += size
        elif kind == 0:
            value, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value = data[at : at + size]
            at += size
        else:
            raise ValueError(f"a field of kind {kind}")
        if at > end or not number:
            raise ValueError("a field that is cut short")
        yield number, value


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A whole number of seven bits a byte, and the place behind it.

    Raises
    ------
    ValueError : it has no end
    """
    value = shift = 0
    for place in range(at, min(at + LONGEST_VARINT, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place + 1
        shift += 7
    raise ValueError("a number without an end")


def whole_numbers(value: int | bytes) -> list[int]:
    """A repeated field of whole numbers, packed or one of them.

    Raises
    ------
    ValueError : it is cut short
    """
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def _length(file: IO[bytes], name: str) -> int | None:
    """Length of the next message; None at the end of the file."""
    size = shift = 0
    for place in range(LONGEST_VARINT):
        byte = file.read(1)
        if not byte:
            if place:
                raise BadFile(f"{name} is truncated: it ends in the middle of a length")
            return None
        size |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return size
        shift += 7
    raise BadFile(f"{name} has a length without an end; is it an execution trace?")
