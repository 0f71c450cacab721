"""Rows that keep what is allowed: units there, power, floor, money, carbon, clean energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from planner.fleet.energy import Sums
from planner.fleet.linear import Linear, Tally
from planner.fleet.problem import Problem
from planner.fleet.supply import Supply
from planner.fleet.work import Work


class Bounds:
    """All rows of capacity and of limits.

    Parameters
    ----------
    problem : whose limits
    linear : program that they are written in
    supply, work, sums : columns that they bound
    """

    def __init__(
        self, problem: Problem, linear: Linear, supply: Supply, work: Work, sums: Sums
    ) -> None:
        self.problem, self.linear = problem, linear
        self.supply, self.work, self.sums = supply, work, sums
        self.peak = linear.column()
        self.some = self._working() if problem.limits.survive_units else None
        self._capacity()
        self._of_sites()
        self._money()
        self._carbon()
        self._clean()

    def _working(self) -> np.ndarray:
        """1 where an asset is at work, which must go on when some of its units are lost."""
        found = self.linear.columns(*self.supply.stock.shape, upper=1.0, whole=True)
        for use in self.work.uses:
            some, most = int(found[use.option.asset, use.node]), self.linear.upper[use.column]
            self.linear.row({use.column: 1.0, some: -max(most, 1.0)}, high=0.0)
        return found

    def _capacity(self) -> None:
        """No more at work than is there, spares and what may be lost apart."""
        for hour in range(-1, self.work.hours if self.work.has_troughs else 0):
            terms = {
                (a, n): {int(column): -1.0} for (a, n), column in np.ndenumerate(self.supply.stock)
            }
            for a, n, column, units in self.work.at_work(hour):
                own, spare = terms[a, n], 1.0 + self.problem.assets[a].spare_frac
                own[column] = own.get(column, 0.0) + units * spare
            for (a, n), own in terms.items():
                if self.some is not None:
                    own[int(self.some[a, n])] = float(self.problem.limits.survive_units)
                self.linear.row(own, high=0.0)

    def _of_sites(self) -> None:
        """Utility power, IT power and rack positions of each site; the highest power of all."""
        limits = self.problem.limits
        saved = self._saved_w()
        for n in range(len(self.problem.tree)):
            every: dict[int, float] = {}
            for site in self.problem.sites:
                own = self._site(site, n, "peak_w")
                own |= {c: -w for c, w in saved.get((site, n), {}).items()}
                every |= own
                self._bound(own, limits.site_w, site, "power at")
                self._bound(self._site(site, n, "it_w"), limits.site_it_w, site, "IT power at")
                self._bound(self._site(site, n, "racks"), limits.site_racks, site, "racks at")
            self.linear.row({**every, self.peak: -1.0}, high=0.0)

    def _bound(self, terms: dict[int, float], most: Mapping[str, float], site: str, word: str)\
            -> None:  # fmt: skip
        if site in most and terms:
            self.linear.row(terms, high=most[site], limit=f"{word} {site}")

    def _site(self, site: str, n: int, name: str) -> dict[int, float]:
        return {
            int(self.supply.stock[a, n]): getattr(asset, name)
            for a, asset in enumerate(self.problem.assets)
            if asset.site == site and asset.is_own and getattr(asset, name)
        }

    def _saved_w(self) -> dict[tuple[str, int], dict[int, float]]:
        """Power that units at work under a cap do not need; those at rest keep their full peak."""
        found: dict[tuple[str, int], dict[int, float]] = {}
        for use in self.work.uses:
            asset = self.problem.assets[use.option.asset]
            less = asset.peak_w - use.option.peak_w
            if asset.is_own and less > 0 and use.hour < 0:
                own = found.setdefault((asset.site, use.node), {})
                own[use.column] = own.get(use.column, 0.0) + less * use.units
        return found

    def _money(self) -> None:
        """Capital of each period, and of all of them, whichever way the future goes."""
        limits, tree = self.problem.limits, self.problem.tree
        for n, terms, _ in self.supply.capital.by_node():
            budget = float(limits.budget_usd[tree.period[n]])
            if np.isfinite(budget):
                self.linear.row(terms, high=budget, limit="budget_usd_per_period")
        if np.isfinite(limits.capex_usd):
            for path in self._ways():
                self._sum(self.supply.capital, path, limits.capex_usd, "capex_usd")

    def _carbon(self) -> None:
        """Carbon of all periods, and of every year."""
        limits = self.problem.limits
        if np.isfinite(limits.kgco2e):
            for path in self._ways():
                self._sum(self.sums.carbon, path, limits.kgco2e, "kgco2e")
        if np.isfinite(limits.kgco2e_per_year):
            for nodes, years in self._years():
                self._sum(self.sums.carbon, nodes, limits.kgco2e_per_year * years,
                          "kgco2e_per_year", years)  # fmt: skip

    def _clean(self) -> None:
        """The carbon-free share of every year."""
        least = self.problem.limits.clean_frac
        for nodes, _ in self._years() if np.isfinite(least) else ():
            clean, _ = self.sums.clean.at(nodes)
            kwh, _ = self.sums.kwh.at(nodes)
            terms = {column: clean.get(column, 0.0) - least * kwh[column] for column in kwh}
            self.linear.row(terms, low=0.0)

    def _sum(self, tally: Tally, nodes: dict[int, float], most: float, limit: str,
             step: float = 1.0) -> None:  # fmt: skip
        terms, fixed = tally.at(nodes)
        self.linear.row(terms, high=most - fixed, limit=limit, step=step)

    def _ways(self) -> Iterator[dict[int, float]]:
        """Nodes of every future."""
        for leaf in self.problem.tree.leaves:
            yield dict.fromkeys(self.problem.tree.path(leaf), 1.0)

    def _years(self) -> Iterator[tuple[dict[int, float], float]]:
        """Nodes of every year of every future, each once, and the years that they last."""
        tree, step = self.problem.tree, self.problem.horizon.periods_per_year
        seen = set()
        for leaf in tree.leaves:
            path = tree.path(leaf)
            for first in range(0, len(path), step):
                nodes = tuple(path[first : first + step])
                if nodes not in seen:
                    seen.add(nodes)
                    yield dict.fromkeys(nodes, 1.0), len(nodes) * self.problem.horizon.years
