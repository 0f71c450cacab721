"""A purchase plan followed unit by unit, apart from the program, to see that it keeps every rule.

Nothing of `program` is used here: the same rules are written a second time, as sums over periods
that a person could do by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.fleet.problem import Asset, Option, Problem
from simkernel.columns import Floats

ROUNDING = 1e-6
"""Share by which a sum may pass its bound: solvers keep constraints to 1e-6."""


@dataclass(frozen=True)
class Books:
    """A plan by period.

    Parameters
    ----------
    owned, rented, at_work : (a, t) units
    site_w : site to power provided [W]; (t,)
    capex_usd, energy_usd, holding_usd, rent_usd : paid in each period [$]; (t,)
    kgco2e : electricity and the share of making; (t,)
    served : stream to what is served, in multiples of its options' size; (t,)
    ended : run to the period in which it ends, -1 where it never begins
    left_usd : worth today of what is left
    npv_cost_usd : worth today of all that is spent, less what is left
    """

    owned: Floats
    rented: Floats
    at_work: Floats
    site_w: dict[str, Floats]
    capex_usd: Floats
    energy_usd: Floats
    holding_usd: Floats
    rent_usd: Floats
    kgco2e: Floats
    served: dict[str, Floats]
    ended: dict[str, int]
    left_usd: float
    npv_cost_usd: float


def books(
    problem: Problem,
    bought: Floats,
    rented: Floats,
    served: dict[str, Floats],
    begun: dict[str, Floats],
) -> Books:
    """What a plan comes to, period by period.

    Parameters
    ----------
    bought, rented : (a, t) units
    served : stream to (o, t) units at work by option
    begun : run to (o, t), 1 where it begins
    """
    assets, horizon = problem.assets, problem.horizon
    periods = horizon.periods
    owned = np.array([[_owned(a, bought[i], t) for t in range(periods)]
                      for i, a in enumerate(assets)])  # fmt: skip
    uses = list(_uses(problem, served, begun))
    at_work, drawn_w = np.zeros((len(assets), periods)), np.zeros((len(assets), periods))
    for option, units in uses:
        at_work[option.asset] += units
        drawn_w[option.asset] += units * (option.mean_w - assets[option.asset].idle_w)
    hours = horizon.years * HOURS_PER_YEAR
    idle_w = np.array([a.idle_w for a in assets])[:, None]
    kwh = (drawn_w + (owned + rented) * idle_w) * hours / 1000.0
    paid_kwh = (drawn_w + owned * idle_w) * hours / 1000.0 - rented * np.array(
        [_least_w(problem, i) for i in range(len(assets))]
    )[:, None] * hours / 1000.0
    price, grid = (np.array([getattr(a, n) for a in assets])[:, None]
                   for n in ("usd_per_kwh", "kgco2e_per_kwh"))  # fmt: skip
    making = np.array([a.embodied_kgco2e / a.life_periods for a in assets])[:, None]
    buy = np.array([np.nan_to_num(a.buy_usd) for a in assets])
    rent = np.nan_to_num(np.array([a.rent_usd for a in assets]))[:, None]
    hold = np.array([a.hold_usd for a in assets])[:, None]
    capex, energy = (bought * buy).sum(0), (paid_kwh * price).sum(0)
    holding, renting = (
        (owned * hold).sum(0) * horizon.years,
        (rented * rent).sum(0) * horizon.years,
    )
    holding = holding + problem.fixed_usd * horizon.years
    left = sum(_left_usd(a, bought[i], problem) for i, a in enumerate(assets))
    cost = (capex * horizon.start_frac).sum()
    cost += ((energy + holding + renting) * horizon.during_frac).sum() - left
    return Books(
        owned=owned,
        rented=rented,
        at_work=at_work,
        site_w={s: np.array([owned[i] * a.peak_w for i, a in enumerate(assets) if a.site == s])
                .sum(0) for s in dict.fromkeys(a.site for a in assets)},
        capex_usd=capex,
        energy_usd=energy,
        holding_usd=holding,
        rent_usd=renting,
        kgco2e=(kwh * grid + (owned + rented) * making).sum(0),
        served={s.name: sum((served[s.name][o] / option.units
                             for o, option in enumerate(s.options)), np.zeros(periods))
                for s in problem.streams},
        ended={r.name: _end(r.options, begun[r.name]) for r in problem.runs},
        left_usd=float(left),
        npv_cost_usd=float(cost),
    )  # fmt: skip


def broken(problem: Problem, found: Books, bought: Floats) -> list[str]:
    """Every rule that a plan breaks, in words; nothing where it keeps them all."""
    limits = problem.limits
    faults = [*_of_supply(problem, found, bought), *_of_work(problem, found)]
    for site, watts in found.site_w.items():
        bound = limits.site_w.get(site, np.inf)
        faults += _over(f"power at {site}", watts, bound)
    faults += _over("capital of a period", found.capex_usd, limits.budget_usd)
    total = found.capex_usd.sum()
    faults += _over("capital in all", np.array([total]), limits.capex_usd)
    faults += _over("carbon in all", np.array([found.kgco2e.sum()]), limits.kgco2e)
    yearly = found.kgco2e / problem.horizon.years
    return faults + _over("carbon of a year", yearly, limits.kgco2e_per_year)


def _of_supply(problem: Problem, found: Books, bought: Floats) -> Iterator[str]:
    for a, asset in enumerate(problem.assets):
        early = [t for t in range(problem.horizon.periods) if bought[a, t] and t < asset.first]
        if early:
            yield f"{asset.name} at {asset.site} arrives in {early}, before period {asset.first}"
        if (bought[a] != np.rint(bought[a])).any() or (bought[a] < 0).any():
            yield f"{asset.name} at {asset.site} is not bought in whole units"
        there = found.owned[a] + found.rented[a]
        short = found.at_work[a] > there * (1 + ROUNDING) + ROUNDING
        if short.any():
            yield f"more {asset.name} at {asset.site} at work than there is in {_places(short)}"


def _of_work(problem: Problem, found: Books) -> Iterator[str]:
    for stream in problem.streams:
        short = found.served[stream.name] < stream.demand * (1 - ROUNDING) - ROUNDING
        if short.any():
            yield f"{stream.name} is not served whole in {_places(short)}"
    for run in problem.runs:
        end = found.ended[run.name]
        if not 0 <= end <= run.due:
            yield f"{run.name} ends in period {end}; due in {run.due}"


def _over(name: str, values: Floats, bound: Floats | float) -> list[str]:
    limit = np.where(np.isnan(bound), np.inf, bound)
    over = values > limit * (1 + ROUNDING) + ROUNDING
    return [f"{name} is over its limit in {_places(over)}"] if over.any() else []


def _places(mask: Floats) -> str:
    return ", ".join(f"period {t}" for t in np.flatnonzero(mask))


def _owned(asset: Asset, bought: Floats, t: int) -> float:
    """Units that arrived and have not reached the end of their life."""
    arrived = sum(bought[s] for s in range(t + 1) if t - s < asset.life_periods)
    return float(arrived + sum(n for left, n in asset.held.items() if t < left))


def _uses(
    problem: Problem, served: dict[str, Floats], begun: dict[str, Floats]
) -> Iterator[tuple[Option, Floats]]:
    """Each option with the units it has at work in each period."""
    for stream in problem.streams:
        for o, option in enumerate(stream.options):
            yield option, served[stream.name][o]
    for run in problem.runs:
        for o, option in enumerate(run.options):
            busy = np.zeros(problem.horizon.periods)
            for t in np.flatnonzero(begun[run.name][o] > 0.5):
                busy[t : t + option.periods] += option.units
            yield option, busy


def _end(options: Sequence[Option], begun: Floats) -> int:
    """The period in which a run ends; -1 where it does not begin exactly once."""
    places = np.argwhere(begun > 0.5)
    if len(places) != 1:
        return -1
    option, start = places[0]
    return int(start + options[int(option)].periods - 1)


def _least_w(problem: Problem, a: int) -> float:
    """Watts above rest that the rent of a unit holds: those of the option that draws least."""
    drawn = [option.mean_w for option in problem.options if option.asset == a]
    return min(drawn, default=problem.assets[a].idle_w) - problem.assets[a].idle_w


def _left_usd(asset: Asset, bought: Floats, problem: Problem) -> float:
    """Worth today of what is left of the units of an asset."""
    horizon, total = problem.horizon, 0.0
    for t, units in enumerate(bought):
        if units:
            age = min(horizon.periods - t, asset.life_periods)
            share = 1.0 - (1.0 - asset.residual_frac) * age / asset.life_periods
            when = horizon.years * (t + age)
            total += units * asset.buy_usd[t] * share / (1.0 + horizon.wacc_frac) ** when
    return total
