"""Studies of hardware alone: what to buy or rent, how much of it, at which site.

Options are swept chip by chip on what needs no price; sites, prices and scenarios come after, and
with them the count where it is left open, so that a price can change without another sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from costdata.network_build import TIERS_MOST
from costdata.nulls import one_below_the_other
from planner.archive.columns import ledger_columns
from planner.costing.null_objectives import (
    UNKNOWN_OBJECTIVE,
    is_known_of,
    limits_of_scenarios,
    refuse_compared,
)
from planner.costing.places import scenario_studies, scenario_words
from planner.costing.price_desk import unverified
from planner.costing.quoted import names_in
from planner.costing.second_pass import Costed, front_of, is_costed
from planner.costing.targets import with_targets
from planner.costing.terms import terms_of
from planner.evaluated import Limit
from planner.hardware.bands import BANDED
from planner.hardware.figures import figures, stock_of
from planner.hardware.fit import binding, check_open_count, more, most_steps
from planner.hardware.nulls import hardware_nulls
from planner.hardware.pins import refuse_small_units
from planner.hardware.price import Case, Priced, case_of, has_price, priced
from planner.hardware.space import HardwareSpace, sizes_of, space_of, step_devices
from planner.hardware.worth import BASIS, not_included, repaid
from planner.metrics import METRICS, find_metric, is_at_least
from planner.search.sweep import BillResult
from planner.study.read import Study
from simkernel.columns import Floats
from simkernel.errors import BadStudy
from simkernel.ledger import Ledger

NEAREST_KEPT = 10
"""Least-violating options remembered per chip, for a study where nothing is feasible."""

OF_AN_OPTION = (
    *("key", "plan", "accelerator", "devices", "step_devices", "supernode_devices"),
    *("oversubscription", "precision", "power_cap_frac"),
)
"""Columns of a stored option from which everything else follows."""

WHOLE = ("devices", "stranded_devices", "nodes", "supernodes", "purchase_units", "fabric_tiers")
"""Metrics that are counts, and are stored as such."""

NOT_COMPUTED = frozenset(
    {
        "resident_bytes", "headroom_bytes", "goodput_frac", "usd_per_mtoken",
        "kgco2e_per_mtoken", "validated",
    }
)  # fmt: skip
"""Metrics of every kind that mean nothing without a workload."""


@dataclass(frozen=True)
class HardwareEngine:
    """What all options of a study share; `missing` are chips left out for want of a fact."""

    study: Study
    catalog: Catalog
    space: HardwareSpace
    missing: Mapping[str, str]


def prepare(study: Study, catalog: Catalog | None = None) -> HardwareEngine:
    """The engine of a hardware study.

    Raises
    ------
    BadStudy : a metric that is not computed, an axis without effect, a count without an end, a
        pinned unit that draws less than its chips
    MissingFact : no chip of the study can be evaluated
    """
    refuse_unknown_metrics(study)
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    sizes, missing = sizes_of(study, catalog)
    refuse_small_units(study, catalog, list(sizes))
    space = space_of(study, sizes)
    if space.is_open:
        check_open_count([*study.limits, *limits_of_scenarios(study)], space.count)
    for one in scenario_studies(study):
        terms_of(one.costing, catalog)
        if one.costing.pue_curve is not None or one.costing.power_oversubscription is not None:
            raise BadStudy(
                "costing.pue_curve and power_oversubscription follow the load of a run, and "
                "hardware alone has none; give costing.pue"
            )
    return HardwareEngine(study, catalog, space, MappingProxyType(missing))


def sweep(
    engine: HardwareEngine,
    workers: object,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """Options of each chip that no limit forbids whatever it costs, one chip after another.

    `workers` is not asked: a million options take seconds in one process. Chips in `done` are left
    out.
    """
    keys = np.arange(engine.space.enumerated)
    per_chip = engine.space.enumerated // len(engine.space.chips)
    for index in range(len(engine.space.chips)):
        if is_stopped():
            return
        if index not in done:
            yield _swept(engine, index, keys[index * per_chip : (index + 1) * per_chip])


def cost(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Costed:
    """Every option at every site in every scenario, and the front of each scenario.

    Parameters
    ----------
    plans : columns of a physical front of this kind, (n,)

    Raises
    ------
    MissingFact, BadStudy : as `costing_terms.terms_of`
    """
    return _stacked([_costed(one, catalog, plans) for one in scenario_studies(study)])


def notes(study: Study, catalog: Catalog) -> dict[str, str]:
    """What a reader of the front has to know."""
    return {
        "basis": BASIS,
        "period": _period(study, catalog),
        "not_included": not_included(study.costing),
    }


def is_computed(name: str) -> bool:
    """True for a metric, or end of a band, that rows of a hardware study have."""
    owner = find_metric(name).name
    is_known = "hardware" in METRICS[owner].kinds and owner not in NOT_COMPUTED
    return is_known and (name == owner or owner in BANDED)


def refuse_unknown_metrics(study: Study) -> None:
    """Limits and objectives that mean nothing without a workload, or are NULL whatever the option.

    Raises
    ------
    BadStudy : every one of them
    """
    refuse_compared(study, is_computed, "for hardware alone")


def is_open(study: Study) -> bool:
    """The study asks for as much as its limits allow."""
    return any(levels == ("most",) for levels in study.axes.values())


def case_at_sites(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Case:
    """Plans at every site of the study, those that can be had; plan after plan."""
    sites = study.costing.site
    count = len(plans["devices"])
    plan_rows, site_rows = (
        np.repeat(np.arange(count), len(sites)),
        np.tile(np.arange(len(sites)), count),
    )
    rows = {name: np.asarray(plans[name])[plan_rows] for name in OF_AN_OPTION}
    rows["site"] = np.array(sites, dtype=object)[site_rows]
    rows["acquire"] = np.full(len(site_rows), study.costing.acquire, dtype=object)
    for key, (value,) in study.scenarios.items():
        rows[key.replace(".", "_")] = np.full(len(site_rows), value)
    if study.scenarios:
        rows["scenario"] = np.full(len(site_rows), scenario_words(study), dtype=object)
    stock = stock_of(study, catalog, names_in(plans))
    case = case_of(stock, rows, site_rows)
    return case.take(has_price(case))


def answered(case: Case) -> tuple[Priced, Floats]:
    """Every row of a case at its count, or at as many steps as fit; the steps are told too.

    A row that nothing of fits is answered at one step, which is then over a limit.
    """
    given = np.asarray(case.rows["devices"], float)
    steps = most_steps(case) if is_open(case.study) else given / case.step
    devices = np.maximum(steps, 1.0) * case.step if is_open(case.study) else given
    found = priced(case, devices, with_bands=True)
    columns = found.columns
    columns["binding"] = np.array(binding(case, devices), dtype=object)
    columns["repaid"] = np.array(repaid(columns, case.terms), dtype=object)
    if is_open(case.study):
        columns |= more(case, steps)
    columns["unverified_facts"] = unverified(case.study, case.stock.catalog, columns)
    found = replace(found, columns=with_targets(case.study, columns))
    return replace(found, nulls=hardware_nulls(case, found)), steps


def _costed(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Costed:
    case = case_at_sites(study, catalog, plans)
    missing = len(plans["devices"]) * len(study.costing.site) - len(case.step)
    found, _ = answered(case)
    over = found.excess > 0
    rejected = {"missing_fact": missing}
    for name, is_broken in zip(found.limits, over, strict=True):
        if is_costed_here(study, name):
            rejected[name] = int(is_broken.sum())
    is_allowed = np.asarray(~over.any(axis=0))
    is_known = is_known_of(study, found.columns)
    rejected[UNKNOWN_OBJECTIVE] = int((is_allowed & ~is_known).sum())
    front = front_of(study, found.columns, is_allowed)
    sold = tuple(names_in(case.rows)) if len(case.step) else ()
    return Costed(found.columns, found.ledgers, front, found.limits, rejected, found.nulls, sold)


def is_costed_here(study: Study, name: str) -> bool:
    """True for a limit that the sweep has not applied."""
    return is_open(study) or (name != "fabric_tiers" and is_costed(name))


def _swept(engine: HardwareEngine, index: int, keys: Any) -> BillResult:
    started = time.process_time()
    result = BillResult(index)
    possible = []
    for key in keys:
        broken = engine.space.broken(int(key))
        if broken:
            result.masked[broken[0]] += 1
        else:
            possible.append(int(key))
    if possible:
        _evaluate(engine, result, np.array(possible))
    result.seconds = time.process_time() - started
    return result


def _evaluate(engine: HardwareEngine, result: BillResult, keys: Any) -> None:
    """Options that can exist, judged by the limits that need no price."""
    table, limits = physical_rows(engine, keys)
    result.evaluated = len(keys)
    over = np.stack([limit.excess for limit in limits.values()])
    for name, excess in zip(limits, over, strict=True):
        result.rejected[name] += int((excess > 0).sum())
    worst = over.max(axis=0)
    kept = np.flatnonzero(worst <= 0)
    if len(kept):
        result.front = {name: column[kept] for name, column in table.items()}
        return
    near = np.argsort(worst, kind="stable")[:NEAREST_KEPT]
    result.nearest = {name: column[near] for name, column in table.items()}
    names = np.array(list(limits), dtype=object)
    result.nearest |= {"worst_excess": worst[near], "binding": names[over.argmax(axis=0)[near]]}


def physical_rows(engine: HardwareEngine, keys: Any) -> tuple[dict[str, Any], dict[str, Limit]]:
    """Axes and price-free metrics of options by key, and the limits on them.

    An option whose count is open stands for one step, and only the fabric limits it here.
    """
    rows = engine.space.rows(keys)
    rows["step_devices"] = np.array([_step(engine, rows, i) for i in range(len(keys))])
    stock = stock_of(engine.study, engine.catalog, names_in(rows))
    found = figures(stock, rows, np.asarray(rows["devices"], float))
    table = {**rows, **found.metrics, **ledger_columns([found.it_peak])}
    table |= {n: np.rint(table[n]).astype(np.int64) for n in WHOLE}
    most = np.full(len(keys), float(TIERS_MOST))
    limits = {"fabric_tiers": Limit(found.metrics["fabric_tiers"], most, "layers")}
    if not engine.space.is_open:
        for name, bound in engine.study.limits.items():
            if find_metric(name).stage == "physics" and name in found.metrics:
                need = np.full(len(keys), bound)
                unit = find_metric(name).unit
                limits[name] = Limit(found.metrics[name], need, unit, is_at_least(name))
    return table, limits


def _step(engine: HardwareEngine, rows: Mapping[str, Any], i: int) -> int:
    chip = engine.space.chips[str(rows["accelerator"][i])]
    return step_devices(chip, int(rows["supernode_devices"][i]), engine.space.count)


def _stacked(parts: list[Costed]) -> Costed:
    """Scenarios one below the other."""
    rejected: dict[str, int] = {}
    for part in parts:
        for name, count in part.rejected.items():
            rejected[name] = rejected.get(name, 0) + count
    return Costed(
        {n: np.concatenate([p.columns[n] for p in parts]) for n in parts[0].columns},
        {n: _ledger([p.ledgers[n] for p in parts], parts) for n in parts[0].ledgers},
        np.concatenate([p.is_front for p in parts]),
        {n: _limit([p.limits[n] for p in parts]) for n in parts[0].limits},
        rejected,
        one_below_the_other([(part.nulls, len(part.is_front)) for part in parts]),
        parts[0].chips,
    )


def _ledger(ledgers: list[Ledger], parts: list[Costed]) -> Ledger:
    terms = {
        name: np.concatenate(
            [
                np.broadcast_to(np.asarray(one.terms[name], float), part.is_front.shape)
                for one, part in zip(ledgers, parts, strict=True)
            ]
        )
        for name in ledgers[0].terms
    }
    return Ledger(ledgers[0].name, ledgers[0].unit, terms)


def _limit(limits: list[Limit]) -> Limit:
    have = np.concatenate([limit.have for limit in limits])
    need = np.concatenate([limit.need for limit in limits])
    return Limit(have, need, limits[0].unit, limits[0].at_least)


def _period(study: Study, catalog: Catalog) -> str:
    """What sums, and the limits on them, are over: the life that the costing takes."""
    lives = [terms_of(s.costing, catalog).it_life_years for s in scenario_studies(study)]
    years = " or ".join(f"{life:g}" for life in np.unique(np.concatenate(lives)))
    by_row = ", by row" if " or " in years else ""
    return (
        "usd, kgco2e, facility_mwh and water_l, and limits on them, are of the whole life of the "
        f"hardware, {years} years{by_row}; usd_per_year is of one year"
    )
