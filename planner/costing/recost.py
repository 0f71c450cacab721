"""A stored run under other prices, sites, carbon or limits on them, without simulating again.

The physical front that a run left in the archive holds the optimum of any cost that grows with
time, power and hardware, so pricing it anew gives the front of a fresh run. What changes what was
simulated is refused, with the reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.archive.runs import SUMMARISED, RunRecord, RunSummary
from planner.archive.stale_facts import facts_note
from planner.archive.store import Archive
from planner.axes import AXES
from planner.costing.notes import costing_notes
from planner.costing.null_objectives import UNKNOWN_OBJECTIVE
from planner.costing.second_pass import Costed, front_columns, front_hash, is_costed
from planner.explain.nearest import nearest_costed
from planner.metrics import is_at_least
from planner.pareto import nondominated_by
from planner.runs.answer import Finished, run_start, store_answer
from planner.runs.kinds import kind_of
from planner.runs.refine import with_spread
from planner.search.sweep import FOLLOWS_FROM_FRONT, criteria, further_criteria
from planner.study.read import Study
from planner.study.settings import with_settings
from planner.study.written import study_document, study_from_json
from planner.training.engine import catalogue_names
from simkernel.columns import Codes
from simkernel.errors import BadStudy

NOT_OF_A_PLAN = ("run", "status")
"""Columns that the archive adds to the physical front."""


@dataclass(frozen=True)
class Repriced:
    """A stored run under another costing, not stored yet.

    Parameters
    ----------
    parent : the run that was asked for
    root : the run whose sweep it rests on, which may be the same
    swept : what that one said at its end
    study : the parent's with the settings
    catalog : facts in force now
    plans : columns of the physical front, (n,)
    costed : the front, or the rows nearest to it; None where no plan was feasible
    seconds : from plans in memory to front [s]
    """

    parent: RunRecord
    root: RunRecord
    swept: RunSummary
    study: Study
    catalog: Catalog
    plans: dict[str, Any]
    costed: Costed | None
    seconds: float

    @property
    def rows(self) -> int:
        """Plans times sites."""
        return len(self.plans["plan"]) * len(self.study.costing.site)


def recost(archive: Archive, run: str, settings: Sequence[str] = ()) -> Finished:
    """A stored run priced anew and stored as a run of its own, whose parent it is.

    Parameters
    ----------
    run : its id, number or "last"
    settings : as for --set: "costing.KEY=VALUE", "limits.METRIC=…", "objectives.minimise=…"

    Raises
    ------
    UnknownName : no such run
    BadStudy : a run that has not ended; a setting that is wrong or would need a simulation
    MissingFact : a site lacks a term of costing
    """
    done = repriced(archive, run, settings)
    front = front_columns(done.study, done.costed) if done.costed else {}
    summary = _summary(done, front)
    state = next(e.name for e in reversed(done.root.events) if e.name in SUMMARISED)
    run_id = archive.begin_run(run_start(done.study, done.catalog, done.parent.run))
    new = Finished(run_id, state, summary, front)
    store_answer(archive, done.study, done.catalog, done.costed, new)
    return new


@dataclass(frozen=True)
class Swept:
    """A run as it was read to be priced again and again.

    Parameters
    ----------
    parent, root : the run that is priced, and the one that simulated it
    physical : plans of the physical front, as `physical_plans` gives them
    kept : how many plans the archive has; more than in `physical` where these are thinned
    """

    parent: RunRecord
    root: RunRecord
    physical: Mapping[str, Any]
    kept: int

    @property
    def is_whole(self) -> bool:
        """Every plan that was kept is among those priced."""
        return len(self.physical["plan"]) >= self.kept


def swept(archive: Archive, run: str, most: int | None = None) -> Swept:
    """A run read to be priced.

    Parameters
    ----------
    most : plans at most, those of the run's front before others that are evenly spread; None for
        all that were kept

    Raises
    ------
    UnknownName : no such run
    """
    with archive.reading() as held:
        parent = held.run(run)
        root = root_of(held, parent)
        kept = held.physical_count(root.run)
        if most is None or kept <= most:
            physical = physical_plans(held, root.run)
        else:
            physical = in_order(held.physical_thinned(root.run, most, parent.run))
    return Swept(parent, root, physical, kept)


def repriced(archive: Archive, run: str, settings: Sequence[str] = ()) -> Repriced:
    """The same as `recost` without storing it."""
    return priced(swept(archive, run), settings)


def priced(read: Swept, settings: Sequence[str] = ()) -> Repriced:
    """A run that was read, priced: for a slider, or for many costings in a row."""
    said = ended(read.root)
    before = stored_study(read.root)
    catalog = catalogue.load(Path(before.tables) if before.tables else None)
    study = with_settings(stored_study(read.parent), settings, catalogue_names(catalog))
    refuse_simulation(before, study)
    kind_of(study).refuse(study)
    plans = with_spread(still_on_front(before, study, dict(read.physical)), said.tiers)
    started = time.perf_counter()
    costed = kind_of(study).cost(study, catalog, plans) if len(plans["plan"]) else None
    seconds = time.perf_counter() - started
    return Repriced(read.parent, read.root, said, study, catalog, plans, costed, seconds)


def stored_study(record: RunRecord) -> Study:
    """The study of a stored run, as it was resolved then."""
    document = {**record.start.resolved, "text": record.start.study_text}
    return study_from_json(json.dumps(document))


def root_of(archive: Archive, record: RunRecord) -> RunRecord:
    """The run that simulated what a run prices."""
    while record.start.parent:
        record = archive.run(record.start.parent)
    return record


def physical_plans(archive: Archive, run: str) -> dict[str, Any]:
    """The physical front of a run as the sweep made it: in the order of design keys, NaN for NULL.

    Returns
    -------
    column name to (n,); n is 0 where nothing was feasible
    """
    return in_order(archive.physical(run))


def in_order(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored rows of a physical front as `physical_plans` gives them."""
    if "plan" not in stored:
        return {"plan": np.array([], dtype=object), "devices": np.array([], dtype=np.int64)}
    order = np.argsort(stored["key"], kind="stable")
    return {
        name: _filled(column)[order]
        for name, column in stored.items()
        if name not in NOT_OF_A_PLAN
    }


def still_on_front(before: Study, study: Study, plans: dict[str, Any]) -> dict[str, Any]:
    """The plans that a sweep under the new limits and objectives would have kept.

    Parameters
    ----------
    before : the study that was swept
    study : wants no more of physics than `before`; see `refuse_simulation`
    """
    kept, kind = np.arange(len(plans["plan"])), kind_of(study)
    for name, bound in study.limits.items() if kind.is_limited(study) else ():
        if not is_costed(name) and before.limits.get(name) != bound and len(kept):
            values = np.asarray(plans[name], float)[kept]
            kept = kept[values >= bound if is_at_least(name) else values <= bound]
    plans = {name: column[kept] for name, column in plans.items()}
    if kind.keeps_options:
        return plans
    if len(kept) and further_criteria(study) != further_criteria(before):
        kept = np.flatnonzero(nondominated_by(_bills(plans), criteria(study, plans)))
        plans = {name: column[kept] for name, column in plans.items()}
    return plans


def refuse_simulation(before: Study, study: Study) -> None:
    """Everything that the stored physical front cannot answer, in one error.

    Raises
    ------
    BadStudy : the study changes what is simulated, asks for more than the sweep kept, or lets in
        plans that the sweep threw away
    """
    kind, faults = kind_of(study), [*_changed_physics(before, study)]
    if not kind.keeps_options:
        faults += _lost_criteria(before, study)
    if kind.is_limited(before):
        faults += _moved_limits(before, study, may_tighten=kind.keeps_options)
    if faults:
        raise BadStudy(*faults)


def _changed_physics(before: Study, study: Study) -> Iterator[str]:
    old, new = study_document(before), study_document(study)
    for section in ("study", "workload", "axes", "pin", "reliability"):
        was, now = old.get(section, {}), new.get(section, {})
        for key in {**was, **now}:
            if was.get(key) != now.get(key):
                yield (
                    f"{section}.{key} changes what was simulated; recost takes costing, limits "
                    "and objectives; use planner run"
                )


def _lost_criteria(before: Study, study: Study) -> Iterator[str]:
    kept, wanted = further_criteria(before), further_criteria(study)
    for name, sign in wanted.items():
        if kept.get(name) != sign:
            yield (
                f"the run did not keep the best plans in {name}, which is compared now; "
                "use planner run with it among the objectives"
            )


def _moved_limits(before: Study, study: Study, *, may_tighten: bool) -> Iterator[str]:
    """Physical limits may become tighter where what was kept shows who keeps them."""
    for name in {**before.limits, **study.limits}:
        if is_costed(name):
            continue
        sign = -1.0 if is_at_least(name) else 1.0
        old = sign * before.limits.get(name, sign * np.inf)
        new = sign * study.limits.get(name, sign * np.inf)
        if new > old:
            yield (
                f"limits.{name} was {before.limits[name]:g} when the run was swept; plans beyond "
                "it were not kept; take a tighter limit, or use planner run"
            )
        elif new < old and name not in FOLLOWS_FROM_FRONT and not may_tighten:
            yield (
                f"limits.{name} decides which plans are compared, and the run was swept without "
                "it; use planner run"
            )


def ended(record: RunRecord) -> RunSummary:
    """What a run said at its end; BadStudy where it has not ended well."""
    if record.summary is None:
        raise BadStudy(
            f"run {record.run} has not ended well, so its physical front is not whole; "
            "run its study again, or wait for it"
        )
    return record.summary


def _summary(done: Repriced, front: Mapping[str, Any]) -> RunSummary:
    """Counts of the sweep it rests on, and what the new costing made of its front."""
    swept, before = done.swept, stored_study(done.root)
    rejected = {n: count for n, count in swept.rejected.items() if not _is_of_costing(n, before)}
    if done.costed:
        rejected |= done.costed.rejected
    nearest = nearest_costed(done.study, done.costed) if done.costed else dict(swept.nearest)
    return RunSummary(
        enumerated=swept.enumerated,
        masked=dict(swept.masked),
        evaluated=swept.evaluated,
        rejected={name: count for name, count in rejected.items() if count},
        seconds=done.seconds,
        evaluated_per_s_per_core=done.rows / max(done.seconds, 1e-9),
        physical_front=len(done.plans["plan"]),
        front=len(front["plan"]) if front else 0,
        front_hash=front_hash(done.study, front),
        notes=_notes(done),
        nearest={} if front else nearest,
    )


def _is_of_costing(name: str, study: Study) -> bool:
    """A limit that a costing counts anew."""
    return name in ("missing_fact", UNKNOWN_OBJECTIVE) or (
        name in study.limits and is_costed(name)
    )


def _notes(done: Repriced) -> dict[str, str]:
    kept = {
        k: v for k, v in done.swept.notes.items() if k.startswith("missing_fact") or k == "search"
    }
    now = "physics is of the tables then, money and carbon are of the tables now"
    return {
        **kept,
        "priced": f"{done.rows} plans at sites in {done.seconds:.6f} s",
        **costing_notes(done.study, done.catalog, done.costed),
        **facts_note(done.root, done.catalog, now),
    }


def _bills(plans: Mapping[str, Any]) -> Codes:
    """A number for each hardware bill among the plans; (n,)."""
    code = np.zeros(len(plans["plan"]), dtype=np.int64)
    for name in (axis.name for axis in AXES.values() if axis.is_bill and axis.name in plans):
        levels, own = np.unique(np.asarray(plans[name]), return_inverse=True)
        code = code * len(levels) + own
    return code


def _filled(column: Any) -> Any:
    """NaN where the archive has NULL."""
    if not np.ma.is_masked(column):
        return np.ma.getdata(column)
    return np.ma.filled(column.astype(float), np.nan)
