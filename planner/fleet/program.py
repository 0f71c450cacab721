"""The problem as a mixed-integer program, solved by HiGHS with its gap.

Whole units are bought and rented, runs begin in whole periods; a stream is shared out freely.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import highspy
import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.fleet.problem import Asset, Horizon, Option, Problem
from simkernel.columns import Floats
from simkernel.errors import PlanError

KILO = 1000.0

COST, CARBON, PEAK = "npv_cost_usd", "kgco2e", "peak_w"
"""What may be minimised: worth today of all that is spent less what is left, carbon, the highest
power of any period."""


@dataclass(frozen=True)
class Solved:
    """A purchase plan.

    Parameters
    ----------
    status : "optimal", "feasible" (time was up), "infeasible" or "unbounded"
    value, bound, gap_frac : of the objective; the bound is proved
    bought, rented : (a, t) units by asset and period
    served : stream to (o, t) units by option
    begun : run to (o, t), 1 where it begins with an option
    """

    status: str
    value: float
    bound: float
    gap_frac: float
    bought: Floats
    rented: Floats
    served: Mapping[str, Floats]
    begun: Mapping[str, Floats]


@dataclass
class _Rows:
    """Columns and rows of a program as they are written down."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    row_low: list[float] = field(default_factory=list)
    row_high: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def columns(self, *shape: int, upper: float = np.inf, whole: bool = False) -> np.ndarray:
        """New columns in a shape, their places; from 0 to `upper`."""
        count = int(np.prod(shape))
        first = len(self.lower)
        self.lower += [0.0] * count
        self.upper += [upper] * count
        self.whole += [whole] * count
        return np.arange(first, first + count).reshape(shape)

    def row(self, terms: Mapping[int, float], low: float = -np.inf, high: float = np.inf) -> None:
        """Low <= sum of terms <= high."""
        self.starts.append(len(self.places))
        self.places += list(terms)
        self.values += list(terms.values())
        self.row_low.append(low)
        self.row_high.append(high)


class Program:
    """A problem written down once, to be solved for one objective after the other."""

    def __init__(self, problem: Problem) -> None:
        problem.refuse()
        self.problem, self.rows = problem, _Rows()
        assets, periods = len(problem.assets), problem.horizon.periods
        self.buy = self.rows.columns(assets, periods, whole=True)
        self.rent = self.rows.columns(assets, periods, whole=True)
        self.serve = {s.name: self.rows.columns(len(s.options), periods) for s in problem.streams}
        self.begin = {
            r.name: self.rows.columns(len(r.options), periods, upper=1.0, whole=True)
            for r in problem.runs
        }
        self.peak = int(self.rows.columns(1)[0])
        self._supply()
        self._capacity()
        self._demand()
        self._limits()

    def solve(
        self, objective: str, gap_frac: float = 1e-4, limit_s: float = 60.0,
        bounds: Mapping[str, float] | None = None,
    ) -> Solved:  # fmt: skip
        """The best purchase plan.

        Parameters
        ----------
        objective : COST, CARBON or PEAK
        gap_frac : at which it may stop
        limit_s : after which it gives the best plan so far [s]
        bounds : upper bounds on the other objectives

        Raises
        ------
        PlanError : an objective that is not one of them
        """
        engine = self._engine(objective, bounds or {})
        engine.setOptionValue("mip_rel_gap", gap_frac)
        engine.setOptionValue("time_limit", limit_s)
        engine.run()
        return self._answer(engine)

    def value_of(self, objective: str) -> tuple[dict[int, float], float]:
        """An objective as terms over columns, and the part that does not depend on them."""
        if objective == PEAK:
            return {self.peak: 1.0}, 0.0
        if objective == COST:
            return self._cost()
        if objective == CARBON:
            return self._carbon()
        raise PlanError(f"objective {objective!r}; wanted {COST}, {CARBON} or {PEAK}")

    # What is there.

    def _supply(self) -> None:
        for a, asset in enumerate(self.problem.assets):
            for t in range(self.problem.horizon.periods):
                if t < asset.first or not np.isfinite(asset.buy_usd[t]):
                    self.rows.upper[self.buy[a, t]] = 0.0
                if not np.isfinite(asset.rent_usd):
                    self.rows.upper[self.rent[a, t]] = 0.0

    def _owned(self, a: int, t: int) -> tuple[dict[int, float], float]:
        """Units owned in a period: terms, and those held from before."""
        asset = self.problem.assets[a]
        oldest = max(0, t - asset.life_periods + 1)
        held = sum(units for left, units in asset.held.items() if t < left)
        return {int(self.buy[a, since]): 1.0 for since in range(oldest, t + 1)}, held

    def _working(self, a: int, t: int) -> dict[int, float]:
        """Units at work in a period, by the columns that put them to work."""
        found: dict[int, float] = {}
        for stream in self.problem.streams:
            for o, option in enumerate(stream.options):
                if option.asset == a:
                    found[int(self.serve[stream.name][o, t])] = 1.0
        for run in self.problem.runs:
            for o, option in enumerate(run.options):
                if option.asset == a:
                    for since in range(max(0, t - option.periods + 1), t + 1):
                        found[int(self.begin[run.name][o, since])] = option.units
        return found

    def _capacity(self) -> None:
        """No more at work than is owned or rented."""
        for a in range(len(self.problem.assets)):
            for t in range(self.problem.horizon.periods):
                owned, held = self._owned(a, t)
                terms = {**self._working(a, t), int(self.rent[a, t]): -1.0}
                terms |= {column: -value for column, value in owned.items()}
                self.rows.row(terms, high=held)

    def _demand(self) -> None:
        """Every stream is served in every period, every run begins once and ends in time."""
        for stream in self.problem.streams:
            for t in range(self.problem.horizon.periods):
                terms = {
                    int(self.serve[stream.name][o, t]): 1.0 / option.units
                    for o, option in enumerate(stream.options)
                }
                self.rows.row(terms, low=float(stream.demand[t]))
        for run in self.problem.runs:
            allowed = {}
            for o, option in enumerate(run.options):
                for t in range(self.problem.horizon.periods):
                    column = int(self.begin[run.name][o, t])
                    if run.start <= t <= run.due - option.periods + 1:
                        allowed[column] = 1.0
                    else:
                        self.rows.upper[column] = 0.0
            self.rows.row(allowed, low=1.0, high=1.0)

    def _limits(self) -> None:
        limits, horizon = self.problem.limits, self.problem.horizon
        for t in range(horizon.periods):
            for site in dict.fromkeys(asset.site for asset in self.problem.assets):
                terms, held_w = self._site_w(site, t)
                bound = limits.site_w.get(site, np.inf)
                if np.isfinite(bound):
                    self.rows.row(terms, high=bound - held_w)
            terms, held_w = self._all_w(t)
            self.rows.row({**terms, self.peak: -1.0}, high=-held_w)
            if np.isfinite(limits.budget_usd[t]):
                self.rows.row(self._capital(t), high=float(limits.budget_usd[t]))
        if np.isfinite(limits.capex_usd):
            every: dict[int, float] = {}
            for t in range(horizon.periods):
                every |= self._capital(t)
            self.rows.row(every, high=limits.capex_usd)
        if np.isfinite(limits.kgco2e):
            terms, fixed = self._carbon()
            self.rows.row(terms, high=limits.kgco2e - fixed)
        if np.isfinite(limits.kgco2e_per_year):
            for t in range(horizon.periods):
                terms, fixed = self._carbon_of(t)
                self.rows.row(terms, high=limits.kgco2e_per_year * horizon.years - fixed)

    def _site_w(self, site: str, t: int) -> tuple[dict[int, float], float]:
        """Power to provide at a site in a period: of all units owned there, at work or not."""
        terms: dict[int, float] = {}
        fixed = 0.0
        for a, asset in enumerate(self.problem.assets):
            if asset.site == site:
                owned, held = self._owned(a, t)
                terms |= {column: asset.peak_w for column in owned}
                fixed += held * asset.peak_w
        return terms, fixed

    def _all_w(self, t: int) -> tuple[dict[int, float], float]:
        terms: dict[int, float] = {}
        fixed = 0.0
        for site in dict.fromkeys(asset.site for asset in self.problem.assets):
            own, held_w = self._site_w(site, t)
            terms |= own
            fixed += held_w
        return terms, fixed

    def _capital(self, t: int) -> dict[int, float]:
        return {
            int(self.buy[a, t]): float(asset.buy_usd[t])
            for a, asset in enumerate(self.problem.assets)
            if np.isfinite(asset.buy_usd[t])
        }

    # What it comes to.

    def _kwh(self, t: int) -> dict[int, tuple[dict[int, float], float]]:
        """Energy of a period by asset: units at work at their own watts, the rest owned idle."""
        hours = self.problem.horizon.years * HOURS_PER_YEAR / KILO
        found = {}
        for a, asset in enumerate(self.problem.assets):
            owned, held = self._owned(a, t)
            terms = {column: asset.idle_w * hours for column in owned}
            for column, units, option in self._uses(a, t):
                more = units * (option.mean_w - asset.idle_w) * hours
                terms[column] = terms.get(column, 0.0) + more
            terms[int(self.rent[a, t])] = asset.idle_w * hours
            found[a] = terms, held * asset.idle_w * hours
        return found

    def _uses(self, a: int, t: int) -> list[tuple[int, float, Option]]:
        """Columns that put units of an asset to work in a period, with units and option."""
        found = []
        for stream in self.problem.streams:
            for o, option in enumerate(stream.options):
                if option.asset == a:
                    found.append((int(self.serve[stream.name][o, t]), 1.0, option))
        for run in self.problem.runs:
            for o, option in enumerate(run.options):
                if option.asset == a:
                    for since in range(max(0, t - option.periods + 1), t + 1):
                        column = int(self.begin[run.name][o, since])
                        found.append((column, option.units, option))
        return found

    def _cost(self) -> tuple[dict[int, float], float]:
        """Worth today of capital, holding, energy and rent, less what is left at the end."""
        horizon = self.problem.horizon
        terms: dict[int, float] = {}
        fixed = 0.0
        for t in range(horizon.periods):
            during = float(horizon.during_frac[t]) * horizon.years
            fixed += self.problem.fixed_usd * during
            for column, usd in self._capital(t).items():
                _add(terms, column, usd * float(horizon.start_frac[t]))
            for a, (kwh, held_kwh) in self._kwh(t).items():
                asset = self.problem.assets[a]
                price = asset.usd_per_kwh * float(horizon.during_frac[t])
                for column, value in kwh.items():
                    if column != int(self.rent[a, t]):
                        _add(terms, column, value * price)
                owned, held = self._owned(a, t)
                for column in owned:
                    _add(terms, column, asset.hold_usd * during)
                fixed += held_kwh * price + held * asset.hold_usd * during
                if np.isfinite(asset.rent_usd):
                    rent = asset.rent_usd * during - self._drawn_by_rented(a) * price
                    _add(terms, int(self.rent[a, t]), rent)
                if np.isfinite(asset.buy_usd[t]):
                    left = -float(asset.buy_usd[t]) * left_frac(asset, t, horizon)
                    _add(terms, int(self.buy[a, t]), left)
        return terms, fixed

    def _drawn_by_rented(self, a: int) -> float:
        """Energy of a rented unit at work above rest in a period, which its rent holds [kWh].

        Work is charged with its energy wherever it is done, so it is given back here: of the
        option that draws least, so that cost is never understated.
        """
        asset, hours = self.problem.assets[a], self.problem.horizon.years * HOURS_PER_YEAR
        options = [option.mean_w for option in self.problem.options if option.asset == a]
        return (min(options, default=asset.idle_w) - asset.idle_w) * hours / KILO

    def _carbon(self) -> tuple[dict[int, float], float]:
        terms: dict[int, float] = {}
        fixed = 0.0
        for t in range(self.problem.horizon.periods):
            own, held = self._carbon_of(t)
            for column, value in own.items():
                _add(terms, column, value)
            fixed += held
        return terms, fixed

    def _carbon_of(self, t: int) -> tuple[dict[int, float], float]:
        """Carbon of a period: electricity of what is owned and rented, the share of making."""
        terms: dict[int, float] = {}
        fixed = 0.0
        for a, (kwh, held_kwh) in self._kwh(t).items():
            asset = self.problem.assets[a]
            for column, value in kwh.items():
                _add(terms, column, value * asset.kgco2e_per_kwh)
            making = asset.embodied_kgco2e / asset.life_periods
            owned, held = self._owned(a, t)
            for column in (*owned, int(self.rent[a, t])):
                _add(terms, column, making)
            fixed += held_kwh * asset.kgco2e_per_kwh + held * making
        return terms, fixed

    # Solving.

    def _engine(self, objective: str, bounds: Mapping[str, float]) -> highspy.Highs:
        rows = self.rows
        terms, fixed = self.value_of(objective)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(rows.lower), len(rows.row_low)
        cost = np.zeros(lp.num_col_)
        cost[list(terms)] = list(terms.values())
        lp.col_cost_, lp.offset_ = cost, fixed
        lp.col_lower_, lp.col_upper_ = np.array(rows.lower), np.array(rows.upper)
        lp.row_lower_, lp.row_upper_ = np.array(rows.row_low), np.array(rows.row_high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array([*rows.starts, len(rows.places)])
        lp.a_matrix_.index_, lp.a_matrix_.value_ = np.array(rows.places), np.array(rows.values)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[is_whole] for is_whole in rows.whole]
        engine = _engine()
        engine.setOptionValue("output_flag", False)
        engine.passModel(lp)
        for name, bound in bounds.items():
            own, held = self.value_of(name)
            places = np.array(list(own), dtype=np.int32)
            values = np.array(list(own.values()))
            engine.addRow(-np.inf, bound - held, len(places), places, values)
        return engine

    def _answer(self, engine: highspy.Highs) -> Solved:
        status, info = engine.getModelStatus(), engine.getInfo()
        names = {
            highspy.HighsModelStatus.kOptimal: "optimal",
            highspy.HighsModelStatus.kInfeasible: "infeasible",
            highspy.HighsModelStatus.kUnbounded: "unbounded",
            highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",
        }
        has_plan = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        word = names.get(status, "feasible" if has_plan else "no plan in time")
        found = np.array(engine.getSolution().col_value)
        if not has_plan or len(found) != len(self.rows.lower):
            found = np.full(len(self.rows.lower), np.nan)
        whole = np.array(self.rows.whole)
        found[whole] = np.rint(found[whole])
        return Solved(
            status=word,
            value=float(info.objective_function_value) if has_plan else np.nan,
            bound=float(info.mip_dual_bound),
            gap_frac=float(info.mip_gap),
            bought=found[self.buy],
            rented=found[self.rent],
            served={name: found[columns] for name, columns in self.serve.items()},
            begun={name: found[columns] for name, columns in self.begin.items()},
        )


def left_frac(asset: Asset, since: int, horizon: Horizon) -> float:
    """What is left of the price of a unit, worth today: at its end, or at the horizon's.

    Notes
    -----
    A straight line from the price to the residual over the life; the residual is received when
    the life ends.

    References
    ----------
    Salvage of a life that outlasts the horizon: REopt.jl, `salvage_value`.
    """
    ends = since + asset.life_periods
    worth_end = float((1.0 + horizon.wacc_frac) ** (-horizon.years * min(ends, horizon.periods)))
    if ends <= horizon.periods:
        return asset.residual_frac * worth_end
    aged = (horizon.periods - since) / asset.life_periods
    return (1.0 - (1.0 - asset.residual_frac) * aged) * worth_end


def _add(terms: dict[int, float], column: int, value: float) -> None:
    terms[column] = terms.get(column, 0.0) + value


def _engine() -> highspy.Highs:
    """A solver that says nothing: its constructor prints a banner that no option turns off."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        return highspy.Highs()  # type: ignore[no-untyped-call]
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
