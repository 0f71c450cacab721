"""What units draw, emit and cost from node to node, as sums over columns."""

from __future__ import annotations

import numpy as np

from costdata.energy_bill import W_PER_KW
from costdata.tco import HOURS_PER_YEAR
from planner.fleet.linear import Tally
from planner.fleet.problem import Problem
from planner.fleet.supply import Supply
from planner.fleet.work import Use, Work


class Sums:
    """Tallies of energy, carbon and cost; what stands idle draws its watts at rest.

    Parameters
    ----------
    problem : whose units
    supply, work : their columns
    """

    def __init__(self, problem: Problem, supply: Supply, work: Work) -> None:
        self.problem = problem
        self.hours = problem.horizon.years * HOURS_PER_YEAR
        self.clean, self.kwh, self.carbon, self.cost = Tally(), Tally(), Tally(), supply.cost
        for a, n in np.ndindex(*supply.stock.shape):
            self._of_stock(a, n, int(supply.stock[a, n]))
        for use in work.uses:
            self._of_use(use)
        for n, t in enumerate(problem.tree.period):
            usd = problem.fixed_usd * self._during(int(t)) * problem.horizon.years
            self.cost.fixed[n] = self.cost.fixed.get(n, 0.0) + usd

    def _during(self, t: int) -> float:
        return float(self.problem.horizon.during_frac[t])

    def _of_stock(self, a: int, n: int, column: int) -> None:
        asset, t = self.problem.assets[a], int(self.problem.tree.period[n])
        self._draw(a, n, column, asset.idle_w)
        years = self.problem.horizon.years
        self.cost.add(n, column, asset.hold_usd * years * self._during(t))
        made = asset.embodied_kgco2e / asset.life_periods
        self.carbon.add(n, column, made)

    def _of_use(self, use: Use) -> None:
        asset = self.problem.assets[use.option.asset]
        watts = use.units * use.share * (use.option.mean_w - asset.idle_w)
        self._draw(use.option.asset, use.node, use.column, watts)

    def _draw(self, a: int, n: int, column: int, watts: float) -> None:
        """Energy of some watts through a period, its price and its carbon."""
        asset, t = self.problem.assets[a], int(self.problem.tree.period[n])
        kwh = watts * self.hours / W_PER_KW
        if asset.is_own:
            self.kwh.add(n, column, kwh)
            self.clean.add(n, column, kwh * asset.clean_frac)
        self.carbon.add(n, column, kwh * asset.kgco2e_per_kwh)
        self.cost.add(n, column, kwh * asset.usd_per_kwh * self._during(t))
