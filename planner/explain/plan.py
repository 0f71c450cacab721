"""Why a plan is what it is: ledgers, what binds, what one change would do, and the napkin beside.

The explanation is the calculation: one candidate is evaluated and costed by the functions of the
sweep, and every changed neighbour in full as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.nulls import Nulls, reasons_of_row
from costdata.tco import HOURS_PER_YEAR
from planner.axes import DEFAULT_SCHEDULE, Level
from planner.costing.second_pass import Costed, cost_plans, is_costed
from planner.costing.terms import terms_of
from planner.evaluated import Evaluated
from planner.pools.space import REASONS as PAIR_REASONS
from planner.runs.facts_used import facts_used
from planner.runs.physics import every_rule, physics_of
from planner.search.sweep import named_rows
from planner.space.blocks import Ints, keys_of, values_of
from planner.space.plan_keys import broken_rules, codes_of, neighbours, plan_name
from planner.study.read import Study
from planner.training.engine import Engine
from simkernel import plugins
from simkernel.errors import BadStudy
from simkernel.ledger import Ledger

FEW = 12
"""Changes shown when a plan is infeasible and its nearest feasible change is wanted."""


@dataclass(frozen=True)
class Explained:
    """One plan, whole.

    Parameters
    ----------
    plan : its id; `axes` its decisions; `metrics` physics and money (None where NULL), all at
        one site: the first that breaks no limit, else the one that breaks them least
    violations : limit, have, need, unit of each limit it breaks
    ledgers : ledger name to {"unit", "terms", "total"}, one plan at its first site
    null_reasons : metric to why it is None
    binds : the sentence that says what takes most time, memory, watts, money
    traffic : bytes per device and step inside and outside the scale-up domain
    napkin : name to {"napkin", "plan", "how"}
    unverified : names of facts it rests on that nobody checked
    """

    plan: str
    axes: dict[str, Any]
    metrics: dict[str, Any]
    null_reasons: dict[str, str]
    violations: list[dict[str, Any]]
    ledgers: dict[str, dict[str, Any]]
    binds: dict[str, str]
    traffic: dict[str, float]
    napkin: dict[str, dict[str, Any]]
    facts_used: dict[str, dict[str, Any]]
    unverified: list[str]

    @property
    def is_feasible(self) -> bool:
        """True where no limit is broken."""
        return not self.violations


def explain_plan(engine: Engine, key: int) -> Explained:
    """One plan of the engine's space by its design key.

    Raises
    ------
    BadStudy : the plan breaks a rule of the space, each named with its reason
    """
    row = codes_of(engine.space, np.array([key]))[0]
    _refuse_broken(engine, row)
    found, plans, costed = _both(engine, row[None, :])
    at = _site_row(engine, costed, 0)
    site = {} if costed is None else {"site": np.asarray(costed.columns["site"])[[at]]}
    facts = shown_facts(engine.study, engine.catalog, {**plans, **site})
    ledgers = {name: shown_ledger(ledger, 0) for name, ledger in found.ledgers.items()}
    if costed is not None:
        ledgers |= {name: shown_ledger(ledger, at) for name, ledger in costed.ledgers.items()}
    metrics = {name: plain(value[0]) for name, value in found.metrics.items()}
    if costed is not None:
        metrics |= {
            name: plain(value[at])
            for name, value in costed.columns.items()
            if name not in plans or name in metrics
        }
    return Explained(
        plan=plan_name(key),
        axes=_axes(engine, plans, 0),
        metrics=metrics,
        null_reasons=_why_null(found, costed, metrics, at),
        violations=violations(engine, found, costed),
        ledgers=ledgers,
        binds={name: shown_term(ledger) for name, ledger in ledgers.items()},
        traffic={name: float(value[0]) for name, value in found.traffic.items()},
        napkin={} if is_undated(found) else _napkin(engine, found, costed, at),
        facts_used=facts,
        unverified=[name for name, fact in facts.items() if not fact["verified"]],
    )


def one_change(engine: Engine, key: int) -> list[dict[str, Any]]:
    """What each single change of a decision would do, fully re-evaluated.

    Returns
    -------
    one line per neighbour: axis, from, to, plan, feasible, why not (rule or limit), and the
    objectives with their change over the plan's own
    """
    row = codes_of(engine.space, np.array([key]))[0]
    own_found, _, own_costed = _both(engine, row[None, :])
    own = _objectives_of(engine, own_found, own_costed)
    lines: list[dict[str, Any]] = []
    possible: dict[tuple[int, ...], list[tuple[str, Ints]]] = defaultdict(list)
    width = len(engine.space.bill_axes)
    for axis, changed in _changes(engine, row):
        broken = _broken(engine, changed)
        if broken:
            lines.append(_line(engine, axis, row, changed, False, _reasons(broken), {}))
        else:
            possible[tuple(changed[:width])].append((axis, changed))
    for group in possible.values():
        codes = np.stack([changed for _, changed in group])
        found, _, costed = _both(engine, codes)
        for i, (axis, changed) in enumerate(group):
            over = violations(engine, found, costed, i)
            values = _objectives_of(engine, found, costed, i)
            deltas = {
                name: {"value": value, "change_frac": _relative(value, own.get(name))}
                for name, value in values.items()
            }
            why = "; ".join(_worded(v) for v in over)
            lines.append(_line(engine, axis, row, changed, not over, why, deltas))
    order = {name: i for i, name in enumerate(engine.space.axes)}
    return sorted(lines, key=lambda line: (order[line["axis"]], str(line["to"])))


def _changes(engine: Engine, row: Ints) -> Iterator[tuple[str, Ints]]:
    """Neighbours of a plan, with what has to follow a change changed too.

    Another chip comes in its own largest domain where ours is not sold; a schedule and its
    virtual stages go together. Domains that the chip is not sold in are no choice at all.
    """
    space, pairs = engine.space, physics_of(engine.study).pairs
    if pairs:
        yield from pairs.changes(space, row)
        return
    chip, domain = space.axes.index("accelerator"), space.axes.index("supernode_devices")
    domains = space.levels["supernode_devices"]
    for axis, changed in neighbours(space, row):
        sold = space.chips[str(space.levels["accelerator"][changed[chip]])].domain_options
        if domains[changed[domain]] not in sold:
            known = [d for d in domains if d in sold]
            if axis != "accelerator" or not known:
                continue
            changed[domain] = domains.index(max(known, key=float))
        if "schedule" in space.axes:
            _follow_schedule(engine, axis, changed)
        yield axis, changed


def _follow_schedule(engine: Engine, axis: str, changed: Ints) -> None:
    """A schedule without chunks means one chunk, one stage or one chunk the plain schedule."""
    space = engine.space
    names = ("schedule", "virtual_stages", "pipeline_parallel")
    at = {name: space.axes.index(name) for name in names}
    level = {name: space.levels[name][changed[i]] for name, i in at.items()}
    is_whole = not plugins.find("schedules", str(level["schedule"])).TRAITS.is_chunked
    wanted: dict[str, Level] = {}
    if axis in ("virtual_stages", "pipeline_parallel") and level[axis] == 1:
        wanted = {"schedule": DEFAULT_SCHEDULE, "virtual_stages": 1}
    elif axis == "schedule" and is_whole:
        wanted = {"virtual_stages": 1}
    for name, value in wanted.items():
        if value in space.levels[name]:
            changed[at[name]] = space.levels[name].index(value)


def nearest_change(engine: Engine, key: int) -> dict[str, Any]:
    """The single change that makes an infeasible plan feasible at the best first objective.

    {} when no single change does.
    """
    working = [line for line in one_change(engine, key) if line["feasible"]]
    if not working:
        return {}
    first = (*engine.study.objectives.minimise, *engine.study.objectives.maximise)[0]
    sign = 1.0 if first in engine.study.objectives.minimise else -1.0

    def rank(line: Mapping[str, Any]) -> tuple[bool, float]:
        value = line["objectives"][first]["value"]
        is_other_numerics = line["axis"] == "precision"  # the last resort: another training recipe
        return is_other_numerics, np.inf if value is None else sign * float(value)

    best = min(working, key=rank)
    return {k: best[k] for k in ("axis", "from", "to", "plan", "objectives")}


def violations(
    engine: Engine, found: Evaluated, costed: Costed | None, row: int = 0
) -> list[dict[str, Any]]:
    """Limits that one row breaks, with what it has and needs.

    A row costed at several sites is judged at one: the first that breaks no limit, else the one
    that breaks them least.
    """
    lines = [
        {
            "limit": name,
            "have": plain(limit.have[row]),
            "need": float(limit.need[row]),
            "unit": limit.unit,
        }
        for name, limit in found.limits.items()
        if not limit.excess[row] <= 0
    ]
    if costed is None:
        if is_undated(found):
            lines.append({**MISSING, "unit": "reliability.device_mtbf_h"})
        elif not lines:
            lines.append({**MISSING, "unit": f"price to {engine.study.costing.acquire}"})
        return lines
    return lines + _costed_violations(engine, costed, row)


def plain(value: Any) -> Any:
    """A NumPy value as Python's own; what is not a number becomes None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


def null_reasons(metrics: Mapping[str, Any], nulls: Nulls, row: int) -> dict[str, str]:
    """Why metrics of one row are None; an end of a band for its own reason, or its middle's."""
    known = reasons_of_row(nulls, row)
    owners = {n: n.removesuffix("_low").removesuffix("_high") for n in metrics}
    why = {n: known.get(n, known.get(owner)) for n, owner in owners.items()}
    return {n: words for n, words in why.items() if metrics[n] is None and words is not None}


def shown_ledger(ledger: Ledger, row: int) -> dict[str, Any]:
    """One row of a ledger as a document has it."""
    one = {
        n: float(np.asarray(v + 0.0).reshape(-1)[row if np.ndim(v) else 0])
        for n, v in ledger.terms.items()
    }
    return {"unit": ledger.unit, "terms": one, "total": sum(one.values())}


def shown_term(ledger: Mapping[str, Any]) -> str:
    """The largest term of a shown ledger, and its share."""
    terms = ledger["terms"]
    name = max(terms, key=lambda term: terms[term])
    share = terms[name] / ledger["total"] if ledger["total"] else 0.0
    return f"{name} ({share:.0%})"


def shown_facts(
    study: Study, catalog: Catalog, columns: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Every fact that some rows rest on, by full name, as a document has it."""
    return {
        name: {
            "value": plain(fact.value) if isinstance(fact.value, int | float) else str(fact.value),
            "unit": fact.unit,
            "source": fact.source,
            "as_of": fact.as_of,
            "grade": fact.grade,
            "verified": bool(fact.verified),
        }
        for name, fact in facts_used(study, catalog, columns).items()
    }


def _why_null(
    found: Evaluated, costed: Costed | None, metrics: Mapping[str, Any], at: int
) -> dict[str, str]:
    """Why metrics of one plan are None."""
    if is_undated(found):
        why = "nobody knows how often machines fail; see the break-even surface"
        return {name: why for name, value in metrics.items() if value is None}
    return {} if costed is None else null_reasons(metrics, costed.nulls, at)


MISSING = {"limit": "missing_fact", "have": 0.0, "need": 1.0}


def is_undated(found: Evaluated) -> bool:
    """Nobody knows how long these plans take, so nobody knows what they cost."""
    return bool(np.isnan(found.metrics.get("days", np.zeros(1))).any())


def _costed_violations(engine: Engine, costed: Costed, row: int) -> list[dict[str, Any]]:
    at = _site_row(engine, costed, row)
    return [
        {
            "limit": name,
            "have": plain(limit.have[at]),
            "need": plain(limit.need[at]),
            "unit": limit.unit,
        }
        for name, limit in costed.limits.items()
        if is_costed(name) and not limit.excess[at] <= 0
    ]


def _site_row(engine: Engine, costed: Costed | None, row: int) -> int:
    """The costed row of a plan at the site where it is judged; 0 for a plan without a price."""
    if costed is None:
        return 0
    sites = len(engine.study.costing.site)
    over = costed.worst_excess[row * sites : (row + 1) * sites]
    return row * sites + int(np.argmin(over))


def _refuse_broken(engine: Engine, row: Ints) -> None:
    broken = tuple(n for n in _broken(engine, row) if not n.endswith("_repeats"))
    if broken:  # a second name of a plan that can exist is no fault of who asks for it
        raise BadStudy(*(f"this plan cannot exist: {reason}" for reason in _each_reason(broken)))


def _broken(engine: Engine, row: Ints) -> tuple[str, ...]:
    """Names of the rules that a plan breaks; of a pool's own with its name before a colon."""
    pairs = physics_of(engine.study).pairs
    return pairs.broken(engine.space, row) if pairs else broken_rules(engine.space, row)


def _each_reason(broken: tuple[str, ...]) -> list[str]:
    return [f"{name}: {_rule_reasons()[name.rpartition(': ')[2]]}" for name in broken]


@cache
def _rule_reasons() -> dict[str, str]:
    return {**{rule.name: rule.reason for rule in every_rule()}, **PAIR_REASONS}


def _reasons(broken: tuple[str, ...]) -> str:
    return "; ".join(_each_reason(broken))


def _evaluated(engine: Engine, codes: Ints) -> tuple[Evaluated, dict[str, Any]]:
    """Rows of one bill, and their columns as a person reads them."""
    if pairs := physics_of(engine.study).pairs:
        return pairs.rows(engine, codes)
    columns = values_of(engine.space, codes)
    accelerator = str(engine.space.levels["accelerator"][codes[0, 0]])
    found = physics_of(engine.study).evaluate(engine, columns, accelerator)
    keys = np.arange(len(codes))
    return found, named_rows(engine, keys, columns, found, np.arange(len(codes)))


def _costed(engine: Engine, plans: Mapping[str, Any]) -> Costed | None:
    """The rows at every site; None where the chip cannot be had on the study's terms."""
    costed = cost_plans(engine.study, engine.catalog, plans)
    expected = len(plans["plan"]) * len(engine.study.costing.site)
    return costed if len(costed.is_front) == expected else None


def _both(engine: Engine, codes: Ints) -> tuple[Evaluated, dict[str, Any], Costed | None]:
    found, plans = _evaluated(engine, codes)
    return found, plans, None if is_undated(found) else _costed(engine, plans)


def _objectives_of(
    engine: Engine, found: Evaluated, costed: Costed | None, row: int = 0
) -> dict[str, float | None]:
    """The study's objectives of one row, all at the site where it is judged."""
    at = _site_row(engine, costed, row)
    values: dict[str, float | None] = {}
    for name in (*engine.study.objectives.minimise, *engine.study.objectives.maximise):
        if name in found.metrics:
            values[name] = plain(found.metrics[name][row])
        else:
            values[name] = None if costed is None else plain(costed.columns[name][at])
    return values


def _line(
    engine: Engine,
    axis: str,
    row: Ints,
    changed: Ints,
    feasible: bool,
    why: str,
    objectives: dict[str, Any],
) -> dict[str, Any]:
    at = engine.space.axes.index(axis)
    levels = engine.space.levels[axis]
    return {
        "axis": axis,
        "from": levels[row[at]],
        "to": levels[changed[at]],
        "plan": plan_name(int(keys_of(engine.space, changed[None, :])[0])),
        "feasible": feasible,
        "why_not": why,
        "objectives": objectives,
    }


def _worded(violation: Mapping[str, Any]) -> str:
    have, need, unit = violation["have"], violation["need"], violation["unit"]
    shown = "an unknown figure" if have is None else f"{have:.4g}"
    return f"{violation['limit']}: has {shown}, limit {need:.4g} {unit}".rstrip()


def _relative(value: float | None, own: float | None) -> float | None:
    if value is None or not own:
        return None
    return value / own - 1.0


def _axes(engine: Engine, plans: Mapping[str, Any], row: int) -> dict[str, Any]:
    names = (*engine.space.axes, "data_parallel")
    return {name: plain(plans[name][row]) for name in names if name in plans}


def _napkin(
    engine: Engine, found: Evaluated, costed: Costed | None, at: int
) -> dict[str, dict[str, Any]]:
    """Hand arithmetic beside the plan's figures: that of its kind, and kW x hours x price."""
    m = {name: float(value[0]) for name, value in found.metrics.items()}
    lines = physics_of(engine.study).napkin(engine, m)
    if costed is not None:
        hours = m["days"] * 24.0
        terms = terms_of(engine.study.costing, engine.catalog)
        site = at % len(engine.study.costing.site)
        kwh = m["it_mean_w"] / 1e3 * hours * float(terms.pue[site])
        energy = float(np.asarray(costed.ledgers["usd"].terms["energy"])[at])
        lines["energy_usd"] = {
            "napkin": kwh * float(terms.usd_per_kwh[site]),
            "plan": energy,
            "how": "kW x hours x PUE x price, hours at work alone",
        }
        usd_year = float(np.asarray(costed.ledgers["usd_per_year"].total)[at])
        lines["usd"] = {
            "napkin": usd_year * hours / HOURS_PER_YEAR / float(terms.utilisation_frac[site]),
            "plan": float(np.asarray(costed.columns["usd"])[at]),
            "how": "yearly cost x hours / 8,760 / share of hours in use",
        }
    return lines
