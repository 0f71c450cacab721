"""A purchase plan followed unit by unit through every future, apart from the program.

Nothing of the program is used here: the same rules are written a second time, as one would keep
books: parcels of units come, stand, work, leave and are paid for, period after period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.fleet.plan import Left, Plan
from planner.fleet.problem import Option, Problem
from simkernel.columns import Floats

HELD = -1

OF_NODES = (
    "capex_usd", "energy_usd", "holding_usd", "rent_usd", "moving_usd", "sold_usd", "kgco2e",
    "kwh", "clean_kwh",
)  # fmt: skip
"""Sums of books, one for each node."""


@dataclass(frozen=True)
class Parcel:
    """Units that stand together: of which asset, had by which deal, since and until when."""

    asset: int
    deal: int
    ordered: int
    term: int
    units: float
    came: int
    until: int
    usd: float = 0.0


@dataclass
class Books:
    """A plan by node of the calendar, and by future.

    Parameters
    ----------
    there : (a, n) units
    at_work : (a, n) units, at the peak of streams
    by_hour : (a, n, h) units at work in parts of the day
    site_w, site_it_w, site_racks : site to what has to be provided [W], [W], positions; (n,)
    capex_usd, energy_usd, holding_usd, rent_usd, moving_usd, sold_usd : of each node; (n,)
    kgco2e, kwh, clean_kwh : of each node; energy on the buyer's own floor; (n,)
    served : stream to what is served, in multiples of its options' size; (n,)
    ended : run to the period in which it ends by future, -1 where it does not
    left_usd, cost_usd : worth today by future of what is left, and of all that is spent less it
    faults : what cannot be
    """

    there: Floats
    at_work: Floats
    by_hour: Floats
    site_w: dict[str, Floats]
    site_it_w: dict[str, Floats]
    site_racks: dict[str, Floats]
    capex_usd: Floats
    energy_usd: Floats
    holding_usd: Floats
    rent_usd: Floats
    moving_usd: Floats
    sold_usd: Floats
    kgco2e: Floats
    kwh: Floats
    clean_kwh: Floats
    served: dict[str, Floats]
    ended: dict[str, list[int]] = field(default_factory=dict)
    left_usd: list[float] = field(default_factory=list)
    cost_usd: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    chances: Floats = field(default_factory=lambda: np.ones(1))
    seen: set[int] = field(default_factory=set)

    @property
    def npv_cost_usd(self) -> float:
        """Worth today of all that is spent, in the mean of the futures."""
        return float(np.dot(self.cost_usd, self.chances))

    @property
    def mean_left_usd(self) -> float:
        """Worth today of what is left, in the mean of the futures."""
        return float(np.dot(self.left_usd, self.chances))

    def mean(self, values: Floats, tree_chance: Floats) -> float:
        """Of a figure of nodes, over all periods."""
        return float(np.dot(values, tree_chance))


def books(problem: Problem, plan: Plan) -> Books:
    """What a plan comes to, period by period, whichever way the future goes.

    Parameters
    ----------
    problem : what is planned
    plan : what was decided
    """
    found = _empty(problem)
    for option, units, share, hour in _uses(problem, plan):
        found.by_hour[option.asset] += _in_hours(units, hour, found.by_hour.shape[2])
        _draw(problem, found, option, units * share)
    _serve(problem, plan, found)
    for leaf in problem.tree.leaves:
        _follow(problem, plan, found, problem.tree.path(leaf))
    _of_sites(problem, found)
    found.chances = problem.tree.chance[problem.tree.leaves]
    for run in problem.runs:
        found.ended[run.name] = [
            _end(problem, plan, run.name, problem.tree.path(leaf)) for leaf in problem.tree.leaves
        ]
    return found


def _empty(problem: Problem) -> Books:
    nodes, assets = len(problem.tree), len(problem.assets)
    hours = max([len(s.by_hour) for s in problem.streams], default=1)
    by_site = [{site: np.zeros(nodes) for site in problem.sites} for _ in range(3)]
    flat: dict[str, Any] = {name: np.zeros(nodes) for name in OF_NODES}
    return Books(
        there=np.zeros((assets, nodes)),
        at_work=np.zeros((assets, nodes)),
        by_hour=np.zeros((assets, nodes, hours)),
        site_w=by_site[0],
        site_it_w=by_site[1],
        site_racks=by_site[2],
        served={},
        **flat,
    )


def _uses(problem: Problem, plan: Plan) -> Iterator[tuple[Option, Floats, Floats, int]]:
    """Options of runs with the units at work by node, the share of a period, part of the day."""
    tree = problem.tree
    for run in problem.runs:
        running = plan.runs[run.name]
        for o, option in enumerate(run.options):
            when = running.when[o]
            if running.form == "blocks":
                for h in range(when.shape[1]):
                    share = np.full(len(tree), 1.0 / when.shape[1])
                    yield option, when[:, h] * option.block_units, share, h
            elif running.form == "on":
                yield option, when * option.units, np.ones(len(tree)), -1
            else:
                for n in np.flatnonzero(when > 0.5):
                    gone = tree.period - tree.period[n]
                    is_on = np.array([n in tree.path(m) for m in range(len(tree))])
                    is_on &= gone < option.periods - 1e-9
                    share = np.clip(option.periods - gone, 0.0, 1.0)
                    yield option, is_on * option.units, share, -1


def _in_hours(units: Floats, hour: int, hours: int) -> Floats:
    found = np.zeros((len(units), hours))
    found[:, slice(None) if hour < 0 else hour] = units[:, None] if hour < 0 else units
    return found


def _draw(problem: Problem, found: Books, option: Option, units: Floats) -> None:
    """Energy above rest of units at work, its price and its carbon."""
    asset, horizon = problem.assets[option.asset], problem.horizon
    kwh = units * (option.mean_w - asset.idle_w) * horizon.years * HOURS_PER_YEAR / 1000.0
    _spend(found, asset.is_own, kwh, asset.usd_per_kwh, asset.kgco2e_per_kwh, asset.clean_frac)


def _spend(
    found: Books, is_own: bool, kwh: Floats, usd: float, kgco2e: float, clean: float
) -> None:
    found.energy_usd += kwh * usd
    found.kgco2e += kwh * kgco2e
    if is_own:
        found.kwh += kwh
        found.clean_kwh += kwh * clean


def _serve(problem: Problem, plan: Plan, found: Books) -> None:
    """Replicas of every stream: what they serve, hold and draw."""
    for run in problem.runs:
        running = plan.runs[run.name]
        if running.form != "blocks":
            for option, units, _, _ in _uses(replace(problem, runs=[run]), plan):
                found.at_work[option.asset] += units
    for stream in problem.streams:
        served = np.zeros(len(problem.tree))
        for o, option in enumerate(stream.options):
            replicas = plan.replicas[stream.name][o]
            found.at_work[option.asset] += replicas * option.units
            shares = np.broadcast_to(stream.by_hour, found.by_hour.shape[2])
            awake = np.ceil(replicas[:, None] * shares - 1e-6)
            found.by_hour[option.asset] += awake * option.units
            _draw(problem, found, option, replicas * option.units)
            left = np.maximum(replicas - option.lost, 0.0)
            full = left * option.serves_full if option.lost else np.inf
            served += np.minimum(replicas * option.serves, full)
        found.served[stream.name] = served


def _follow(problem: Problem, plan: Plan, found: Books, path: list[int]) -> None:
    """One future: what stands in each period, what is paid for it, what is left at the end."""
    horizon = problem.horizon
    start, during = horizon.start_frac, horizon.during_frac
    parcels = [
        Parcel(a, HELD, HELD, left, units, 0, left)
        for a, asset in enumerate(problem.assets)
        for left, units in asset.held.items()
    ]
    waiting: list[tuple[int, int, int, float]] = []
    cost = left_usd = 0.0
    for t, node in enumerate(path):
        waiting += [
            (d, node, t + deal.lead, float(plan.ordered[d, node]))
            for d, deal in enumerate(problem.deals)
            if plan.ordered[d, node] > 0
        ]
        came = [w for w in waiting if w[2] + _late(problem, w[0], node) <= t]
        waiting = [w for w in waiting if w not in came]
        arrived = [_parcel(problem, w, t) for w in came]
        ended = [p for p in parcels if p.until <= t]
        left_usd += sum(_book(problem, p, p.until) for p in ended) * float(start[t])
        parcels = [p for p in parcels if p.until > t] + arrived
        found.capex_usd[node] = sum(p.usd * p.units for p in arrived)
        gone = [one for one in plan.left if one.node == node]
        sold, moved = _leave(problem, found, parcels, gone, t)
        found.sold_usd[node], found.moving_usd[node] = sold, moved
        _stand(problem, found, parcels, node, t)
        cost += (found.capex_usd[node] + moved - sold) * float(start[t])
        running = found.holding_usd[node] + found.rent_usd[node] + found.energy_usd[node]
        cost += running * float(during[t])
    end = horizon.periods
    rest = sum(_book(problem, p, min(p.until, end)) for p in parcels)
    left_usd += rest * horizon.worth(end)
    if any(w[3] for w in waiting):
        found.faults.append("units are ordered that do not come before the end")
    found.left_usd.append(left_usd)
    found.cost_usd.append(cost - left_usd)


def _late(problem: Problem, d: int, node: int) -> int:
    """Periods that a delivery to the buyer's floor is late."""
    is_own = problem.assets[problem.deals[d].asset].is_own
    return int(problem.tree.late[node]) if is_own else 0


def _parcel(problem: Problem, order: tuple[int, int, int, float], t: int) -> Parcel:
    d, node, due, units = order
    deal = problem.deals[d]
    usd = float(deal.usd[due]) if deal.is_had(due, problem.horizon.periods) else np.nan
    return Parcel(deal.asset, d, node, deal.term, units, t, t + deal.term, usd)


def _book(problem: Problem, parcel: Parcel, t: int) -> float:
    """What bought units are worth at some time: a straight line to the residual."""
    if parcel.deal == HELD or problem.deals[parcel.deal].name != "buy":
        return 0.0
    lost = (1.0 - problem.deals[parcel.deal].residual_frac) * (t - parcel.came) / parcel.term
    return parcel.units * parcel.usd * (1.0 - lost)


def _leave(
    problem: Problem, found: Books, parcels: list[Parcel], gone: list[Left], t: int
) -> tuple[float, float]:
    """Take what leaves out of its parcel; returns what sales bring and moves cost [$]."""
    sold = moved = 0.0
    for one in gone:
        lot = (one.deal, one.asset, one.ordered, one.term)
        same = [
            i
            for i, p in enumerate(parcels)
            if (p.deal, p.asset, p.ordered, p.term) == lot and p.units >= one.units - 1e-6
        ]
        place = same[0] if same else -1
        if place < 0:
            found.faults.append(f"more leave of {problem.assets[one.asset].label} than there are")
            continue
        parcel = parcels[place]
        parcels[place] = replace(parcel, units=parcel.units - one.units)
        leaving = replace(parcel, units=one.units)
        if one.to == HELD:
            sold += problem.assets[one.asset].kept_frac * _book(problem, leaving, t)
        else:
            moved += one.units * problem.assets[one.asset].move_usd
            parcels.append(replace(leaving, asset=one.to, ordered=-2 - t))
    return sold, moved


def _stand(problem: Problem, found: Books, parcels: list[Parcel], node: int, t: int) -> None:
    """Count what stands at a node, and charge its upkeep, rent, rest and making."""
    there, rent = np.zeros(len(problem.assets)), 0.0
    for parcel in parcels:
        is_on_its_way = parcel.ordered <= -2 and t < -2 - parcel.ordered + problem.move_periods
        there[parcel.asset] += 0.0 if is_on_its_way else parcel.units
        if parcel.deal != HELD:
            rent += parcel.units * _yearly_usd(problem, parcel)
    if node in found.seen:  # another future has been here, and added what stands
        if not np.allclose(found.there[:, node], there):
            found.faults.append(f"node {node} holds other units in another future")
        return
    found.seen.add(node)
    years = problem.horizon.years
    found.there[:, node], found.rent_usd[node] = there, rent * years
    hours = years * HOURS_PER_YEAR
    for a, asset in enumerate(problem.assets):
        kwh = np.zeros(len(problem.tree))
        kwh[node] = there[a] * asset.idle_w * hours / 1000.0
        _spend(found, asset.is_own, kwh, asset.usd_per_kwh, asset.kgco2e_per_kwh, asset.clean_frac)
        found.kgco2e[node] += there[a] * asset.embodied_kgco2e / asset.life_periods
        found.holding_usd[node] += there[a] * asset.hold_usd * years
    found.holding_usd[node] += problem.fixed_usd * years


def _yearly_usd(problem: Problem, parcel: Parcel) -> float:
    """Rent of a unit for a year, at the price of the day on which it was due."""
    deal = problem.deals[parcel.deal]
    if parcel.ordered < 0:  # moved: bought, and not rented
        return 0.0
    return float(deal.usd_per_year[int(problem.tree.period[parcel.ordered]) + deal.lead])


def _of_sites(problem: Problem, found: Books) -> None:
    """Power, IT power and positions of each site; units at work under a cap need less."""
    for a, asset in enumerate(problem.assets):
        if asset.is_own:
            found.site_w[asset.site] += found.there[a] * asset.peak_w
            found.site_it_w[asset.site] += found.there[a] * asset.it_w
            found.site_racks[asset.site] += found.there[a] * asset.racks


def _end(problem: Problem, plan: Plan, name: str, path: list[int]) -> int:
    """The period in which a run ends in one future; -1 where it is not done."""
    (run,) = (r for r in problem.runs if r.name == name)
    running, done = plan.runs[name], 0.0
    when = running.when[:, path]
    if running.form == "begin":
        places = np.argwhere(when > 0.5)
        if len(places) != 1:
            return -1
        o, t = places[0]
        return int(t + np.ceil(run.options[int(o)].periods - 1e-9) - 1)
    hours = problem.horizon.years * HOURS_PER_YEAR
    for t in range(len(path)):
        for o, option in enumerate(run.options):
            if running.form == "on":
                was = when[o, t - 1] > 0.5 if t else False
                if when[o, t] > 0.5:
                    lost = 0.0 if was else run.stop_hours / hours
                    done += (1.0 - lost) / option.periods
            else:
                blocks = when[o, t]
                stops = np.maximum(blocks - np.roll(blocks, -1), 0.0).sum()
                share = blocks.mean() - stops * run.stop_hours / 24.0
                done += share * option.block_units / option.units / option.periods
        if done >= 1.0 - 1e-6:
            return t
    return -1
