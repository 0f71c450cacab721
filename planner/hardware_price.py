"""Rows of hardware at sites: counts, watts, money and carbon together, for any number of devices.

One case holds what does not change with the count, so that "how many fit" can be asked of the
same functions that answer "what does it cost".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata import tco
from costdata.bill import PlanRun, missing_price, plan_costs
from costdata.network_build import TIERS_MOST
from costdata.nulls import Nulls
from costdata.terms import CostingTerms, YearlyShares, yearly_shares
from planner.bands import band_of
from planner.costing import limits_on
from planner.evaluate import Limit
from planner.hardware_figures import FLOP_PER_S_PER_PFLOP_PER_S, Stock, figures
from planner.hardware_worth import worth
from planner.study import Study
from simkernel.columns import Codes, Floats, Masks
from simkernel.ledger import Ledger

ROUNDING = 1e-9
"""Share of a limit by which the order of a sum may pass it: a budget of whole units is met."""

BANDED = {
    "device_mean_w": "device_mean_w", "device_peak_w": "device_peak_w",
    "it_mean_w": "it_mean_w", "it_peak_w": "it_peak_w", "provisioned_w": "it_peak_w",
    "facility_mean_w": "facility_mean_w", "facility_peak_w": "facility_peak_w",
    "peak_facility_mw": "facility_peak_w", "facility_mwh": "facility_mean_w",
    "capex_usd": "capex_usd", "usd_per_year": "usd_per_year", "usd": "usd_per_year",
    "usd_per_device_hour": "usd_per_device_hour",
}  # fmt: skip
"""Metrics with a band, and whose band it is: over a life of given years no time is predicted."""


@dataclass(frozen=True)
class Case:
    """Options at sites, all but their count; (m,) rows.

    Parameters
    ----------
    stock : chips on the study's terms
    rows : axes of each row by value
    step : devices that one more unit puts to work
    terms, shares : of each row's site
    """

    stock: Stock
    rows: Mapping[str, Any]
    step: Floats
    terms: CostingTerms
    shares: YearlyShares

    @property
    def study(self) -> Study:
        """What is asked, limits among it."""
        return self.stock.study

    def take(self, rows: Codes | Masks) -> Case:
        """Some of the rows."""
        picked = np.arange(len(self.step))[rows]
        return Case(
            self.stock,
            {name: np.asarray(column)[picked] for name, column in self.rows.items()},
            self.step[picked],
            self.terms.take(picked),
            self.shares.take(picked),
        )

    def limited(self, **bounds: float) -> Case:
        """The same case with other bounds on some metrics."""
        limits = {**self.study.limits, **bounds}
        return replace(self, stock=replace(self.stock, study=replace(self.study, limits=limits)))


@dataclass(frozen=True)
class Priced:
    """Every figure of the rows of a case with some devices: columns, ledgers, limits, (m,).

    `nulls` says why a column of the bill is NULL where it is.
    """

    columns: dict[str, Any]
    ledgers: dict[str, Ledger]
    limits: dict[str, Limit]
    nulls: Nulls

    @property
    def excess(self) -> Floats:
        """How far limits are exceeded, 0 within rounding, without bound if not known; (k, m)."""
        over = [np.nan_to_num(limit.excess, nan=np.inf) for limit in self.limits.values()]
        found = np.stack(over)
        return np.where(np.abs(found) <= ROUNDING, 0.0, found)


def case_of(stock: Stock, rows: Mapping[str, Any], terms: CostingTerms) -> Case:
    """Rows with the terms of their sites (m,)."""
    step = np.asarray(rows["step_devices"], float)
    return Case(stock, rows, step, terms, yearly_shares(terms))


def has_price(case: Case) -> Masks:
    """Rows that can be had on the study's terms; (m,)."""
    found = figures(case.stock, case.rows, case.step)
    lacking = missing_price(found.prices, case.terms)
    return ~np.any(np.stack(list(lacking.values())), axis=0)


def priced(case: Case, devices: Floats) -> Priced:
    """Rows with a number of devices each (m,), from watts to worth."""
    found, study, terms = figures(case.stock, case.rows, devices), case.study, case.terms
    metrics = found.metrics
    run = PlanRun(
        it_mean_w=metrics["it_mean_w"],
        it_peak_w=metrics["it_peak_w"],
        hours=terms.it_life_years * tco.HOURS_PER_YEAR * terms.paid_frac,
        tokens=np.full(len(devices), np.nan),
    )
    costs = plan_costs(
        found.bill, run, found.prices, found.made, terms, case.shares, study.costing.carbon
    )
    columns: dict[str, Any] = {**case.rows, **metrics, **costs.columns}
    columns |= worth(found.bill, costs, found.prices, terms)
    columns["usd_per_pflop_per_s"] = (
        costs.columns["capex_usd"] / metrics["peak_flop_per_s"] * FLOP_PER_S_PER_PFLOP_PER_S
    )
    columns |= _leftovers(study, columns, terms.pue)
    columns |= _bands(case, columns)
    for name in ("tokens", "usd_per_mtoken", "kgco2e_per_mtoken", "rent_usd"):
        columns.pop(name, None)
    ledgers = {ledger.name: ledger for ledger in (found.it_peak, *costs.ledgers())}
    limits = limits_on(study, columns)
    most = np.full(len(devices), float(TIERS_MOST))
    limits["fabric_tiers"] = Limit(metrics["fabric_tiers"], most, "layers")
    return Priced(columns, ledgers, limits, costs.nulls)


AT_THE_METER = {"peak_facility_mw": 1e6, "facility_peak_w": 1.0}
"""Limits on power at the meter, and watts in their unit."""

OF_THE_IT = ("it_peak_w", "provisioned_w")
"""Limits on IT power [W]."""


def _leftovers(study: Study, columns: Mapping[str, Any], pue: Floats) -> dict[str, Floats]:
    """Power and money of the limits that the rows leave unused; NaN without such a limit."""
    left_w = [
        bound * AT_THE_METER[n] - columns["facility_peak_w"]
        for n, bound in study.limits.items()
        if n in AT_THE_METER
    ]
    left_w += [(bound - columns[n]) * pue for n, bound in study.limits.items() if n in OF_THE_IT]
    unknown = np.full(len(pue), np.nan)
    stranded_w = np.min(left_w, axis=0) if left_w else unknown
    money = study.limits.get("capex_usd", np.nan)
    return {
        "stranded_w": stranded_w,
        "stranded_it_w": stranded_w / pue,
        "stranded_mw": stranded_w / 1e6,
        "stranded_usd": money - columns["capex_usd"],
    }


def _bands(case: Case, columns: Mapping[str, Any]) -> dict[str, Floats]:
    """X_low and X_high of what is predicted; both are X where the study gives the figure."""
    names = case.stock.quotes.shelf.names
    code = np.array([names.index(str(n)) for n in case.rows["accelerator"]], np.int64)
    is_given_usd = case.stock.quotes.is_all_in[code]
    own_w = [case.stock.pinned(name)[code] for name in ("unit_w", "unit_other_w")]
    is_given_w = ~np.all(np.isnan(own_w), axis=0)
    is_given_w &= "network_overhead_frac" in case.study.pin
    found: dict[str, Floats] = {}
    for name, owner in BANDED.items():
        band = band_of(owner)
        if band is None:
            continue
        is_given = (
            is_given_usd if name == "capex_usd" else is_given_w & name.endswith(("_w", "_mw"))
        )
        for end, factor in zip(("low", "high"), band, strict=True):
            value = np.asarray(columns[name], float)
            found[f"{name}_{end}"] = value * np.where(is_given, 1.0, factor)
    return found
