"""Every kind of limit of a purchase plan: that it binds, and what a whole step is worth."""

import json

import pytest
from fleet_cases import asset, buy, lot_of, problem, rent, solved

from planner.fleet.baselines import baselines
from planner.fleet.binding import binding
from planner.fleet.follow import books
from planner.fleet.problem import Option, Run
from planner.fleet.program import COST
from planner.fleet.row import CALENDAR, row_of
from planner.fleet.tree import Branch, tree_of
from planner.fleet.worth import Effort, left_over, worth_of_more
from planner.fleet.worth_words import limit_words
from planner.report.words import Say

EXACT = Effort(COST, 1e-9, 20.0)
MUSD = 1e6


def one_unit(own, usd=100.0, rented=1000.0, demand=(3.0,), **limits):
    """Units that last one period, bought for 100 or rented for 1000."""
    count = len(demand)
    deals = [buy([usd] * count, term=1), rent(rented, 1, count)]
    return problem([asset(**own), lot_of()], deals, demand, **limits)


def two_places(shares, second, usd, **limits):
    """A hundred replicas on two kinds of units, bought for one period."""
    options = [Option(f"p{i}", i, 1.0, mean_w=1000.0) for i in range(2)]
    deals = [buy([usd[0]], 0, term=1), buy([usd[1]], 1, term=1)]
    return problem([asset(clean_frac=shares[0]), asset(*second, clean_frac=shares[1])], deals,
                   [100.0], options, **limits)  # fmt: skip


def least_of_three():
    """A contract for three at least, of which two are wanted."""
    deals = [rent(100.0, 0, 1, least=3), rent(1000.0, 1, 1)]
    return problem([lot_of(), lot_of("B")], deals, [2.0])


def first_year(**deal):
    """One unit wanted for two years, which cannot be bought for the first."""
    deals = [buy([100.0] * 2, term=2, **deal), rent(1000.0, 1, 2)]
    return problem([asset(), lot_of()], deals, [1.0, 1.0])


def run_due():
    """A run of one year, due in the first, on a unit that is half the price in the second."""
    run = Run("train", 0, 0, [Option("p", 0, 1.0)])
    return problem([asset()], [buy([100.0, 50.0], term=1)], [0, 0], runs=[run])


TWO = {"s": 2e6}
KINDS = [
    # two fit and one is rented: the third saves 900
    (one_unit({"peak_w": MUSD}, site_w=TWO), "power at s", "+1 MW at s", 900.0),
    (one_unit({"it_w": MUSD}, site_it_w=TWO), "IT power at s", "+1 MW of racks at s", 900.0),
    (one_unit({"racks": 1.0}, site_racks={"s": 2.0}), "racks at s", "+1 rack at s", 900.0),
    (one_unit({}, 10 * MUSD, 100 * MUSD, capex_usd=20 * MUSD), "capex_usd", "+$10M in all",
     90 * MUSD),
    (one_unit({}, 10 * MUSD, 100 * MUSD, budget_usd=[20 * MUSD]), "budget_usd_per_period",
     "+$10M in every period", 90 * MUSD),
    # one unit less to buy
    (one_unit({}, demand=(2.0,), survive_units=2), "survive_units",
     "one unit less that may be lost", 100.0),
    (one_unit({"spare_frac": 0.5}, demand=(2.0,)), "repair_days", "no spares for repair", 100.0),
    # one of a hundred units may be of the cheaper kind
    (two_places((0.0, 1.0), ("B", "r"), (100.0, 200.0), clean_frac=0.5), "clean_frac",
     "one point less clean energy", 100.0),
    (two_places((0.0, 0.0), ("A", "r"), (100.0, 200.0), survive_site_frac=0.5),
     "survive_site_frac", "one point less served without a site", 100.0),
    (least_of_three(), "least_units of on_demand", "one unit less to take of on_demand", 100.0),
    # rented for 1000 in the first year, and half of the unit's 100 is left; against 100 in all
    (first_year(lead=1), "lead_weeks", "delivery one period sooner", 950.0),
    (first_year(first=1), "available of A", "sale one period sooner of A", 950.0),
    (run_due(), "due of train", "date one period later of train", 50.0),
]  # fmt: skip


@pytest.mark.parametrize(("one", "name", "words", "usd"), KINDS, ids=[row[1] for row in KINDS])
def test_every_kind_of_limit_binds_by_name_and_has_the_worth_of_a_step(one, name, words, usd):
    """A buyer would ask for more power where it is a contract or a date that stands in the way."""
    plan = solved(one, gap_frac=1e-9)
    kept = books(one, plan)
    told = worth_of_more(one, plan, EXACT)[words]
    assert binding(one, plan, kept) == [name]
    assert (told["limit"], told["worth"]) == (name, pytest.approx(usd, rel=1e-6))


def test_headroom_binds_where_a_replica_less_would_serve_without_it():
    """What headroom costs would be put down to demand."""
    one = one_unit({}, demand=(100.0,))
    more = problem(one.assets, one.deals, [100.0], one.streams[0].options)
    more.streams[0].__dict__["headroom_frac"] = 0.5
    plan = solved(more)
    told = worth_of_more(more, plan, EXACT)["one point less headroom of chat"]
    assert binding(more, plan, books(more, plan)) == ["headroom_frac of chat"]
    assert told["worth"] == pytest.approx(100.0)
    assert binding(one, solved(one), books(one, solved(one))) == []


def test_limits_with_room_do_not_bind_and_are_worth_nothing():
    """A buyer would be told to pay for power that the plan leaves over."""
    one = one_unit({"peak_w": MUSD, "it_w": MUSD, "racks": 1.0}, capex_usd=90 * MUSD,
                   site_w={"s": 9e6}, site_it_w={"s": 9e6}, site_racks={"s": 9.0},
                   budget_usd=[90 * MUSD])  # fmt: skip
    plan = solved(one)
    assert binding(one, plan, books(one, plan)) == []
    assert {told["worth"] for told in worth_of_more(one, plan, EXACT).values()} == {0.0}


def test_power_that_a_cap_spares_is_not_called_used():
    """A site would be called full while its units at work are held below their peak."""
    options = [Option("p", 0, 1.0, peak_w=500e3), Option("q", 1, 1.0)]
    deals = [buy([100.0], term=1), rent(1000.0, 1, 1)]
    one = problem([asset(peak_w=MUSD), lot_of()], deals, [3.0], options, site_w={"s": 3e6})
    plan = solved(one)
    left = left_over(one, plan, books(one, plan))
    assert (left["stranded_mw"], left["binding"]) == (pytest.approx(1.5), [])


def test_money_left_over_is_that_of_one_future_not_of_all_of_them():
    """A budget of which a third is left would be told as more than the whole of it."""
    tree = tree_of(2, [Branch("up", 1, 0.5, {"chat": 2.0}), Branch("flat", 1, 0.5)])
    one = one_unit({}, demand=(1.0, 2.0, 1.0), tree=tree, budget_usd=[250.0, 250.0])
    plan = solved(one)
    assert left_over(one, plan, books(one, plan))["stranded_usd"] == pytest.approx(200.0)


def test_a_limit_whose_step_is_worth_something_binds_though_a_unit_has_room():
    """The page would call a limit loose and give a price for it in the next line."""
    one = one_unit({"peak_w": MUSD}, site_w={"s": 4e6})
    worth = {"+1 MW at s": {"limit": "power at s", "worth": 5.0, "at_most": 5.0, "unit": "USD"}}
    row = row_of(one, solved(one), 0, baselines(one, EXACT), worth)
    assert json.loads(row[CALENDAR][0])["binding"] == ["power at s"]


def test_every_name_of_a_limit_is_told_in_chinese():
    """A manager would find words of the study file in the middle of a sentence."""
    say = Say("zh")
    for _, name, words, _ in KINDS:
        for told in (name, words):
            assert not set(limit_words(told, say)) & {"_"}
            assert limit_words(told, say) != told or told.startswith("+1 MW")
