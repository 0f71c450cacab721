"""One option of a hardware study, whole: figures, ledgers, what binds, what would change it.

The document has the keys that a plan of any other kind has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.axes import ALL
from planner.costing.notes import costing_notes
from planner.costing.places import study_at
from planner.explain.plan import null_reasons, plain, shown_facts, shown_ledger, shown_term
from planner.hardware.fit import grows, most_steps
from planner.hardware.price import Case, Priced
from planner.hardware.space import RULES
from planner.hardware.study import (
    OF_AN_OPTION,
    HardwareEngine,
    answered,
    case_at_sites,
    notes,
    physical_rows,
    prepare,
)
from planner.space.plan_keys import plan_key, plan_name
from planner.study.read import Study
from simkernel.columns import Floats
from simkernel.errors import BadStudy, UnknownName
from simkernel.hardware import PRECISIONS


def hardware_evaluated(study: Study) -> dict[str, Any]:
    """The document of `evaluate` for the first value of every axis and scenario.

    Raises
    ------
    BadStudy : "all" accelerators, or an option that cannot exist
    """
    if study.axes["accelerator"] == (ALL,):
        raise BadStudy(
            'axes.accelerator = "all" is many options; wanted one; add --set accelerator=NAME'
        )
    taken = {name: levels[0] for name, levels in study.axes.items() if len(levels) > 1}
    taken |= {key: values[0] for key, values in study.scenarios.items() if len(values) > 1}
    engine = prepare(study_at(study, "", ""))
    key = _first_key(engine)
    if "supernode_devices" in taken:
        taken["supernode_devices"] = engine.space.levels_of(key)["supernode_devices"]
    return _document(engine, key, taken)


def hardware_explained(study: Study, plan: str, *, with_changes: bool = True) -> dict[str, Any]:
    """The document of `explain` for a plan of a study in one scenario.

    Parameters
    ----------
    plan : its name
    with_changes : what one change on each axis would do, too

    Raises
    ------
    UnknownName : no such plan
    """
    key = plan_key(plan)
    engine = prepare(study)
    if key >= engine.space.enumerated:
        raise UnknownName(f"plan {plan} is not of this run; see planner show")
    document = _document(engine, key, {})
    found = {k: v for k, v in document.items() if k not in ("feasible", "taken")}
    return {**found, "one_change": list(_changes(engine, key))} if with_changes else found


def _first_key(engine: HardwareEngine) -> int:
    """The first option; of its domains the first that the chip is sold in."""
    space = engine.space
    first = {n: levels[0] for n, levels in space.levels.items() if n != "supernode_devices"}
    same = [k for k in range(space.enumerated) if first.items() <= space.levels_of(k).items()]
    return next((key for key in same if not space.broken(key)), same[0])


def _answer(engine: HardwareEngine, key: int) -> tuple[Case, Priced, Floats, int] | None:
    """An option at every site, and the row of the site where it is judged."""
    table, _ = physical_rows(engine, np.array([key]))
    case = case_at_sites(engine.study, engine.catalog, {n: table[n] for n in OF_AN_OPTION})
    if not len(case.step):
        return None
    found, steps = answered(case)
    return case, found, steps, int(np.argmin(found.excess.max(axis=0)))


def _document(engine: HardwareEngine, key: int, taken: dict[str, Any]) -> dict[str, Any]:
    broken = engine.space.broken(key)
    if broken:
        raise BadStudy(
            *(f"this option cannot exist: {name}: wanted that {RULES[name]}" for name in broken)
        )
    answer = _answer(engine, key)
    if answer is None:
        return _without_price(engine, key, taken)
    case, found, _, at = answer
    violations = _violations(found, at)
    ledgers = {name: shown_ledger(ledger, at) for name, ledger in found.ledgers.items()}
    metrics = _metrics(engine, found, at)
    facts = shown_facts(engine.study, engine.catalog, _row(found.columns, at))
    if len(engine.study.costing.site) > 1:
        taken = {**taken, "site": str(found.columns["site"][at])}
    return {
        "feasible": not violations,
        "violations": violations,
        "nearest": _nearest(engine, key, case, at) if violations else {},
        "taken": taken,
        "plan": plan_name(key),
        "axes": _axes(engine, key, found, at),
        "metrics": metrics,
        "null_reasons": null_reasons(metrics, found.nulls, at),
        "ledgers": ledgers,
        "binds": {name: shown_term(ledger) for name, ledger in ledgers.items()},
        "traffic": {},
        "napkin": _napkin(case, found, at),
        "notes": costing_notes(engine.study, engine.catalog, None),
        "facts_used": facts,
        "unverified_facts": [name for name, fact in facts.items() if not fact["verified"]],
    }


def _without_price(engine: HardwareEngine, key: int, taken: dict[str, Any]) -> dict[str, Any]:
    """The document of an option that cannot be had on the study's terms."""
    unit = f"price to {engine.study.costing.acquire}"
    return {
        "feasible": False,
        "violations": [{"limit": "missing_fact", "have": 0.0, "need": 1.0, "unit": unit}],
        "nearest": {},
        "taken": taken,
        "plan": plan_name(key),
        "axes": dict(engine.space.levels_of(key)),
        "metrics": {},
        "null_reasons": {},
        "ledgers": {},
        "binds": {},
        "traffic": {},
        "napkin": {},
        "notes": notes(engine.study, engine.catalog),
        "facts_used": {},
        "unverified_facts": [],
    }


def _row(columns: Mapping[str, Any], at: int) -> dict[str, Any]:
    return {name: np.asarray(column)[[at]] for name, column in columns.items()}


def _axes(engine: HardwareEngine, key: int, found: Priced, at: int) -> dict[str, Any]:
    """The option as asked; where the count is open, the devices found."""
    axes = dict(engine.space.levels_of(key))
    return {**axes, "devices": plain(found.columns["devices"][at])}


def _metrics(engine: HardwareEngine, found: Priced, at: int) -> dict[str, Any]:
    axes = (*engine.space.axes, "key", "plan", "step_devices")
    return {
        name: plain(np.asarray(column)[at])
        for name, column in found.columns.items()
        if name not in axes or name in ("devices", "nodes", "supernodes")
    }


def _violations(found: Priced, at: int) -> list[dict[str, Any]]:
    return [
        {
            "limit": name,
            "have": plain(limit.have[at]),
            "need": plain(limit.need[at]),
            "unit": limit.unit,
        }
        for (name, limit), excess in zip(found.limits.items(), found.excess, strict=True)
        if excess[at] > 0
    ]


def _nearest(engine: HardwareEngine, key: int, case: Case, at: int) -> dict[str, Any]:
    """The count that fits, or another level of one axis that is feasible; {} for neither."""
    axis, one = engine.space.count, case.take(np.array([at]))
    own = engine.space.levels_of(key)
    steps = 0.0 if engine.space.is_open else float(most_steps(one)[0])
    devices = steps * float(one.step[0])
    if 0 < devices < float(one.rows["devices"][0]):
        unit = int(one.rows["devices"][0]) // int(own[axis])
        fewer = replace(engine.study, axes={**engine.study.axes, axis: (int(devices) // unit,)})
        engine = prepare(replace(fewer, axes=_only(fewer, own, axis)))
        answer = _answer(engine, _first_key(engine))
        if answer and not _violations(answer[1], answer[3]):
            values = _objectives(engine, answer[1], answer[3], {})
            return {"axis": axis, "from": own[axis], "to": int(devices) // unit, "plan": None,
                    "objectives": values}  # fmt: skip
        return {}
    working = [line for line in _changes(engine, key) if line["feasible"]]
    if not working:
        return {}
    return {n: working[0][n] for n in ("axis", "from", "to", "plan", "objectives")}


def _only(study: Study, own: Mapping[str, Any], count: str) -> Mapping[str, Any]:
    """Axes with the option's own levels, but for the count."""
    return {n: levels if n == count or n not in own else (own[n],)
            for n, levels in study.axes.items()}  # fmt: skip


def _changes(engine: HardwareEngine, key: int) -> Iterator[dict[str, Any]]:
    """What each single change of an axis would do, fully answered.

    Another chip comes in the first domain that it is sold in.
    """
    space, own = engine.space, engine.space.levels_of(key)
    answer = _answer(engine, key)
    before = _objectives(engine, answer[1], answer[3], {}) if answer else {}
    for axis in space.axes:
        for level in space.levels[axis]:
            if level == own[axis]:
                continue
            wanted = {**own, axis: level}
            other = _key_of(engine, wanted, axis)
            yield _change(engine, axis, own[axis], level, other, before)


def _key_of(engine: HardwareEngine, wanted: Mapping[str, Any], axis: str) -> int:
    space = engine.space
    if axis == "accelerator":
        for domain in space.levels["supernode_devices"]:
            key = space.key_of({**wanted, "supernode_devices": domain})
            if not space.broken(key):
                return key
    return space.key_of(wanted)


def _change(
    engine: HardwareEngine, axis: str, old: Any, new: Any, key: int, before: Mapping[str, Any]
) -> dict[str, Any]:
    broken = engine.space.broken(key)
    answer = None if broken else _answer(engine, key)
    over = _violations(answer[1], answer[3]) if answer else []
    why = [f"{name}: wanted that {RULES[name]}" for name in broken]
    why += [] if answer or broken else [f"no price to {engine.study.costing.acquire}"]
    why += [
        f"{v['limit']}: has {v['have']:.4g}, limit {v['need']:.4g} {v['unit']}".rstrip()
        for v in over
        if v["have"] is not None
    ]
    return {
        "axis": axis,
        "from": old,
        "to": new,
        "plan": plan_name(key),
        "feasible": answer is not None and not over,
        "why_not": "; ".join(why),
        "objectives": _objectives(engine, answer[1], answer[3], before) if answer else {},
    }


def _objectives(
    engine: HardwareEngine, found: Priced, at: int, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Objectives of a row with their change over another's."""
    wanted = engine.study.objectives
    values: dict[str, Any] = {}
    for name in (*wanted.minimise, *wanted.maximise):
        value = plain(np.asarray(found.columns[name], float)[at])
        old = before.get(name, {}).get("value")
        change = value / old - 1.0 if old and value is not None else None
        values[name] = {"value": value, "change_frac": change}
    return values


def _napkin(case: Case, found: Priced, at: int) -> dict[str, dict[str, Any]]:
    """Hand arithmetic beside the option's figures."""
    c = {name: column[at] for name, column in found.columns.items()}
    units = float(c["purchase_units"])
    year = found.ledgers["usd_per_year"].terms
    energy = sum(float(np.asarray(year[name])[at]) for name in ("energy", "idle_energy"))
    price, pue = float(case.terms.usd_per_kwh[at]), float(case.terms.pue[at])
    lines: dict[str, dict[str, Any]] = {
        "peak_flop_per_s": {
            "napkin": float(c["devices"]) * _peak(case, at),
            "plan": float(c["peak_flop_per_s"]),
            "how": "devices x dense peak of the precision, no power cap",
        },
        "energy_usd_per_year": {
            "napkin": float(c["it_peak_w"]) / 1e3 * pue * HOURS_PER_YEAR * price,
            "plan": energy,
            "how": "peak kW x PUE x 8,760 h x price, all year at full load",
        },
    }
    for name, limit in found.limits.items():
        if grows(name) and name in ("capex_usd", "peak_facility_mw") and units:
            each = float(limit.have[at]) / units
            lines[f"units_by_{name}"] = {
                "napkin": float(limit.need[at]) / each if each else None,
                "plan": units,
                "how": f"limit of {name} / {each:.6g} {limit.unit} a unit, not rounded",
            }
    return lines


def _peak(case: Case, at: int) -> float:
    chip = case.stock.quotes.shelf.names.index(str(case.rows["accelerator"][at]))
    code = PRECISIONS.index(str(case.rows["precision"][at]))
    return float(case.stock.chips.peak_flop_per_s[chip, code])
