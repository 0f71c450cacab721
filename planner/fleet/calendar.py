"""A purchase plan as a document: node by node, its orders, what waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from planner.fleet.baselines import by_period, cash
from planner.fleet.check import at_meter
from planner.fleet.follow import Books
from planner.fleet.orders import orders
from planner.fleet.plan import Plan
from planner.fleet.problem import Asset, Deal, Problem
from simkernel.columns import Floats

MW = 1e6


def calendar(problem: Problem, plan: Plan, found: Books) -> dict[str, Any]:
    """A purchase plan node by node.

    Parameters
    ----------
    problem, plan : what was asked and decided
    found : its books
    """
    watts = at_meter(problem, plan, found)
    return {
        "chips": sorted({asset.name for asset in problem.assets}),
        "gap_frac": plan.gap_frac,
        "bound": plan.bound,
        "status": plan.status,
        "left_usd": found.mean_left_usd,
        "futures": _futures(problem, found),
        "cash_usd": by_period(problem, cash(found)),
        "caps": caps(problem),
        "periods": [_node(problem, plan, found, watts, n) for n in range(len(problem.tree))],
        "orders": sorted(orders(problem, plan), key=lambda one: float(one["order_by_week"])),
        "gates": list(_gates(problem, plan)),
    }


def _futures(problem: Problem, found: Books) -> list[dict[str, Any]]:
    """Worth today of what each future costs, the dearest first."""
    rows = [
        {"future": problem.tree.words[leaf], "chance": float(problem.tree.chance[leaf]),
         "own_npv_usd": usd}
        for leaf, usd in zip(problem.tree.leaves, found.cost_usd, strict=True)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -float(row["own_npv_usd"]))


def caps(problem: Problem) -> dict[str, Any]:
    """Limits that a chart draws beside what is used."""
    limits = problem.limits
    yearly = None if np.isnan(limits.kgco2e_per_year) else limits.kgco2e_per_year
    return {
        "site_mw": {site: watts / MW for site, watts in limits.site_w.items()},
        "kgco2e_per_year": yearly,
        "kgco2e": None if np.isnan(limits.kgco2e) else limits.kgco2e,
        "period_years": problem.horizon.years,
        "first_day": problem.horizon.day(0),
    }


def _gates(problem: Problem, plan: Plan) -> Iterator[dict[str, Any]]:
    """Periods in which something shows: what is ordered by then, and after it in each future."""
    tree = problem.tree
    placed = list(orders(problem, plan))
    parents = {int(tree.parent[n]) for n in range(1, len(tree)) if _parts(problem, n)}
    for period in sorted({int(tree.period[p]) + 1 for p in parents}):
        known = {tree.words[p] for p in parents if tree.period[p] + 1 == period}
        yield {
            "period": period,
            "observe": sorted({tree.words[n] for n in range(len(tree))
                               if tree.period[n] == period and _parts(problem, n)}),
            "decided": [o for o in placed if o["period"] < period and o["future"] in known],
            "waits": {
                tree.words[n]: [
                    o for o in placed if o["period"] >= period and o["future"] == tree.words[n]
                ]
                for n in range(len(tree)) if tree.period[n] == period
            },
        }  # fmt: skip


def _parts(problem: Problem, n: int) -> bool:
    """A node whose parent has other ways to go on too, or which tells something new."""
    parent = int(problem.tree.parent[n])
    return parent >= 0 and problem.tree.words[n] != problem.tree.words[parent]


def _node(
    problem: Problem, plan: Plan, found: Books, watts: Mapping[str, Floats], n: int
) -> dict[str, Any]:
    tree, t = problem.tree, int(problem.tree.period[n])
    before = int(tree.parent[n])
    return {
        "period": t,
        "from_year": t * problem.horizon.years,
        "from_day": problem.horizon.day(t),
        "future": tree.words[n],
        "chance": float(tree.chance[n]),
        "buy": _came(problem, plan, n, True),
        "rent": _there(problem, found.there[:, n], False),
        "owned": _there(problem, found.there[:, n], True),
        "leave": {
            f"{problem.assets[one.asset].label} "
            f"{'sold' if one.to < 0 else 'to ' + problem.assets[one.to].site}": one.units
            for one in plan.left if one.node == n
        },
        "at_work": _units(problem.assets, found.at_work[:, n]),
        "demand": {s.name: float(s.demand[n]) for s in problem.streams},
        "served": {name: float(levels[n]) for name, levels in found.served.items()},
        "runs": _runs(problem, plan, n),
        "capex_usd": float(found.capex_usd[n]),
        "running_usd": float(found.energy_usd[n] + found.holding_usd[n]),
        "rent_usd": float(found.rent_usd[n]),
        "moving_usd": float(found.moving_usd[n] - found.sold_usd[n]),
        "kgco2e": float(found.kgco2e[n]),
        "site_mw": {site: float(w[n]) / MW for site, w in watts.items()},
        "is_new": before < 0 or tree.words[n] != tree.words[before],
    }  # fmt: skip


def _came(problem: Problem, plan: Plan, n: int, is_own: bool) -> dict[str, float]:
    """Units that arrive at a node, on time or late."""
    tree = problem.tree
    found: dict[str, float] = {}
    path = tree.path(n)
    for d, deal in enumerate(problem.deals):
        asset = problem.assets[deal.asset]
        if asset.is_own != is_own:
            continue
        units = sum(float(plan.ordered[d, m]) for m in path if _arrives(problem, deal, m, path))
        if units > 0.5:
            name = asset.label if deal.name == "buy" else f"{asset.label} ({deal.name})"
            found[name] = found.get(name, 0.0) + units
    return found


def _arrives(problem: Problem, deal: Deal, ordered: int, path: Sequence[int]) -> bool:
    """An order comes at the last node of a path, and not before."""
    tree = problem.tree
    due = int(tree.period[ordered]) + deal.lead
    slips = problem.assets[deal.asset].is_own
    come = [m for m in path if tree.period[m] >= tree.period[ordered]
            and tree.period[m] >= due + (int(tree.late[m]) if slips else 0)]  # fmt: skip
    return bool(come) and come[0] == path[-1]


def _there(problem: Problem, units: Any, is_own: bool) -> dict[str, float]:
    return {
        asset.label: float(count)
        for asset, count in zip(problem.assets, units, strict=True)
        if count > 1e-6 and asset.is_own == is_own
    }


def _units(assets: Sequence[Asset], units: Any) -> dict[str, float]:
    """Units by chip and place, those there are."""
    found: dict[str, float] = {}
    for asset, count in zip(assets, units, strict=True):
        if count > 1e-6:
            name = asset.label if asset.is_own else f"{asset.label}, rented"
            found[name] = found.get(name, 0.0) + float(count)
    return found


def _runs(problem: Problem, plan: Plan, n: int) -> dict[str, str]:
    """Runs that are on at a node, and with which plan on which units."""
    tree, found = problem.tree, {}
    path = tree.path(n)
    for run in problem.runs:
        running = plan.runs[run.name]
        for o, option in enumerate(run.options):
            asset = problem.assets[option.asset]
            place = asset.label if asset.is_own else f"{asset.label}, rented"
            if running.form == "blocks":
                most = float(running.when[o, n].max())
                if most > 0.5:
                    block = f"{option.block_units:g} x {place}"
                    found[run.name] = f"{option.plan} in up to {most:g} blocks of {block}"
                continue
            since = [m for m in path if running.when[o, m] > 0.5]
            length = option.periods - 1e-9 if running.form == "begin" else 1.0
            if any(tree.period[n] - tree.period[m] < length for m in since):
                found[run.name] = f"{option.plan} on {option.units:g} x {place}"
    return found
