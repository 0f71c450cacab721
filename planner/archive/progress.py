"""What a run has done so far, written in batches that are kept whole or not at all.

A batch holds rows for the physical front, the plans that they beat, the scores of what a search
evaluated, and the counts up to that point: all in one transaction, so a run that was killed can be
taken up at its last batch, with nothing lost before it and nothing counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from planner.archive.columns import Array, Columns

PROGRESS = "progress"
"""Name of the event that closes a batch; its payload says what was done in it."""

REPLAYED = "replayed"
"""Name of the event that keeps some replays; its payload has one entry per design key."""

UNBEATEN = "plan NOT IN (SELECT plan FROM superseded WHERE run = $1)"
"""Rows of `physical` of the run $1 that are on its front."""

COPIED = ("physical", "run_columns", "superseded", "evaluations")
"""Tables whose rows a run takes over from the one it goes on with."""


@dataclass(frozen=True)
class Batch:
    """What a run did since its last batch.

    Parameters
    ----------
    done : counts and bills, plain values for the event
    physical : rows for the physical front, as `Archive.append_physical`; {} for none
    beaten : plans stored before that are on it no more
    keys, scores : (n,) design keys evaluated by a search, and (n, k) what it was told of each
    """

    done: Mapping[str, Any]
    physical: Columns = field(default_factory=dict)
    beaten: Sequence[str] = ()
    keys: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    scores: Array = field(default_factory=lambda: np.zeros((0, 0)))


def beaten_rows(run: str, plans: Sequence[str]) -> pa.Table:
    """Rows of `superseded`."""
    words = pa.array([str(plan) for plan in plans], pa.string())
    return pa.table({"run": pa.array([run] * len(plans), pa.string()), "plan": words})


def unbeaten_rows(connection: duckdb.DuckDBPyConnection, run: str) -> Array:
    """Where the plans of a run stand that no later one has beaten."""
    query = f"SELECT rowid FROM physical WHERE run = $1 AND {UNBEATEN} ORDER BY rowid"
    return np.asarray(connection.execute(query, [run]).fetchnumpy()["rowid"])


def score_rows(run: str, batch: Batch) -> pa.Table:
    """Rows of `evaluations`; a score without bound stays one."""
    return pa.table(
        {
            "run": pa.array([run] * len(batch.keys), pa.string()),
            "key": pa.array(batch.keys, pa.int64()),
            "scores": pa.array(list(batch.scores), pa.list_(pa.float64())),
        }
    )


def read_scores(connection: duckdb.DuckDBPyConnection, run: str) -> tuple[Array, Array]:
    """Design keys (n,) and scores (n, k) of a run, in the order of evaluation."""
    query = "SELECT key, scores FROM evaluations WHERE run = $1 ORDER BY rowid"
    rows = connection.execute(query, [run]).fetchall()
    keys = np.array([key for key, _ in rows], dtype=np.int64)
    return keys, np.array([scores for _, scores in rows], dtype=np.float64)


def take_over(connection: duckdb.DuckDBPyConnection, earlier: str, run: str) -> None:
    """Give a new run all that an earlier one had kept; inside its first transaction."""
    for place in COPIED:
        connection.execute(
            f"INSERT INTO {place} BY NAME SELECT * REPLACE ($1 AS run) FROM {place} "
            "WHERE run = $2 ORDER BY rowid",
            [run, earlier],
        )
    connection.execute(
        "INSERT INTO run_events BY NAME SELECT * REPLACE ($1 AS run) FROM run_events "
        "WHERE run = $2 AND event IN ($3, $4) ORDER BY rowid",
        [run, earlier, PROGRESS, REPLAYED],
    )
