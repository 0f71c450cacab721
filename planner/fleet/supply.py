"""Units as they come and go: every order is a lot, with the nodes where its units stand.

A lot may be late in one future and not in another, leaves at the end of its term, and before it
by a sale or a move. What is ordered before futures part comes in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.fleet.linear import Linear, Tally
from planner.fleet.problem import Deal, Problem
from simkernel.columns import Codes

HELD = -1
"""Deal, and node of order, of units that are there from the start."""


@dataclass(frozen=True)
class Lot:
    """Units ordered at once, in steps that are sold together.

    Parameters
    ----------
    deal, asset : their places; HELD for what is there already
    node : where it is ordered, HELD for before the first
    due : period in which it is due
    column : of the program
    came : node where it stands, to the period in which it came there
    term : periods that it stays
    step : units of one of the column
    """

    deal: int
    asset: int
    node: int
    due: int
    column: int
    came: dict[int, int]
    term: int
    step: int = 1


@dataclass(frozen=True)
class Leaving:
    """Units of a lot that are sold, or moved to another site's asset (`to`), at a node."""

    lot: int
    node: int
    to: int
    column: int


class Supply:
    """Columns and rows of what is ordered, what is there and what leaves.

    Parameters
    ----------
    problem : whose units
    linear : program that they are written in
    """

    def __init__(self, problem: Problem, linear: Linear) -> None:
        self.problem, self.linear = problem, linear
        shape = len(problem.assets), len(problem.tree)
        self.stock: Codes = linear.columns(*shape)
        self.lots = [*self._held(), *self._orders()]
        self.leavings = list(self._leavings())
        self.capital, self.cost = Tally(), Tally()
        self._write_stock()
        self._write_leavings()
        for lot in self.lots:
            if lot.deal != HELD:
                self._price(lot)
        for one in self.leavings:
            self._price_leaving(one)

    def _held(self) -> Iterator[Lot]:
        periods = self.problem.tree.period
        for a, asset in enumerate(self.problem.assets):
            for left, units in asset.held.items():
                column = self.linear.column()
                self.linear.fix(column, units)
                came = {int(n): 0 for n in np.flatnonzero(periods < left)}
                yield Lot(HELD, a, HELD, 0, column, came, left)

    def _orders(self) -> Iterator[Lot]:
        tree, horizon = self.problem.tree, self.problem.horizon
        for d, deal in enumerate(self.problem.deals):
            for node in range(len(tree)):
                due = int(tree.period[node]) + deal.lead
                came = self._came(node, due, deal)
                if not came or not deal.is_had(due, horizon.periods):
                    continue
                column = self.linear.column(whole=True)
                if deal.least > 1:
                    self._at_least(column, deal)
                yield Lot(d, deal.asset, node, due, column, came, deal.term, deal.step)

    def _at_least(self, column: int, deal: Deal) -> None:
        """None of a deal, or at least so many units."""
        some, most = self.linear.column(upper=1.0, whole=True), MOST_UNITS
        self.linear.row({column: float(deal.step), some: -float(deal.least)}, low=0.0)
        self.linear.row({column: 1.0, some: -most}, high=0.0)

    def _came(self, node: int, due: int, deal: Deal) -> dict[int, int]:
        """Nodes where an order stands, and since when; what a lessor has there is not late."""
        tree = self.problem.tree
        slips = int(self.problem.assets[deal.asset].is_own)
        since: dict[int, int] = {}
        for other in tree.after(node):
            period, before = int(tree.period[other]), since.get(int(tree.parent[other]))
            if before is not None:
                since[other] = before
            elif period >= due + slips * int(tree.late[other]):
                since[other] = period
        return {n: t for n, t in since.items() if tree.period[n] < t + deal.term}

    def _leavings(self) -> Iterator[Leaving]:
        tree, review = self.problem.tree, self.problem.review_periods
        for place, lot in enumerate(self.lots):
            is_kept = lot.deal != HELD and self.problem.deals[lot.deal].name != "buy"
            if is_kept or not self.problem.assets[lot.asset].is_own:
                continue
            ways = list(self._ways_out(lot))
            for node, since in lot.came.items():
                if tree.period[node] % review or (lot.deal != HELD and tree.period[node] == since):
                    continue
                for to in ways:
                    yield Leaving(place, node, to, self.linear.column(whole=True))

    def _ways_out(self, lot: Lot) -> Iterator[int]:
        """To nowhere, where units are sold; to the same kind elsewhere, where they are moved."""
        own = self.problem.assets[lot.asset]
        if np.isfinite(own.kept_frac):
            yield HELD
        if np.isfinite(own.move_usd):
            for a, asset in enumerate(self.problem.assets):
                if asset.name == own.name and asset.is_own and a != lot.asset:
                    yield a

    def _write_stock(self) -> None:
        """What is there is what came, less what left, and what was moved in."""
        terms = {(a, n): {int(self.stock[a, n]): 1.0} for a, n in np.ndindex(*self.stock.shape)}
        for lot in self.lots:
            for node in lot.came:
                terms[lot.asset, node][lot.column] = -float(lot.step)
        for one in self.leavings:
            lot = self.lots[one.lot]
            for node in self._gone(one):
                terms[lot.asset, node][one.column] = float(lot.step)
            for node in self._there(one):
                terms[one.to, node][one.column] = -float(lot.step)
        for own in terms.values():
            self.linear.row(own, low=0.0, high=0.0)

    def _gone(self, one: Leaving) -> list[int]:
        came = self.lots[one.lot].came
        return [n for n in self.problem.tree.after(one.node) if n in came]

    def _there(self, one: Leaving) -> list[int]:
        """Nodes at which moved units work again."""
        if one.to == HELD:
            return []
        tree = self.problem.tree
        back = int(tree.period[one.node]) + self.problem.move_periods
        return [n for n in self._gone(one) if tree.period[n] >= back]

    def _write_leavings(self) -> None:
        """On no way through the tree does more of a lot leave than there was."""
        tree = self.problem.tree
        by_lot: dict[int, list[Leaving]] = {}
        for one in self.leavings:
            by_lot.setdefault(one.lot, []).append(one)
        for place, own in by_lot.items():
            for leaf in tree.leaves:
                path = set(tree.path(leaf))
                terms = {one.column: 1.0 for one in own if one.node in path}
                self.linear.row({**terms, self.lots[place].column: -1.0}, high=0.0)

    def _price(self, lot: Lot) -> None:
        """Paid as it comes, each year that it stays, and what is left of it at the end."""
        horizon, deal = self.problem.horizon, self.problem.deals[lot.deal]
        during = horizon.during_frac * horizon.years
        usd = float(deal.usd[lot.due]) * lot.step
        yearly = float(deal.usd_per_year[lot.due]) * lot.step
        for node, since in lot.came.items():
            t = int(self.problem.tree.period[node])
            if t == since:
                self.capital.add(node, lot.column, usd)
                self.cost.add(node, lot.column, usd * horizon.worth(t))
            self.cost.add(node, lot.column, yearly * float(during[t]))
            self.cost.add(node, lot.column, -self._left_usd(lot, node))

    def _left_usd(self, lot: Lot, node: int) -> float:
        """Worth today of what is left of one of the column after its last node; 0 at all others.

        Notes
        -----
        A straight line from the price to the residual over the term; the residual is received
        when the term ends.

        References
        ----------
        Salvage of a life that outlasts the horizon: REopt.jl, `salvage_value`.
        """
        horizon, since = self.problem.horizon, lot.came[node]
        end = min(since + lot.term, horizon.periods)
        if int(self.problem.tree.period[node]) + 1 != end or lot.deal == HELD:
            return 0.0
        return self._book_usd(lot, end - since) * horizon.worth(end)

    def _book_usd(self, lot: Lot, age: int) -> float:
        """Worth at some age of the units that one of the column stands for."""
        if lot.deal == HELD:
            return 0.0
        deal = self.problem.deals[lot.deal]
        share = 1.0 - (1.0 - deal.residual_frac) * age / lot.term
        return float(deal.usd[lot.due]) * lot.step * share if deal.name == "buy" else 0.0

    def _price_leaving(self, one: Leaving) -> None:
        """What a sale brings instead of what would be left; what a move costs."""
        horizon, lot = self.problem.horizon, self.lots[one.lot]
        asset, t = self.problem.assets[lot.asset], int(self.problem.tree.period[one.node])
        if one.to != HELD:
            usd = asset.move_usd * lot.step * horizon.worth(t)
            self.cost.add(one.node, one.column, usd)
            return
        brings = asset.kept_frac * self._book_usd(lot, t - lot.came[one.node])
        self.cost.add(one.node, one.column, -brings * horizon.worth(t))
        for node in self._gone(one):
            self.cost.add(node, one.column, self._left_usd(lot, node))


MOST_UNITS = 1e5
"""Of one order: more servers than any site of today holds."""
