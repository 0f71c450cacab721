"""What `planner catalog` answers, as plain documents and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from costdata import entries
from costdata import lint as linting
from costdata.catalog import load
from costdata.configs import model_names
from planner.documents.model import model_document
from planner.documents.trace import trace_document
from planner.study.traffic import TRACE_FILES
from simkernel.errors import BadStudy, UnknownName, unknown

TRACES = tuple(end for end in TRACE_FILES if end != ".json")
"""Ends of files that are traces; one that ends in .json is a model."""


def listing(kind: str | None, overlay: Path | None) -> dict[str, Any]:
    """Everything of a kind, or everything.

    Raises
    ------
    UnknownName : no such kind
    """
    lines: list[dict[str, Any]] = [dict(line) for line in entries.listing(load(overlay))]
    lines += [{"kind": "model", "name": n, "title": "", "is_user": False} for n in model_names()]
    kinds = {str(entry["kind"]) for entry in lines}
    if kind is not None and kind not in kinds:
        raise unknown("kind", kind, kinds)
    return {"entries": [e for e in lines if kind in (None, e["kind"])]}


def show(name: str, overlay: Path | None) -> dict[str, Any]:
    """One entry with its sources: of the tables, else a model or a trace by name or file.

    Raises
    ------
    UnknownName : nothing of that name
    BadFile : a file that is no trace or no model
    """
    if name.endswith(TRACES):
        return trace_document(name)
    if name.endswith(".json") or name in model_names():
        return model_document(name)
    try:
        found = dict(entries.show(load(overlay), name))
        return {**trace_document(name), **found} if found["kind"] == "trace" else found
    except UnknownName as error:
        try:
            return model_document(name)
        except UnknownName:
            raise error from None


def lint(folder: Path | None, today: date) -> dict[str, Any]:
    """Faults of a folder of tables, or of ours, and prices that are old at a date."""
    return {
        "faults": linting.lint(folder),
        "warnings": linting.old_prices(folder, today),
        "folder": str(folder) if folder else "our tables",
    }


def add(folder: Path, kind: str, settings: Sequence[str]) -> dict[str, Any]:
    """Append one row to a user's folder.

    Raises
    ------
    BadStudy : a setting without "="
    BadFile, UnknownName : as `costdata.entries.add`
    """
    row = {}
    for setting in settings:
        column, sign, value = setting.partition("=")
        if not sign:
            raise BadStudy(f"{setting}: has no value; wanted COLUMN=VALUE")
        row[column.strip()] = value.strip()
    return {"written": str(entries.add(folder, kind, row)), "row": row}


def listing_text(document: Mapping[str, Any]) -> str:
    """One line an entry."""
    return "\n".join(
        f"{entry['kind']:12} {entry['name']:44} {entry['title']}" for entry in document["entries"]
    )


def show_text(document: Mapping[str, Any]) -> str:
    """Fields with value, unit, grade and source."""
    lines = []
    for key, value in document.items():
        if key != "facts":
            lines.append(f"{key}: {value}")
    for name, fact in document.get("facts", {}).items():
        mark = "" if fact["verified"] else "  (unverified)"
        lines.append(
            f"  {name} = {fact['value']} {fact['unit']}  [{fact['grade']}, {fact['as_of']}]{mark}"
            f"\n      {fact['source']}"
        )
    return "\n".join(lines)


def lint_text(document: Mapping[str, Any]) -> str:
    """The faults, or that there are none, and what is old."""
    faults = document["faults"] or [f"no faults in {document['folder']}"]
    return "\n".join([*faults, *(f"warning: {old}" for old in document["warnings"])])


def add_text(document: Mapping[str, Any]) -> str:
    """Where the row went."""
    return f"added to {document['written']}"
