"""Bands of hardware rows: every uncertain input moved to its ends, one at a time.

An input that the study gives has no ends, and what rests on given figures alone no spread. What
the buyer decides (interest, lives, use, how it is had) is taken as decided.
"""

from __future__ import annotations

import numpy as np

from planner.hardware.worth import worth
from planner.uncertainty.inputs import Ends, Inputs
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


def bands(ends: Ends) -> dict[str, Floats]:
    """X_low and X_high of the banded metrics that costing knows; (m,) each.

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
    middle = _columns(ends.middle)
    names = [name for name in BANDED if name in middle]
    spread = {name: np.zeros((2, len(ends))) for name in names}
    for moved in ends.uncertain():
        pair = [_columns(one) for one in ends.moved(moved)]
        for name in names:
            away = np.stack([end[name] - middle[name] for end in pair])
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


def _columns(inputs: Inputs) -> dict[str, Floats]:
    """Every figure that some inputs come to."""
    costs = inputs.costs()
    own = {"it_mean_w": inputs.run.it_mean_w, "it_peak_w": inputs.run.it_peak_w}
    return {**own, **costs.columns, **worth(inputs.bill, costs, inputs.prices, inputs.terms)}
