"""Purchase problems small enough to solve by hand."""

from dataclasses import replace

import numpy as np
import pytest

from planner.fleet.check import broken
from planner.fleet.follow import books
from planner.fleet.problem import Asset, Deal, Horizon, Limits, Option, Problem, Stream
from planner.fleet.program import COST, Program
from planner.fleet.tree import tree_of


def asset(name="A", site="s", peak_w=1000.0, **other):
    return Asset(name, site, peak_w=peak_w, **other)


def buy(usd, place=0, first=0, term=4, **other):
    usd = np.array(usd, float)
    return Deal("buy", place, usd, np.zeros(len(usd)), first=first, term=term, **other)


def rent(usd, place, periods, **other):
    return Deal("on_demand", place, np.zeros(periods), np.full(periods, float(usd)), **other)


def lot_of(name="A", **other):
    """The floor of a lessor beside a site."""
    return Asset(name, "s", is_own=False, **other)


def problem(assets, deals, demand, options=None, wacc=0.0, runs=(), tree=None, years=1.0, **given):
    tree = tree or tree_of(len(demand))
    periods = int(tree.period.max()) + 1
    options = options or [Option(f"p{i}", i, 1.0) for i in range(len(assets))]
    budget = given.pop("budget_usd", np.full(periods, np.nan))
    own = {n: given.pop(n) for n in ("risk", "review_periods", "fixed_usd") if n in given}
    limits = Limits(given.pop("site_w", {}), np.asarray(budget, float), **given)
    streams = [Stream("chat", np.asarray(demand, float), options)] if max(demand) else []
    return Problem(
        Horizon(periods, years, wacc), tree, assets, deals, streams, list(runs), limits, **own
    )


def with_stream(one, **other):
    """The problem with its stream changed."""
    return replace(one, streams=[replace(one.streams[0], **other)])


def solved(one, objective=COST, gap_frac=1e-6, **given):
    """The plan of a problem, after its books have passed it."""
    program = Program(one)
    found = program.solve(objective, gap_frac=gap_frac, **given)
    if found.is_there:
        kept = books(one, found)
        assert broken(one, found, kept) == []
        if objective == COST and not one.risk.weight:
            assert kept.npv_cost_usd == pytest.approx(found.value, rel=1e-6, abs=1e-5)
        carbon = program.figure("kgco2e", found.columns)
        assert kept.mean(kept.kgco2e, one.tree.chance) == pytest.approx(carbon, abs=1e-5)
    return found
