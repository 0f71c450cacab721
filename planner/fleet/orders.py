"""The order list of a purchase plan: what to order by which day, at what price, for what use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from planner.fleet.plan import Plan
from planner.fleet.problem import Deal, Horizon, Problem


def orders(problem: Problem, plan: Plan) -> Iterator[dict[str, Any]]:
    """Every order by the period in which it is placed, with what it is for and when it comes.

    Returns
    -------
    "period", "order_by_week", "order_by": where it is decided, and the last moment at which it can
    be placed, in weeks from the first day and as a date; "lead_weeks" from there on; "arrives",
    "arrives_week", "arrives_on": the period in which it comes, as it begins; "until": the period
    before which it leaves;
    "unit_usd", "usd", "usd_per_year": capital of a unit and of all, rent of all; "items": what it
    is bought with, whose "usd" add up to that of the order
    """
    tree, horizon = problem.tree, problem.horizon
    for n in range(len(tree)):
        for d, deal in enumerate(problem.deals):
            units = float(plan.ordered[d, n])
            if units < 0.5:
                continue
            asset, t = problem.assets[deal.asset], int(tree.period[n])
            due = t + deal.lead
            comes = due * horizon.weeks
            weeks = _weeks(deal, horizon)
            leaves = comes - weeks
            yield {
                "period": t,
                "from_year": t * horizon.years,
                "order_by_week": leaves,
                "order_by": horizon.day(due, weeks),
                "lead_weeks": weeks,
                "how": deal.name,
                "units": units,
                "chip": asset.name,
                "site": asset.site,
                "devices": units * asset.devices,
                "arrives": due,
                "arrives_week": comes,
                "arrives_on": horizon.day(due),
                "until": min(due + deal.term, horizon.periods),
                "unit_usd": float(deal.usd[due]),
                "usd": units * float(deal.usd[due]),
                "usd_per_year": units * float(deal.usd_per_year[due]),
                "items": [
                    {
                        "item": item.name, "quantity": units * item.count, "unit": item.unit,
                        "usd": units * float(deal.usd[due]) * item.share,
                    }
                    for item in deal.items
                ],
                "future": tree.words[n],
            }  # fmt: skip


def _weeks(deal: Deal, horizon: Horizon) -> float:
    """From order to delivery; whole periods where no weeks are known."""
    return deal.lead * horizon.weeks if math.isnan(deal.lead_weeks) else deal.lead_weeks
