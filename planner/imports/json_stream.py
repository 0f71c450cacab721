"""A large JSON file piece by piece: one list of its top object item by item, the rest whole.

The standard decoder does the work on a window of the text, so memory holds a window and no more,
and nothing outside the standard library is needed: on traces it reads some 50 MB/s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from planner.imports.text_files import MOST_BYTES, opened
from simkernel.errors import BadFile

PIECE = 1 << 20
"""Letters read at once; own choice."""

MOST_ITEM = 1 << 25
"""Letters of one item, or of what stands beside the list; own choice: a trace's event has some
hundreds, what a profiler says of devices some thousands."""

SPACE = re.compile(r"[ \t\n\r]*")


def stream(path: Path, wanted: str) -> Iterator[tuple[str, Any]]:
    """Pairs of a key of the top object and its value, but of the wanted list one item each.

    A file that is a list holds the items alone.

    Raises
    ------
    BadFile : no JSON, truncated, too large or too deep, or numbers that are none (NaN)
    """
    with opened(path) as text:
        yield from _Window(text, path.name).pairs(wanted)


def objects(path: Path) -> Iterator[Any]:
    """Values of a file one after another, with nothing but space between them.

    Raises
    ------
    BadFile : as `stream`
    """
    with opened(path) as text:
        yield from _Window(text, path.name).values()


class _Window:
    """The part of a text that is being read."""

    def __init__(self, text: IO[str], name: str) -> None:
        self.text, self.name = text, name
        self.buffer, self.at, self.before = "", 0, 0
        self.is_over = False
        self.decoder = json.JSONDecoder(parse_constant=self._no_number)

    def pairs(self, wanted: str) -> Iterator[tuple[str, Any]]:
        """As `stream`."""
        first = self._peek()
        if first == "[":
            yield from ((wanted, item) for item in self._items())
        elif first == "{":
            yield from self._members(wanted)
        else:
            self._fault("begins with neither { nor [")
        if self._peek(may_end=True):
            self._fault("goes on after its end")

    def values(self) -> Iterator[Any]:
        """Whole values until the end."""
        while self._peek(may_end=True):
            yield self._value()

    def _members(self, wanted: str) -> Iterator[tuple[str, Any]]:
        self.at += 1
        while self._peek() != "}":
            key = self._value()
            if not isinstance(key, str) or self._peek() != ":":
                self._fault("has no name and colon where one was due")
            self.at += 1
            if key == wanted and self._peek() == "[":
                yield from ((key, item) for item in self._items())
            else:
                yield key, self._value()
            self._comma("}")
        self.at += 1

    def _items(self) -> Iterator[Any]:
        self.at += 1
        while self._peek() != "]":
            yield self._value()
            self._comma("]")
        self.at += 1

    def _comma(self, end: str) -> None:
        found = self._peek()
        if found == ",":
            self.at += 1
            if self._peek() == end:
                self._fault(f"has a comma before {end}")
        elif found != end:
            self._fault(f"has {found!r} where a comma or {end} was due")

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.buffer, self.at)
            except RecursionError:
                self._fault("is nested too deeply")
            except json.JSONDecodeError as error:
                if self.is_over:
                    self._fault_or_end(error)
                if len(self.buffer) - self.at > MOST_ITEM:
                    self._fault(f"has an item of more than {MOST_ITEM:,} letters, or is no JSON")
                self._more()
                continue
            except ValueError as error:
                self._fault(f"has a number that is none ({str(error)[:60]})")
            if end < len(self.buffer) or self.is_over:
                self.at = end
                return value
            self._more()

    def _peek(self, *, may_end: bool = False) -> str:
        """The next letter that is no space; "" at the end where it may be one."""
        while True:
            self.at = SPACE.match(self.buffer, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.buffer):
                return self.buffer[self.at]
            if self.is_over:
                if may_end:
                    return ""
                self._fault("is truncated: it ends in the middle")
            self._more()

    def _more(self) -> None:
        piece = self.text.read(max(PIECE, len(self.buffer) - self.at))
        self.is_over = not piece
        self.before += self.at
        if self.before > MOST_BYTES:
            self._fault(f"has more than {MOST_BYTES:,} letters")
        self.buffer, self.at = self.buffer[self.at :] + piece, 0

    def _fault_or_end(self, error: json.JSONDecodeError) -> NoReturn:
        if error.pos >= len(self.buffer) - 1 or error.msg.startswith("Unterminated"):
            self._fault("is truncated: it ends in the middle")
        self._fault(f"is no JSON ({error.msg})", error.pos)

    def _no_number(self, text: str) -> NoReturn:
        raise ValueError(text)

    def _fault(self, what: str, at: int | None = None) -> NoReturn:
        place = self.before + (self.at if at is None else at)
        raise BadFile(f"{self.name} {what} (letter {place:,}); give the file as it was written")
