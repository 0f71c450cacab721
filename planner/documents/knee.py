"""Speed, traffic and cost along one axis as a plain document: where is the knee, and how found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.axes import SHORT_NAMES
from planner.explain.knee import curve_knee
from planner.runs.kinds import kind_of
from planner.search.traverse import Traversed, fastest_by
from planner.study.faults import nearest
from planner.study.read import Study
from planner.training.engine import Engine, prepare, training_notes
from planner.training.evaluate import UNPHYSICAL
from simkernel.errors import BadStudy

SHOWN = (
    *("step_s", "tokens_per_s", "mfu_frac", "days"),
    *("inside_bytes_per_step", "outside_bytes_per_step"),
)
"""Figures of the fastest plan that are told; bytes are per device and step, by domain tier."""


def knee_document(study: Study, by: str, along: Sequence[str] = ()) -> dict[str, Any]:
    """The fastest plan at every value of one axis: the document of `planner knee --json`.

    Parameters
    ----------
    by : axis whose knee is looked for; speeds are told over its first value
    along : axes at whose values that is done one by one

    Raises
    ------
    BadStudy : no training study, or no such axis
    """
    by, along = SHORT_NAMES.get(by, by), [SHORT_NAMES.get(name, name) for name in along]
    _check(study, by, along)
    began_s = time.perf_counter()
    engine = prepare(study)
    found = fastest_by(engine, (*along, by))
    lines = _lines(engine, found, by, along)
    seconds = time.perf_counter() - began_s
    preset = study.presets.get(study.preset, {})
    return {
        "study": study.name,
        "by": by,
        "along": list(along),
        "preset": study.preset,
        "assumes": preset.get("assumes", ""),
        "placement": list(study.axes["placement"]),
        "notes": training_notes(study, engine.catalog),
        "rows": lines,
        "knees": _mark_knees(lines, along),
        "candidates": {
            "enumerated": engine.space.enumerated,
            "masked": dict(found.masked),
            "evaluated": found.evaluated,
        },
        "rejected": dict(found.rejected),
        "seconds": seconds,
        "evaluated_per_s": found.evaluated / seconds,
    }


def _check(study: Study, by: str, along: Sequence[str]) -> None:
    if study.kind != "train":
        raise BadStudy(f'a knee is of training studies; this one is of kind = "{study.kind}"')
    unknown = [name for name in (by, *along) if name not in study.axes]
    faults = [f"axis {name!r} is not known; {nearest(name, study.axes)}" for name in unknown]
    if by in along:
        faults.append(
            f"--by {by} --along {' '.join(along)}: wanted different axes; name {by} once"
        )
    if faults:
        raise BadStudy(*faults)


def _lines(
    engine: Engine, found: Traversed, by: str, along: Sequence[str]
) -> list[dict[str, Any]]:
    """One line per value, in the order of the axes; those that no plan can run say so."""
    levels = [engine.space.levels[name] for name in (*along, by)]
    order = sorted(
        found.groups, key=lambda g: [level.index(v) for level, v in zip(levels, g, strict=True)]
    )
    lines: list[dict[str, Any]] = []
    first: dict[Any, float] = {}
    for group in order:
        line = dict(zip((*along, by), group, strict=True))
        row = found.rows.get(group)
        if row is None:
            lines.append({**line, "can_run": False})
            continue
        first.setdefault(group[:-1], float(row["tokens_per_s"][0]))
        line |= {"can_run": True, "plan": str(row["plan"][0])}
        line |= {name: float(row[name][0]) for name in SHOWN}
        line["speed_over_first"] = line["tokens_per_s"] / first[group[:-1]]
        line["varied"] = _varied(engine, row)
        line |= _money(engine, row)
        lines.append(line)
    return lines


def _varied(engine: Engine, row: Mapping[str, Any]) -> dict[str, Any]:
    """Axes of more than one value, as the fastest plan has them."""
    names = [name for name in engine.space.axes if len(engine.space.levels[name]) > 1]
    return {name: np.asarray(row[name]).tolist()[0] for name in names}


def _money(engine: Engine, row: Mapping[str, Any]) -> dict[str, Any]:
    """What the run costs, its scale-up network included; none of an unphysical plan."""
    study, catalog = engine.study, engine.catalog
    if engine.job.links.is_by_group_size:
        return {"marks": [UNPHYSICAL], "usd": None, "capex_usd": None}
    costed = kind_of(study).price(study, catalog, row)
    usd = float(np.min(np.asarray(costed.columns["usd"], dtype=float)))
    capex = float(np.asarray(costed.columns["capex_usd"], dtype=float)[0])
    marks = ["what_if_domain"] if study.network.any_supernode else []
    joined = float(np.asarray(costed.ledgers["capex_usd"].terms["domain_network"], dtype=float)[0])
    return {"marks": marks, "usd": usd, "capex_usd": capex, "scaleup_usd": joined}


def _mark_knees(lines: list[dict[str, Any]], along: Sequence[str]) -> list[dict[str, Any]]:
    """The knee of every curve of speed over capital, and marks it in its line.

    A single value is no curve and has none.
    """
    priced = [line for line in lines if line.get("usd") is not None]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in priced:
        line["is_knee"] = False
        groups.setdefault(tuple(line[name] for name in along), []).append(line)
    knees = []
    for own in (lines for lines in groups.values() if len(lines) > 1):
        cost, speed = (np.array([o[name] for o in own]) for name in ("capex_usd", "tokens_per_s"))
        at = curve_knee(cost, speed)
        if at >= 0:
            own[at]["is_knee"] = True
            knees.append(own[at])
    return knees
