"""What does the catalogue know? Entries with sources and grades, and a user's own beside them.

Own rows go to a folder of the workspace, which a study takes with `tables = "own_tables"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import streamlit as st

from costdata import own_tables
from costdata.entries import SHOWN
from costdata.facts import Field, schema_of
from costdata.overlay import read_ours, read_overlay
from planner.documents import catalog as documents
from planner.pages import desk, workspace
from planner.pages.tables import draw_table
from planner.pages.words import plain
from simkernel.errors import PlanError

KINDS = tuple(SHOWN)
NOTHING = "an empty row"
ABREAST = 3
ENDS = ("csv", "json")


def draw() -> None:
    """The page."""
    st.title("What does the catalogue know?")
    folder = workspace.own_tables()
    own = folder if folder.is_dir() else None
    faults = _found(own)["faults"] if own else []
    for fault in faults:
        st.error(plain(f"your tables: {fault}"))
    if faults:
        st.caption(plain(f"Mend {folder} first: until then ours alone are shown."))
        own = None
    _entries(own)
    _lint(own)
    _by_form(folder, own)
    _by_file(folder)


def _entries(own: Path | None) -> None:
    """What there is of a kind, and one entry with every fact of it."""
    left, right = st.columns(2)
    kinds = ["all", *KINDS, "model"]
    kind = left.selectbox("Kind", kinds, key=desk.kept("kind", "accelerator", kinds))
    entries = documents.listing(None if kind == "all" else kind, own)["entries"]
    rows = [
        {
            "name": entry["name"],
            "kind": entry["kind"],
            "title": entry["title"],
            "whose": "yours" if entry["is_user"] else "ours",
        }
        for entry in entries
    ]
    st.caption(f"{len(rows):,} entries, {sum(row['whose'] == 'yours' for row in rows):,} of yours")
    draw_table(rows, key="entries", height=260)
    names = [str(row["name"]) for row in rows]
    name = right.selectbox("Entry", names, key=desk.kept("entry", names[0], names))
    _one(name, own)


def _one(name: str, own: Path | None) -> None:
    """One entry: its facts with unit, grade, date and source."""
    document = documents.show(name, own)
    facts = [
        {
            "fact": fact,
            "value": str(one["value"]),
            "unit": one["unit"],
            "grade": one["grade"],
            "checked": "yes" if one["verified"] else "no",
            "as of": str(one["as_of"]),
            "source": one["source"],
        }
        for fact, one in document.get("facts", {}).items()
    ]
    if facts:
        draw_table(facts, key="entry_facts")
    else:
        rows = [{"of": key, "is": str(value)} for key, value in document.items() if key != "facts"]
        draw_table(rows, key="entry_facts")


def _lint(own: Path | None) -> None:
    """Our tables and the user's, held against every check."""
    if not st.toggle("check the tables", key=desk.kept("lint", False)):
        return
    for words, folder in (("ours", None), *((("yours", own),) if own else ())):
        found = _found(folder)
        if not found["faults"]:
            st.success(f"No faults in {words}.")
        for fault in found["faults"]:
            st.error(plain(f"{words}: {fault}"))
        for warning in found["warnings"]:
            st.warning(plain(f"{words}: {warning}"))


def _found(folder: Path | None) -> dict[str, Any]:
    """Faults and warnings of tables, as of today."""
    return documents.lint(folder, datetime.now(UTC).date())


def _by_form(folder: Path, own: Path | None) -> None:
    """A row by hand, empty or as a copy of one that is there."""
    st.subheader("Add a row of your own")
    left, right = st.columns(2)
    kinds = [kind for kind in KINDS if kind != "trace"]
    kind = left.selectbox("Of", kinds, key=desk.kept("add_kind", kinds[0], kinds))
    table = SHOWN[kind]
    cells = _cells(table, own)
    options = [NOTHING, *cells]
    base = right.selectbox("Begin with", options, key=desk.kept("add_base", NOTHING, options))
    start = cells.get(base, {})
    with st.form(f"add_{table}_{base}"):
        row = _fields(schema_of(table), start)
        is_sent = st.form_submit_button("Add it to my tables")
    if is_sent:
        _told(lambda: own_tables.add_rows(folder, table, [row]), "added to")


def _cells(table: str, own: Path | None) -> dict[str, Mapping[str, str]]:
    """The cells of every row of a table as written, a user's over ours."""
    tables = [read_ours().get(table, {})]
    if own:
        tables.append(read_overlay(own)[0].get(table, {}))
    return {row.name: row.cells for rows in tables for row in rows.values()}


def _fields(schema: Mapping[str, Field], start: Mapping[str, str]) -> dict[str, str]:
    """A text for each column, those that must be given first."""
    needed = [field for field in schema.values() if field.is_required or field.is_key]
    others = [field for field in schema.values() if field not in needed]
    row = _texts(needed, start)
    with st.expander(f"{len(others)} more columns, each may stay empty"):
        row |= _texts(others, start)
    return {name: text.strip() for name, text in row.items() if text.strip()}


def _texts(fields: list[Field], start: Mapping[str, str]) -> dict[str, str]:
    columns = [c for _ in range(0, len(fields), ABREAST) for c in st.columns(ABREAST)]
    return {
        field.name: column.text_input(
            f"{field.name} [{field.unit}]" if field.unit else field.name,
            start.get(field.name, ""),
            help=plain(field.meaning) or None,
            max_chars=2000,
        )
        for column, field in zip(columns, fields, strict=False)
    }


def _by_file(folder: Path) -> None:
    """Rows of a table, or a model, that somebody brings."""
    st.subheader("Add a file of your own")
    st.caption(
        "A CSV file named as one of the tables (accelerators.csv, servers.csv, regions.csv, "
        "cloud_prices.csv, …), or a model's config.json under the name that it shall have."
    )
    given = st.file_uploader("Table or model", type=list(ENDS), key="own_file")
    if given is None or not st.button("Add the file", key="add_file"):
        return
    data = given.getvalue()
    if given.name.lower().endswith(".json"):
        _told(
            lambda: own_tables.add_model(workspace.studies(), given.name, data),
            'is kept; a study takes it with model = "models/…" of',
        )
    else:
        _told(lambda: own_tables.add_table(folder, given.name, data), "added to")


def _told(work: Any, words: str) -> None:
    """What came of it: where it is, or everything that is wrong."""
    try:
        path = work()
    except PlanError as error:
        for fault in error.faults:
            st.error(plain(fault))
        return
    taken = f'`tables = "{workspace.OWN_TABLES}"` in [study] takes it'
    shown = plain(path.relative_to(workspace.folder()))
    st.success(f"{words} {shown}" + (f"; {taken}." if path.suffix == ".csv" else "."))


if __name__ == "__main__":
    draw()
