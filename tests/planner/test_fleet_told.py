"""What is said of a purchase plan: its worth, payback, baselines, orders; what is known of it."""

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from fleet_cases import asset, buy, lot_of, problem, rent, solved

from planner.fleet.baselines import AT_ONCE, RENTED, baselines
from planner.fleet.document import purchase_document
from planner.fleet.follow import books
from planner.fleet.front import Front
from planner.fleet.orders import orders
from planner.fleet.payback import payback_months, payback_words
from planner.fleet.plan import Plan
from planner.fleet.problem import Horizon, Option, Risk, Run
from planner.fleet.program import COST, TAIL, Program
from planner.fleet.row import CALENDAR, FORM, row_of
from planner.fleet.tail import tail_mean
from planner.fleet.tree import Branch, tree_of
from planner.fleet.worth import Effort, gained
from planner.fleet.worth_words import worth_words
from simkernel.errors import BadFile

NAMES = ["binding", "bound", "caps", "cash_usd", "chips", "form", "futures", "gap_frac", "gates",
         "left_usd", "orders", "periods", "status", "stranded_mw", "stranded_usd"]  # fmt: skip

EXACT = Effort(COST, 1e-7, 20.0)
FUTURES = [Branch("boom", 1, 0.1, {"chat": 1.0}), Branch("bust", 1, 0.9, {"chat": 0.0})]


def risky():
    """Ordering ahead costs 20 whatever comes, renting 90 in one of ten futures."""
    deals = [buy([20, 20], lead=1, term=1), rent(90, 1, 2)]
    one = problem([asset(), lot_of()], deals, [0.0, 1.0, 0.0], tree=tree_of(2, FUTURES))
    return replace(one, risk=Risk(0.0, 0.1))


def test_the_worst_futures_are_an_objective_and_a_bound():
    """A buyer could not ask for the plan that is least bad, or for its price in the mean."""
    program = Program(risky())
    mean, wary = program.solve(COST, 1e-7), program.solve(TAIL, 1e-7)
    assert (mean.value, program.figure(TAIL, mean.columns)) == pytest.approx((9.0, 90.0))
    assert (wary.value, program.figure(COST, wary.columns)) == pytest.approx((20.0, 20.0))
    held = program.solve(COST, 1e-7, bounds={TAIL: 50.0})
    assert held.value == pytest.approx(20.0)
    kept = books(risky(), mean)
    assert tail_mean(np.array(kept.cost_usd), kept.chances, 0.1) == pytest.approx(90.0)


def test_a_front_runs_from_the_mean_to_the_worst_futures():
    """A buyer would not see what it costs in the mean to be safe in the worst."""
    program = Program(risky())
    front = Front(program, (COST, TAIL), 3, EXACT)
    plans = [front.point(i) for i in front.order]
    found = [(plan.value, program.figure(TAIL, plan.columns)) for plan in plans]
    assert found == [pytest.approx((9.0, 90.0)), *[pytest.approx((20.0, 20.0))] * 2]


def test_the_tail_takes_a_part_of_the_future_at_its_edge():
    """The mean of the worst fifth would be that of the worst tenth."""
    costs, chances = np.array([1.0, 10.0, 4.0]), np.array([0.5, 0.1, 0.4])
    assert tail_mean(costs, chances, 0.1) == pytest.approx(10.0)
    assert tail_mean(costs, chances, 0.2) == pytest.approx(7.0)
    assert tail_mean(costs, chances, 1.0) == pytest.approx(0.5 + 1.0 + 1.6)


def priced(value, bound):
    return Plan("optimal", value, bound, 0.0, np.zeros((0, 0)), (), {}, {}, np.zeros(0))


@pytest.mark.parametrize(
    ("without", "more", "words"),
    [
        ((100.0, 100.0), (90.0, 90.0), "10 $"),
        ((100.0, 99.5), (99.8, 99.3), "below the gap, at most 0.7 $"),
        ((100.0, 100.0), (100.0, 100.0), "0 $"),
        ((100.0, 99.0), (np.nan, np.nan), "no plan in time"),
    ],
)
def test_a_worth_below_the_gap_is_not_told_as_a_number(without, more, words):
    """A megawatt would be bought for what the solver left open."""
    found = {**gained(priced(*without), priced(*more), EXACT), "unit": "USD"}
    assert worth_words(found) == words


def test_buying_at_once_rents_nothing_once_it_is_delivered():
    """The plan beside would rent all of it, and be called buying at once."""
    deals = [buy([100.0] * 4, lead=1, term=8), rent(30.0, 1, 4)]
    one = problem([asset(), lot_of()], deals, [1, 2, 3, 3])
    found = baselines(one, EXACT)
    # one unit rented in period 0; three bought for period 1, 3/8 of their price used by the end
    assert found[AT_ONCE]["own_npv_usd"] == pytest.approx(30.0 + 300.0 * 3 / 8)
    assert found[AT_ONCE]["capex_usd"] == pytest.approx(300.0)
    assert found[RENTED]["own_npv_usd"] == pytest.approx(30.0 * 9)
    never = replace(one, deals=[deals[1]])
    assert baselines(never, EXACT)[AT_ONCE] == {"why": "nothing can be bought"}


def cash(capital, running):
    periods = [{"period": t, "chance": 1.0, "capex_usd": usd} for t, usd in enumerate(capital)]
    cash_usd = [a + b for a, b in zip(capital, running, strict=True)]
    return {"periods": periods, "cash_usd": cash_usd, "caps": {"period_years": 1.0}}


def test_payback_is_the_last_day_on_which_renting_is_ahead():
    """A plan that buys later would be called paid back when it has not paid yet."""
    rented = {"cash_usd": [40.0, 40.0, 40.0]}
    assert payback_months(cash([60.0, 0, 0], [0.0] * 3), rented) == pytest.approx(18.0)
    assert payback_months(cash([10.0, 60.0, 0], [0.0] * 3), rented) == pytest.approx(21.0)
    assert payback_months(cash([200.0, 0, 0], [0.0] * 3), rented) is None
    assert payback_months(cash([0.0] * 3, [40.0] * 3), rented) is None


def test_a_plan_that_rents_has_no_payback_of_nought_months():
    """Renting would be praised as paid back at once."""
    rents = {"capex_usd": 0.0, "rent_npv_usd": 1.0, "payback_months": None}
    assert "nothing is bought" in payback_words({"metrics": rents})
    buys = {**rents, "capex_usd": 9.0}
    assert "not paid back" in payback_words({"metrics": buys})


def test_an_order_has_its_last_day_and_the_price_of_a_unit():
    """A purchasing office would not know by when to sign, nor for how much each."""
    deal = replace(buy([10.0] * 4, lead=2, term=8), lead_weeks=20.0)
    one = problem([asset()], [deal], [0, 0, 3, 3], years=0.25)
    one = replace(one, horizon=Horizon(4, 0.25, 0.0, date(2027, 1, 1)))
    (order,) = orders(one, solved(one))
    assert (order["period"], order["arrives"], order["units"]) == (0, 2, 3)
    assert order["arrives_on"] == "2027-07-01"
    assert order["order_by"] == "2027-02-11"  # twenty weeks before
    odd = replace(one.horizon, first_day=date(2027, 1, 31))
    assert [odd.day(t) for t in (0, 1)] == ["2027-01-31", "2027-05-02"]  # 91 days
    assert one.horizon.day(5) == "2028-04-01"
    assert (order["lead_weeks"], order["unit_usd"], order["usd"]) == (20.0, 10.0, 30.0)


def test_a_run_goes_on_when_a_unit_is_lost():
    """Training would stand still for want of the machine that serving has in reserve."""
    run = Run("train", 0, 1, [Option("p", 0, 2.0, periods=2.0)])
    one = problem([asset()], [buy([10.0] * 2)], [0, 0], runs=[run])
    assert solved(one).ordered.sum() == 2
    safe = replace(one, limits=replace(one.limits, survive_units=1))
    assert solved(safe).ordered.sum() == 3


def test_a_plan_stored_in_another_form_is_told_so():
    """A run of last month would end in a traceback, or be read by names of now."""
    one = problem([asset(), lot_of()], [buy([20, 20], lead=1, term=1), rent(90, 1, 2)], [0.0, 1.0])
    row = row_of(one, Program(one).solve(COST, 1e-7), 0, {}, {})
    stored = json.loads(row[CALENDAR][0])
    assert (stored["form"], sorted(stored)) == (3, NAMES), "raise planner.fleet.row.FORM"
    assert purchase_document(row, 0)["calendar"] == stored["periods"]
    row[CALENDAR][0] = json.dumps({**stored, "form": FORM - 1})
    with pytest.raises(BadFile, match="run the study again"):
        purchase_document(row, 0)
