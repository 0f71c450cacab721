"""Bands of hardware rows: every uncertain input moved to its ends, one at a time.

An input that the study gives has no ends, and what rests on given figures alone no spread. What
the buyer decides (interest, lives, use, how it is had) is taken as decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.bill import EmbodiedFactors, PlanCosts, PlanRun, Prices, plan_costs
from costdata.hardware_bill import HardwareBill
from costdata.supply import Supply
from costdata.terms import CostingTerms, yearly_shares
from planner.costing.quoted import PARTS_USD
from planner.hardware.worth import worth
from simkernel.columns import Floats

BANDED = (
    "device_mean_w", "device_peak_w", "it_mean_w", "it_peak_w", "provisioned_w",
    "facility_mean_w", "facility_peak_w", "peak_facility_mw", "facility_mwh", "capex_usd",
    "usd_per_year", "usd", "usd_per_device_hour", "own_npv_usd", "rent_npv_usd", "npv_usd",
    "breakeven_utilisation_frac", "npv_zero_utilisation_frac", "operational_kgco2e",
    "embodied_kgco2e", "kgco2e", "water_l",
)  # fmt: skip
"""Metrics with X_low and X_high beside them."""

SIGNED = ("npv_usd",)
"""Those that may be negative."""

MOVED = (
    ("run", ("it_mean_w", "it_peak_w")),
    ("run", ("it_idle_w",)),
    ("prices", ("unit_usd",)),
    ("prices", PARTS_USD),
    ("prices", ("rent_usd_per_device_hour",)),
    ("made", ("device_kgco2e", "host_kgco2e", "support_kgco2e")),
    ("terms", ("usd_per_kwh",)),
    ("terms", ("pue",)),
    ("terms", ("colo_usd_per_kw_month",)),
    ("terms", ("maintenance_frac",)),
    ("terms", ("residual_frac",)),
    ("terms", ("staff_usd_per_year",)),
    ("terms",
     ("grid_average_kgco2e_per_kwh", "grid_marginal_kgco2e_per_kwh", "market_kgco2e_per_kwh")),
    ("terms", ("wue_onsite_l_per_kwh", "wue_offsite_l_per_kwh")),
)  # fmt: skip
"""Inputs that may be uncertain, those on one line together."""


@dataclass(frozen=True)
class Inputs:
    """All that money, carbon and worth of rows follow from; (m,). `carbon`: the accounting."""

    bill: HardwareBill
    run: PlanRun
    prices: Prices
    made: EmbodiedFactors
    terms: CostingTerms
    carbon: str
    supply: Supply | None = None

    def costs(self) -> PlanCosts:
        """Cost, carbon and water of the rows."""
        shares = yearly_shares(self.terms)
        return plan_costs(
            self.bill, self.run, self.prices, self.made, self.terms, shares, self.carbon,
            self.supply,
        )  # fmt: skip

    def columns(self) -> dict[str, Floats]:
        """Every figure that they come to."""
        costs = self.costs()
        own = {"it_mean_w": self.run.it_mean_w, "it_peak_w": self.run.it_peak_w}
        return {**own, **costs.columns, **worth(self.bill, costs, self.prices, self.terms)}


def bands(inputs: Inputs, low: Inputs, high: Inputs) -> dict[str, Floats]:
    """X_low and X_high of the banded metrics that costing knows; (m,) each.

    Parameters
    ----------
    low, high : the same rows with every input at that end; equal to `inputs` where it is given

    Notes
    -----
    Inputs are taken as independent: what each moves a figure down, and up, is added in squares.
    To first order the 90% band of a sum of independent 90% bands. Where an end has no such figure
    (a rent so low that no use is enough) the band is open above: X_high is infinite. What cannot
    be negative has no end below 0.

    References
    ----------
    JCGM 100:2008, 5.1.2: combined standard uncertainty of uncorrelated inputs.
    """
    middle = inputs.columns()
    names = [name for name in BANDED if name in middle]
    spread = {name: np.zeros((2, len(inputs.bill))) for name in names}
    for pair in _moved(inputs, low, high):
        ends = [one.columns() for one in pair]
        for name in names:
            away = np.stack([end[name] - middle[name] for end in ends])
            away[np.isnan(away) & ~np.isnan(middle[name])] = np.inf
            sides = np.stack([np.minimum(away.min(0), 0.0), np.maximum(away.max(0), 0.0)])
            spread[name] = np.hypot(spread[name], sides)
    found: dict[str, Floats] = {}
    for name in names:
        down, up = spread[name]
        least = -np.inf if name in SIGNED else np.minimum(middle[name], 0.0)
        found[f"{name}_low"] = np.maximum(middle[name] - down, least)
        found[f"{name}_high"] = middle[name] + up
    return found


def _moved(inputs: Inputs, low: Inputs, high: Inputs) -> Iterator[tuple[Inputs, Inputs]]:
    """The inputs with one of them, or a few that move together, at both of its ends."""
    for table, names in MOVED:
        ends = [{name: _cell(end, table, name) for name in names} for end in (low, high)]
        own = {name: _cell(inputs, table, name) for name in names}
        if all(_is_same(end[name], own[name]) for end in ends for name in names):
            continue
        at_low, at_high = (
            replace(inputs, **{table: replace(getattr(inputs, table), **end)}) for end in ends
        )
        yield at_low, at_high


def _cell(inputs: Inputs, table: str, name: str) -> Any:
    return getattr(getattr(inputs, table), name)


def _is_same(one: Floats, other: Floats) -> bool:
    return np.array_equal(one, other, equal_nan=True)
