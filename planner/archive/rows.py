"""What the archive keeps of a run, as rows: its start, its events, its facts, its rejections."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from planner.archive import schema
from planner.archive.runs import (
    SUMMARISED,
    Event,
    RunRecord,
    RunStart,
    RunSummary,
    as_json,
    process_since,
)
from planner.archive.tables import add, records

FACT_FIELDS = ("unit", "source", "as_of", "grade", "low", "high", "verified", "licence")
"""What is kept of a fact beside its value; the facts of `costdata` have these attributes."""


def tell(
    connection: duckdb.DuckDBPyConnection, run: str, event: str, payload: Mapping[str, Any]
) -> None:
    """Add an event to a run, now."""
    row = {"run": run, "happened": schema.now(), "event": event, "payload": as_json(payload)}
    add(connection, "run_events", [row])


def events_of(
    connection: duckdb.DuckDBPyConnection, only: str = "true", values: Sequence[object] = ()
) -> dict[str, list[Event]]:
    """What happened to every run, or to some, in order."""
    events: dict[str, list[Event]] = {}
    query = f"SELECT * FROM run_events WHERE {only} ORDER BY rowid"
    for row in records(connection, query, values):
        event = Event(row["happened"], row["event"], json.loads(row["payload"]))
        events.setdefault(row["run"], []).append(event)
    return events


def run_row(run: str, serial: int, start: RunStart) -> dict[str, object]:
    """A run that begins now, in this process."""
    return {
        "run": run,
        "serial": serial,
        "study": start.study,
        "kind": start.kind,
        "study_text": start.study_text,
        "resolved": as_json(start.resolved),
        "study_hash": start.study_hash,
        "facts_hash": start.facts_hash,
        "seed": start.seed,
        "versions": as_json(start.versions),
        "started": schema.now(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "pid_since": process_since(os.getpid()),
        "parent": start.parent,
    }


def run_record(row: Mapping[str, Any], events: tuple[Event, ...]) -> RunRecord:
    """A run as it was stored, with what happened to it."""
    start = RunStart(
        study=row["study"],
        kind=row["kind"],
        study_text=row["study_text"],
        resolved=json.loads(row["resolved"]),
        seed=row["seed"],
        facts_hash=row["facts_hash"],
        versions=json.loads(row["versions"]),
        parent=row["parent"],
    )
    said = next((e.payload for e in reversed(events) if e.name in SUMMARISED), None)
    return RunRecord(
        run=row["run"],
        start=start,
        started=row["started"],
        host=row["host"],
        pid=row["pid"],
        pid_since=row["pid_since"],
        events=events,
        summary=RunSummary(**said) if said is not None else None,
    )


def fact_row(run: str, name: str, fact: Any) -> dict[str, object]:
    """A fact in its columns; a value that is no number goes to `words`."""
    is_number = isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    return {
        "run": run,
        "name": name,
        "value": float(fact.value) if is_number else None,
        "words": "" if is_number else str(fact.value),
        **{field: getattr(fact, field) for field in FACT_FIELDS},
    }


def rejection_rows(run: str, summary: RunSummary) -> list[dict[str, object]]:
    """One row per rule (before physics), per bound (instead of it) and per limit (after it)."""
    bounds = {f"{limit} by a bound": n for limit, n in summary.skipped.items()}
    stages = (("rule", summary.masked), ("bound", bounds), ("limit", summary.rejected))
    return [
        {
            "run": run,
            "stage": stage,
            "reason": reason,
            "candidates": int(count),
            "note": summary.notes.get(reason, ""),
        }
        for stage, counts in stages
        for reason, count in counts.items()
    ]
