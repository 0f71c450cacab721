"""The table [fleet] read and checked against the rest of its study: every fault at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from planner.metrics import METRICS
from planner.study.faults import Faults, nearest, part
from planner.study.fleet import COUNTED, OF_A_CHIP, OF_A_SITE, OF_THE_FLEET, Demand, Fleet
from planner.study.lines import Path
from simkernel.errors import PlanError

LookUp = Callable[[str], str]

OF_STREAMS = ("level", "growth_frac_per_year", "levels", "ramp", "spikes", "fan_out", "by_hour",
              "headroom_frac")  # fmt: skip
OF_RUNS = ("start", "due", "may_pause", "block_devices", "stop_hours")
"""Keys of a demand that only streams, or only training runs, have."""


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
    for key in (*OF_A_SITE, *OF_A_CHIP):
        look_up = site if key in OF_A_SITE else accelerator
        if isinstance(table.get(key), Mapping):
            table[key] = {
                faults.looked_up(look_up, name, ("fleet", key, name)): value
                for name, value in table[key].items()
            }
    for key in ("held", "contracts"):
        if isinstance(table.get(key), list):
            table[key] = [_named(row, ("fleet", key, i), faults, accelerator, site)
                          for i, row in enumerate(table[key])]  # fmt: skip
    found: Fleet = part(Fleet, table, ("fleet",), faults) or Fleet()
    if kind == "fleet":
        _check_demand(found, tables["workload"], faults)
        _check_kinds(found.demand, tables["workload"], faults)
        _check_calendar(found, tables["workload"], faults)
        _check_places(found, tables, faults, accelerator, site)
        _check_bounds(tables, faults)
    return found


def _named(row: Any, path: Path, faults: Faults, accelerator: LookUp, site: LookUp) -> Any:
    """A row with its chip and its site in the catalogue's spelling."""
    if not isinstance(row, Mapping):
        return row
    found = dict(row)
    for key, look_up in (("accelerator", accelerator), ("site", site)):
        if isinstance(row.get(key), str):
            found[key] = faults.looked_up(look_up, row[key], (*path, key))
    return found


def _check_demand(fleet: Fleet, workloads: Mapping[str, Any], faults: Faults) -> None:
    """Demands of workloads that the study does not have, and what one table contradicts."""
    for name, demand in fleet.demand.items():
        path: Path = ("fleet", "demand", name)
        if name not in workloads:
            faults.say(path, f"there is no [workload.{name}]", nearest(name, list(workloads)))
        for key, period in _periods_of(demand):
            if period >= fleet.periods:
                faults.say((*path, key), f"period {period} does not come",
                           f"periods are 0 to {fleet.periods - 1}")  # fmt: skip
        if demand.levels is not None and len(demand.levels) != fleet.periods:
            problem = f"{len(demand.levels)} levels for {fleet.periods} periods"
            faults.say((*path, "levels"), problem, "wanted one for each period")
        if demand.due is not None and demand.due < demand.start:
            problem = f"due in period {demand.due} and begun no sooner than {demand.start}"
            faults.say((*path, "due"), problem, "wanted due at or after start")
        if demand.ramp and demand.ramp.until_period < demand.ramp.from_period:
            problem = (f"it ends in period {demand.ramp.until_period} and begins in "
                       f"{demand.ramp.from_period}")  # fmt: skip
            faults.say((*path, "ramp"), problem, "wanted until_period at or after from_period")
        if demand.may_pause and demand.block_devices is not None:
            faults.say((*path, "block_devices"), "blocks stop by the hour, and may_pause between "
                       "periods", "wanted one of them; remove the other")  # fmt: skip
    hours = {len(d.by_hour) for d in fleet.demand.values() if len(d.by_hour) > 1}
    if len(hours) > 1:
        faults.say(("fleet", "demand"), f"by_hour has {sorted(hours)} parts in different streams",
                   "wanted as many in all")  # fmt: skip


def _check_kinds(
    demands: Mapping[str, Demand], workloads: Mapping[str, Any], faults: Faults
) -> None:
    """What is said of a workload and is nothing for one of its kind; defaults say nothing."""
    plain = Demand()
    for name, demand in demands.items():
        kind = _kind(workloads, name)
        what = "a training run" if kind == "train" else "a stream"
        for key in {"train": OF_STREAMS, "serve": OF_RUNS}.get(kind, ()):
            if getattr(demand, key) != getattr(plain, key):
                faults.say(("fleet", "demand", name, key), f"{what} has no {key}", "remove it")


def _kind(workloads: Mapping[str, Any], name: str) -> str:
    table = workloads.get(name)
    return str(table.get("kind", "")) if isinstance(table, Mapping) else ""


def _periods_of(demand: Demand) -> list[tuple[str, int]]:
    """Every period that a demand names, with its key."""
    found = [("start", demand.start)]
    found += [("due", demand.due)] if demand.due is not None else []
    found += [("spikes", spike.period) for spike in demand.spikes]
    found += [("ramp", demand.ramp.from_period)] if demand.ramp else []
    found += [("fan_out", demand.fan_out.from_period)] if demand.fan_out else []
    return found


def _check_calendar(fleet: Fleet, workloads: Mapping[str, Any], faults: Faults) -> None:
    """The first day, lengths of budgets, chances of branches."""
    if fleet.first_day is not None and not _is_day(fleet.first_day):
        faults.add(("fleet", "first_day"), fleet.first_day, "it is no day of the calendar",
                   'wanted year, month and day, e.g. "2027-01-01"')  # fmt: skip
    if fleet.budget_usd_per_period and len(fleet.budget_usd_per_period) != fleet.periods:
        problem = f"{len(fleet.budget_usd_per_period)} budgets for {fleet.periods} periods"
        faults.say(("fleet", "budget_usd_per_period"), problem, "wanted one for each period")
    chances: dict[int, float] = {}
    for i, branch in enumerate(fleet.branches):
        path: Path = ("fleet", "branches", i)
        chances[branch.period] = chances.get(branch.period, 0.0) + branch.chance
        if branch.period >= fleet.periods:
            faults.say((*path, "period"), f"period {branch.period} does not come",
                       f"periods are 0 to {fleet.periods - 1}")  # fmt: skip
        for name in branch.demand:
            if name not in workloads:
                faults.say((*path, "demand"), f"there is no [workload.{name}]",
                           nearest(name, list(workloads)))  # fmt: skip
            elif _kind(workloads, name) == "train":
                faults.say((*path, "demand"), f"{name} is a training run, whose work is given",
                           "wanted a stream")  # fmt: skip
    named = [(branch.period, branch.name) for branch in fleet.branches]
    for period, name in sorted({one for one in named if named.count(one) > 1}):
        faults.say(("fleet", "branches"), f"two branches of period {period} are called {name}",
                   "wanted a name for each")  # fmt: skip
    for chip, period in fleet.available.items():
        if period >= fleet.periods:
            faults.say(("fleet", "available", chip), f"period {period} does not come",
                       f"periods are 0 to {fleet.periods - 1}; leave the chip out")  # fmt: skip
    for period, chance in chances.items():
        if not math.isclose(chance, 1.0, abs_tol=1e-6):
            faults.say(("fleet", "branches"), f"chances of the branches of period {period} add up "
                       f"to {chance:g}", "wanted 1; add the branch that is missing")  # fmt: skip
    for i, one in enumerate(fleet.contracts):
        path = ("fleet", "contracts", i)
        if one.kind in ("lease", "reserved") and one.term_years is None:
            faults.missing((*path, "term_years"), f"the years that a {one.kind} contract is for")
        if one.kind == "lease" and one.usd_per_device_hour is None:
            faults.missing((*path, "usd_per_device_hour"), "a rent: no table has those of leases")
    if not fleet.may_buy and not fleet.may_rent and not fleet.contracts and not fleet.held:
        faults.say(("fleet", "may_buy"), "nothing may be bought or rented, and nothing is held",
                   "wanted a way to have units")  # fmt: skip


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _check_places(
    fleet: Fleet,
    tables: Mapping[str, Mapping[str, Any]],
    faults: Faults,
    accelerator: LookUp,
    site: LookUp,
) -> None:
    """Chips and sites of the calendar that the study does not have."""
    chips = _known(tables["axes"].get("accelerator"), accelerator)
    sites = _known(tables["costing"].get("site"), site)
    for key in ("held", "contracts"):
        for i, row in enumerate(getattr(fleet, key)):
            for word, name, names in (
                ("accelerator", row.accelerator, chips), ("site", row.site, sites)
            ):  # fmt: skip
                if name is not None and names and name not in names:
                    faults.add(("fleet", key, i, word), name, "the study does not have it",
                               f"wanted one of {', '.join(sorted(names))}")  # fmt: skip
    for key, names in (*((k, sites) for k in OF_A_SITE), *((k, chips) for k in OF_A_CHIP)):
        for name in getattr(fleet, key):
            if names and name not in names:
                faults.say(("fleet", key, name), f"the study does not have {name}",
                           f"wanted one of {', '.join(sorted(names))}")  # fmt: skip


def _known(given: object, look_up: LookUp) -> set[str]:
    """Names of an axis or of the sites; none where they are not plain names."""
    names = given if isinstance(given, list) else [given]
    found = set()
    for name in names:
        if not isinstance(name, str) or name == "all":
            return set()
        try:
            found.add(look_up(name))
        except PlanError:
            return set()
    return found


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
