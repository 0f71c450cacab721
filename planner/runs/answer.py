"""What a run came to, and how it is kept: its start, its summary, its front and options."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.archive.runs import RunStart, RunSummary
from planner.archive.store import Archive
from planner.costing.notes import costing_notes
from planner.costing.second_pass import NULL_REASONS, Costed, front_hash
from planner.evaluated import CLOSED_FORM
from planner.explain.nearest import least_over, nearest_costed
from planner.runs.facts_used import facts_hash, facts_used
from planner.runs.kinds import kind_of
from planner.runs.physics import has_replay
from planner.runs.total import Total, joined
from planner.study.read import Study
from planner.study.written import study_document
from planner.training.engine import Engine

MOST_OPTIONS = 1000  # our choice: rows a person may want to see beside the front


@dataclass(frozen=True)
class Finished:
    """A run that has ended: its id, how, its summary and its costed plans (None if none feasible).

    `front` are the rows of the Pareto front as columns, best first objective first.
    """

    run: str
    state: str
    summary: RunSummary
    front: dict[str, Any]


def run_start(study: Study, catalog: Catalog, parent: str = "") -> RunStart:
    """All that goes into a run, or into pricing the run `parent` anew."""
    return RunStart(
        study=study.name,
        kind=study.kind,
        study_text=study.text,
        resolved=study_document(study),
        seed=study.seed,
        facts_hash=facts_hash(catalog),
        versions={
            "planner": version("cluster-planner"),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        parent=parent,
    )


def summary_of(
    engine: Engine,
    total: Total,
    costed: Costed | None,
    front: Mapping[str, Any],
    started: float,
    notes: Mapping[str, str],
) -> RunSummary:
    """The counts, notes and nearest plans of a run; `started` is a reading of perf_counter."""
    return RunSummary(
        enumerated=engine.space.enumerated,
        masked=dict(total.masked),
        evaluated=total.evaluated,
        rejected={name: n for name, n in total.rejected.items() if n},
        skipped={name: n for name, n in total.skipped.items() if n},
        seconds=time.perf_counter() - started,
        evaluated_per_s_per_core=total.evaluated / max(total.cpu_s, 1e-9),
        physical_front=total.front_rows,
        front=len(front["plan"]) if front else 0,
        front_hash=front_hash(engine.study, front),
        notes={
            **{f"missing_fact {chip}": why for chip, why in engine.missing.items()},
            **notes,
            **costing_notes(engine.study, engine.catalog, costed),
        },
        nearest={} if front else _nearest(engine.study, total, costed),
    )


def _nearest(study: Study, total: Total, costed: Costed | None) -> dict[str, Any]:
    """Why no plan is on the front: what costing says of plans, else the least-violating ones."""
    if costed:
        return nearest_costed(study, costed)
    return least_over(joined(total.nearest)) if total.nearest else {}


def store_answer(
    archive: Archive,
    study: Study,
    catalog: Catalog,
    costed: Costed | None,
    done: Finished,
    flush: Callable[[Archive], None] = lambda held: None,
    beside: Sequence[Mapping[str, Any]] = (),
    replayed: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """The end of a run: what is not stored yet, facts, front, options, then summary.

    Parameters
    ----------
    beside : tables that stand where options of other kinds stand: plans that were replayed, or
        what the workloads' sweeps of a purchase study left
    replayed : plans as their replays found them, priced
    """
    sold = {"accelerator": costed.chips} if costed else {}
    facts = facts_used(study, catalog, sold)
    options = options_of(costed) if costed and kind_of(study).keeps_options else {}
    with archive.writing() as held:
        flush(held)
        held.append_facts(done.run, facts)
        if done.front:
            held.append_front(done.run, _with_fidelity(study, done.front))
        for sample in (options, *beside):
            if sample:
                held.append_sample(done.run, sample)
        if replayed:
            held.append_replayed(done.run, replayed)
        held.finish_run(done.run, done.summary, done.state)


def _with_fidelity(study: Study, front: Mapping[str, Any]) -> Mapping[str, Any]:
    """A front that says which tier it is of, where there is another."""
    if not has_replay(study):
        return front
    return {**front, "fidelity": np.full(len(front["plan"]), CLOSED_FORM, dtype=object)}


def options_of(costed: Costed) -> dict[str, Any]:
    """Costed rows of a study whose every row is an answer, those of the front first.

    Returns
    -------
    columns, with "is_front" and the limits a row breaks in "over"; (n,) with n <= MOST_OPTIONS
    """
    order = np.argsort(~costed.is_front, kind="stable")[:MOST_OPTIONS]
    names = np.array(list(costed.limits), dtype=object)
    over = ["; ".join(sorted(names[excess > 0])) for excess in costed.excess[:, order].T]
    table = {name: np.asarray(column)[order] for name, column in costed.columns.items()}
    return {
        **table,
        "is_front": costed.is_front[order],
        "over": np.array(over, dtype=object),
        NULL_REASONS: costed.null_reasons(order),
    }
