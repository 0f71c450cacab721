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
from costdata.bill import PlanRun
from costdata.ends import HIGH, LOW, TYPICAL
from costdata.hardware_cost import missing_price
from costdata.network_build import TIERS_MOST
from costdata.nulls import Nulls
from costdata.terms import CostingTerms
from planner.bands import bands as factors_of
from planner.costing.second_pass import limits_on
from planner.costing.terms import supply_given, terms_of
from planner.evaluated import Limit
from planner.hardware.bands import bands
from planner.hardware.figures import (
    FLOP_PER_S_PER_PFLOP_PER_S,
    Figures,
    Stock,
    figures,
    is_given_w,
    quoted_at,
)
from planner.hardware.worth import worth
from planner.study.read import Study
from planner.uncertainty.inputs import Ends, Inputs, terms_at_end
from simkernel.columns import Codes, Floats, Masks
from simkernel.ledger import Ledger

ROUNDING = 1e-9
"""Share of a limit by which the order of a sum may pass it: a budget of whole units is met."""


@dataclass(frozen=True)
class Case:
    """Options at sites, all but their count; (m,) rows.

    Parameters
    ----------
    stock : chips on the study's terms
    rows : axes of each row by value
    step : devices that one more unit puts to work
    terms : of each row's site; `low` and `high` at the ends of their bands
    """

    stock: Stock
    rows: Mapping[str, Any]
    step: Floats
    terms: CostingTerms
    low: CostingTerms
    high: CostingTerms

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
            *(terms.take(picked) for terms in (self.terms, self.low, self.high)),
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


def case_of(stock: Stock, rows: Mapping[str, Any], site_rows: Codes) -> Case:
    """Rows with the terms of their sites, by place among the study's sites (m,)."""
    step = np.asarray(rows["step_devices"], float)
    costing, catalog = stock.study.costing, stock.catalog
    low, terms, high = (
        terms_of(costing, catalog, end).take(site_rows) for end in (LOW, TYPICAL, HIGH)
    )
    return Case(stock, rows, step, terms, low, high)


def has_price(case: Case) -> Masks:
    """Rows that can be had on the study's terms; (m,)."""
    found = figures(case.stock, case.rows, case.step)
    lacking = missing_price(found.prices, case.terms)
    return ~np.any(np.stack(list(lacking.values())), axis=0)


def priced(case: Case, devices: Floats, *, with_bands: bool = False) -> Priced:
    """Rows with a number of devices each (m,), from watts to worth.

    `with_bands` where they are wanted; where a limit of the study is on one they are always made.
    """
    found, study, terms = figures(case.stock, case.rows, devices), case.study, case.terms
    metrics, inputs = found.metrics, _inputs(case, found)
    costs = inputs.costs()
    columns: dict[str, Any] = {**case.rows, **metrics, **costs.columns}
    columns |= worth(found.bill, costs, found.prices, terms)
    columns["usd_per_pflop_per_s"] = (
        costs.columns["capex_usd"] / metrics["peak_flop_per_s"] * FLOP_PER_S_PER_PFLOP_PER_S
    )
    columns |= _leftovers(study, columns, terms.pue)
    if with_bands or any(name.endswith(("_low", "_high")) for name in study.limits):
        columns |= _device_bands(study, metrics)
        columns |= bands(_ends(case, devices, found, inputs))
    for name in ("tokens", "usd_per_mtoken", "kgco2e_per_mtoken", "rent_usd"):
        columns.pop(name, None)
    ledgers = {ledger.name: ledger for ledger in (found.it_peak, *costs.ledgers())}
    limits = limits_on(study, columns)
    most = np.full(len(devices), float(TIERS_MOST))
    limits["fabric_tiers"] = Limit(metrics["fabric_tiers"], most, "layers")
    return Priced(columns, ledgers, limits, costs.nulls)


def _inputs(case: Case, found: Figures) -> Inputs:
    """What money follows from: the hardware is at work for the use of its life."""
    hours = case.terms.it_life_years * tco.HOURS_PER_YEAR * case.terms.utilisation_frac
    run = PlanRun(
        it_mean_w=found.metrics["it_mean_w"],
        it_peak_w=found.metrics["it_peak_w"],
        it_idle_w=found.it_idle_w,
        hours=hours,
        tokens=np.full(len(hours), np.nan),
    )
    costing = case.study.costing
    supply = supply_given(costing)
    return Inputs(found.bill, run, found.prices, found.made, case.terms, costing.carbon, supply)


def ends_of(case: Case, devices: Floats) -> Ends:
    """What the rows of a case with some devices each (m,) are costed from, and its ends."""
    found = figures(case.stock, case.rows, devices)
    return _ends(case, devices, found, _inputs(case, found))


def _ends(case: Case, devices: Floats, found: Figures, inputs: Inputs) -> Ends:
    """The rows with every input at its low, and at its high end."""
    stock, is_given = case.stock, is_given_w(case.stock, case.rows, found.bill)
    ends = []
    for place, quotes, terms in ((0, stock.low, case.low), (1, stock.high, case.high)):
        prices, made = quoted_at(stock, quotes, case.rows, devices)
        it_peak_w = _moved(inputs.run.it_peak_w, "it_peak_w", place, is_given)
        it_mean_w = _moved(inputs.run.it_mean_w, "it_mean_w", place, is_given)
        run = replace(
            inputs.run,
            it_mean_w=np.minimum(it_mean_w, it_peak_w),
            it_peak_w=it_peak_w,
            it_idle_w=_moved(inputs.run.it_idle_w, "it_idle_w", place, False),
        )
        terms = terms_at_end(case.study.costing, terms, place)
        ends.append(replace(inputs, run=run, prices=prices, made=made, terms=terms))
    return Ends(ends[0], inputs, ends[1])


def _moved(value: Floats, quantity: str, place: int, is_given: Masks | bool) -> Floats:
    """A figure at the end of the band of a quantity; itself where it is given."""
    return np.asarray(value * np.where(is_given, 1.0, factors_of()[quantity][place]))


def _device_bands(study: Study, metrics: Mapping[str, Floats]) -> dict[str, Floats]:
    """X_low and X_high of the watts of a device, which are X where the study gives them."""
    is_given = "device_peak_w" in study.pin
    found = {}
    for place, end in enumerate(("low", "high")):
        mean_w, peak_w = (
            _moved(metrics[name], name, place, is_given)
            for name in ("device_mean_w", "device_peak_w")
        )
        found[f"device_mean_w_{end}"] = np.minimum(mean_w, peak_w)
        found[f"device_peak_w_{end}"] = peak_w
    return found


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
