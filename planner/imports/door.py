"""The one door of all imports: read, checked whole, then written at once or not at all.

An import is a folder of its own in the user's folder of tables. It is made beside its place and
moved there in one step, so a table of it is there whole or is not there; taking it out removes
that folder and nothing else. The same files with the same settings are the same import.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from costdata.catalog import load
from costdata.facts import Tables, parse_table, read_cells, schema_of
from costdata.lint import faults_of
from costdata.overlay import IMPORTS, import_folders, lay_over, read_imports
from costdata.own_tables import LETTERS, table_text
from planner.imports.found import Found, Given
from planner.imports.registry import reader
from simkernel.errors import BadFile, BadStudy, unknown

MOST_ROWS = 50_000
"""Of one table of an import; own choice: what a study reads in a few seconds."""

MOST_TOLD = 30
"""Faults of rows that are told one by one."""

LICENCE = "own data"

FOR_ALL = {
    "name": "what the import is called, a folder; kind and first file unless given",
    "as_of": "day of the measurement, as 2026-11-30; today unless given",
    "licence": "of the measurement; own data unless given",
}
"""Settings that every kind takes, each with its meaning."""


@dataclass(frozen=True)
class Imported:
    """One import: where it is, whether it was there before, what was found."""

    name: str
    folder: Path
    is_new: bool
    found: Found
    behind: int


@dataclass(frozen=True)
class _Brought:
    """Files of one import, and what was said beside them but for its name."""

    kind: str
    paths: Sequence[Path]
    hashes: Sequence[str]
    settings: Mapping[str, str]
    today: datetime.date

    @property
    def digest(self) -> str:
        """Of kind, files and settings: two imports with the same are one."""
        said = [self.kind, sorted(self.hashes), sorted(self.settings.items())]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def books(self, files: str = "") -> dict[str, str]:
        """Source, date, grade and licence of what is made of the files."""
        return {
            "source": f"own measurement, {self.kind}{files}"[:500],
            "as_of": self.settings.get("as_of", self.today.isoformat()),
            "grade": "measured",
            "licence": self.settings.get("licence", LICENCE),
        }


def import_files(
    kind: str,
    paths: Sequence[Path],
    folder: Path,
    settings: Mapping[str, str],
    today: datetime.date,
) -> Imported:
    """Read some files and keep what they say in a user's folder of tables.

    Parameters
    ----------
    kind : word of the registry
    folder : of the user's own tables; made where it is not there
    settings : name to text, those of the kind and `FOR_ALL`

    Raises
    ------
    UnknownName : no such kind or setting
    BadFile : every fault of the files, of the rows made of them, or of another import that is
        there under this name or has a row of these; nothing is written
    """
    module = reader(kind)
    _check_settings(kind, module.SETTINGS, settings)
    said = {name: text for name, text in settings.items() if name != "name"}
    brought = _Brought(kind, paths, [_sha256(path) for path in paths], said, today)
    name = _name(kind, paths, settings)
    before = load(folder if folder.is_dir() else None)
    found: Found = module.read(paths, Given(before, said))
    target = folder / IMPORTS / name
    there = _digest_of(target)
    if there is None:
        tables = _with_source(brought, found)
        tables["imports"] = [_record(name, brought, found, tables)]
        _check(tables, read_imports(folder)[0], before.tables)
        _write(target, tables, found.files)
    elif there != brought.digest:
        raise BadFile(
            f"{IMPORTS}/{name} is there already, made of other files or settings; remove it "
            f"(planner profiles remove {name}) or give another name (--set name=NAME)"
        )
    return Imported(name, target, there is None, found, _rows_behind(folder, found))


def remove_import(folder: Path, name: str) -> Path:
    """Take an import out of a user's folder; the folder that was removed.

    Raises
    ------
    UnknownName : no such import
    BadFile : the folder cannot be removed
    """
    names = [path.name for path in import_folders(folder)]
    if name not in names:
        raise unknown("import", name, names)
    path = folder / IMPORTS / name
    spare = path.with_name(f".{name}.gone")
    try:
        shutil.rmtree(spare, ignore_errors=True)  # what an earlier removal could not finish
        path.replace(spare)
        shutil.rmtree(spare)
    except OSError as error:
        raise BadFile(f"{path} cannot be removed ({error})") from error
    return path


def _check_settings(kind: str, known: Mapping[str, str], given: Mapping[str, str]) -> None:
    for name in given:
        if name not in (*known, *FOR_ALL):
            raise unknown(f"setting of {kind}", name, (*known, *FOR_ALL))
    if "as_of" in given:
        try:
            datetime.date.fromisoformat(given["as_of"])
        except ValueError:
            raise BadStudy(f"as_of = {given['as_of']!r} is no day; write 2026-11-30") from None


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); name a file") from error


def _digest_of(target: Path) -> str | None:
    """The digest of the import that is there; None where none is."""
    if not target.exists():
        return None
    tables, _ = read_imports(target.parent.parent)
    row = tables.get("imports", {}).get((target.name,))
    return row.text("digest") if row is not None else ""


def _name(kind: str, paths: Sequence[Path], settings: Mapping[str, str]) -> str:
    wanted = settings.get("name") or f"{kind}-{paths[0].name.split('.')[0]}"
    kept = "".join(c if c in LETTERS else "-" for c in wanted).strip(".-")
    if settings.get("name") not in (None, kept):
        raise BadStudy(
            f"name = {settings['name']!r} is no name of a folder; use letters, digits, dots and "
            "dashes"
        )
    return kept or kind


def _with_source(brought: _Brought, found: Found) -> dict[str, list[dict[str, str]]]:
    pairs = zip(brought.paths, brought.hashes, strict=True)
    files = ", ".join(f"{path.name} ({digest[:12]})" for path, digest in pairs)
    books = brought.books(f": {files}")
    return {
        table: [{**books, **row} if "source" in schema_of(table) else row for row in rows]
        for table, rows in found.tables.items()
        if rows
    }


def _record(
    name: str,
    brought: _Brought,
    found: Found,
    tables: Mapping[str, Sequence[Mapping[str, str]]],
) -> dict[str, str]:
    kept = [f"{len(rows)} of {table}" for table, rows in tables.items()]
    kept += [f"{_lines(file, text)} of {file}" for file, text in found.files.items()]
    settings = sorted(brought.settings.items())
    return {
        "name": name,
        "kind": brought.kind,
        "files": "|".join(path.name.replace("|", "_") for path in brought.paths),
        "sha256": "|".join(brought.hashes),
        "settings": "; ".join(f"{key}={text}" for key, text in settings),
        "digest": brought.digest,
        "imported_on": brought.today.isoformat(),
        "tool_version": version("cluster-planner"),
        "found": f"{found.summary}; rows: {', '.join(kept) or 'none'}",
        **brought.books(),
    }


def _lines(file: str, text: str) -> int:
    """Rows of a table, objects of a list, or one whole document."""
    if file.endswith(".csv"):
        return len(text.splitlines()) - 1
    return len(text.splitlines()) if file.endswith(".jsonl") else 1


def _check(tables: Mapping[str, list[dict[str, str]]], others: Tables, before: Tables) -> None:
    """Refuse rows that are wrong for themselves or that another import has.

    Parameters
    ----------
    others : of all imports that are there
    before : of the whole catalogue
    """
    faults = []
    theirs: dict[str, Any] = {}
    for table, rows in tables.items():
        if len(rows) > MOST_ROWS:
            raise BadFile(f"{len(rows):,} rows of {table}; wanted at most {MOST_ROWS:,}")
        theirs[table], wrong = parse_table(table, rows, {}, is_user=True)
        faults += wrong
        faults += [
            f"{table}: {'/'.join(key)} was imported before; remove that import first, or import "
            "both files together"
            for key in theirs[table]
            if key in others.get(table, {})
        ][:MOST_TOLD]
    if not faults:
        faults += faults_of(theirs, lay_over(before, theirs))
    if faults:
        more = [f"and {len(faults) - MOST_TOLD} more"] if len(faults) > MOST_TOLD else []
        raise BadFile(*faults[:MOST_TOLD], *more)


def _write(
    target: Path, tables: Mapping[str, list[dict[str, str]]], files: Mapping[str, str]
) -> None:
    """All files of an import, in one step."""
    texts = {
        f"{table}.csv": table_text(
            [column for column in schema_of(table) if any(column in row for row in rows)], rows
        )
        for table, rows in tables.items()
    }
    try:
        with _spare(target) as spare:
            for name, text in {**texts, **files}.items():
                (spare / name).write_text(text, encoding="utf-8")
            spare.replace(target)
    except OSError as error:
        raise BadFile(
            f"{target} cannot be written ({error}); give a folder you may write"
        ) from error


@contextmanager
def _spare(target: Path) -> Iterator[Path]:
    """A folder beside the target, gone afterwards if it was not moved."""
    target.parent.mkdir(parents=True, exist_ok=True)
    spare = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    os.chmod(spare, 0o755)  # mkdtemp lets nobody else in, and a team shares its tables
    try:
        yield spare
    finally:
        shutil.rmtree(spare, ignore_errors=True)


def _rows_behind(folder: Path, found: Found) -> int:
    """Rows that do nothing because the user wrote others of the same name."""
    behind = 0
    for table, rows in found.tables.items():
        path = folder / f"{table}.csv"
        if path.is_file():
            keys = [name for name, spec in schema_of(table).items() if spec.is_key]
            own = {tuple(row.get(key, "") for key in keys) for row in read_cells(path)[1]}
            behind += len(own & {tuple(row.get(key, "") for key in keys) for row in rows})
    return behind
