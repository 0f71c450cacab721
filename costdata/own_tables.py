"""Rows, tables and models that a user adds to a folder of their own: checked whole, then written.

Nothing of what is added is written where a part of it is wrong. What is read is text and numbers
alone: no formula is worked out, no path in it followed, nothing unpacked.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from costdata.catalog import load
from costdata.configs import read_model
from costdata.facts import as_cells, header_faults, parse_table, schema_names
from costdata.lint import faults_of
from costdata.overlay import append_rows, lay_over
from simkernel.errors import BadFile, PlanError, unknown

MOST_BYTES = 2_000_000  # our choice: our longest table has 700,000
MODELS = "models"
"""Folder of a user's models, beside their tables."""

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


def add_rows(folder: Path, table: str, rows: Sequence[Mapping[str, str]]) -> Path:
    """Append checked rows to a table in a user's folder; the path of the file written.

    Parameters
    ----------
    table : its name, e.g. "accelerators"
    rows : column to text, as in the table; empty cells are left out

    Raises
    ------
    UnknownName : no such table
    BadFile : every fault of every row; nothing is written
    """
    if table not in schema_names():
        raise unknown("table", table, schema_names())
    given = [{name: text for name, text in row.items() if text} for row in rows]
    if not given:
        raise BadFile(f"{table}: no row was given; give at least one")
    faults = header_faults(table, dict.fromkeys(name for row in given for name in row))
    parsed, wrong = parse_table(table, given, {}, is_user=True)
    faults += wrong
    if parsed:
        theirs = {table: parsed}
        before = load(folder if folder.is_dir() else None).tables
        faults += faults_of(theirs, lay_over(before, theirs))
    if faults:
        raise BadFile(*faults)
    return append_rows(folder, table, given)


def add_table(folder: Path, name: str, data: bytes) -> Path:
    """Append the rows of a CSV file that somebody brings.

    Parameters
    ----------
    name : of the file, which names the table: "accelerators.csv"
    data : its bytes, UTF-8

    Raises
    ------
    UnknownName : no such table
    BadFile : too large, not UTF-8, no table, and as `add_rows`
    """
    table = Path(name).name.removesuffix(".csv")
    _, rows = as_cells(name, _text(name, data))
    return add_rows(folder, table, rows)


def add_model(folder: Path, name: str, data: bytes) -> Path:
    """Keep a model's config.json; the path of the file written, which a study names.

    Parameters
    ----------
    name : of the file; letters, digits, dots and dashes are kept
    data : its bytes, JSON in UTF-8

    Raises
    ------
    BadFile, MissingFact, UnknownName : as `costdata.configs.read_model`; nothing is written
    BadFile : too large, not UTF-8, a file of that name is there
    """
    text = _text(name, data)
    kept = "".join(c for c in Path(name).name.removesuffix(".json") if c in LETTERS).strip(".-")
    path = folder / MODELS / f"{kept or 'model'}.json"
    if path.exists():
        raise BadFile(f"{path} is there already; choose another name")
    spare = path.with_suffix(".new.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        spare.write_text(text, encoding="utf-8")
        read_model(str(spare))
        spare.replace(path)
    except PlanError as error:
        raise type(error)(*(fault.replace(str(spare), name) for fault in error.faults)) from None
    except OSError as error:
        raise BadFile(f"{path} cannot be written ({error}); give a folder you may write") from None
    finally:
        spare.unlink(missing_ok=True)
    return path


def table_text(header: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """A table as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(header), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _text(name: str, data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise BadFile(f"{name} has {len(data):,} bytes; wanted at most {MOST_BYTES:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(
            f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8, not packed"
        ) from None
