"""Rows into tables and out of them: narrow ones row by row, wide ones column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa


def records(
    connection: duckdb.DuckDBPyConnection, query: str, values: Sequence[object]
) -> list[dict[str, Any]]:
    """Rows as dictionaries."""
    cursor = connection.execute(query, values)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def add(
    connection: duckdb.DuckDBPyConnection, place: str, rows: Sequence[Mapping[str, object]]
) -> None:
    """Add rows given one by one to a narrow table, in one statement."""
    if rows:
        marks = f"({', '.join('?' * len(rows[0]))})"
        query = (
            f"INSERT INTO {place} ({', '.join(rows[0])}) VALUES {', '.join([marks] * len(rows))}"
        )
        connection.execute(query, [value for row in rows for value in row.values()])


def add_wide(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    place: str,
    batch: pa.Table,
    types: Mapping[str, str],
) -> None:
    """Rows of a wide table, and which columns the run has there."""
    known = types_of(connection, place, run)
    new = [name for name in types if name not in known]
    rows = [
        {"run": run, "place": place, "position": i, "name": name, "type": types[name]}
        for i, name in enumerate(new, start=len(known))
    ]
    add(connection, "run_columns", rows)
    insert(connection, place, batch)


def insert(connection: duckdb.DuckDBPyConnection, place: str, batch: pa.Table) -> None:
    """Add rows by the names of their columns."""
    connection.register("batch", batch)
    connection.execute(f"INSERT INTO {place} BY NAME SELECT * FROM batch")
    connection.unregister("batch")


def types_of(connection: duckdb.DuckDBPyConnection, place: str, run: str) -> dict[str, str]:
    """The columns a run has written to a wide table so far, in order, with their types."""
    rows = connection.execute(
        "SELECT name, type FROM run_columns WHERE run = $1 AND place = $2 ORDER BY position",
        [run, place],
    ).fetchall()
    return dict(rows)
