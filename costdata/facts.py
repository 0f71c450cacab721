"""A fact: value, unit, source, date, grade and band; a table is read once, at the door.

The folder `tables/schema` says what each column is, in which unit and how large it can be. Human
units end here: what leaves this room is in bytes, flop, seconds, watts and dollars. It does not
know what any table means.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from simkernel.errors import BadFile, MissingFact, unknown

TABLES = Path(__file__).parent / "tables"
GRADES = ("measured", "vendor", "paper", "estimate", "guess")
"""From best to worst: metered; printed by the maker; in a publication; by a rule; by nobody."""

ALL_ROWS = "*"
"""The name that stands for every row in provenance.csv, and for every value in a list."""

Value = float | int | str | bool | tuple[int, ...] | tuple[str, ...]
Cells = Mapping[str, str]
Key = tuple[str, ...]
Provenance = Mapping[Key, Cells]

_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$")
_ORIGIN = ("source", "as_of", "grade", "licence")
_BOOKS = (*_ORIGIN, "source_locator", "unverified", "note", "confirmed")


NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.ASCII | re.IGNORECASE
)
"""A number as a table writes it; nan and inf are refused with words of their own."""


@dataclass(frozen=True)
class Fact:
    """One value and what is known about it.

    Parameters
    ----------
    value : in `unit`, never a human multiple of it (989 TFLOP/s is 989e12 flop/s)
    low, high : band in the same unit, None where none is given
    verified : the value was found in its source; `is_band_verified` says the same of the band
    note : what a reader must know
    """

    value: Value
    unit: str
    source: str
    as_of: str
    grade: str
    low: float | None
    high: float | None
    verified: bool
    licence: str
    is_band_verified: bool = True
    note: str = ""

    @property
    def number(self) -> float:
        """The value as a number.

        Raises
        ------
        MissingFact : the value is a word or a list
        """
        if not isinstance(self.value, int | float):
            raise MissingFact(f"{self.value!r} (from {self.source}) is no number; choose another")
        return float(self.value)

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "value": list(self.value) if isinstance(self.value, tuple) else self.value,
            "unit": self.unit,
            "low": self.low,
            "high": self.high,
            "source": self.source,
            "as_of": self.as_of,
            "grade": self.grade,
            "licence": self.licence,
            "verified": self.verified,
            "band_verified": self.is_band_verified,
            "note": self.note,
        }


@dataclass(frozen=True)
class Field:
    """One column of a table, as `tables/schema` describes it.

    Parameters
    ----------
    kind : text, number, count, counts, names, choice, flag, date or columns
    unit : unit in the file; `inside_unit` = `unit` x `factor` is what leaves the door
    is_required, is_key : "yes" or "key" in the schema
    least, most : range a value can have, in the unit of the file; None where open
    """

    name: str
    kind: str
    unit: str
    inside_unit: str
    factor: float
    is_required: bool
    is_key: bool
    least: float | None
    most: float | None
    choices: tuple[str, ...]
    meaning: str

    @property
    def inside(self) -> str:
        """The name with the unit the value has inside: hbm_gbytes_per_s -> hbm_bytes_per_s."""
        if self.factor == 1:
            return self.name
        return self.name.replace("gbytes", "bytes").replace("tflop", "flop")


Schema = Mapping[str, Field]


@dataclass(frozen=True)
class Row:
    """One row: its cells as written, its values in SI, and a fact for every value.

    Parameters
    ----------
    key : the cells that name the row
    cells : column to text as written, empty cells left out
    values : column to parsed value in the inside unit, empty cells left out
    origins : column to the cells of provenance.csv that speak of it
    is_user : the row came from an overlay
    """

    table: str
    key: Key
    cells: Cells
    values: Mapping[str, Value]
    schema: Schema
    origins: Mapping[str, Cells] = field(default_factory=dict)
    is_user: bool = False

    @property
    def name(self) -> str:
        """The key in one word."""
        return "/".join(self.key)

    @cached_property
    def facts(self) -> dict[str, Fact]:
        """A fact for every value that is not a band, a key or a part of a source; by `inside`."""
        return {
            self.schema[name].inside: self._fact(name)
            for name in self.values
            if self._is_fact(name)
        }

    def text(self, column: str) -> str:
        """What is written in a column, "" where nothing is."""
        return self.cells.get(column, "")

    def number(self, column: str) -> float | None:
        """A number in the inside unit, None where the cell is empty."""
        value = self.values.get(column)
        return float(value) if isinstance(value, int | float) else None

    def names(self, column: str) -> tuple[str, ...]:
        """The names in a column of names; () where there are none."""
        value = self.values.get(column)
        return tuple(str(name) for name in value) if isinstance(value, tuple) else ()

    def need(self, column: str) -> float:
        """A number in the inside unit.

        Raises
        ------
        MissingFact : the cell is empty
        """
        value = self.number(column)
        if value is None:
            raise MissingFact(
                f"{column} of {self.name} is not in {self.table}.csv; "
                f"add it with its source to your own {self.table}.csv"
            )
        return value

    def band(self, column: str) -> tuple[float, float, float] | None:
        """Low, typical and high of a column; a missing end is the typical value."""
        typical = self.number(column)
        if typical is None:
            return None
        low, high = (self.number(end) for end in ends(column))
        return (typical if low is None else low, typical, typical if high is None else high)

    def _is_fact(self, name: str) -> bool:
        is_end = any(name in ends(other) for other in self.values)
        return not is_end and name not in _BOOKS and not self.schema[name].is_key

    def _fact(self, name: str) -> Fact:
        origin = {c: self.origins.get(name, {}).get(c) or self.text(c) for c in _ORIGIN}
        low, high = ends(name)
        unsure = self.text("unverified").split(";")
        return Fact(
            value=self.values[name],
            unit=self.schema[name].inside_unit or self.text("unit"),
            source=origin["source"],
            as_of=origin["as_of"],
            grade=origin["grade"],
            low=self.number(low),
            high=self.number(high),
            verified=name not in unsure and origin["grade"] != "guess",
            licence=origin["licence"],
            is_band_verified=low not in unsure and high not in unsure,
            note=self.origins.get(name, {}).get("note", ""),
        )


Table = Mapping[Key, Row]
Tables = Mapping[str, Table]


def ends(column: str) -> tuple[str, str]:
    """Names of the columns that hold the low and the high of a column."""
    return ("low", "high") if column == "value" else (f"{column}_low", f"{column}_high")


@cache
def schema_names() -> tuple[str, ...]:
    """Tables that have a schema."""
    return tuple(sorted(path.stem for path in (TABLES / "schema").glob("*.csv")))


@cache
def schema_of(table: str) -> Schema:
    """What the columns of a table are.

    Raises
    ------
    UnknownName : no such table
    """
    if table not in schema_names():
        raise unknown("table", table, schema_names())
    _, rows = read_cells(TABLES / "schema" / f"{table}.csv")
    return {row["column"]: _field(row) for row in rows}


def read_cells(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The header and the rows of a CSV file, as text.

    Raises
    ------
    BadFile : unreadable, not UTF-8, without a header, or a row of another length
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read ({error}); give a CSV file in UTF-8") from error
    return as_cells(path, text)


def as_cells(path: Path | str, text: str) -> tuple[list[str], list[dict[str, str]]]:
    """The header and the rows of a CSV file of which the text is at hand.

    Raises
    ------
    BadFile : no table, without a header, or a row of another length
    """
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise BadFile(f"{path} is no CSV file ({error}); save it as CSV in UTF-8") from error
    if not lines:
        raise BadFile(f"{path} is empty; give at least a header")
    header = [name.strip() for name in lines[0]]
    faults = list(_shape_faults(Path(path), header, lines[1:]))
    if faults:
        raise BadFile(*faults)
    return header, [
        {name: cell.strip() for name, cell in zip(header, line, strict=True)}
        for line in lines[1:]
        if any(line)
    ]


def parse_table(
    table: str, rows: Iterable[Cells], provenance: Provenance, is_user: bool = False
) -> tuple[dict[Key, Row], list[str]]:
    """Rows of a table in SI units, and every fault of form found in them.

    Parameters
    ----------
    table : name of the table, which has a schema
    rows : cells as `read_cells` gives them
    provenance : (table, row, column) to the cells that say where a single field comes from
    """
    schema = schema_of(table)
    parsed: dict[Key, Row] = {}
    faults: list[str] = []
    for number, cells in enumerate(rows, start=2):
        where = f"{table}.csv line {number}"
        filled = {c: text for c, text in cells.items() if text and c in schema}
        values, wrong = _parse_cells(where, schema, filled)
        key = tuple(cells.get(c, "") for c, f in schema.items() if f.is_key)
        wrong += _missing(where, schema, filled)
        if key in parsed:
            wrong.append(f"{where}: {'/'.join(key)} is there twice; keep one row")
        faults += wrong
        origins = _origins(table, "/".join(key), schema, provenance)
        parsed[key] = Row(table, key, filled, values, schema, origins, is_user)
    return parsed, faults


def header_faults(table: str, header: Iterable[str]) -> list[str]:
    """Columns a table does not have, each with what was probably meant."""
    schema = schema_of(table)
    return [_unknown_column(table, name, schema) for name in header if name not in schema]


def parse_cell(spec: Field, text: str) -> Value:
    """The value of one cell, in the inside unit.

    Raises
    ------
    ValueError : the text is not of the kind; the message says what is wanted
    """
    if spec.kind == "number":
        return _number(text) * spec.factor
    if spec.kind == "count":
        return _count(text)
    if spec.kind == "counts":
        return tuple(_count(part) for part in text.split("|"))
    if spec.kind == "names":
        return tuple(part.strip() for part in text.split("|"))
    if spec.kind == "flag":
        return {"yes": True, "no": False}[_one_of(text, ("yes", "no"))]
    if spec.kind == "choice":
        return _one_of(text, spec.choices)
    if spec.kind == "date" and not _DATE.match(text):
        raise ValueError(f"{text!r} is not a date; write 2025, 2025-03 or 2025-03-17")
    return text


def _field(row: Cells) -> Field:
    return Field(
        name=row["column"],
        kind=row["kind"],
        unit=row["unit"],
        inside_unit=row["inside_unit"],
        factor=float(row["factor"] or 1),
        is_required=row["is_required"] in ("yes", "key"),
        is_key=row["is_required"] == "key",
        least=float(row["least"]) if row["least"] else None,
        most=float(row["most"]) if row["most"] else None,
        choices=tuple(filter(None, row["choices"].split("|"))),
        meaning=row["meaning"],
    )


def _shape_faults(path: Path, header: list[str], lines: list[list[str]]) -> Iterator[str]:
    for name in sorted({n for n in header if header.count(n) > 1}):
        yield f"{path.name}: column {name!r} is there twice; keep one"
    for number, line in enumerate(lines, start=2):
        if any(line) and len(line) != len(header):
            yield (
                f"{path.name} line {number} has {len(line)} cells, the header {len(header)}; "
                "put cells that hold a comma in double quotes"
            )


def _parse_cells(where: str, schema: Schema, cells: Cells) -> tuple[dict[str, Value], list[str]]:
    values: dict[str, Value] = {}
    faults = []
    for column, text in cells.items():
        try:
            values[column] = parse_cell(schema[column], text)
        except ValueError as error:
            faults.append(f"{where}, {column}: {error}")
    unsure = str(values.get("unverified", "")).split(";")
    strange = [name for name in unsure if name and name not in schema]
    faults += [f"{where}, unverified: {name!r} is not a column of the table" for name in strange]
    return values, faults


def _missing(where: str, schema: Schema, cells: Cells) -> list[str]:
    return [
        f"{where}: {name} is empty; give {spec.meaning or name}"
        for name, spec in schema.items()
        if spec.is_required and name not in cells
    ]


def _origins(table: str, name: str, schema: Schema, provenance: Provenance) -> dict[str, Cells]:
    found: dict[str, Cells] = {}
    for column in schema:
        general = provenance.get((table, ALL_ROWS, column), {})
        single = provenance.get((table, name, column), {})
        merged = {**general, **{k: v for k, v in single.items() if v}}
        if merged:
            found[column] = merged
    return found


def _unknown_column(table: str, name: str, schema: Schema) -> str:
    stem = re.sub(r"_(gbps|gb_per_s|gbytes_per_s|bytes_per_s|usd|w|kw|tflops|bytes|gb)$", "", name)
    near = [known for known in schema if known.startswith(stem)] or [
        known for known in schema if stem.split("_")[0] in known
    ]
    hint = f"; a column with its unit and direction is {' or '.join(near[:3])}" if near else ""
    return f"{table}.csv has no column {name!r}{hint}; known: {', '.join(schema)}"


def _number(text: str) -> float:
    if not NUMBER.fullmatch(text):  # float() takes 1_000 and the digits of every script
        raise ValueError(f"{text!r} is not a number; write 1234.5 without unit or comma")
    value = float(text)
    if value != value or abs(value) == float("inf"):
        raise ValueError(f"{text!r} is not a finite number; leave the cell empty if unknown")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not a whole number of zero or more")
    return int(text)


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
    return text
