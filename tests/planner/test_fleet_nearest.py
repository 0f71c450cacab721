"""Where no purchase plan exists: what is in the way, and how far it has to give."""

from dataclasses import replace

import numpy as np
import pytest
from fleet_cases import asset, buy, lot_of, problem, rent, solved, with_stream

from planner.fleet import windows
from planner.fleet.limits import named
from planner.fleet.nearest import nearest_change
from planner.fleet.problem import Option, Run
from planner.fleet.program import COST, FLOP, Program
from planner.fleet.soonest import too_soon


def lines(one):
    return {line["limit"]: line for line in nearest_change(one, 20.0)["relaxations"]}


def test_the_least_that_a_limit_has_to_give_is_found_and_proved():
    """A buyer would ask for three megawatts where one and a half are enough."""
    one = problem([asset(peak_w=1e6)], [buy([100, 100])], [2, 3], site_w={"s": 2.5e6})
    assert solved(one).status == "infeasible"
    found = lines(one)
    assert found["power at s"]["needed"] == pytest.approx(3.0)
    assert found["power at s"]["unit"] == "MW"
    assert found["demand of chat"]["needed"] == pytest.approx(2 / 3, abs=1e-4)
    enough = named(one, "power at s").moved(one, 0.5e6)
    assert solved(enough).is_there
    assert not solved(named(one, "power at s").moved(one, 0.499e6)).is_there


def test_every_kind_of_limit_has_its_relaxation():
    """A limit that is in the way would not be named."""
    one = problem([asset(racks=1.0, it_w=1e6, kgco2e_per_kwh=1.0, idle_w=1000.0)],
                  [buy([10, 10])], [2, 2], [Option("p", 0, 1.0, 1000.0)])  # fmt: skip
    cases = {
        "racks at s": ({"site_racks": {"s": 1.0}}, 2.0),
        "IT power at s": ({"site_it_w": {"s": 1.5e6}}, 2.0),
        "capex_usd": ({"capex_usd": 15.0}, 20.0),
        "budget_usd_per_period": ({"budget_usd": np.array([12.0, 0.0])}, 8.0),
        "kgco2e": ({"kgco2e": 30000.0}, 35040.0),
        "kgco2e_per_year": ({"kgco2e_per_year": 17000.0}, 17520.0),
    }
    for name, (limit, needed) in cases.items():
        tight = replace(one, limits=replace(one.limits, **limit))
        assert lines(tight)[name]["needed"] == pytest.approx(needed, rel=1e-3), name


def test_one_limit_may_not_be_enough():
    """Relaxing each by itself would be said to help where both are too tight."""
    one = problem([asset(peak_w=1e6)], [buy([100])], [4], site_w={"s": 2e6}, capex_usd=200.0)
    found = nearest_change(one, 20.0)
    by_name = {line["limit"]: line for line in found["relaxations"]}
    assert by_name["power at s"]["needed"] is None
    assert "without it no plan" in by_name["capex_usd"]["why"]
    assert found["conflict"] == ["demand of chat"]
    stiff = replace(one, streams=[], runs=[Run("t", 0, 0, [Option("p", 0, 4.0)])])
    assert nearest_change(stiff, 20.0)["together"]["change_frac"] == pytest.approx(1.0, abs=1e-3)


def test_a_date_is_put_off_to_the_first_that_can_be_kept():
    """A person would not learn that a quarter more is enough."""
    run = Run("train", 0, 1, [Option("p", 0, 2.0, periods=1.0)])
    one = problem([asset()], [buy([10] * 4, first=2, lead=2)], [0, 0, 0, 0], runs=[run])
    assert lines(one)["date of train"]["needed"] == 2


def test_what_comes_before_any_unit_can_is_named_with_its_lead_time():
    """A buyer would be told to ask for less, where a shorter delivery is what is missing."""
    run = Run("train", 0, 1, [Option("p", 0, 2.0, periods=1.0)])
    one = problem([asset()], [buy([10] * 4, lead=2)], [1, 1, 1, 1], runs=[run])
    found = nearest_change(one, 20.0)
    stream, training = found["why"]
    assert stream.startswith("chat is asked for in period 0, and no unit can be there before")
    assert "period 2 (lead_weeks, available)" in stream
    assert "train is due by the end of period 1" in training
    assert "ends in period 2 at the soonest" in training
    by_name = {line["limit"]: line for line in found["relaxations"]}
    assert by_name["lead_weeks"]["needed"] == 0
    assert "lead_weeks" in found["conflict"]
    held = replace(one, assets=[asset(held={4: 3.0})])
    assert not list(too_soon(held))
    unsold = problem([asset()], [buy([10] * 4, first=2)], [1, 1, 1, 1])
    assert "available of A" in nearest_change(unsold, 20.0)["conflict"]


def test_the_clean_share_that_can_be_had_is_told():
    """A promise of clean energy would be made that no site can keep."""
    way = [Option("p", 0, 1.0, 10.0)]
    one = problem([asset(clean_frac=0.3)], [buy([10])], [1], way, clean_frac=0.5)
    assert lines(one)["clean_frac"]["needed"] == pytest.approx(0.3, abs=1e-3)


def test_what_has_no_end_is_called_unbounded():
    """A study that earns money by buying would be answered with a number."""
    gold = replace(buy([10.0]), residual_frac=3.0, term=1)
    one = problem([asset()], [gold], [1.0])
    assert Program(one).solve(COST).status == "unbounded"
    free = problem([asset(flop_per_s=1.0)], [buy([10.0])], [0.0])
    assert Program(free).solve(FLOP).status == "unbounded"


def crowded():
    """Fourteen chips of different worth and draw under a cap, in twelve periods."""
    rng = np.random.default_rng(1)
    count, periods = 14, 12
    assets = [asset(f"A{i}", peak_w=float(p)) for i, p in enumerate(rng.integers(50, 99, count))]
    deals = [buy(rng.uniform(50, 99) * np.ones(periods), i, term=5) for i in range(count)]
    deals += [rent(90, count, periods)]
    options = [Option(f"p{i}", i, 1.0, serves=float(s))
               for i, s in enumerate(rng.uniform(0.5, 1.5, count))]  # fmt: skip
    one = problem([*assets, lot_of("R")], deals, rng.uniform(5, 40, periods), options,
                  site_w={"s": 1200.0})  # fmt: skip
    return with_stream(one, options=[*options, Option("r", count, 1.0)])


@pytest.mark.long
def test_when_time_is_up_the_best_plan_has_its_gap():
    """A plan that nobody proved would be called the best."""
    found = Program(crowded()).solve(COST, gap_frac=0.0, limit_s=0.7)
    assert found.status in ("feasible", "no plan in time")
    if found.is_there:
        assert found.bound <= found.value
        assert found.gap_frac > 0


@pytest.mark.long
def test_a_program_decided_by_windows_keeps_every_rule_and_states_its_gap(monkeypatch):
    """A plan over ten years would be wrong by more than it says, or none be found in the time."""
    one = crowded()
    whole = solved(one, gap_frac=0.1)
    monkeypatch.setattr(windows, "MOST_WHOLE", 0)
    found = solved(one, gap_frac=0.1)
    assert found.is_there
    assert found.bound <= whole.value * (1 + 1e-6)
    assert found.value >= whole.bound * (1 - 1e-6)
    assert found.gap_frac == pytest.approx(1 - found.bound / found.value, rel=1e-6)
    monkeypatch.setattr(windows, "MOST_WHOLE", 10_000)
    monkeypatch.setattr(windows, "LEAST_WHOLE", 0)
    begun = solved(one, gap_frac=0.05)
    assert begun.gap_frac <= 0.05
    assert begun.bound <= whole.value * (1 + 1e-6)
    tight = replace(one, limits=replace(one.limits, capex_usd=1.0), deals=one.deals[:-1])
    assert Program(tight).solve(COST).status == "infeasible"
