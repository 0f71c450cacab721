"""Where a key stands: line numbers of every key and list element of a TOML text.

The standard reader gives values without lines, so this walks the same text once more, and only
as far as it must to skip values. It expects text that the standard reader accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\s#]+(?: \d\d:[^,\]}\s#]+)?")


def lines_of(text: str) -> Mapping[Path, int]:
    """Line (1 is the first) of every table, key and list element, by path.

    Parameters
    ----------
    text : a TOML document that `tomllib` reads

    Returns
    -------
    {("axes", "tensor_parallel"): 14, ("axes", "tensor_parallel", 0): 14, ...}
    """
    walk = _Walk(text)
    table: Path = ()
    walk.skip_blank()
    while walk.at < len(text):
        if text[walk.at] == "[":
            table = walk.header()
        else:
            walk.pair(table)
        walk.skip_blank()
    return walk.lines


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Line of a path, or of the nearest table that holds it; 1 if nothing does."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


@dataclass
class _Walk:
    """A reading position in the text and what was found so far."""

    text: str
    at: int = 0
    lines: dict[Path, int] = field(default_factory=dict)
    arrays: dict[Path, int] = field(default_factory=dict)

    def skip_blank(self) -> None:
        """Past white space, line ends and comments."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at].isspace():
                self.at += 1
            else:
                return

    def mark(self, path: Path) -> None:
        """Remember the line of a path; the first mention counts."""
        self.lines.setdefault(path, self.text.count("\n", 0, self.at) + 1)

    def header(self) -> Path:
        """Read [a.b] or [[a.b]] and give the table's path."""
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        path = self.dotted(())
        self.at = self.text.index("]", self.at) + (2 if is_array else 1)
        if is_array:
            self.arrays[path] = self.arrays.get(path, -1) + 1
            path = (*path, self.arrays[path])
            self.mark(path)
        return path

    def dotted(self, table: Path) -> Path:
        """Read a key such as a."b.c".d, marking each part, up to the sign after it."""
        path = table
        while True:
            self.skip_blank()
            self.mark((*path, self.peek_key()))
            path = (*path, self.key())
            self.skip_blank()
            if self.text[self.at : self.at + 1] != ".":
                return path
            self.at += 1

    def peek_key(self) -> str:
        """The next key, without moving."""
        here = self.at
        name = self.key()
        self.at = here
        return name

    def key(self) -> str:
        """Read one bare or quoted key."""
        if self.text[self.at] in "\"'":
            start = self.at
            self.string()
            return self.text[start + 1 : self.at - 1]
        match = _BARE.match(self.text, self.at)
        self.at = match.end() if match else self.at + 1
        return match.group() if match else ""

    def pair(self, table: Path) -> None:
        """Read key = value."""
        path = self.dotted(table)
        self.at += 1
        self.skip_blank()
        self.value(path)

    def value(self, path: Path) -> None:
        """Read one value of any type."""
        sign = self.text[self.at]
        if sign in "\"'":
            self.string()
        elif sign == "[":
            self.array(path)
        elif sign == "{":
            self.inline(path)
        else:
            match = _SCALAR.match(self.text, self.at)
            self.at = match.end() if match else self.at + 1

    def string(self) -> None:
        """Past a string of any of the four sorts."""
        quote = self.text[self.at]
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(mark)
        while not self.text.startswith(mark, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(mark)
        while len(mark) == 3 and self.text.startswith(quote, self.at):
            self.at += 1

    def array(self, path: Path) -> None:
        """Past [a, b, …], marking the elements."""
        self.at += 1
        index = 0
        self.skip_blank()
        while self.text[self.at] != "]":
            self.mark((*path, index))
            self.value((*path, index))
            index += 1
            self.skip_comma()
        self.at += 1

    def inline(self, path: Path) -> None:
        """Past { a = 1, b = 2 }, marking the keys."""
        self.at += 1
        self.skip_blank()
        while self.text[self.at] != "}":
            self.pair(path)
            self.skip_comma()
        self.at += 1

    def skip_comma(self) -> None:
        """Past a comma and what surrounds it."""
        self.skip_blank()
        if self.text[self.at] == ",":
            self.at += 1
            self.skip_blank()
