"""Long programs end at their limit, with the best plan they have and how far it may be off."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fleet_cases import asset, buy, lot_of, problem, rent

from planner.documents.purchase_replay import _held_periods
from planner.fleet import apart
from planner.fleet.apart import searched_apart
from planner.fleet.check import broken
from planner.fleet.follow import books
from planner.fleet.highs import Answer
from planner.fleet.linear import Linear
from planner.fleet.plan import Running
from planner.fleet.problem import Option, Run
from planner.fleet.program import COST, Program, Slack
from planner.fleet.search import Written, searched
from planner.fleet.windows import is_long

SOON_S = 20.0
"""Beyond the limit, for a process to begin on a machine that is busy with other work."""


def long_one(periods=30):
    """Six chips that are each better at times, for months: some 400 whole numbers."""
    assets = [asset(f"A{i}", peak_w=900.0 + 70 * i, hold_usd=1.0 + i) for i in range(6)]
    deals = [buy(100.0 + 17 * np.cos(np.arange(periods) / (3 + i)) + 3 * i, place=i, term=24,
                 step=2 + i % 3) for i in range(6)]  # fmt: skip
    deals.append(rent(11.0, 6, periods))
    demand = 40 + 25 * np.sin(np.arange(periods) / 5.0) + np.arange(periods)
    return problem([*assets, lot_of()], deals, demand, wacc=0.08, years=1 / 12,
                   site_w={"s": 90_000.0})  # fmt: skip


def test_a_long_program_searched_apart_finds_what_a_short_one_finds():
    """A search in a process of its own would lose a row, and order what breaks a limit."""
    one = problem([asset(), lot_of()], [buy([10, 9, 8]), rent(4, 1, 3)], [1, 3, 2])
    program = Program(one)
    written = program._written(COST, 1.0, {"kgco2e": 1e9})
    found = searched_apart(written, 1e-6, 60.0, None)
    here = program.solve(COST, 1e-6, bounds={"kgco2e": 1e9})
    assert found.status == "optimal"
    assert found.value == pytest.approx(here.value)
    assert found.gap_frac <= 1e-6
    assert len(program.linear.row_low) == len(written.linear.row_low) - 1


@pytest.mark.long
def test_time_ends_a_long_program_with_its_best_plan_and_its_gap():
    """A buyer would wait for hours, or be shown a plan as best that is not."""
    one = long_one(45)
    program = Program(one)
    assert is_long(sum(program.linear.whole))
    begun = time.monotonic()
    plan = program.solve(COST, 1e-9, 10.0)
    assert time.monotonic() - begun <= 10.0 + SOON_S
    assert plan.status in ("feasible", "optimal")
    assert broken(one, plan, books(one, plan)) == []
    assert plan.bound <= plan.value * (1 + 1e-9)
    assert plan.gap_frac == pytest.approx(abs(plan.value - plan.bound) / plan.value, abs=1e-9)
    assert plan.gap_frac < 0.5


def test_no_time_gives_no_plan_and_says_so(monkeypatch):
    """A search that is ended before it has anything would be told as infeasible."""
    monkeypatch.setattr(apart, "GRACE_S", 0.0)
    plan = Program(long_one()).solve(COST, 1e-9, 0.0)
    assert plan.status == "no plan in time"
    assert not plan.is_there


@pytest.mark.long
def test_a_long_program_without_a_plan_is_infeasible():
    """A plan that cannot exist would be told as one that takes longer."""
    one = long_one(60)
    none = problem(one.assets[:1], one.deals[:1], one.streams[0].demand, site_w={"s": 2000.0},
                   years=1 / 12)  # fmt: skip
    more = problem([*none.assets] * 6, [*none.deals], none.streams[0].demand, years=1 / 12,
                   site_w={"s": 2000.0})  # fmt: skip
    program = Program(more)
    assert is_long(sum(program.linear.whole))
    assert program.solve(COST, 1e-6, 60.0).status == "infeasible"
    short = program.least_slack(Slack(("power at s",)), 60.0)
    most = float(none.streams[0].demand.max())
    assert short == pytest.approx(np.ceil(most / 2) * 2 * 900.0 - 2000.0)


def test_a_solution_that_breaks_a_row_is_no_start():
    """The fallback at the end of the time would be a plan that cannot be."""
    linear = Linear()
    columns = linear.columns(2, whole=True)
    linear.row({int(c): 1.0 for c in columns}, low=3.0)
    written = Written(linear, {0: 1.0, 1: 2.0}, 5.0, np.array([0, 0]))
    assert written.is_kept_by(np.array([3.0, 0.0]))
    assert not written.is_kept_by(np.array([1.0, 1.0]))
    assert not written.is_kept_by(np.array([-1.0, 4.0]))
    told: list[Answer] = []
    found = searched(written, 1e-6, 10.0, np.array([0.0, 3.0]), told.append)
    assert (told[0].value, found.value) == (11.0, 8.0)


def test_stops_take_of_the_time_that_a_run_has():
    """A run would be called in time whose stops lose more days than are left."""
    ways = [Option("t", 0, 4.0, periods=0.5, block_units=2.0)]
    one = problem([asset()], [buy([10.0, 10.0])], [0, 0],
                  runs=[Run("train", 0, 1, ways, stop_hours=2.0)])  # fmt: skip
    day = np.array([[[1.0, 2.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]]])
    blocks = SimpleNamespace(runs={"train": Running("blocks", day)})
    # 1.5 blocks of 2 in the mean, less two stops of 2 h of 24 h, over the two blocks of the run
    assert _held_periods(one, blocks, one.runs[0], 0) == pytest.approx((1.5 - 4 / 24) / 2)
    pausing = replace(one.runs[0], options=[Option("t", 0, 4.0)], stop_hours=876.0)
    paused = SimpleNamespace(runs={"train": Running("on", np.array([[0.0, 1.0]]))})
    assert _held_periods(one, paused, pausing, 0) == pytest.approx(0.9)
