"""What is compared and not known: told before evaluation where it is certain, else after costing.

A plan without a figure for an objective cannot be on a front. Why a figure is NULL is decided
where it is computed (`costdata.nulls`, `planner.hardware.nulls`), in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from costdata.nulls import NOT_OWNED, RESERVED, Nulls, of_rows, told
from planner.metrics import SHORTFALL, find_metric
from planner.study.read import Study
from simkernel.columns import Masks
from simkernel.errors import BadStudy

UNKNOWN_OBJECTIVE = "unknown_objective"
"""What removes rows that keep every limit and have no figure of an objective."""

NO_POWER_LIMIT = "the study has no limit on power"
NO_MONEY_LIMIT = "the study has no limit on capex_usd"

OF_A_PURCHASE = (
    "own_npv_usd", "npv_usd", "breakeven_utilisation_frac", "npv_zero_utilisation_frac",
    "payback_months",
)  # fmt: skip
"""Metrics that only what is bought has."""

BY_THE_HOUR = ("breakeven_utilisation_frac", "npv_zero_utilisation_frac")
"""Metrics that a reservation does not have."""

OF_POWER = ("peak_facility_mw", "facility_peak_w", "it_peak_w", "provisioned_w")
LEFT_OF = {
    "stranded_w": (NO_POWER_LIMIT, OF_POWER),
    "stranded_mw": (NO_POWER_LIMIT, OF_POWER),
    "stranded_usd": (NO_MONEY_LIMIT, ("capex_usd",)),
}
"""Metrics that are the rest of a limit: why there is none, and the limits that have one."""

INSTEAD_OF_RENT = "give costing.rent_usd_per_device_hour, or take another metric, e.g. usd"
REMEDIES = {
    **dict.fromkeys(OF_A_PURCHASE, INSTEAD_OF_RENT),
    "own_npv_usd": 'write costing.acquire = "buy", or take another metric, e.g. usd',
    "rent_npv_usd": INSTEAD_OF_RENT,
    "water_l": "take sites whose water use is known, or another metric",
}
"""What to do about a metric that no plan has."""


def refuse_compared(study: Study, is_computed: Callable[[str], bool], where: str) -> None:
    """Every limit and objective that a kind of study lacks, or no plan has, in one error.

    Parameters
    ----------
    is_computed : for a metric, or end of a band
    where : it is not computed, in words

    Raises
    ------
    BadStudy : there is one
    """
    faults = [
        f"{place} is not computed {where}; take another metric"
        for place, name in _compared(study)
        if not ((study.targets and name == SHORTFALL.name) or is_computed(name))
    ]
    faults = faults or null_faults(study)
    if faults:
        raise BadStudy(*faults)


def limits_of_scenarios(study: Study) -> list[str]:
    """Metrics that a scenario limits."""
    return [k.removeprefix("limits.") for k in study.scenarios if k.startswith("limits.")]


def null_faults(study: Study) -> list[str]:
    """Limits and objectives that no plan of the study can have a figure for, with what to do."""
    faults = []
    for place, name in _compared(study):
        owner = find_metric(name).name
        for why, remedy in _certain(study, owner):
            faults.append(f"{place} is NULL in every plan: {why}; {remedy}")
            break
    return faults


def why_none(study: Study, columns: Mapping[str, Any], is_kept: Masks, nulls: Nulls) -> list[str]:
    """Why rows that keep every limit are not on the front: objectives without a figure.

    Parameters
    ----------
    columns : of costed rows, (m,)
    is_kept : (m,) rows that break no limit
    nulls : why metrics are NULL, by row
    """
    said = []
    for name, is_null in null_objectives(study, columns).items():
        if not np.any(is_kept & is_null):
            continue
        owner = find_metric(name).name
        reasons = told(of_rows(nulls, np.flatnonzero(is_kept & is_null)))
        why = reasons.get(name, reasons.get(owner, "no figure is known"))
        remedy = REMEDIES.get(owner, "take another objective")
        said.append(f"objective {name} is NULL: {why}; {remedy}")
    return said


def null_objectives(study: Study, columns: Mapping[str, Any]) -> dict[str, Masks]:
    """Objective to the rows that have no figure for it; (m,) each."""
    wanted = (*study.objectives.minimise, *study.objectives.maximise)
    return {name: ~np.isfinite(np.asarray(columns[name], float)) for name in wanted}


def is_known_of(study: Study, columns: Mapping[str, Any]) -> Masks:
    """Rows of which every objective is a number."""
    return ~np.any(np.stack(list(null_objectives(study, columns).values())), axis=0)


def no_price(study: Study) -> str:
    """Why there is no row at all once physics has let plans through."""
    acquire = study.costing.acquire
    price = "price_usd" if acquire == "buy" else "rent_usd_per_device_hour"
    return (
        f"no chip of these plans has a price to {acquire.replace('_', ' ')}; give "
        f"costing.{price}, or another costing.acquire"
    )


def _compared(study: Study) -> Iterator[tuple[str, str]]:
    """Every limit, target and objective by its place in the study."""
    for name in (*study.limits, *limits_of_scenarios(study)):
        yield f"limits.{name}", name
    for name in study.targets:
        yield f"targets.{name}", name
    for key in ("minimise", "maximise"):
        for name in getattr(study.objectives, key):
            yield f"objectives.{key} {name}", name


def _certain(study: Study, name: str) -> Iterator[tuple[str, str]]:
    """Why a metric is NULL whatever the plan, and what to do."""
    costing = study.costing
    if name in OF_A_PURCHASE and costing.acquire != "buy":
        yield (
            f'{NOT_OWNED} with costing.acquire = "{costing.acquire}"',
            'take others, e.g. minimise = ["usd"] with maximise = [], or write acquire = "buy"',
        )
    if name in BY_THE_HOUR and costing.rent_plan == "reserved":
        yield (
            f'{RESERVED} (costing.rent_plan = "reserved")',
            'compare npv_usd or usd, or write rent_plan = "on_demand"',
        )
    limits = {*study.limits, *limits_of_scenarios(study)}
    why, of = LEFT_OF.get(name, ("", ()))
    if why and not limits.intersection(of):
        yield f"{why}, which it is the rest of", f"give {' or '.join(of)}, or take another metric"
