"""What units of each chip can do for each workload, from the workload's own physical front."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata.bill import PlanCosts
from costdata.catalog import Catalog
from planner.axes import COUNTS, DERIVED, MOST, axes_of
from planner.bands import given_by, regime_of, with_bands
from planner.costing.second_pass import cost_plans
from planner.fleet.problem import Option
from planner.hardware import study as hardware
from planner.metrics import metric_names
from planner.pareto import nondominated
from planner.runs.physics import physics_of
from planner.runs.total import Total
from planner.search.sweep import sweep
from planner.search.workforce import Workforce
from planner.serving.load import serve_load
from planner.study.fleet import OF_THE_FLEET
from planner.study.parts import DEFAULT_OBJECTIVES, Costing
from planner.study.read import Study
from planner.uncertainty.inputs import Ends, Inputs
from planner.uncertainty.plans import parts_of
from simkernel.columns import Codes

MOST_OPTIONS = 4  # our choice: of a workload on one chip at one site; more make no difference
DAYS_PER_YEAR = 365.0


@dataclass(frozen=True)
class Offer:
    """One way to do a workload, and what its units cost.

    Parameters
    ----------
    name, site : the chip and where
    plan : of the workload's front
    units : for the whole workload as its study describes it, spares included
    mean_w, peak_w : of a unit at work, at the meter [W]
    days : of a run; NaN for others
    one, costs : what it is costed from, one row, and what that comes to
    replica : of a stream: units of one replica, the share of the whole that it serves, the share
        while others are out of work, and replicas that may be
    racks : positions that a unit takes
    domain_units : units of one scale-up domain, 1 where a unit holds one or more
    flop_per_s : of a unit, dense
    devices, copy_devices : of a run, all of them, and those of one copy of its model
    """

    name: str
    site: str
    plan: str
    units: float
    mean_w: float
    peak_w: float
    days: float
    one: Inputs
    costs: PlanCosts
    replica: tuple[float, float, float, int] = (1.0, 1.0, math.inf, 0)
    racks: float = 0.0
    domain_units: int = 1
    flop_per_s: float = 0.0
    devices: float = 0.0
    copy_devices: int = 1


def workload_study(study: Study, name: str) -> Study:
    """The study of one workload of a purchase plan, with the axes and limits that it has."""
    work = study.workloads[name]
    axes = _axes(study, work.kind)
    if work.kind == "serve":
        axes = {n: levels for n, levels in axes.items() if n not in COUNTS}
        axes["devices"] = (DERIVED,)
    return _alone(study, work.kind, f"{study.name}: {name}", {name: work}, axes)


def hardware_study(study: Study) -> Study:
    """The study of the hardware alone, as much of it as the limits allow."""
    axes = {n: v for n, v in _axes(study, "hardware").items() if n not in COUNTS}
    axes["supernodes"] = (MOST,)
    found = _alone(study, "hardware", study.name, {}, axes)
    own = {n: v for n, v in study.limits.items() if n in OF_THE_FLEET}
    for mw in study.fleet.site_mw.values():
        own["peak_facility_mw"] = max(own.get("peak_facility_mw", 0.0), mw)
    return replace(found, limits=MappingProxyType(own))


def _axes(study: Study, kind: str) -> dict[str, Any]:
    known = {axis.name for axis in axes_of(kind)}
    return {n: levels for n, levels in study.axes.items() if n.rpartition(".")[2] in known}


def _alone(study: Study, kind: str, name: str, works: Any, axes: dict[str, Any]) -> Study:
    """A study of another kind with the prices and sites of this one."""
    costing = by_the_hour(study.costing)
    metrics = metric_names(kind)
    limits = {n: v for n, v in study.limits.items() if n not in OF_THE_FLEET and n in metrics}
    return replace(
        study,
        kind=kind,
        name=name,
        workloads=MappingProxyType(works),
        axes=MappingProxyType(axes),
        costing=costing,
        limits=MappingProxyType(limits),
        objectives=DEFAULT_OBJECTIVES[kind],
        scenarios=MappingProxyType({}),
    )


CUTS = ("tensor_parallel", "pipeline_parallel", "context_parallel")
"""Axes that cut one copy of a model."""

At = Callable[[Ends], Inputs]
"""Where the inputs that offers are costed from stand within what is known of them."""


def at_middle(ends: Ends) -> Inputs:
    """Every input at its middle."""
    return ends.middle


def swept_plans(study: Study, workers: int | Workforce) -> dict[str, Any]:
    """The physical front of one workload, whatever its plans cost; {} where nothing is feasible.

    Parameters
    ----------
    study : of the workload alone

    Raises
    ------
    BadStudy, MissingFact : as a run of the study
    """
    engine, total = physics_of(study).prepare(study), Total()
    for result in sweep(engine, workers, lambda: False):
        total.add(result)
    return total.physical()


def by_the_hour(costing: Costing) -> Costing:
    """Terms on which rent is on demand unless the study says otherwise.

    What bridges a delivery is not reserved for years.
    """
    if costing.acquire == "buy" and costing.rent_plan is None:
        return replace(costing, rent_plan="on_demand")
    return costing


@dataclass(frozen=True)
class Ways:
    """Efficient ways to do one workload, to be costed wherever uncertain inputs stand.

    Parameters
    ----------
    study : of the workload alone
    rows : columns of its efficient plans; which these are does not depend on prices
    ends : what each is costed from
    """

    study: Study
    rows: Mapping[str, Any]
    ends: Sequence[Ends]

    def offers(self, at: At = at_middle) -> list[Offer]:
        """The ways at the prices of some inputs."""
        return [_offer(self.study, self.rows, at(end), i) for i, end in enumerate(self.ends)]


def ways_of(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Ways:
    """The efficient ways to do one workload, a few for each chip and site.

    Parameters
    ----------
    study : of the workload alone
    plans : its physical front
    """
    if not plans:
        return Ways(study, {}, ())
    rows = _rows(study, catalog, plans)
    picked = _efficient(rows)
    return _ways(study, catalog, {n: np.asarray(c)[picked] for n, c in rows.items()})


def hardware_ways(study: Study, catalog: Catalog) -> Ways:
    """A unit of each chip at each site, its price that of the largest cluster the limits allow.

    Parameters
    ----------
    study : of the hardware alone
    """
    engine, total = hardware.prepare(study), Total()
    for result in hardware.sweep(engine, 1, lambda: False):
        total.add(result)
    plans = total.physical()
    if not plans:
        return Ways(study, {}, ())
    costed = hardware.cost(study, catalog, plans)
    kept = np.flatnonzero(costed.worst_excess <= 0)
    return _ways(study, catalog, {n: np.asarray(c)[kept] for n, c in costed.columns.items()})


def _ways(study: Study, catalog: Catalog, rows: Mapping[str, Any]) -> Ways:
    count = len(rows["plan"])
    if not count:
        return Ways(study, rows, ())
    (part,) = parts_of(study, catalog, rows)
    return Ways(study, rows, [part.ends.take([i]) for i in range(count)])


def option_of(study: Study, offer: Offer, asset: int, lost_frac: float = 0.0) -> Option:
    """A way to use units as the program takes it.

    Parameters
    ----------
    asset : its place among the assets
    lost_frac : of the hours of a run, taken away with the units [1]
    """
    if not math.isnan(offer.days):
        length = offer.days / (study.fleet.period_years * DAYS_PER_YEAR) / (1.0 - lost_frac)
        return Option(offer.plan, asset, offer.units, offer.mean_w, offer.peak_w, periods=length)
    units, serves, full, lost = offer.replica
    return Option(offer.plan, asset, units, offer.mean_w, offer.peak_w, serves, full, lost)


def _rows(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> dict[str, Any]:
    """Plans at sites that keep the limits of costing, as columns with bands."""
    costed = cost_plans(study, catalog, plans)
    kept = np.flatnonzero(costed.worst_excess <= 0)
    rows = {name: np.asarray(column)[kept] for name, column in costed.columns.items()}
    return with_bands(study.kind, rows, given_by(study.pin), False, regime_of(study))


def _efficient(rows: Mapping[str, Any]) -> Codes:
    """Rows that no other of their chip and site beats in units, watts and, for runs, days."""
    names = ["purchase_units", "facility_mean_w", "facility_peak_w"]
    names += ["days"] if _is_run(rows) else []
    points = np.stack([np.asarray(rows[name], float) for name in names], axis=1)
    where = np.char.add(rows["accelerator"].astype(str), rows["site"].astype(str))
    found: list[int] = []
    for word in np.unique(where):
        own = np.flatnonzero(where == word)
        best = own[nondominated(points[own])]
        order = best[np.argsort(points[best, 0], kind="stable")]
        few = np.linspace(0, len(order) - 1, min(len(order), MOST_OPTIONS)).astype(int)
        found.extend(order[few].tolist())
    return np.array(sorted(set(found)), dtype=np.int64)


def _is_run(rows: Mapping[str, Any]) -> bool:
    return "step_s" in rows


def _offer(study: Study, rows: Mapping[str, Any], one: Inputs, i: int) -> Offer:
    units = float(one.bill.purchase_units[0] + one.bill.spare_units[0])
    costs, per_unit = one.costs(), float(one.bill.devices_per_unit[0])

    def row(name: str) -> float:
        return float(np.asarray(rows[name], float)[i]) if name in rows else 0.0

    return Offer(
        name=str(rows["accelerator"][i]),
        site=str(rows["site"][i]),
        plan=str(rows["plan"][i]),
        units=units,
        mean_w=float(costs.columns["facility_mean_w"][0]) / units,
        peak_w=float(costs.columns["facility_peak_w"][0]) / units,
        days=row("days") if study.kind == "train" else math.nan,
        one=one,
        costs=costs,
        replica=_replica(study, rows, one, i) if study.kind == "serve" else (1.0, 1.0, 1.0, 0),
        racks=row("racks") / row("purchase_units") if row("purchase_units") else 0.0,
        domain_units=max(math.ceil(row("supernode_devices") / per_unit - 1e-9), 1),
        flop_per_s=row("peak_flop_per_s") / units,
        devices=row("devices"),
        copy_devices=math.prod(int(row(n)) or 1 for n in CUTS),
    )


def _replica(
    study: Study, rows: Mapping[str, Any], one: Inputs, i: int
) -> tuple[float, float, float, int]:
    """Units of a replica and what it serves, as `serving.sizing.replicas_for` has it.

    Notes
    -----
    A replica smaller than a unit shares it with others of its kind, a larger one fills whole
    units.
    """

    def row(name: str) -> float:
        return float(np.asarray(rows[name], float)[i])

    work, rate = study.serving, serve_load(study).peak.requests_per_s
    replicas, per_unit = row("replicas"), float(one.bill.devices_per_unit[0])
    devices = row("devices") / replicas
    units = 1.0 / math.floor(per_unit / devices) if devices <= per_unit else math.ceil(
        devices / per_unit)  # fmt: skip
    saturated = rate / (row("utilisation_frac") * replicas)
    within = row("capacity_requests_per_s") / replicas
    hosts = per_unit / float(one.bill.hosts_per_unit[0])
    lost = work.survive_failures * max(math.ceil(hosts / devices), 1)
    serves = min(within, work.peak_utilisation_frac * saturated) / rate
    return float(units), serves, within / rate, int(lost)
