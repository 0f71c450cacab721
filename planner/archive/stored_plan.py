"""One plan of a stored run, whole, at one of the places where it can be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from costdata import catalog as catalogue
from planner.archive.runs import RunRecord
from planner.archive.stale_facts import stale_notes
from planner.archive.store import Archive
from planner.costing.places import Asked, asked, scenarios_of, study_at
from planner.costing.recost import stored_study
from planner.costing.tariff_money import tariff_note
from planner.explain.comparison import compared
from planner.explain.plan import Explained, explain_plan, one_change
from planner.fleet.document import purchase_document, refuse_purchases
from planner.hardware.explain import hardware_explained
from planner.runs.kinds import prepare
from planner.space.plan_keys import plan_key
from planner.study.read import Study
from simkernel.errors import MissingFact, UnknownName


def stored_plan(
    archive: Archive, name: str, plan: str, site: str = "", scenario: str = ""
) -> dict[str, Any]:
    """The document of `explain`.

    Parameters
    ----------
    name : of the run
    plan : its name, or its place on the front, 1 for the first
    site, scenario : where it is looked at; "" for its own row on the front

    Raises
    ------
    UnknownName : no such run, plan, site or scenario
    """
    record, study, wanted = plan_asked(archive, name, plan, site, scenario)
    if record.start.kind == "mixed":
        refuse_purchases("mixed", "an explanation")
    if record.start.kind == "fleet":
        return _purchase(archive, record, wanted)
    here = study_at(study, wanted.site, wanted.scenario)
    found = plan_figures(record, here, wanted, with_changes=True)
    place = where(found, here, wanted)
    return {
        "run": record.run,
        **place,
        "on_front": list(wanted.on_front),
        "sites": list(study.costing.site),
        "scenarios": list(scenarios_of(study)),
        "limits": dict(here.limits),
        **found,
        "notes": {**found.get("notes", {}), **_stale(archive, record, {**found, **place})},
    }


def _purchase(archive: Archive, record: RunRecord, wanted: Asked) -> dict[str, Any]:
    """A purchase plan, as its run stored it."""
    if not wanted.on_front:
        raise UnknownName(f"plan {wanted.plan} is not of run {record.run}; see planner show")
    with archive.reading() as held:
        front = held.front(record.run)
    return {
        "run": record.run,
        **purchase_document(front, wanted.on_front[0]["place"] - 1),
        "notes": dict(record.summary.notes) if record.summary else {},
    }


def plan_against(
    archive: Archive, name: str, plan: str, against: str, site: str = "", scenario: str = ""
) -> dict[str, Any]:
    """The document of `explain --against`: a plan beside another of the same run.

    Parameters
    ----------
    against : the other's name, which is taken at the site and in the scenario of the plan, or its
        place on the front, which brings its own
    site, scenario : of both; "" for their own

    Raises
    ------
    UnknownName : as `stored_plan`
    MissingFact : one of them has no price
    """
    record, study, first = plan_asked(archive, name, plan, site, scenario)
    refuse_purchases(record.start.kind, "a comparison")
    documents = [_at_its_place(record, study, first)]
    if not against.isdigit():
        site, scenario = (documents[0][key] or "" for key in ("site", "scenario"))
    second = plan_asked(archive, name, against, site, scenario)[2]
    documents.append(_at_its_place(record, study, second))
    return {
        "run": record.run,
        **{
            key: {n: one[n] for n in ("plan", "site", "scenario", "violations")}
            for key, one in zip(("plan", "against"), documents, strict=True)
        },
        **compared(*documents),
        "notes": _stale(archive, record, documents[0]),
    }


def _stale(archive: Archive, record: RunRecord, found: dict[str, Any]) -> dict[str, str]:
    """What has moved since the run, of a plan evaluated anew at its place."""
    tables = stored_study(record).tables
    catalog = catalogue.load(Path(tables) if tables else None)
    with archive.reading() as held:
        return stale_notes(held, record, catalog, found)


def _at_its_place(record: RunRecord, study: Study, wanted: Asked) -> dict[str, Any]:
    """A plan that has a price, without the changes around it."""
    here = study_at(study, wanted.site, wanted.scenario)
    found = plan_figures(record, here, wanted, with_changes=False)
    if "usd" not in found["metrics"]:
        raise MissingFact(
            f"plan {wanted.plan} has no price to {here.costing.acquire}, so there is nothing to "
            "compare; give its price in [costing], or take another costing.acquire"
        )
    return {**found, **where(found, here, wanted)}


def plan_asked(
    archive: Archive, name: str, plan: str, site: str, scenario: str
) -> tuple[RunRecord, Study, Asked]:
    """The run, its study and the plan at the place that is meant; raises as `stored_plan`."""
    with archive.reading() as held:
        record = held.run(name)
        front = held.front(record.run)
    study = stored_study(record)
    return record, study, asked(record.run, study, front, plan, site, scenario)


def plan_figures(
    record: RunRecord, here: Study, wanted: Asked, *, with_changes: bool
) -> dict[str, Any]:
    """A plan's document, whatever the kind of its study.

    Parameters
    ----------
    here : the study at the place
    with_changes : what one change on each axis would do, too
    """
    if record.start.kind == "hardware":
        return hardware_explained(here, wanted.plan, with_changes=with_changes)
    engine, key = prepare(here), plan_key(wanted.plan)
    if key >= engine.space.key_count:
        raise UnknownName(
            f"plan {wanted.plan} is not of run {record.run}; see planner show {record.run}"
        )
    found = {
        **explained_document(explain_plan(engine, key)),
        "notes": tariff_note(engine.study.costing, engine.catalog),
    }
    return {**found, "one_change": one_change(engine, key)} if with_changes else found


def where(found: dict[str, Any], here: Study, wanted: Asked) -> dict[str, Any]:
    """The place a document is of: where it was judged if none was asked; None if nowhere.

    A plan that cannot be had has no site; a study without scenarios has no scenario.
    """
    words = scenarios_of(here)
    return {
        "site": found["metrics"].get("site") or wanted.site or None,
        "scenario": words[0] if words else None,
    }


def explained_document(found: Explained) -> dict[str, Any]:
    """An explained plan as documents have it."""
    return {
        "plan": found.plan,
        "violations": found.violations,
        "axes": found.axes,
        "metrics": found.metrics,
        "null_reasons": found.null_reasons,
        "ledgers": found.ledgers,
        "binds": found.binds,
        "traffic": found.traffic,
        "napkin": found.napkin,
        "facts_used": found.facts_used,
        "unverified_facts": found.unverified,
    }
