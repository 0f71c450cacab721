"""What was asked, what was found and why: one DuckDB file, only ever added to.

Every call opens the file, does one errand and closes it, so an app can read while a run writes;
errands that follow one another at once share an opening. It knows no physics and no study kind:
rows are columns with the names of the contract.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from planner.archive import schema
from planner.archive.columns import Array, Columns, columns_of, table_of
from planner.archive.diff import Difference, Side, difference, with_axes
from planner.archive.door import connect, transaction
from planner.archive.progress import (
    PROGRESS,
    UNBEATEN,
    Batch,
    beaten_rows,
    read_scores,
    score_rows,
    take_over,
    unbeaten_rows,
)
from planner.archive.rows import events_of, fact_row, rejection_rows, run_record, run_row, tell
from planner.archive.runs import RunRecord, RunStart, RunSummary, find_run
from planner.archive.tables import add, add_wide, insert, records, types_of
from simkernel.errors import unknown


@dataclass(frozen=True)
class Archive:
    """One DuckDB file with all runs; every method may raise BadFile in the words of the door.

    Methods that read a run take its id, the start of it, its number or "last", and raise
    UnknownName when that is no run or several.

    Parameters
    ----------
    path : the file; made by the first run
    timeout_s : how long a call waits while another process writes [s]
    held : the open file, where `reading` or `writing` holds it for several errands
    """

    path: Path
    timeout_s: float = 30.0
    held: duckdb.DuckDBPyConnection | None = field(default=None, repr=False, compare=False)

    @contextmanager
    def reading(self) -> Iterator[Archive]:
        """The archive with its file open for several readings: one moment of it, one opening.

        A writer waits meanwhile, so nothing long is computed inside, and nothing is written.
        """
        with self._visit(read_only=True) as connection:
            yield replace(self, held=connection)

    @contextmanager
    def writing(self) -> Iterator[Archive]:
        """The archive with its file open for several batches at hand, each kept when it is done.

        Everyone else waits meanwhile, so nothing long is computed inside.
        """
        with self._visit(read_only=False) as connection:
            yield replace(self, held=connection)

    # Writing: `run` is the id that begin_run gave.

    def begin_run(self, start: RunStart, continues: str = "") -> str:
        """Write down all that goes into a run; returns its id, e.g. "r0007-3fa9c1".

        A run that continues another starts with all that this one had kept.
        """
        with self._visit(read_only=False) as connection, transaction(connection):
            found = connection.execute("SELECT coalesce(max(serial), 0) + 1 FROM runs").fetchall()
            serial = int(found[0][0])
            run = f"r{serial:04d}-{start.mark}"
            add(connection, "runs", [run_row(run, serial, start)])
            tell(connection, run, "started", {"continues": continues} if continues else {})
            if continues:
                take_over(connection, continues, run)
        return run

    def append_batch(self, run: str, batch: Batch) -> None:
        """Keep what a run did since its last batch: all of it or nothing."""
        rows, types = table_of(run, batch.physical) if batch.physical else (None, {})
        with self._visit(read_only=False) as connection:
            self._widen(connection, "physical", types)
            with transaction(connection):
                if rows is not None:
                    add_wide(connection, run, "physical", rows, types)
                if batch.beaten:
                    insert(connection, "superseded", beaten_rows(run, batch.beaten))
                if len(batch.keys):
                    insert(connection, "evaluations", score_rows(run, batch))
                tell(connection, run, PROGRESS, batch.done)

    def evaluations(self, run: str) -> tuple[Array, Array]:
        """Design keys (n,) and scores (n, k) of what a search of this run evaluated."""
        with self._visit(read_only=True) as connection:
            return read_scores(connection, run)

    def append_physical(self, run: str, columns: Columns) -> None:
        """Add plans of the physical front: plan, design key, bill, axes, raw metrics, ledgers.

        Parameters
        ----------
        run : id from `begin_run`
        columns : name to (n,) values, "plan" among them; a batch every 5-10 s, never row by row
        """
        self._append("physical", run, columns)

    def append_front(self, run: str, columns: Columns) -> None:
        """Add rows of the Pareto front: plan, site, acquire, costed metrics, ledgers."""
        self._append("front", run, columns)

    def append_sample(self, run: str, columns: Columns) -> None:
        """Add some of the rejected and dominated candidates, thinned by the caller."""
        self._append("sample", run, columns)

    def append_replayed(self, run: str, columns: Columns) -> None:
        """Add plans as their replays found them, at every site: columns of a front, and more."""
        self._append("replayed", run, columns)

    def supersede_physical(self, run: str, plans: Sequence[str]) -> None:
        """Take plans off the physical front that a later batch has beaten; their rows stay."""
        with self._visit(read_only=False) as connection, transaction(connection):
            insert(connection, "superseded", beaten_rows(run, plans))

    def append_facts(self, run: str, facts: Mapping[str, Any]) -> None:
        """Keep every fact a run used, by name, with its source."""
        with self._visit(read_only=False) as connection, transaction(connection):
            add(connection, "facts_used", [fact_row(run, *item) for item in facts.items()])

    def finish_run(self, run: str, summary: RunSummary, state: str = "finished") -> None:
        """Close a run that ended well, or that a person stopped (state "stopped")."""
        with self._visit(read_only=False) as connection, transaction(connection):
            add(connection, "rejections", rejection_rows(run, summary))
            tell(connection, run, state, asdict(summary))

    def fail_run(self, run: str, message: str) -> None:
        """Close a run that an error ended, with what it said."""
        self.tell(run, "failed", {"message": message})

    def tell(self, run: str, event: str, payload: Mapping[str, Any]) -> None:
        """Add an event to a run, e.g. "stop_asked" from another process."""
        with self._visit(read_only=False) as connection, transaction(connection):
            tell(connection, run, event, payload)

    # Reading.

    def runs(self) -> list[RunRecord]:
        """All runs in the order they began."""
        with self._visit(read_only=True) as connection:
            rows = records(connection, "SELECT * FROM runs ORDER BY serial", [])
            events = events_of(connection)
        return [run_record(row, tuple(events.get(row["run"], ()))) for row in rows]

    def run(self, name: str) -> RunRecord:
        """One run."""
        with self._visit(read_only=True) as connection:
            known = connection.execute("SELECT run FROM runs ORDER BY serial").fetchall()
            found = [find_run(name, [str(run) for (run,) in known])]
            (row,) = records(connection, "SELECT * FROM runs WHERE run = $1", found)
            events = events_of(connection, "run = $1", found)
        return run_record(row, tuple(events.get(row["run"], ())))

    def physical(self, run: str) -> dict[str, Array]:
        """The physical front of a run (or of the run it priced anew): column name to (n,)."""
        with self.reading() as held:
            return held._columns("physical", held._physical_run(run), UNBEATEN)

    def physical_count(self, run: str) -> int:
        """Plans on the physical front of a run."""
        with self.reading() as held, held._visit(read_only=True) as connection:
            return len(unbeaten_rows(connection, held._physical_run(run)))

    def physical_thinned(self, run: str, most: int, front_of: str = "") -> dict[str, Array]:
        """Evenly spread rows of the physical front, at most so many, without reading the rest.

        Parameters
        ----------
        front_of : a run whose front is among them, before others; "" for none
        """
        with self.reading() as held, held._visit(read_only=True) as connection:
            own = held._physical_run(run)
            rows = unbeaten_rows(connection, own)
            query = f"SELECT rowid FROM physical WHERE run = $1 AND {_ON_FRONT}"
            first = connection.execute(query, [own, front_of]).fetchnumpy()["rowid"]
            count = max(min(len(rows), most) - len(first), 0)
            at = np.linspace(0, len(rows) - 1, count).astype(np.int64)
            picked = np.union1d(first, rows[at]).tolist()
            return held._columns("physical", own, "rowid IN $2", picked)

    def front(self, run: str) -> dict[str, Array]:
        """The Pareto front of a run: column name to (n,); columns with NULLs are masked."""
        with self.reading() as held:
            return held._columns("front", held.run(run).run)

    def sample(self, run: str) -> dict[str, Array]:
        """Some of the candidates that did not make it."""
        with self.reading() as held:
            return held._columns("sample", held.run(run).run)

    def replayed(self, run: str) -> dict[str, Array]:
        """Plans as their replays found them, at every site; {} where none was replayed."""
        with self.reading() as held:
            return held._columns("replayed", held.run(run).run)

    def plan(self, run: str, plan: str) -> dict[str, dict[str, Array]]:
        """All there is about one plan: {"physical": columns of one row, "front": its rows}.

        Raises
        ------
        UnknownName : the run has no such plan
        """
        with self.reading() as held:
            physical = held._columns("physical", held._physical_run(run), "plan = $2", plan)
            front = held._columns("front", held.run(run).run, "plan = $2", plan)
            if any(len(columns.get("plan", ())) for columns in (physical, front)):
                return {"physical": physical, "front": front}
            known = held.physical(run).get("plan", np.zeros(0, str)).tolist()
        raise unknown("plan", plan, known)

    def facts(self, run: str) -> list[dict[str, Any]]:
        """The facts a run used, one dictionary each, by name."""
        return self._rows("facts_used", run, "name")

    def rejections(self, run: str) -> list[dict[str, Any]]:
        """How many candidates each rule and limit removed: stage, reason, candidates, note."""
        return self._rows("rejections", run, "candidates DESC, reason")

    def diff(self, left: str, right: str) -> Difference:
        """What differs between two runs, in what went in and in what came out."""
        with self.reading() as held:
            sides = [held._side(name) for name in (left, right)]
        return difference(*sides)

    # The errands behind them.

    def _side(self, name: str) -> Side:
        record = self.run(name)
        facts = {fact["name"]: fact["words"] or fact["value"] for fact in self.facts(record.run)}
        rejections = {row["reason"]: row["candidates"] for row in self.rejections(record.run)}
        own = self._physical_run(record.run)
        axes = self._columns("physical", own, _ON_FRONT, record.run)
        front = with_axes(self.front(record.run), axes)
        return Side(record, facts, rejections, front)

    def _rows(self, place: str, run: str, order: str) -> list[dict[str, Any]]:
        """Rows of a narrow table that belong to a run."""
        query = f"SELECT * EXCLUDE (run) FROM {place} WHERE run = $1 ORDER BY {order}"
        with self._visit(read_only=True) as connection:
            found = replace(self, held=connection).run(run).run
            return records(connection, query, [found])

    def _physical_run(self, name: str) -> str:
        """The run whose sweep a run rests on: itself, or the one it priced anew."""
        record = self.run(name)
        return self._physical_run(record.start.parent) if record.start.parent else record.run

    def _columns(
        self, place: str, run: str, only: str = "true", *values: object
    ) -> dict[str, Array]:
        """The columns that a run wrote to a wide table, in the order it wrote them."""
        with self._visit(read_only=True) as connection:
            types = types_of(connection, place, run)
            if not types:
                return {}
            names = ", ".join(schema.quoted(name) for name in types)
            query = f"SELECT rowid, {names} FROM {place} WHERE run = $1 AND {only}"
            found = connection.execute(query, [run, *values]).fetchnumpy()
        arrays = {name: np.ma.asanyarray(values) for name, values in found.items()}
        return columns_of(arrays, types)

    def _append(self, place: str, run: str, columns: Columns) -> None:
        """One batch to a wide table: all of it or nothing."""
        batch, types = table_of(run, columns)
        with self._visit(read_only=False) as connection:
            self._widen(connection, place, types)
            with transaction(connection):
                add_wide(connection, run, place, batch, types)
                tell(connection, run, "batch", {"place": place, "rows": batch.num_rows})

    def _widen(
        self, connection: duckdb.DuckDBPyConnection, place: str, types: Mapping[str, str]
    ) -> None:
        """Add missing columns between two checkpoints.

        A table change and rows in one write-ahead log is where DuckDB lost files that were killed
        (duckdb#15836, #22044): rows before are in the file before the change, the change before
        rows come.
        """
        statements = schema.widening(connection, place, types, self.path)
        if statements:
            connection.execute("CHECKPOINT")
            with transaction(connection):
                for statement in statements:
                    connection.execute(statement)
            connection.execute("CHECKPOINT")

    @contextmanager
    def _visit(self, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """An open file with the newest schema: the one that is held, or one for this errand."""
        if self.held is not None:
            yield self.held
            return
        with connect(self.path, read_only, self.timeout_s) as connection:
            is_newest = schema.is_newest(connection)
            if not is_newest:
                schema.checked_version(connection, self.path)
            if not (is_newest or read_only):
                self._migrate(connection)
            if is_newest or not read_only:
                yield connection
                return
        with connect(self.path, False, self.timeout_s) as connection:
            self._migrate(connection)
        with connect(self.path, True, self.timeout_s) as connection:
            yield connection

    def _migrate(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Bring the file to the newest schema, in the file before rows come."""
        with transaction(connection):
            schema.migrate(connection, self.path, _program())
        connection.execute("CHECKPOINT")


_ON_FRONT = "plan IN (SELECT plan FROM front WHERE run = $2)"


def _program() -> str:
    try:
        return version("cluster-planner")
    except PackageNotFoundError:
        return "not installed"
