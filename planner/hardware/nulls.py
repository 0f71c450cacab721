"""Why a figure of hardware alone is not there: the reasons that the bill does not know."""

from __future__ import annotations

from typing import Any

import numpy as np

from costdata.nulls import NO_COOLING, NO_RENT, NOT_OWNED, Causes, Nulls, nulls
from planner.costing.null_objectives import NO_MONEY_LIMIT, NO_POWER_LIMIT
from planner.hardware.price import Case, Priced

NO_END = "at an end of the inputs there is no such use, so the band has no upper end"

SAME = {
    "repaid_in_month": "payback_discounted_months",
    "repaid": "npv_usd",
}
"""Columns that are NULL where and because another one is."""


def hardware_nulls(case: Case, found: Priced) -> Nulls:
    """Every NULL of answered rows with the reason of its row; (m,)."""
    columns = found.columns
    no_rent = np.isnan(columns["rent_usd_per_device_hour"])
    causes: dict[str, Causes] = {
        "npv_usd": [(NOT_OWNED, ~case.terms.is_bought), (NO_RENT, no_rent)],
        "own_npv_usd": [(NOT_OWNED, True)],
        "rent_npv_usd": [(NO_RENT, True)],
        "rent_usd_per_device_hour": [(NO_RENT, True)],
        "liquid_cooled": [(NO_COOLING, True)],
    }
    for words, names in (
        (NO_POWER_LIMIT, _of_power(columns)),
        (NO_MONEY_LIMIT, _of_money(columns)),
    ):
        causes |= {name: [(words, True)] for name in names}
    own = {name: why for name, why in found.nulls.items() if name in columns}
    own |= nulls(columns, causes)
    highs = {name: column for name, column in columns.items() if name.endswith("_high")}
    open_above = {n: np.where(np.isposinf(high), np.nan, 0.0) for n, high in highs.items()}
    own |= nulls(open_above, {name: [(NO_END, True)] for name in highs})
    return own | {name: own[other] for name, other in SAME.items() if other in own}


def _of_power(columns: dict[str, Any]) -> list[str]:
    left = ["stranded_w", "stranded_it_w", "stranded_mw"]
    return [*left, *(name for name in columns if name.endswith("_with_1_mw"))]


def _of_money(columns: dict[str, Any]) -> list[str]:
    return ["stranded_usd", *(name for name in columns if name.endswith("_with_10_musd"))]
