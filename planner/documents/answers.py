"""What each command answers, as one plain document; the same for the terminal, JSON and Python."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.archive.stored_plan import explained_document, plan_against, stored_plan
from planner.costing.recost import recost as recosted
from planner.costing.second_pass import NULL_REASONS
from planner.costing.tariff_money import tariff_note
from planner.costing.terms import terms_of
from planner.explain.plan import explain_plan, nearest_change, plain
from planner.fleet.row import ASKED, DECIDED
from planner.hardware.explain import hardware_evaluated
from planner.runs.kinds import KINDS, kind_of, prepare
from planner.runs.physics import PHYSICS
from planner.runs.trace import trace_document
from planner.search.choice import Budget
from planner.serving.replay import SEEDS, replayed
from planner.space.single import Single, single
from planner.study.pools import has_pools
from planner.study.read import Study, read_study, tables_named_in
from planner.study.settings import with_settings
from planner.study.written import study_document
from planner.training.breakeven import breakeven, is_date_unknown
from planner.training.engine import catalogue_names
from simkernel.errors import BadFile, BadStudy

UNSHOWN = ("run", "key", "status", DECIDED, ASKED)
"""Columns of stored tables that are not for readers."""

NOT_REPLAYED = "the plan breaks a limit before any replay; planner replay serves what it can"

OF_ONE_PLAN = "--size and --timeline are of one plan; a purchase plan has several"


def run(
    path: str,
    db: Path,
    settings: Sequence[str] = (),
    budget: str | None = None,
    workers: int | None = None,
    replays: int | None = None,
    *,
    on: str = "local",
    is_resumed: bool = False,
    is_quiet: bool = False,
) -> dict[str, Any]:
    """Search a study into the database; the document of `run --json`.

    Parameters
    ----------
    on : who works, "local" or "dask:ADDRESS"
    """
    from planner.commands.progress import shown_progress
    from planner.runs.run import run_study
    from planner.search.workforce import opened

    spend = _budget(budget)
    engine = prepare(_study(path, settings))
    if workers and on != "local":
        raise BadStudy(f"--workers {workers}: processes of this machine; leave it out with {on}")
    with opened(on) as force, shown_progress(is_quiet) as progress:
        done = run_study(
            engine, Archive(db), force or workers, progress, spend, replays, is_resumed=is_resumed
        )
    return show(db, done.run)


def recost(db: Path, name: str, settings: Sequence[str] = ()) -> dict[str, Any]:
    """A stored run under other prices, sites, carbon; the document of `recost --json`."""
    from planner.runs.solved_again import solved_again

    archive = Archive(db)
    again = solved_again if archive.run(name).start.kind == "fleet" else recosted
    return show(db, again(archive, name, settings).run)


def runs(db: Path) -> dict[str, Any]:
    """All runs of a database, newest last."""
    now = _now()
    return {
        "runs": [
            {
                "run": record.run,
                "study": record.start.study,
                "state": record.state(now),
                "started": record.started.isoformat(timespec="seconds"),
                **_counts(record),
            }
            for record in Archive(db).runs()
        ]
    }


def show(db: Path, name: str) -> dict[str, Any]:
    """One run: its front and what each rule and limit removed."""
    with Archive(db).reading() as archive:
        record = archive.run(name)
        front = _lines(archive.front(record.run))
        options = _lines(archive.sample(record.run)) if _keeps_options(record) else None
        replayed = _lines(archive.sample(record.run)) if _is_replayed(record) else None
    summary, targets = record.summary, record.start.resolved.get("targets")
    return {
        "run": record.run,
        "study": record.start.study,
        **({"parent": record.start.parent} if record.start.parent else {}),
        "state": record.state(_now()),
        "candidates": {
            "enumerated": summary.enumerated if summary else None,
            "masked": dict(summary.masked) if summary else {},
            "skipped": dict(summary.skipped) if summary else {},
            "evaluated": summary.evaluated if summary else None,
        },
        "physical_front": summary.physical_front if summary else None,
        "front": front,
        **({} if options is None else {"options": options}),
        **({} if replayed is None else {"replayed": replayed}),
        **({"tiers": dict(summary.tiers)} if summary and summary.tiers else {}),
        "rejected": dict(summary.rejected) if summary else {},
        "nearest": dict(summary.nearest) if summary else {},
        "notes": dict(summary.notes) if summary else {},
        "trace": _trace(record),
        "objectives": record.start.resolved["objectives"],
        **({"targets": targets} if targets else {}),
        "seconds": summary.seconds if summary else None,
        "evaluated_per_s_per_core": summary.evaluated_per_s_per_core if summary else None,
        "front_hash": summary.front_hash if summary else None,
    }


def show_study(path: str) -> dict[str, Any]:
    """A study file with every default written out, and the size of its space."""
    study = _study(path, ())
    document = study_document(study)
    if study.kind in KINDS:
        space = prepare(study).space
        document["space"] = {"enumerated": space.enumerated, "bills": len(space.bill_codes)}
        document["costing in force"] = _terms_in_force(path, study)
        if study.kind == "train":
            document["reliability in force"] = _reliability_in_force(path, study)
    return document


def _reliability_in_force(path: str, study: Study) -> dict[str, Any]:
    """Every key of [reliability] as it is taken, by name."""
    given, figure = asdict(study.reliability), _catalog_of(path).planning
    gbytes_per_s = figure("storage_bytes_per_s_per_device") / 1e9
    ours = {
        "device_mtbf_h": "by component, failures.csv",
        "checkpoint_s": "weights and optimiser state over the storage",
        "storage_gbytes_per_s": f"{gbytes_per_s:g} a device",
        "recovery_s": f"{figure('recovery_s'):g} and reading the checkpoint",
        "repair_h": figure("repair_h"),
        "spare_coverage_frac": "as many as are under repair on average",
    }
    return {name: ours[name] if value is None else value for name, value in given.items()}


def _terms_in_force(path: str, study: Study) -> dict[str, Any]:
    """Every term of costing as it is taken, by name; a list where sites differ."""
    terms = terms_of(study.costing, _catalog_of(path))
    found: dict[str, Any] = {"site": list(study.costing.site)}
    for name in type(terms).__dataclass_fields__:
        values = [plain(value) for value in getattr(terms, name)]
        found[name] = values[0] if len(set(values)) == 1 else values
    return found


def explain(db: Path, name: str, plan: str, site: str = "", scenario: str = "") -> dict[str, Any]:
    """One stored plan: ledgers, what binds, one change on each axis, napkin check.

    `site` and `scenario` choose among the rows that the plan has; "" for its row on the front.
    """
    return stored_plan(Archive(db), name, plan, site, scenario)


def compare(
    db: Path, name: str, plan: str, against: str, site: str = "", scenario: str = ""
) -> dict[str, Any]:
    """One stored plan beside another of the run: every figure and ratio, and how it changes."""
    return plan_against(Archive(db), name, plan, against, site, scenario)


def evaluate(path: str, settings: Sequence[str], *, is_replayed: bool = False) -> dict[str, Any]:
    """One candidate of a study; the document of `evaluate --json`.

    A replayed plan is feasible where its replay keeps the bounds too.
    """
    return evaluate_study(_study(path, settings), is_replayed=is_replayed)


def evaluate_study(study: Study, *, is_replayed: bool = False) -> dict[str, Any]:
    """The same of a study that was read."""
    if study.kind == "hardware":
        return hardware_evaluated(study)
    found = single(study)
    explained = explain_plan(found.engine, found.key)
    nearest = {} if explained.is_feasible else nearest_change(found.engine, found.key)
    sites = found.engine.study.costing.site
    taken = (
        {"site": explained.metrics["site"]}
        if len(sites) > 1 and "site" in explained.metrics
        else {}
    )
    replays = _replays(found, explained.is_feasible) if is_replayed else {}
    broken = replays.get("replay", {}).get("violations", [])
    unreplayed = {"not_replayed": NOT_REPLAYED} if is_replayed and not replays else {}
    return {
        "feasible": explained.is_feasible and not broken,
        "nearest": nearest,
        **replays,
        "taken": {**found.taken, **taken},
        **explained_document(explained),
        **_surface(study, explained.metrics),
        "violations": [*explained.violations, *broken],
        "notes": {
            **kind_of(study).notes(study, found.engine.catalog),
            **tariff_note(found.engine.study.costing, found.engine.catalog),
            **unreplayed,
        },
    }


def _surface(study: Study, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan needs of machines whose rate of failures nobody knows; else nothing."""
    is_asked = study.kind == "train" and is_date_unknown(study)
    return {"breakeven": breakeven(study, metrics)} if is_asked else {}


def _replays(found: Single, is_feasible: bool) -> dict[str, Any]:
    """The replay of a plan that can exist; nothing of one that already breaks a limit."""
    from planner.documents.serving import ready, told

    if found.engine.study.kind not in ("serve", "train"):
        raise BadStudy('--replay needs a study of kind = "serve" or "train"; leave it out')
    if not is_feasible:
        return {}
    if found.engine.study.kind == "train":
        from planner.documents.training_replay import replay_of

        return {"replay": replay_of(found)}
    if has_pools(found.engine.study):
        from planner.documents.pools import pools_replay

        return {"replay": pools_replay(found)}
    plan, closed = ready(found)
    return {"replay": told(plan, replayed(plan), closed, SEEDS)}


def replay(
    path: str,
    settings: Sequence[str],
    seeds: int = SEEDS,
    is_sized: bool = False,
    timeline: Path | None = None,
) -> dict[str, Any]:
    """One plan, request by request or pass by pass; the document of `replay --json`.

    Raises
    ------
    BadStudy : a study of another kind, or a fleet asked of a training study
    """
    from planner.documents.pools import pools_document
    from planner.documents.purchase_replay import purchase_replay
    from planner.documents.serving import replay_document
    from planner.documents.training_replay import training_replay_document

    if timeline is not None and not timeline.resolve().parent.is_dir():
        raise BadFile(f"--timeline {timeline}: there is no such folder; make it first")
    study = _study(path, settings)
    if study.kind == "fleet":
        if is_sized or timeline is not None:
            raise BadStudy(OF_ONE_PLAN)
        return purchase_replay(study, seeds)
    if study.kind not in ("serve", "train"):
        raise BadStudy(
            f'a study of kind = "{study.kind}" has nothing to replay; '
            'wanted kind = "serve", "train" or "fleet"'
        )
    if study.kind == "train":
        if is_sized:
            raise BadStudy("--size finds a fleet for requests; a training study has none to find")
        return training_replay_document(study, seeds, timeline)
    if has_pools(study):
        if is_sized or timeline is not None:
            raise BadStudy("--size and --timeline are of one pool in this version; leave them out")
        return pools_document(study, seeds)
    return replay_document(study, seeds, is_sized=is_sized, timeline=timeline)


def replay_stored(
    db: Path,
    run: str,
    plan: str,
    settings: Sequence[str] = (),
    seeds: int = SEEDS,
    is_sized: bool = False,
    timeline: Path | None = None,
) -> dict[str, Any]:
    """A purchase plan as a run has stored it, replayed; the document of `replay --json`.

    Raises
    ------
    BadStudy : a run of another kind, or something asked of it that is of one plan
    """
    from planner.documents.purchase_replay import stored_purchase_replay

    if settings:
        raise BadStudy(
            f"--set {settings[0]}: a stored plan is replayed as it was decided; use planner "
            "recost RUN --set first, and replay the run that it makes"
        )
    if is_sized or timeline is not None:
        raise BadStudy(OF_ONE_PLAN)
    return stored_purchase_replay(db, run, plan, seeds)


def knee(path: str, settings: Sequence[str], by: str, along: Sequence[str] = ()) -> dict[str, Any]:
    """The fastest plan at every value of one axis; the document of `knee --json`."""
    from planner.documents.knee import knee_document

    return knee_document(_study(path, settings), by, along)


def diff(db: Path, first: str, second: str) -> dict[str, Any]:
    """What went in and came out differently; a row of a front is "plan site acquire"."""
    found = asdict(Archive(db).diff(first, second))
    found["changed"] = {" ".join(row): metrics for row, metrics in found["changed"].items()}
    return found


def stop(db: Path, name: str) -> bool:
    """Ask a run to end; False where it does not run."""
    archive = Archive(db)
    record = archive.run(name)
    if record.state(_now()) != "running":
        return False
    archive.tell(record.run, "stop_asked", {})
    return True


def _now() -> datetime:
    """The moment, as the archive writes it."""
    return datetime.now(UTC).replace(tzinfo=None)


def _study(path: str, settings: Sequence[str]) -> Study:
    names = catalogue_names(_catalog_of(path))
    study = read_study(path, names)
    return with_settings(study, settings, names) if settings else study


def _catalog_of(path: str) -> Catalog:
    """The catalogue with the study's own tables over it, if it names any that can be read."""
    tables = tables_named_in(path)
    return catalogue.load(tables if tables and tables.is_dir() else None)


def _budget(text: str | None) -> Budget:
    """A limit on candidates ("100000") or on seconds ("60s")."""
    if text is None:
        return Budget()
    match = re.fullmatch(r"(\d+)(s?)", text)
    if not match:
        raise BadStudy(f"--budget {text}: wanted candidates or seconds, e.g. 1000000 or 60s")
    amount, is_time = int(match[1]), bool(match[2])
    return Budget(seconds=amount) if is_time else Budget(evaluations=amount)


def _counts(record: RunRecord) -> dict[str, Any]:
    summary = record.summary
    if summary is None:
        return {"evaluated": None, "physical_front": None, "front": None, "front_hash": None}
    return {
        "evaluated": summary.evaluated,
        "physical_front": summary.physical_front,
        "front": summary.front,
        "front_hash": summary.front_hash,
    }


def _trace(record: RunRecord) -> dict[str, Any]:
    """How the front grew, batch by batch."""
    lines = [e.payload["trace"] for e in record.events if "trace" in e.payload]
    return trace_document(record.start.resolved["objectives"], lines)


def _keeps_options(record: RunRecord) -> bool:
    kind = KINDS.get(record.start.kind)
    return kind is not None and kind.keeps_options


def _is_replayed(record: RunRecord) -> bool:
    kind = PHYSICS.get(record.start.kind)
    return kind is not None and kind.replay is not None


def _lines(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a stored table, one dictionary each; ledgers are for explain."""
    shown = [n for n in table if "[" not in n and n not in UNSHOWN]
    return [{n: _cell(n, table[n][i]) for n in shown} for i in range(len(table.get("plan", ())))]


def _cell(name: str, value: Any) -> Any:
    if name == NULL_REASONS:
        return json.loads(value)
    return None if np.ma.is_masked(value) else plain(value)
