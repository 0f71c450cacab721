"""Purchase plans small enough to solve by hand, laws of larger ones, a second set of books."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.fleet.check import books, broken
from planner.fleet.problem import Asset, Horizon, Limits, Option, Problem, Run, Stream
from planner.fleet.program import CARBON, COST, PEAK, Program
from simkernel.errors import BadStudy

NONE = np.array([np.nan, np.nan])


def asset(usd=(100.0, 100.0), rent=np.nan, first=0, life=4, name="A", **other):
    return Asset(
        name, "s", np.array(usd), first, life, 0.0, 0.0, rent, 1000.0, 0.0, 0.0, 0.0, 0.0, **other
    )


def problem(assets, demand, options=None, wacc=0.0, runs=(), **limits):
    periods = len(demand)
    horizon = Horizon(periods, 1.0, wacc)
    options = options or [Option(f"p{i}", i, 1.0, 0.0) for i in range(len(assets))]
    budget = limits.pop("budget_usd", np.full(periods, np.nan))
    limit = Limits(limits.pop("site_w", {}), np.asarray(budget, float), **limits)
    streams = [Stream("chat", np.asarray(demand, float), options)] if max(demand) else []
    return Problem(horizon, assets, streams, runs, limit)


def solved(one, objective=COST, **given):
    found = Program(one).solve(objective, **given)
    if np.isfinite(found.value):
        kept = books(one, found.bought, found.rented, found.served, found.begun)
        assert broken(one, kept, found.bought) == []
        if objective == COST:
            assert kept.npv_cost_usd == pytest.approx(found.value, rel=1e-6, abs=1e-6)
    return found


def test_two_periods_two_options_by_hand():
    """Renting one period at 60 and buying later at 70 beats buying at 100, worth 50 at the end."""
    one = problem([asset((100, 70), rent=60.0, life=2, name="A")], [1, 1])
    found = solved(one)
    # buy now: 100, nothing left after two periods; rent then buy: 60 + 70 - 35 = 95.
    assert found.value == pytest.approx(95.0)
    assert found.bought.tolist() == [[0, 1]]
    assert found.rented.tolist() == [[1, 0]]


def test_a_unit_that_arrives_late_is_bridged_by_rent():
    """A plan would use servers before they are delivered."""
    found = solved(problem([asset((10, 10), rent=500.0, first=1)], [2, 3]))
    assert found.bought.tolist() == [[0, 3]]
    assert found.rented.tolist() == [[2, 0]]


def test_units_retire_at_the_end_of_their_life():
    """A fleet would serve for ever on what was bought once."""
    found = solved(problem([asset((10, 10, 10), life=2)], [1, 1, 1]))
    assert found.bought.sum() == 2
    assert solved(problem([asset((10, 10, 10), life=3)], [1, 1, 1])).bought.sum() == 1


def test_what_is_held_is_used_first():
    """Machines already paid for would stand idle beside new ones."""
    found = solved(problem([asset(held={1: 2.0})], [2, 2]))
    assert found.bought.tolist() == [[0, 2]]


def test_a_run_takes_its_units_for_its_periods_and_ends_in_time():
    """Serving would be promised the units that training holds."""
    run = Run("train", 0, 2, [Option("big", 0, 4.0, 0.0, 1), Option("small", 0, 1.0, 0.0, 3)])
    one = problem([asset((10, 10, 10), life=3)], [1, 1, 1], runs=[run])
    found = solved(one)
    assert found.bought.sum() == 2
    assert found.begun["train"][1].tolist() == [1, 0, 0]
    late = problem([asset((10, 10, 10), life=3)], [1, 1, 1], runs=[replace(run, due=0)])
    assert solved(late).bought.sum() == 5


def test_power_and_money_bind_together():
    """A plan would be bought that the site cannot feed."""
    watts = problem([asset()], [3, 3], site_w={"s": 2500.0})
    assert solved(watts).status == "infeasible"
    two = [asset((10, 10), name="hot"), replace(asset((50, 50), name="cool"), peak_w=500.0)]
    found = solved(problem(two, [4, 4], site_w={"s": 2500.0}))
    assert found.bought[:, 0].tolist() == [1, 3]
    poor = problem([asset((10, 10))], [3, 3], budget_usd=[20, 20])
    assert solved(poor).status == "infeasible"
    assert solved(problem([asset((10, 10))], [1, 3], budget_usd=[20, 20])).bought.sum() == 3


def test_the_front_of_cost_and_carbon_by_bounds():
    """Less carbon would come for less money on a front."""
    dirty = replace(asset((10, 10), name="d"), kgco2e_per_kwh=1.0)
    clean = replace(asset((30, 30), name="c"), kgco2e_per_kwh=0.0)
    options = [Option("d", 0, 1.0, 1000.0), Option("c", 1, 1.0, 1000.0)]
    one = problem([dirty, clean], [2, 2], options)
    program = Program(one)
    cheap, green = program.solve(COST), program.solve(CARBON)
    assert green.value == pytest.approx(0.0)
    worst = books(one, cheap.bought, cheap.rented, cheap.served, cheap.begun).kgco2e.sum()
    assert worst == pytest.approx(2 * 2 * 8760.0)
    half = program.solve(COST, bounds={CARBON: worst / 2})
    assert cheap.value < half.value < program.solve(COST, bounds={CARBON: 0.0}).value
    assert program.solve(PEAK).value == pytest.approx(2000.0)


def test_what_cannot_be_meant_is_refused_at_once():
    """A solver would say infeasible where the study is wrong."""
    run = Run("train", 0, 0, [Option("slow", 0, 1.0, 0.0, 3)])
    one = problem([asset()], [1, -1], runs=[run, Run("none", 0, 1, [])])
    with pytest.raises(BadStudy) as caught:
        Program(one)
    assert len(caught.value.faults) == 3


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=4),
    st.floats(20, 200),
    st.floats(20, 200),
    st.sampled_from([0.0, 0.1]),
)
def test_more_budget_power_or_options_is_never_worse(demand, usd, rent, wacc):
    """A larger allowance would make the best plan dearer."""
    if not any(demand):
        demand = [*demand[:-1], 1]
    first = asset([usd] * len(demand), rent=rent)
    tight = problem([first], demand, wacc=wacc, site_w={"s": 3000.0})
    loose = problem([first], demand, wacc=wacc)
    second = replace(asset([1.2 * usd] * len(demand), name="B"), peak_w=300.0)
    more = problem([first, second], demand, wacc=wacc, site_w={"s": 3000.0})
    base = solved(tight).value
    for other in (loose, more):
        assert solved(other).value <= base * (1 + 2e-4) + 1e-6


def test_splitting_a_period_in_two_changes_nothing():
    """The answer would depend on how finely the calendar is drawn."""
    one = replace(asset((100.0,), life=2), hold_usd=7.0)
    whole = Problem(
        Horizon(1, 1.0, 0.08), [one], [Stream("c", np.array([2.0]), [Option("p", 0, 1.0, 0.0)])],
        [], Limits({}, np.array([np.nan])),
    )  # fmt: skip
    halves = Problem(
        Horizon(2, 0.5, 0.08), [replace(one, buy_usd=np.array([100.0, np.nan]), life_periods=4)],
        [Stream("c", np.array([2.0, 2.0]), [Option("p", 0, 1.0, 0.0)])], [],
        Limits({}, np.array([np.nan, np.nan])),
    )  # fmt: skip
    assert solved(halves).value == pytest.approx(solved(whole).value, rel=1e-9)


def test_the_second_books_find_a_plan_that_cheats():
    """The check would pass whatever the solver says."""
    one = problem([asset()], [2, 2], site_w={"s": 1500.0})
    bought, served = np.array([[1.0, 1.0]]), {"chat": np.array([[2.0, 2.0]])}
    found = broken(one, books(one, bought, np.zeros((1, 2)), served, {}), bought)
    assert any("at work than there is" in fault for fault in found)
    assert any("power at s" in fault for fault in found)
