"""How many fit under the limits, which limit binds, and what more of a limit would buy.

Counts are found by bisection on the whole costing, so steps of switches and of whole racks are
seen. What more would buy is found by solving again, never by a slope.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from planner.hardware.price import AT_THE_METER, OF_THE_IT, Case, priced
from planner.metrics import find_metric, is_at_least
from simkernel.columns import Floats, Masks
from simkernel.errors import BadStudy

GROWING = frozenset(
    {
        "devices", "nodes", "supernodes", "purchase_units", "it_mean_w", "it_peak_w",
        "provisioned_w", "facility_mean_w", "facility_peak_w", "peak_facility_mw", "facility_mwh",
        "capex_usd", "usd_per_year", "usd", "own_npv_usd", "operational_kgco2e",
        "embodied_kgco2e", "kgco2e", "water_l", "fabric_tiers",
    }
)  # fmt: skip
"""Metrics that another unit never makes smaller; a limit on one of them ends a count."""

MORE_MW, MORE_USD = 1.0, 10e6
"""By how much limits are raised to see what they are worth: a megawatt, ten million dollars."""


def check_open_count(limits: Iterable[str], count: str) -> None:
    """An open count needs a limit that ends it.

    Raises
    ------
    BadStudy : no limit grows with the count
    """
    if not any(grows(name) for name in limits):
        raise BadStudy(
            f'axes.{count} = "most" without a limit that more hardware would reach; wanted e.g. '
            "limits.capex_usd = 200e6 or limits.peak_facility_mw = 10"
        )


def grows(name: str) -> bool:
    """True for a limit that every count reaches in the end."""
    if name == "fabric_tiers":
        return True
    return find_metric(name).name in GROWING and not is_at_least(name)


def most_steps(case: Case) -> Floats:
    """Whole steps of each row that no growing limit forbids; (m,), 0 where one is too many.

    Notes
    -----
    The fabric ends every count: four switch layers are not built. Limits that do not grow (a
    price of a device-hour, a least rate) are judged at the count found.
    """
    low, high = np.zeros(len(case.step)), np.ones(len(case.step))
    while True:
        fits = ~is_over(case, high)
        if not fits.any():
            break
        low, high = np.where(fits, high, low), np.where(fits, 2.0 * high, high)
    while np.any(high - low > 1.0):
        middle = np.floor((low + high) / 2.0)
        fits = ~is_over(case, np.maximum(middle, 1.0)) & (middle > low)
        low, high = np.where(fits, middle, low), np.where(fits, high, np.maximum(middle, low + 1))
    return low


def is_over(case: Case, steps: Floats) -> Masks:
    """Rows that some growing limit forbids at a number of steps; (m,)."""
    return np.asarray((_excess(case, steps * case.step) > 0).any(axis=0))


def binding(case: Case, devices: Floats) -> list[str]:
    """The limits that one more step would break, joined; "none" where all would hold."""
    names = [name for name in (*case.study.limits, "fabric_tiers") if grows(name)]
    over = _excess(case, devices + case.step) > 0
    return [
        "; ".join(sorted(n for n, is_broken in zip(names, column, strict=True) if is_broken))
        or "none"
        for column in over.T
    ]


def more(case: Case, steps: Floats) -> dict[str, Floats]:
    """What one more megawatt, and ten more million dollars, would add to each row; (m,).

    Returns
    -------
    purchase units and peak flop/s by name; NaN where the study has no such limit
    """
    found: dict[str, Floats] = {}
    unknown = np.full(len(steps), np.nan)
    for name, bounds in (("1_mw", _with_power(case)), ("10_musd", _with_money(case))):
        then = most_steps(case.limited(**bounds)) if bounds else steps
        for key in ("purchase_units", "peak_flop_per_s"):
            gain = _at(case, then, key) - _at(case, steps, key)
            found[f"more_{key}_with_{name}"] = gain if bounds else unknown
    return found


def _at(case: Case, steps: Floats, name: str) -> Floats:
    """A metric at a number of steps, 0 for none."""
    columns = priced(case, np.maximum(steps, 1.0) * case.step).columns
    return np.where(steps > 0, columns[name], 0.0)


def _with_power(case: Case) -> dict[str, float]:
    """Every limit on power, a megawatt higher."""
    watts = MORE_MW * 1e6
    limits = case.study.limits
    raised = {n: limits[n] + watts / AT_THE_METER[n] for n in AT_THE_METER if n in limits}
    return raised | {n: limits[n] + watts for n in OF_THE_IT if n in limits}


def _with_money(case: Case) -> dict[str, float]:
    limits = case.study.limits
    return {"capex_usd": limits["capex_usd"] + MORE_USD} if "capex_usd" in limits else {}


def _excess(case: Case, devices: Floats) -> Floats:
    """Excess of the growing limits; (k, m)."""
    found = priced(case, devices)
    kept = [i for i, name in enumerate(found.limits) if grows(name)]
    return found.excess[kept]
