"""Faults of a study, gathered one by one and raised together, each with where it stands."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from planner.axes import SHORT_NAMES
from planner.study.lines import Path
from simkernel.errors import BadStudy, PlanError

Place = Callable[[Path], str]
"""From a path in the study to the words before a fault: "studies/x.toml:14"."""

_LONG_KEY = re.compile(r"[\s\[]*[\w-]+(?:[ \t]*\.[ \t]*[\w-]+){30}")
"""A key, or a table, of more parts than any study has."""

_LONG_NUMBER = re.compile(r"\d{4301}")
"""Python reads no longer ones from text."""

MOST_SYNTAX_FAULTS = 20  # our choice: beyond it the file is no TOML at all

_LINE = re.compile(r"\(at line (\d+), column \d+\)")


@dataclass
class Faults:
    """What is wrong so far; `is_torn` when lines could not be read, so keys may be missing."""

    place: Place
    is_torn: bool = False
    found: list[str] = field(default_factory=list)

    def add(self, path: Path, given: object, problem: str, do: str) -> None:
        """A value that cannot be: given, what is wrong, what is wanted and what to do."""
        self.found.append(f"{self.place(path)}: {dotted(path)} = {shown(given)}: {problem}; {do}")

    def say(self, path: Path, problem: str, do: str) -> None:
        """A fault of no single value."""
        self.found.append(f"{self.place(path)}: {problem}; {do}")

    def unknown_key(self, path: Path, known: Iterable[str], what: str = "key") -> None:
        """A key that the study has and the contract has not."""
        self.say(path, f"{dotted(path)} is no {what}", nearest(str(path[-1]), known))

    def missing(self, path: Path, wanted: str) -> None:
        """A key that has to be given; not told when unread lines may hold it."""
        if not self.is_torn:
            self.say(path, f"{dotted(path)} is not given", f"wanted {wanted}")

    def looked_up(self, find: Callable[[str], str], name: str, path: Path) -> str:
        """A name as the catalogue spells it, or as it is, once what is wrong with it is kept."""
        try:
            return find(name)
        except PlanError as error:
            self.found.extend(f"{self.place(path)}: {fault}" for fault in error.faults)
            return name

    def raise_if_any(self) -> None:
        """Raise every fault at once.

        Raises
        ------
        BadStudy : something was found
        """
        if self.found:
            raise BadStudy(*dict.fromkeys(self.found))

    def take_pydantic(self, error: ValidationError, table: Path, raw: Any, fields: Any) -> None:
        """Every fault that pydantic found in one table.

        Parameters
        ----------
        error : what it raised
        table : path of the table
        raw : the table as read
        fields : pydantic's fields of the dataclass, whose descriptions say what is wanted
        """
        told: set[Path] = set()
        for fault in error.errors():
            key = str(fault["loc"][0]) if fault["loc"] else ""
            path = (*table, *existing(raw, fault["loc"]))
            if fault["type"] in ("missing", "missing_argument") and len(fault["loc"]) == 1:
                self.missing((*table, key), str(fields[key].description))
            elif key not in fields:
                self.unknown_key((*table, key), fields)
            elif path not in told:
                told.add(path)
                problem = str(fault["msg"]).removeprefix("Input ").lower()
                self.add(path, fault["input"], problem, f"wanted {_wanted(fields[key], path)}")


def _wanted(field: Any, path: Path) -> str:
    """What a field wants: of a table in a list, what the key at fault does."""
    inner = getattr(next(iter(get_args(field.annotation)), None), "__pydantic_fields__", {})
    own = inner.get(path[-1])
    return str((own if own is not None and own.description else field).description)


def existing(raw: Any, loc: tuple[str | int, ...]) -> Path:
    """The part of pydantic's location that exists in the table; the rest names union members."""
    path: Path = ()
    for part in loc:
        is_key = isinstance(raw, Mapping) and part in raw
        is_index = isinstance(raw, list | tuple) and isinstance(part, int) and part < len(raw)
        if not (is_key or is_index):
            break
        raw = raw[part]
        path = (*path, part)
    return path or loc[:1]


def nearest(given: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown name."""
    names = list(known)
    if SHORT_NAMES.get(given) in names:
        return f"write {SHORT_NAMES[given]}; short names are for --set"
    near = difflib.get_close_matches(given, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {', '.join(names[:30])}{', …' if len(names) > 30 else ''}"


def dotted(path: Path) -> str:
    """A path as a person writes it: axes.tensor_parallel[2]."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def shown(given: object) -> str:
    """A value in a message, cut when long."""
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}..."


def parse_toml(text: str) -> tuple[dict[str, Any], str, list[tuple[int, str]]]:
    """The document, the text that was readable, and (line, fault) of every line that was not.

    A line the reader stops at is blanked and the rest read again, so that one slip does not
    hide the others.
    """
    lines = text.split("\n")
    faults: list[tuple[int, str]] = []
    for number, written in enumerate(lines, start=1):
        if _LONG_KEY.match(written):
            faults.append((number, "A key of so many parts names nothing"))
            lines[number - 1] = ""  # reading it takes time that grows with the square of its parts
    while len(faults) < MOST_SYNTAX_FAULTS:
        readable = "\n".join(lines)
        try:
            return tomllib.loads(readable), readable, faults
        except RecursionError:
            return {}, "", [*faults, (1, "Brackets are nested too deeply")]
        except ValueError as error:  # a number of 5,000 digits is one without a line
            line = _line_at(str(error), lines)
            faults.append((line, _LINE.sub("", str(error)).strip()))
            if not lines[line - 1 : line] or not lines[line - 1].strip():
                break
            lines[line - 1] = ""
    return {}, "", faults


def _line_at(message: str, lines: list[str]) -> int:
    """The line a message of the reader is about; the last written one for the end of the text."""
    match = _LINE.search(message)
    if "integer string conversion" in message:
        return next((n for n, line in enumerate(lines, 1) if _LONG_NUMBER.search(line)), 1)
    if match:
        return min(int(match.group(1)), max(len(lines), 1))
    written = [number for number, line in enumerate(lines, start=1) if line.strip()]
    return written[-1] if written else 1


def part(shape: type[Any], table: Mapping[str, Any], path: Path, faults: Faults) -> Any:
    """One table as its dataclass, or None with its faults noted."""
    try:
        return TypeAdapter(shape).validate_python(dict(table))
    except ValidationError as error:
        faults.take_pydantic(error, path, table, shape.__pydantic_fields__)
        return None
