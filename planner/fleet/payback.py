"""When a purchase plan has cost less than renting everything, to the month and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from costdata.tco import MONTHS_PER_YEAR
from planner.report.words import Say

EN = Say("en")


def payback_months(plan: Mapping[str, Any], rented: Mapping[str, Any]) -> float | None:
    """Months from the first day until a plan has cost less than renting everything, for good.

    Parameters
    ----------
    plan : its calendar, as stored
    rented : the baseline that rents everything

    Returns
    -------
    0 where it is never dearer; None where it never becomes cheaper, buys nothing, or where
    renting everything is no plan

    Notes
    -----
    Undiscounted, without what is left, in the mean of futures. Capital is paid as a period begins
    and all else evenly through it: what is ahead falls at once, then goes in a straight line.
    """
    capital = np.zeros(len(plan["cash_usd"]))
    for node in plan["periods"]:
        capital[node["period"]] += node["chance"] * node["capex_usd"]
    if "cash_usd" not in rented or not capital.any():
        return None
    saved = np.array(rented["cash_usd"]) - (np.array(plan["cash_usd"]) - capital)
    ahead, months = 0.0, 0.0
    for t, (paid, gain) in enumerate(zip(capital, saved, strict=True)):
        low = ahead - paid
        ahead = low + gain
        if ahead >= 0 > low:
            months = t - low / gain
        elif ahead < 0:
            months = float("nan")
    if np.isnan(months):
        return None
    return float(months * plan["caps"]["period_years"] * MONTHS_PER_YEAR)


def payback_words(document: Mapping[str, Any], say: Say = EN) -> str:
    """The same as a sentence; "" where there is no renting to compare with.

    Parameters
    ----------
    document : of a purchase plan
    """
    found = document["metrics"]
    months = found.get("payback_months")
    if not found["capex_usd"]:
        return say("fleet_unpaid_none")
    if found.get("rent_npv_usd") is None:
        return ""
    if months is None:
        return say("fleet_unpaid")
    return say("fleet_payback", months=f"{months:.0f}") if months else say("fleet_never_ahead")
