"""What the archive's tables look like, and how an older file becomes a newer one.

Tables are only ever added to: no keys, no updates. Rows of `physical`, `front`, `sample` and
`replayed` carry the columns of their study's kind, so these tables widen: one table answers
questions over all runs, a new axis or metric needs no migration, and a column keeps the name it
has in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import duckdb

from simkernel.errors import BadFile


class Connection(Protocol):
    """The part of a DuckDB connection that this room uses."""

    def execute(self, query: str, parameters: object = None, /) -> Connection:
        """Run one statement."""

    def fetchall(self) -> list[tuple[object, ...]]:
        """All rows of the last statement."""


Migration = tuple[str, ...]

WIDE = ("physical", "front", "sample", "replayed")
"""Tables whose columns come from the study."""

OWN_COLUMNS = {"run": "VARCHAR", "plan": "VARCHAR", "status": "VARCHAR"}
"""Columns that these tables have from the start."""

_FIRST = ("physical", "front", "sample")

MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE runs (run VARCHAR, serial BIGINT, study VARCHAR, kind VARCHAR, "
        "study_text VARCHAR, resolved VARCHAR, study_hash VARCHAR, facts_hash VARCHAR, "
        "seed BIGINT, versions VARCHAR, started TIMESTAMP, host VARCHAR, pid BIGINT, "
        "pid_since VARCHAR, parent VARCHAR)",
        "CREATE TABLE run_events (run VARCHAR, happened TIMESTAMP, event VARCHAR, "
        "payload VARCHAR)",
        "CREATE TABLE run_columns (run VARCHAR, place VARCHAR, position BIGINT, name VARCHAR, "
        "type VARCHAR)",
        "CREATE TABLE facts_used (run VARCHAR, name VARCHAR, value DOUBLE, words VARCHAR, "
        "unit VARCHAR, source VARCHAR, as_of VARCHAR, grade VARCHAR, low DOUBLE, high DOUBLE, "
        "verified BOOLEAN, licence VARCHAR)",
        "CREATE TABLE rejections (run VARCHAR, stage VARCHAR, reason VARCHAR, candidates BIGINT, "
        "note VARCHAR)",
        "CREATE TABLE superseded (run VARCHAR, plan VARCHAR)",
        *(f"CREATE TABLE {place} (run VARCHAR, plan VARCHAR, status VARCHAR)" for place in _FIRST),
    ),
    ("CREATE TABLE evaluations (run VARCHAR, key BIGINT, scores DOUBLE[])",),
    ("CREATE TABLE replayed (run VARCHAR, plan VARCHAR, status VARCHAR)",),
)
"""Statements that lead from version i to version i + 1, in order; old entries never change."""


def is_newest(connection: Connection) -> bool:
    """The file has the newest schema; outside a transaction, which a "no" would end.

    Asked outright: to list the tables first takes a fifth of a visit.
    """
    try:
        rows = connection.execute("SELECT max(schema_version) FROM meta").fetchall()
    except duckdb.ProgrammingError:
        return False
    return rows[0][0] == len(MIGRATIONS)


def schema_version(connection: Connection) -> int:
    """The newest version this file was brought to; 0 for an empty file."""
    if ("meta",) in _tables(connection):
        rows = connection.execute("SELECT max(schema_version) FROM meta").fetchall()
        return int(str(rows[0][0]))
    return 0


def migrate(
    connection: Connection, path: Path, program: str, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Bring an older or empty file to the newest version; call inside a transaction of its own.

    Parameters
    ----------
    connection : open for writing
    path : the file, for the message
    program : version of this program, kept beside the schema's
    migrations : all migrations there are, in order

    Raises
    ------
    BadFile : the file is from a newer program, or is a database of something else
    """
    version = checked_version(connection, path, migrations)
    if version == 0:
        connection.execute(
            "CREATE TABLE meta (schema_version BIGINT, program VARCHAR, happened TIMESTAMP)"
        )
    for number, statements in enumerate(migrations[version:], start=version + 1):
        for statement in statements:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES (?, ?, ?)", [number, program, now()])


def checked_version(
    connection: Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS
) -> int:
    """The file's version, or BadFile when this program must not touch it."""
    version = schema_version(connection)
    if version > len(migrations):
        raise BadFile(
            f"{path} has archive version {version}, this program knows {len(migrations)}; update "
            "the program (pip install -U cluster-planner), the file is unchanged"
        )
    if version == 0 and _tables(connection):
        raise BadFile(
            f"{path} is a DuckDB file but not a planner archive; it is left as it is, name "
            "another file with --db"
        )
    return version


def widening(
    connection: Connection, place: str, types: Mapping[str, str], path: Path
) -> tuple[str, ...]:
    """The statements after which a table can take columns of these types.

    Parameters
    ----------
    place : one of `WIDE`
    types : column name to DuckDB type

    Raises
    ------
    BadFile : a name that held text and would now hold numbers, or the other way round
    """
    rows = connection.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [place]
    ).fetchall()
    have = {str(name).lower(): str(kind) for name, kind in rows}
    faults = [
        f"{path}: column {name} of {place} is {have[name.lower()]} in earlier runs and {kind} in "
        "this one; name another file with --db"
        for name, kind in types.items()
        if name.lower() in have
        and {have[name.lower()], kind} & _NARROW
        and have[name.lower()] != kind
    ]
    if faults:
        raise BadFile(*faults)
    return tuple(_statements(place, types, have))


_NARROW = {"VARCHAR", "BOOLEAN", "UBIGINT"}
"""Types that meet no other (a key of 64 bits would lose digits); BIGINT and DOUBLE meet."""


def _statements(place: str, types: Mapping[str, str], have: Mapping[str, str]) -> Iterable[str]:
    """Add what is not there; let whole numbers become fractions where fractions come.

    A table as it was made, which holds next to nothing, gets its columns by one statement: 250
    changes of a table take 50 ms.
    """
    new = {name: kind for name, kind in types.items() if name.lower() not in have}
    if new and have.keys() <= OWN_COLUMNS.keys():
        added = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in new.items())
        yield f"CREATE OR REPLACE TABLE {place} AS SELECT *, {added} FROM {place}"
        return
    for name, kind in types.items():
        held = have.get(name.lower())
        if held is None:
            yield f"ALTER TABLE {place} ADD COLUMN {quoted(name)} {kind}"
        elif held != kind and held != "DOUBLE":
            yield f"ALTER TABLE {place} ALTER COLUMN {quoted(name)} SET DATA TYPE DOUBLE"


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever letters it has."""
    return '"' + name.replace('"', '""') + '"'


def now() -> datetime:
    """The present, in UTC, as a TIMESTAMP column holds it."""
    return datetime.now(UTC).replace(tzinfo=None)


def _tables(connection: Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
