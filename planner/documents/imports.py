"""What `planner import` and `planner profiles` answer, as plain documents and as text."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costdata.overlay import read_imports
from planner.imports.compared import compare
from planner.imports.door import FOR_ALL, import_files, remove_import
from planner.imports.registry import kind_names, reader
from simkernel.errors import BadFile, BadStudy


def kinds() -> dict[str, Any]:
    """Every kind of file that can be imported, with its settings and those of all."""
    return {
        "kinds": [
            {
                "kind": kind,
                "what": (reader(kind).__doc__ or "").splitlines()[0],
                "settings": dict(reader(kind).SETTINGS),
            }
            for kind in kind_names()
        ],
        "settings_for_all": dict(FOR_ALL),
    }


def imported(
    kind: str, files: Sequence[Path], folder: Path, settings: Sequence[str]
) -> dict[str, Any]:
    """Import some files; what was written, or that it was there.

    Raises
    ------
    BadStudy : no file, or a setting that is none
    BadFile, UnknownName : as `planner.imports.door.import_files`
    """
    if not files:
        raise BadStudy(f"planner import {kind}: name at least one file")
    given: dict[str, str] = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign or not value.strip():
            raise BadStudy(f"--set {setting}: has no value; wanted NAME=VALUE")
        given[name.strip()] = value.strip()
    done = import_files(kind, files, folder, given, datetime.datetime.now(datetime.UTC).date())
    return {
        "name": done.name,
        "kind": kind,
        "folder": str(done.folder),
        "is_new": done.is_new,
        "tables": {table: len(rows) for table, rows in done.found.tables.items()},
        "files": sorted(done.found.files),
        "summary": done.found.summary,
        "told": dict(done.found.told),
        "notes": list(done.found.notes),
        "rows_behind_your_own": done.behind,
        "settings_for_all": list(FOR_ALL),
    }


def listed(folder: Path) -> dict[str, Any]:
    """What was imported into a folder.

    Raises
    ------
    BadFile : a table of an import that cannot be read
    """
    tables, faults = read_imports(folder)
    if faults:
        raise BadFile(*faults)
    return {
        "folder": str(folder),
        "imports": [
            {name: row.text(name) for name in ("name", "kind", "imported_on", "tool_version")}
            | {"files": row.text("files").split("|"), "sha256": row.text("sha256").split("|")}
            | {"settings": row.text("settings"), "found": row.text("found")}
            for row in tables.get("imports", {}).values()
        ],
    }


def compared(folder: Path, one: str, other: str) -> dict[str, Any]:
    """Rows that two imports both have, by operator: the second over the first.

    Raises
    ------
    UnknownName : no import of a name
    BadFile : a table of one that cannot be read
    """
    return {"first": one, "second": other, **compare(folder, one, other)}


def removed(folder: Path, name: str) -> dict[str, Any]:
    """Take an import out.

    Raises
    ------
    UnknownName, BadFile : as `planner.imports.door.remove_import`
    """
    return {"removed": str(remove_import(folder, name))}


def kinds_text(document: Mapping[str, Any]) -> str:
    """A line a kind, one for each of its settings, and those that all take."""
    lines = []
    for one in document["kinds"]:
        lines.append(f"{one['kind']:18} {one['what']}")
        lines += [f"{'':20} {name}: {what}" for name, what in one["settings"].items()]
    lines.append("every kind takes")
    lines += [f"{'':20} {name}: {what}" for name, what in document["settings_for_all"].items()]
    return "\n".join(lines)


def imported_text(document: Mapping[str, Any]) -> str:
    """What was read, how far it agrees with itself, and where it is."""
    lines = [document["summary"], *_figures("", document["told"])]
    lines += [f"note: {note}" for note in document["notes"]]
    if document["rows_behind_your_own"]:
        lines.append(
            f"{document['rows_behind_your_own']} rows do nothing: your own table has others of "
            "the same name"
        )
    where = f"{document['name']} in {document['folder']}"
    lines.append(f"written: {where}" if document["is_new"] else f"nothing new: {where} has it")
    return "\n".join(lines)


def listed_text(document: Mapping[str, Any]) -> str:
    """A line an import."""
    lines = [
        f"{one['name']:32} {one['kind']:14} {one['imported_on']}  {one['found']}"
        for one in document["imports"]
    ]
    return "\n".join(lines) or f"nothing was imported into {document['folder']}"


def compared_text(document: Mapping[str, Any]) -> str:
    """A line an operator, the one that moved most first."""
    lines = [
        f"{m['operator']:44} {m['rows']:6} rows  {m['column']:18} x {m['ratio_median']:.3f} "
        f"({m['ratio_least']:.3f} to {m['ratio_most']:.3f})"
        for m in document["moved"]
    ]
    lines += [
        f"only in {name}: {', '.join(rows)}" for name, rows in document["alone"].items() if rows
    ]
    return "\n".join(lines) or "they have no row in common"


def removed_text(document: Mapping[str, Any]) -> str:
    """What is gone."""
    return f"removed {document['removed']}"


def _figures(indent: str, told: Mapping[str, Any]) -> list[str]:
    """Figures of a reader, one a line; lists of tables are indented."""
    lines = []
    for name, value in told.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *_figures(indent + "  ", value)] if value else []
        elif isinstance(value, list):
            for item in value:
                lines += [f"{indent}{name}:"]
                lines += (
                    _figures(indent + "  ", item)
                    if isinstance(item, Mapping)
                    else [f"{indent}  {item}"]
                )
        elif isinstance(value, float):
            is_share = name.endswith("_frac")
            lines.append(
                f"{indent}{name}: {value:.1%}" if is_share else f"{indent}{name}: {value:.4g}"
            )
        else:
            lines.append(f"{indent}{name}: {value}")
    return lines
