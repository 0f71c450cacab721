"""Metrics of rows from what they are costed from, by the names of the contract."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType

import numpy as np

from planner.costing.price_desk import HOURS_PER_DAY
from planner.hardware.worth import worth
from planner.study.read import Study
from planner.uncertainty.inputs import Inputs
from simkernel.columns import Floats

FOLLOWS = MappingProxyType(
    {f"usd_per_mtoken_{kind}": "usd" for kind in ("input", "output", "total")}
)
"""Metrics that are a fixed multiple of another, whatever is uncertain."""


def figures_of(inputs: Inputs, study: Study, wanted: Collection[str] = ()) -> dict[str, Floats]:
    """Every figure that costing gives; (m,) each.

    Parameters
    ----------
    wanted : metrics to keep; () for all

    Notes
    -----
    Whole units are bought: a fleet that grows by less than one is costed in parts of a unit.
    """
    costs = inputs.costs()
    found = dict(costs.columns)
    found["it_mean_w"] = inputs.run.it_mean_w * inputs.fleet
    found["it_peak_w"] = inputs.run.it_peak_w * inputs.fleet
    if study.kind == "train":
        found["days"] = inputs.run.hours / HOURS_PER_DAY
    if study.kind == "serve":
        found["devices"] = inputs.bill.devices_working * inputs.fleet
    if study.kind == "hardware":
        found |= worth(inputs.bill, costs, inputs.prices, inputs.terms)
        found["devices"] = inputs.bill.devices_working * 1.0
    return {n: np.asarray(c) for n, c in found.items() if not wanted or n in wanted}
