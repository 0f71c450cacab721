"""Our tables, and the tables of a user over them: a row with the same name replaces ours.

A user's row stands alone: it brings its own source and inherits none of ours. What was imported
lies in a folder of its own under `imports/`, below the rows that the user wrote, so that taking
it out again leaves nothing behind. The room knows how to read, lay over and append; what makes a
value wrong is known by lint.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Mapping, Sequence
from functools import cache
from pathlib import Path

from costdata.facts import (
    TABLES,
    Provenance,
    Tables,
    header_faults,
    parse_table,
    read_cells,
    schema_names,
    schema_of,
)
from simkernel.errors import BadFile

IMPORTS = "imports"
"""Folder of a user's imports, beside their tables; each has a folder of its name."""


@cache
def read_ours() -> Tables:
    """The tables that ship; one that is not there is empty.

    Raises
    ------
    BadFile : a cell that cannot be parsed
    """
    tables, faults = _read(TABLES, schema_names(), is_user=False)
    if faults:
        raise BadFile(*faults)
    return tables


def read_overlay(folder: Path) -> tuple[Tables, list[str]]:
    """The tables of a user's folder, or one of them, and every fault of form in them.

    Parameters
    ----------
    folder : a folder of CSV files named as our tables, or one such file

    Raises
    ------
    BadFile : there is no such folder or file, or a file cannot be read at all
    """
    if not folder.is_dir() and not folder.is_file():
        raise BadFile(f"{folder} is not a folder; give a folder of CSV files named as our tables")
    found_in = folder if folder.is_dir() else None
    found = sorted(path.stem for path in (folder.glob("*.csv") if folder.is_dir() else [folder]))
    folder = folder if folder.is_dir() else folder.parent
    strange = [name for name in found if name not in schema_names()]
    faults = [f"{name}.csv is none of our tables: {', '.join(schema_names())}" for name in strange]
    known = [name for name in found if name in schema_names()]
    for name in known:
        faults += header_faults(name, read_cells(folder / f"{name}.csv")[0])
    tables, wrong = _read(folder, known, is_user=True)
    if found_in is not None:
        below, more = read_imports(found_in)
        tables, wrong = lay_over(below, tables), wrong + more
    return tables, faults + wrong


def read_imports(folder: Path) -> tuple[Tables, list[str]]:
    """What was imported into a user's folder, and every fault of form in it.

    Notes
    -----
    Two imports with the same row contradict each other: a fault, not the later one's right.
    """
    whole: Tables = {}
    faults: list[str] = []
    for path in import_folders(folder):
        tables, wrong = _read(path, schema_names(), is_user=True)
        faults += [f"{IMPORTS}/{path.name}: {fault}" for fault in wrong]
        faults += [
            f"{IMPORTS}/{path.name} has a row {'/'.join(key)} of {table}.csv that another import "
            "has; remove one of the two"
            for table, rows in tables.items()
            for key in rows
            if key in whole.get(table, {})
        ]
        whole = lay_over(whole, tables)
    return whole, faults


def import_folders(folder: Path) -> list[Path]:
    """Folders of what was imported into a user's folder, by name.

    A broken one has no list; one that is being written or taken out begins with a dot.
    """
    found = (path.parent for path in (folder / IMPORTS).glob(f"*/{IMPORTS}.csv"))
    return sorted(path for path in found if not path.name.startswith("."))


def lay_over(ours: Tables, theirs: Tables) -> Tables:
    """Our tables with the rows of a user in place of ours of the same name."""
    return {name: {**ours.get(name, {}), **theirs.get(name, {})} for name in {**ours, **theirs}}


def append_rows(folder: Path, kind: str, added: Sequence[Mapping[str, str]]) -> Path:
    """Write rows at the end of a table in a user's folder; the folder is made if needed.

    The rows must have been checked. A table that exists keeps its order of columns.

    Raises
    ------
    BadFile : a row of a name is there, or the folder or the file cannot be written
    """
    path = folder / f"{kind}.csv"
    names = dict.fromkeys(name for cells in added for name in cells)
    header, rows = read_cells(path) if path.exists() else (_header(kind, names), [])
    keys = [name for name, spec in schema_of(kind).items() if spec.is_key]
    known = {tuple(row.get(k, "") for k in keys) for row in rows}
    again = [tuple(cells.get(k, "") for k in keys) for cells in added]
    faults = [
        f"{path} has a row {'/'.join(key)} already; change that row or choose another name"
        for key in again
        if key in known
    ]
    if faults:
        raise BadFile(*faults)
    header += [name for name in names if name not in header]
    _write(path, header, [*rows, *(dict(cells) for cells in added)])
    return path


def _header(kind: str, cells: Container[str]) -> list[str]:
    return [name for name in schema_of(kind) if name in cells]


def _write(path: Path, header: list[str], rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    spare = path.with_suffix(".csv.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        spare.write_text(text.getvalue(), encoding="utf-8")
        spare.replace(path)
    except OSError as error:
        raise BadFile(
            f"{path} cannot be written ({error}); give a folder you may write"
        ) from error


def _read(
    folder: Path, names: tuple[str, ...] | list[str], is_user: bool
) -> tuple[Tables, list[str]]:
    there = [name for name in names if (folder / f"{name}.csv").exists()]
    cells = {name: read_cells(folder / f"{name}.csv")[1] for name in there}
    spoken, faults = parse_table("provenance", cells.get("provenance", []), {}, is_user)
    provenance: Provenance = {key: row.cells for key, row in spoken.items()}
    tables = {"provenance": spoken}
    for name in there:
        if name != "provenance":
            tables[name], wrong = parse_table(name, cells[name], provenance, is_user)
            faults += wrong
    return tables, faults
