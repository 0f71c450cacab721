"""The problem as a mixed-integer program, solved by HiGHS with its gap.

Whole units are bought and rented, whole replicas serve, runs begin in whole periods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.fleet import highs
from planner.fleet.apart import searched_apart
from planner.fleet.bounds import Bounds
from planner.fleet.energy import Sums
from planner.fleet.linear import Linear, value_of
from planner.fleet.plan import Left, Plan, Running
from planner.fleet.problem import Problem
from planner.fleet.search import Written
from planner.fleet.supply import HELD, Supply
from planner.fleet.tail import Tail
from planner.fleet.windows import is_large, is_long
from planner.fleet.work import Work
from simkernel.columns import Codes, Floats
from simkernel.errors import PlanError

COST, CARBON, PEAK, TAIL, FLOP = (
    "own_npv_usd", "kgco2e", "peak_facility_mw", "tail_npv_usd", "peak_flop_per_s",
)  # fmt: skip
"""What may be optimised: worth today of all that is spent less what is left, carbon, the highest
power of any period, the mean cost of the worst futures, what all units could do in the last
period."""

OBJECTIVES = (COST, CARBON, PEAK, TAIL, FLOP)
MW = 1e6

LEAST_GAP = 1e-6
"""At which a least relaxation is told."""


@dataclass(frozen=True)
class Slack:
    """Limits to be relaxed as little as possible; `together` by one share of each."""

    limits: tuple[str, ...]
    together: bool = False


class Program:
    """A problem written down once, to be solved for one objective after the other."""

    def __init__(self, problem: Problem) -> None:
        problem.refuse()
        self.problem, self.linear = problem, Linear()
        self.supply = Supply(problem, self.linear)
        self.work = Work(problem, self.linear)
        self.sums = Sums(problem, self.supply, self.work)
        self.bounds = Bounds(problem, self.linear, self.supply, self.work, self.sums)
        self.tail = Tail(problem, self.linear, self.sums)
        self.terms = {name: self._value_of(name) for name in OBJECTIVES}

    @property
    def limits(self) -> list[str]:
        """Names of all limits that the problem has."""
        return list(self.linear.limits)

    def solve(
        self,
        objective: str,
        gap_frac: float = 1e-4,
        limit_s: float = 60.0,
        bounds: Mapping[str, float] | None = None,
        start: Plan | None = None,
    ) -> Plan:
        """The best purchase plan.

        Parameters
        ----------
        objective : one of OBJECTIVES
        gap_frac : at which it may stop
        limit_s : after which it gives the best plan so far [s]
        bounds : upper bounds on the other objectives
        start : a plan to begin with

        Raises
        ------
        PlanError : an objective that is not one of them
        """
        for name in (objective, *(bounds or {})):
            if name not in OBJECTIVES:
                raise PlanError(f"objective {name!r}; wanted {', '.join(OBJECTIVES)}")
        sign = -1.0 if objective == FLOP else 1.0
        written = self._written(objective, sign, bounds or {})
        first = None if start is None else start.columns
        return self._plan(self._answer(written, gap_frac, limit_s, first), sign)

    def _answer(
        self, written: Written, gap_frac: float, limit_s: float, first: Floats | None
    ) -> highs.Answer:
        """The best solution in a time: of a long program searched apart, so that it is kept."""
        if is_long(written.whole_numbers):
            return searched_apart(written, gap_frac, limit_s, first)
        return highs.solved(written.model, gap_frac, limit_s, first)

    def _written(self, objective: str, sign: float, bounds: Mapping[str, float]) -> Written:
        """The program to be minimised within bounds on other objectives."""
        terms, fixed = self.terms[objective]
        linear = self.linear.again() if bounds else self.linear
        for name, bound in bounds.items():
            own, held = self.terms[name]
            linear.row(own, high=bound - held)
        least = {column: sign * value for column, value in terms.items()}
        return Written(linear, least, sign * fixed, self._when())

    def _when(self) -> Codes:
        """Period in which each column is decided, -1 for those of none; (c,)."""
        period = self.problem.tree.period
        found = np.full(len(self.linear.lower), -1, dtype=np.int64)
        for lot in self.supply.lots:
            found[lot.column] = period[lot.node] if lot.node != HELD else -1
        for one in self.supply.leavings:
            found[one.column] = period[one.node]
        by_node = [*self.work.serve.values(), *self.work.busy.values()]
        by_node += [pace.columns for pace in self.work.runs.values()]
        by_node += [] if self.bounds.some is None else [self.bounds.some]
        for columns in by_node:
            shape = (1, -1, *[1] * (columns.ndim - 2))
            found[columns] = period.reshape(shape)
        return found

    def least_slack(self, slack: Slack, limit_s: float = 60.0) -> float:
        """By how much limits have to give way until there is a plan; NaN where that is not enough.

        Parameters
        ----------
        slack : which, and whether each by itself or all by one share of their bounds

        Notes
        -----
        A program too large for one search is relaxed, so what it says may be too little.
        """
        rows: dict[int, float] = {}
        for name in slack.limits:
            for row, step in self.linear.limits[name]:
                high, low = self.linear.row_high[row], self.linear.row_low[row]
                bound = high if np.isfinite(high) else low
                rows[row] = np.sign(step) * abs(bound) if slack.together else step
        linear, column = self.linear.with_column(rows)
        written = Written(linear, {column: 1.0}, 0.0, np.append(self._when(), -1))
        if is_large(written.whole_numbers):
            linear.whole = [False] * len(linear.whole)
        return self._answer(written, LEAST_GAP, limit_s, None).value

    def _value_of(self, objective: str) -> tuple[dict[int, float], float]:
        """An objective as terms over columns, and the part that does not depend on them."""
        tree = self.problem.tree
        chances = dict(enumerate(tree.chance.tolist()))
        if objective == CARBON:
            return self.sums.carbon.at(chances)
        if objective == PEAK:
            return {self.bounds.peak: 1.0 / MW}, 0.0
        if objective == FLOP:
            stock = self.supply.stock
            return {
                int(stock[a, n]): asset.flop_per_s * chances[n]
                for a, asset in enumerate(self.problem.assets)
                for n in tree.leaves
                if asset.is_own
            }, 0.0
        if objective == TAIL:
            return self.tail.terms, self.tail.fixed
        return self._with_risk(*self.sums.cost.at(chances))

    def _with_risk(self, mean: dict[int, float], fixed: float) -> tuple[dict[int, float], float]:
        """The mean cost, and by its weight the mean of the worst futures."""
        weight = self.problem.risk.weight
        if not weight:
            return mean, fixed
        terms = {column: (1.0 - weight) * v for column, v in mean.items()}
        for column, v in self.tail.terms.items():
            terms[column] = terms.get(column, 0.0) + weight * v
        return terms, fixed * (1.0 - weight) + self.tail.fixed * weight

    def _plan(self, answer: highs.Answer, sign: float) -> Plan:
        """What a solution means."""
        found = answer.columns
        ordered = np.zeros((len(self.problem.deals), len(self.problem.tree)))
        for lot in self.supply.lots:
            if lot.deal != HELD:
                ordered[lot.deal, lot.node] = found[lot.column] * lot.step
        left = []
        for one in self.supply.leavings:
            if found[one.column] > 0.5:
                lot = self.supply.lots[one.lot]
                left.append(Left(lot.deal, lot.asset, lot.node, lot.term, one.node,
                                 float(found[one.column]) * lot.step, one.to))  # fmt: skip
        return Plan(
            status=answer.status,
            value=sign * answer.value,
            bound=sign * answer.bound,
            gap_frac=answer.gap_frac,
            ordered=ordered,
            left=tuple(left),
            replicas={name: found[columns] for name, columns in self.work.serve.items()},
            runs={name: Running(pace.form, found[pace.columns])
                  for name, pace in self.work.runs.items()},
            columns=found,
        )  # fmt: skip

    def figure(self, objective: str, columns: Floats) -> float:
        """An objective of a solution, whatever that one was solved for."""
        if objective == TAIL:
            return self.tail.of(columns)
        terms, fixed = self.terms[objective]
        return value_of(terms, columns) + fixed
