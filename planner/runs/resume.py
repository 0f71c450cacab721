"""Going on with a run that was stopped or killed: what it had kept is taken up, the rest is done.

The new run has an id of its own and holds all that the earlier one kept, so neither needs the
other. A sweep skips the bills that are done. A search asks for the same plans again, in the same
order, since it starts from the same seed; those it knows are answered from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from planner.archive.progress import PROGRESS, REPLAYED, Batch
from planner.archive.runs import RunRecord, RunStart
from planner.archive.store import Archive
from planner.explain.nearest import least_over
from planner.runs.total import Total, joined
from planner.search.near import Memo
from planner.search.replays import OneReplay, from_plain
from planner.search.seam import Explored, Scores
from planner.search.sweep import BillResult
from planner.space.plan_keys import plan_name
from simkernel.errors import PlanError

GONE_ON = ("stopped", "interrupted", "failed")
"""Endings that leave something to do."""


@dataclass(frozen=True)
class TakenUp:
    """What an earlier run left.

    Parameters
    ----------
    driver : that found it, "" where nothing was kept
    total : counts, physical front and nearest candidates so far
    bills : indices of those that are done
    trace : what its batches told of the hypervolume
    """

    driver: str = ""
    total: Total = field(default_factory=Total)
    bills: frozenset[int] = frozenset()
    trace: tuple[Mapping[str, Any], ...] = ()


def unfinished(archive: Archive, start: RunStart, now: datetime) -> str:
    """The newest run of the same inputs, if there is something left to do in it; else "".

    Raises
    ------
    PlanError : it still runs
    """
    if not archive.path.exists():
        return ""
    same = [record for record in archive.runs() if _is_same(record, start)]
    if not same:
        return ""
    state = same[-1].state(now)
    if state == "running":
        raise PlanError(
            f"run {same[-1].run} of this study still runs (process {same[-1].pid} on "
            f"{same[-1].host}); wanted one that has ended; planner stop {same[-1].run}"
        )
    return same[-1].run if state in GONE_ON else ""


def taken_up(archive: Archive, run: str) -> TakenUp:
    """What a run that took over another starts with."""
    with archive.reading() as held:
        events = [e.payload for e in held.run(run).events if e.name == PROGRESS]
        front = _filled(held.physical(run)) if events else {}
    if not events:
        return TakenUp()
    total = Total(fronts=[front] if front else [])
    for done in events:
        total.bills += done["results"]
        total.evaluated += done["evaluated"]
        total.masked.update(done["masked"])
        total.rejected.update(done["rejected"])
        total.skipped.update(done.get("skipped", {}))
        total.cpu_s += done["cpu_s"]
        if done["nearest"]:
            total.nearest.append(_table(done["nearest"]))
    bills = frozenset(index for done in events for index in done["bills"])
    trace = tuple(done["trace"] for done in events if "trace" in done)
    return TakenUp(events[-1]["driver"], total, bills, trace)


def replayed_before(archive: Archive, run: str) -> dict[int, OneReplay]:
    """Replays that a run which took over another starts with, by design key."""
    told = [e.payload for e in archive.run(run).events if e.name == REPLAYED]
    return {int(key): from_plain(one) for some in told for key, one in some.items()}


def explored_before(archive: Archive, run: str, explored: Explored, front: Any = None) -> None:
    """Give a search its memory back."""
    keys, scores = archive.evaluations(run)
    if len(keys):
        sites = len(explored.engine.study.costing.site)
        points, excess = scores[:, :-sites].reshape(len(keys), sites, -1), scores[:, -sites:]
        explored.remember(Memo(keys, Scores(points, excess)), front)


def batch_of(
    driver: str,
    results: Sequence[BillResult],
    explored: Explored | None,
    is_empty: bool,
    trace: Mapping[str, Any],
) -> Batch:
    """Results since the last batch, as the archive keeps them.

    Parameters
    ----------
    explored : the memory of a search; None for a sweep
    is_empty : nothing feasible was found in the run so far, so the nearest count
    trace : the line of this batch
    """
    sums = Total()
    for result in results:
        sums.add(result)
    done = {
        "driver": driver,
        "results": len(results),
        "bills": [result.index for result in results if result.index >= 0],
        "evaluated": sums.evaluated,
        "masked": dict(sums.masked),
        "rejected": dict(sums.rejected),
        "skipped": dict(sums.skipped),
        "cpu_s": sums.cpu_s,
        "trace": dict(trace),
        "nearest": least_over(joined(sums.nearest))["plans"] if is_empty and sums.nearest else [],
    }
    keys = np.array([key for result in results for key in result.new_keys], dtype=np.int64)
    return Batch(
        done,
        joined(sums.fronts) if sums.fronts else {},
        [plan_name(key) for key in sorted(sums.beaten)],
        keys,
        _scores_of(explored, keys) if explored else np.zeros((len(keys), 0)),
    )


def _scores_of(explored: Explored, keys: Any) -> Any:
    """What a search was told of some plans: objectives at every site, then excesses; (n, k)."""
    told = [explored.known[int(key)] for key in keys]
    return np.array([np.concatenate([points.ravel(), excess]) for points, excess in told])


def _is_same(record: RunRecord, start: RunStart) -> bool:
    """The same study, seed, facts and versions; not a run that only priced another anew."""
    return record.start.mark == start.mark and record.start.study_hash == start.study_hash


def _filled(table: Mapping[str, Any]) -> dict[str, Any]:
    """Columns as results have them: NaN where the archive has NULL."""
    return {
        name: column.filled(np.nan) if np.ma.is_masked(column) else np.ma.getdata(column)
        for name, column in table.items()
        if name != "status"
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows that were kept as plain values, as columns again."""
    table = {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}
    return {**table, "worst_excess": table["worst_excess"].astype(float)}
