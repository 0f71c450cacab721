"""The text of a request trace as columns of cells, CSV or one JSON object a line.

A text that is regular is cut in one go; only one with quotes or faults is walked row by row. The
room does not know what a column means.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from simkernel.errors import BadFile

BLOCK_LINES = 200_000  # our choice: lines cut at a time, so that memory stays near the result's
MOST_FAULTS = 50  # our choice: faults told one by one; of the rest the number is told
MOST_BYTES = 8 << 30  # our choice: unpacked; a week of Azure's conversations has 1.2 GB
DELIMITERS = (",", "\t", ";")

_FILLED = re.compile(r"[^\n]*\S[^\n]*")


@dataclass
class RowFaults:
    """What is wrong with the rows so far; the first ones are kept, all are counted."""

    label: str
    told: list[tuple[int, str]] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, problem: str) -> None:
        """One fault of one line."""
        self.count += 1
        if len(self.told) < MOST_FAULTS:
            self.told.append((line, problem))

    def raise_if_any(self) -> None:
        """Raise every fault at once.

        Raises
        ------
        BadFile : a row is wrong
        """
        if self.count:
            lines = [f"{self.label} line {line}: {text}" for line, text in sorted(self.told)]
            more = self.count - len(lines)
            raise BadFile(*lines, *([f"{self.label}: {more} more faults like these"] * (more > 0)))


@dataclass(frozen=True)
class Block:
    """Some rows: cells by column, and the line each row stands in (1 is the first).

    Cells are as read: text of CSV, any value of JSON.
    """

    lines: Sequence[int]
    cells: Mapping[str, Sequence[Any]]


def text_of(path: Path) -> str:
    """The text of a file, unpacked if it is gzip or xz.

    Raises
    ------
    BadFile : unreadable, damaged, too large unpacked, not UTF-8, or without a row
    """
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}; give a trace file") from error
    raw = _unpacked(path, packed)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(
            f"{path} is not UTF-8 text (byte {error.start}); save the trace as UTF-8"
        ) from error
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise BadFile(f"{path} is empty; give a trace with at least one request")
    return text


def is_json(text: str) -> bool:
    """The text is one JSON object a line, not CSV."""
    return text.lstrip()[:1] in ("{", "[")


def header_of(text: str) -> list[str]:
    """Names of the columns: the first line of CSV, the keys of the first object of JSON.

    Raises
    ------
    BadFile : the first line cannot be read
    """
    first = _FILLED.search(text).group()  # type: ignore[union-attr]  # the text is not blank
    if not is_json(text):
        try:
            names = next(csv.reader([first], delimiter=_delimiter(first)))
        except csv.Error as error:
            raise BadFile(f"{first[:60]!r} is no header ({error}); give a trace") from error
        return [name.strip() for name in names]
    try:
        found = json.loads(first)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadFile(f"{first.strip()[:60]!r} is no JSON object; write one object a line")
    return list(found)


def blocks_of(text: str, columns: Sequence[str], faults: RowFaults) -> Iterator[Block]:
    """The rows of some columns, block by block; rows of a wrong shape are faults and left out.

    Parameters
    ----------
    text : as `text_of` gives it
    columns : names out of `header_of`; a key that a JSON object lacks gives None
    """
    source = io.StringIO(text)
    if is_json(text):
        for numbers, rows in _batches(source, 1):
            yield _json_block(numbers, rows, columns, faults)
        return
    skipped, first = next(pair for pair in enumerate(source, start=1) if not pair[1].isspace())
    delimiter = _delimiter(first)
    header = header_of(text)
    if '"' in text:
        yield from _quoted_blocks(text, delimiter, header, columns, faults)
        return
    for numbers, rows in _batches(source, skipped + 1):
        yield _plain_block(numbers, rows, delimiter, header, columns, faults)


Numbers = Sequence[int]


def _unpacked(path: Path, packed: bytes) -> bytes:
    """The bytes behind gzip or xz, or the bytes as they are."""
    try:
        if packed[:2] == b"\x1f\x8b":
            return _whole(path, zlib.decompressobj(wbits=31), packed)
        if packed[:6] == b"\xfd7zXZ\x00":
            return _whole(path, lzma.LZMADecompressor(), packed)
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise BadFile(f"{path} is damaged ({error}); fetch it again") from error
    return packed


def _whole(path: Path, unpacker: Any, packed: bytes) -> bytes:
    raw: bytes = unpacker.decompress(packed, MOST_BYTES)
    if len(raw) >= MOST_BYTES:
        raise BadFile(f"{path} unpacks to more than {MOST_BYTES:,} bytes; give a part of it")
    if not unpacker.eof:
        raise BadFile(f"{path} is cut off; fetch it again")
    return raw


def _delimiter(header: str) -> str:
    return max(DELIMITERS, key=header.count)


def _batches(source: Iterator[str], at: int) -> Iterator[tuple[Numbers, list[str]]]:
    """Lines that hold something with their numbers, a block at a time, from line `at` on."""
    while rows := list(islice(source, BLOCK_LINES)):
        numbers: Numbers = range(at, at + len(rows))
        at += len(rows)
        if any(map(str.isspace, rows)):
            filled = [pair for pair in zip(numbers, rows, strict=True) if not pair[1].isspace()]
            numbers, rows = [number for number, _ in filled], [row for _, row in filled]
        if rows:
            yield numbers, rows


def _plain_block(
    numbers: Numbers,
    rows: list[str],
    delimiter: str,
    header: list[str],
    columns: Sequence[str],
    faults: RowFaults,
) -> Block:
    """Rows without quotes: all cells are cut at once, and every width-th belongs to a column."""
    width = len(header)
    widths = [count + 1 for count in map(str.count, rows, repeat(delimiter))]
    if set(widths) != {width}:
        for number, found in zip(numbers, widths, strict=True):
            _check_width(number, found, width, faults)
        good = [at for at, found in enumerate(widths) if found == width]
        numbers, rows = [numbers[at] for at in good], [rows[at] for at in good]
    together = delimiter.join(rows).replace("\n", "")
    flat = together.split(delimiter) if rows else []
    return Block(numbers, {name: flat[header.index(name) :: width] for name in columns})


def _check_width(number: int, cells: int, width: int, faults: RowFaults) -> None:
    if cells != width:
        faults.add(number, f"has {cells} cells, the header {width}; mend or remove the row")


def _quoted_blocks(
    text: str, delimiter: str, header: list[str], columns: Sequence[str], faults: RowFaults
) -> Iterator[Block]:
    """Rows with quotes, which may hold delimiters and line ends."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    rows = _numbered_rows(reader, faults)
    next(rows, None)
    while batch := list(islice(rows, BLOCK_LINES)):
        for number, cells in batch:
            _check_width(number, len(cells), len(header), faults)
        good = [pair for pair in batch if len(pair[1]) == len(header)]
        found = {name: [cells[header.index(name)] for _, cells in good] for name in columns}
        yield Block([number for number, _ in good], found)


def _numbered_rows(reader: Any, faults: RowFaults) -> Iterator[tuple[int, list[str]]]:
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(reader.line_num, f"cannot be read ({error}); mend or remove the row")
            continue
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _json_block(
    numbers: Numbers, lines: list[str], columns: Sequence[str], faults: RowFaults
) -> Block:
    try:
        rows = json.loads(f"[{','.join(lines)}]")
        is_whole = len(rows) == len(lines) and set(map(type, rows)) == {dict}
    except (ValueError, RecursionError):
        is_whole = False
    if not is_whole:
        objects = [_object(*pair, faults) for pair in zip(numbers, lines, strict=True)]
        good = [at for at, row in enumerate(objects) if row is not None]
        numbers, rows = [numbers[at] for at in good], [objects[at] for at in good]
    return Block(numbers, {name: [row.get(name) for row in rows] for name in columns})


def _object(number: int, line: str, faults: RowFaults) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        faults.add(number, f"is no JSON ({error}); mend or remove the line")
        return None
    if not isinstance(found, dict):
        faults.add(number, f"{line.strip()[:40]!r} is no JSON object; write one object a line")
        return None
    return found
