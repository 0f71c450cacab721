"""A stored run beside today's fact tables: whether they changed, and by how much figures moved.

It compares hashes and headline figures; which fact was edited is for `planner diff` to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.evaluated import REPLAY
from planner.runs.facts_used import facts_hash

HEADLINES = ("usd", "capex_usd", "usd_per_year", "kgco2e", "days", "it_mean_w", "peak_flop_per_s")
"""Figures compared beside the objectives and limits of the run."""

ORDER_OF_SUM = 1e-9
"""Share of a figure by which the order of a sum may move it."""


def facts_note(swept: RunRecord, catalog: Catalog, now: str) -> dict[str, str]:
    """The note "facts" where the tables are not those of a stored run; {} where they are.

    Parameters
    ----------
    catalog : facts in force now
    now : which figures are of which tables, in words
    """
    if swept.start.facts_hash == facts_hash(catalog):
        return {}
    return {"facts": f"tables have changed since {swept.run} was swept: {now}"}


def stale_notes(
    archive: Archive, record: RunRecord, catalog: Catalog, found: Mapping[str, Any]
) -> dict[str, str]:
    """What a reader of an explained plan has to know of its run; {} where nothing has moved.

    Parameters
    ----------
    record : the run that is explained
    found : the explained plan: "plan", "metrics", "site", "scenario"

    Returns
    -------
    "facts": the tables have changed since the run, or since the sweep that it priced anew;
    "stored": headline figures that differ from the plan's stored row
    """
    every = "every figure here is of the tables now"
    notes: dict[str, str] = {}
    for one in _sources(archive, record):
        notes = notes or facts_note(one, catalog, every)
    cause = "with today's tables" if notes else "evaluated now"
    study = record.start.resolved
    wanted = study["objectives"]
    names = (*HEADLINES, *wanted["minimise"], *wanted["maximise"], *study["limits"])
    stored = _stored_row(archive, record, found)
    moved = list(_moved(stored, found["metrics"], tuple(dict.fromkeys(names)), cause))
    return {**notes, **({"stored": "; ".join(moved)} if moved else {})}


def _sources(archive: Archive, record: RunRecord) -> Iterator[RunRecord]:
    """A run and those it was priced from: its physics may be of older tables than its money."""
    yield record
    while record.start.parent:
        record = archive.run(record.start.parent)
        yield record


def _stored_row(archive: Archive, record: RunRecord, found: Mapping[str, Any]) -> dict[str, Any]:
    """The plan's row at its place: on the front, among the options, or its physics alone.

    {} where it was not kept. Hardware keeps every option, and its physics may be of one step of
    an open count, which is no figure of the plan.
    """
    place = {name: found[name] for name in ("plan", "site", "scenario") if found[name]}
    places = [(archive.front(record.run), place), (archive.sample(record.run), place)]
    if found.get("fidelity") == REPLAY:
        places = [(archive.replayed(record.run), place)]
    elif record.start.kind != "hardware":
        places.append((archive.physical(record.run), {"plan": found["plan"]}))
    for table, wanted in places:
        if not wanted.keys() <= table.keys():
            continue
        is_it = [np.asarray(table[name]) == value for name, value in wanted.items()]
        rows = np.flatnonzero(np.logical_and.reduce(is_it))
        if len(rows):
            return {name: column[rows[0]] for name, column in table.items()}
    return {}


def _moved(
    stored: Mapping[str, Any], metrics: Mapping[str, Any], names: Sequence[str], cause: str
) -> Iterator[str]:
    """Each figure that is not what was stored, in words."""
    for name in names:
        if name not in stored or name not in metrics:
            continue
        old = None if np.ma.is_masked(stored[name]) else float(stored[name])
        new = metrics[name]
        if old is None or new is None:
            is_same = old is None and new is None
        else:
            is_same = isclose(old, new, rel_tol=ORDER_OF_SUM)
        if not is_same:
            yield f"stored {name} {_figure(old)}, {cause} {_figure(new)}"


def _figure(value: float | None) -> str:
    if value is None:
        return "NULL"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:,.6g}"
