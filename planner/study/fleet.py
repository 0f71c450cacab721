"""The calendar of a purchase plan as a study writes it: periods, demand, power, money, stock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from planner.metrics import METRICS
from planner.study.faults import Faults, nearest, part
from planner.study.lines import Path
from planner.study.parts import CONFIG, Amount, AtLeastZero, Count, Switch, Text

LookUp = Callable[[str], str]

OF_THE_FLEET = ("capex_usd", "kgco2e", "peak_facility_mw")
"""Limits on all workloads together, which a purchase plan keeps."""

COUNTED = ("devices", "nodes", "supernodes", "stranded_devices", "purchase_units")
"""Counts of one workload's own plan, which a purchase plan shares out."""


@dataclass(frozen=True, config=CONFIG)
class Demand:
    """When a workload of a purchase plan is there: a table [fleet.demand.NAME].

    `level` and `growth_frac_per_year` give a stream in multiples of what its workload describes,
    `levels` period by period instead. A training run begins in period `start` or later and is done
    by the end of period `due`; periods count from 0.
    """

    level: Annotated[AtLeastZero, Field(description="multiples of the workload, e.g. 1")] = 1.0
    growth_frac_per_year: Annotated[
        float, Field(strict=True, gt=-1, le=100, description="growth a year, e.g. 0.5 for 50%")
    ] = 0.0
    levels: Annotated[
        tuple[AtLeastZero, ...] | None, Field(description="one multiple for each period")
    ] = None
    start: Annotated[int, Field(strict=True, ge=0, description="a period, from 0")] = 0
    due: Annotated[int | None, Field(strict=True, ge=0, description="a period, from 0")] = None


@dataclass(frozen=True, config=CONFIG)
class Held:
    """Servers or racks that are there already: units of a chip, and the years left to them."""

    accelerator: Annotated[Text, Field(description="a chip of the study")]
    site: Annotated[Text, Field(description="a site of the study")]
    units: Annotated[Count, Field(description="servers or racks, a whole number")]
    years_left: Annotated[Amount, Field(description="years of life left")]


@dataclass(frozen=True, config=CONFIG)
class Fleet:
    """The table [fleet]: the calendar of a purchase plan, and what belongs to it alone.

    `lead_weeks` is from order to delivery; `price_change_frac_per_year` of servers, below 0 where
    they become cheaper; `available` the period in which a chip can first be had. `points` are
    plans on the front of cost and carbon.
    """

    periods: Annotated[int, Field(strict=True, ge=1, le=80, description="how many, 1 to 80")] = 4
    period_years: Annotated[Amount, Field(le=10, description="years of a period, e.g. 0.25")] = 1.0
    demand: Annotated[
        Mapping[str, Demand], Field(description="a table for each workload, [fleet.demand.NAME]")
    ] = field(default_factory=dict)
    site_mw: Annotated[
        Mapping[str, Amount], Field(description='MW at the meter of each site, { "us-tx" = 20 }')
    ] = field(default_factory=dict)
    budget_usd_per_period: Annotated[
        tuple[AtLeastZero, ...], Field(description="dollars of capital, one for each period")
    ] = ()
    kgco2e_per_year: Annotated[
        Amount | None, Field(description="most kgCO2e of a year, making included")
    ] = None
    lead_weeks: Annotated[
        AtLeastZero | None, Field(le=520, description="weeks from order to delivery")
    ] = None
    price_change_frac_per_year: Annotated[
        float, Field(strict=True, gt=-1, le=10, description="change of prices a year, e.g. -0.15")
    ] = 0.0
    available: Annotated[
        Mapping[str, int], Field(description="chips and the first period they are sold in")
    ] = field(default_factory=dict)
    held: Annotated[
        tuple[Held, ...], Field(description="tables [[fleet.held]] of units there already")
    ] = ()
    may_rent: Annotated[Switch, Field(description="true or false")] = True
    points: Annotated[int, Field(strict=True, ge=1, le=50, description="plans, 1 to 50")] = 5
    gap_frac: Annotated[
        float, Field(strict=True, gt=0, le=0.5, description="gap at which to stop, e.g. 0.005")
    ] = 0.005
    limit_s: Annotated[Amount, Field(le=86_400, description="seconds for each plan, e.g. 60")] = (
        60.0
    )


def read_fleet(
    tables: Mapping[str, Mapping[str, Any]],
    kind: str,
    faults: Faults,
    accelerator: LookUp,
    site: LookUp,
) -> Fleet:
    """The calendar of a purchase plan, its names in the catalogue's spelling."""
    table = dict(tables["fleet"])
    if table and kind != "fleet":
        faults.say(("fleet",), f"a {kind} study plans no purchases", 'write kind = "fleet"')
        return Fleet()
    for key in ("site_mw", "available"):
        look_up = site if key == "site_mw" else accelerator
        if isinstance(table.get(key), Mapping):
            table[key] = {
                faults.looked_up(look_up, name, ("fleet", key, name)): value
                for name, value in table[key].items()
            }
    found: Fleet = part(Fleet, table, ("fleet",), faults) or Fleet()
    if kind == "fleet":
        _check_fleet(found, tables["workload"], faults)
        _check_bounds(tables, faults)
    return found


def _check_fleet(fleet: Fleet, workloads: Mapping[str, Any], faults: Faults) -> None:
    """Lengths of the calendar, and demands of workloads that the study does not have."""
    for name, demand in fleet.demand.items():
        path: Path = ("fleet", "demand", name)
        if name not in workloads:
            faults.say(path, f"there is no [workload.{name}]", nearest(name, list(workloads)))
        if demand.levels is not None and len(demand.levels) != fleet.periods:
            problem = f"{len(demand.levels)} levels for {fleet.periods} periods"
            faults.say((*path, "levels"), problem, "wanted one for each period")
        if demand.due is not None and demand.due >= fleet.periods:
            faults.say((*path, "due"), f"period {demand.due} does not come",
                       f"periods are 0 to {fleet.periods - 1}")  # fmt: skip
    if fleet.budget_usd_per_period and len(fleet.budget_usd_per_period) != fleet.periods:
        problem = f"{len(fleet.budget_usd_per_period)} budgets for {fleet.periods} periods"
        faults.say(("fleet", "budget_usd_per_period"), problem, "wanted one for each period")


def _check_bounds(tables: Mapping[str, Mapping[str, Any]], faults: Faults) -> None:
    """Limits that no part of a purchase plan keeps, and targets, which it does not tell of."""
    wanted = f"wanted one of {', '.join(OF_THE_FLEET)}, or what physics says of a workload's plans"
    for name in tables["limits"]:
        owner = METRICS.get(name.removesuffix("_low").removesuffix("_high"))
        if owner is None or name in OF_THE_FLEET:
            continue
        if owner.name != name or owner.stage == "costing" or name in COUNTED:
            faults.say(("limits", name), f"no purchase plan keeps limits.{name}", wanted)
    if tables["targets"]:
        faults.say(("targets",), "purchase plans have no targets", "remove [targets]")
