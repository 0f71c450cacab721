"""Purchase plans small enough to solve by hand, laws of larger ones, a second set of books."""

from dataclasses import replace

import numpy as np
import pytest
from fleet_cases import asset, buy, lot_of, problem, rent, solved, with_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.fleet.check import broken
from planner.fleet.follow import books
from planner.fleet.problem import Option, Run, Stream
from planner.fleet.program import CARBON, COST, PEAK, Program
from planner.fleet.tree import tree_of
from planner.fleet.worth import Effort, worth_of_more
from simkernel.errors import BadStudy

EXACT = Effort(COST, 1e-7, 20.0)


def test_two_periods_two_options_by_hand():
    """Renting one period at 60 and buying later at 70 beats buying at 100, worth 50 at the end."""
    one = problem([asset(), lot_of()], [buy([100, 70], term=2), rent(60, 1, 2)], [1, 1])
    found = solved(one)
    # buy now: 100, nothing left after two periods; rent then buy: 60 + 70 - 35 = 95.
    assert found.value == pytest.approx(95.0)
    assert found.ordered.tolist() == [[0, 1], [1, 0]]


def test_two_chips_two_periods_by_hand():
    """The dearer chip that does twice as much would not be taken where the floor is small."""
    assets = [asset("small"), asset("big")]
    deals = [buy([10, 10], 0, term=2), buy([25, 25], 1, term=2)]
    options = [Option("s", 0, 1.0, serves=1.0), Option("b", 1, 1.0, serves=2.0)]
    free = solved(problem(assets, deals, [2, 4], options))
    # small: 20, then 20 - 10 left = 30; big: 25, then 25 - 12.5 left = 37.5.
    assert free.value == pytest.approx(30.0)
    tight = solved(problem(assets, deals, [2, 4], options, site_w={"s": 3000.0}))
    # three units serve four: 2 small at once, 1 big later (20 + 12.5), or big first (25 + 10).
    assert tight.value == pytest.approx(32.5)
    assert tight.ordered.tolist() == [[2, 0], [0, 1]]


def test_a_unit_that_arrives_late_is_bridged_by_rent():
    """A plan would use servers before they are delivered."""
    deals = [buy([10, 10], first=1, lead=1), rent(500, 1, 2)]
    found = solved(problem([asset(), lot_of()], deals, [2, 3]))
    assert found.ordered.tolist() == [[3, 0], [2, 0]]


def test_units_retire_at_the_end_of_their_life():
    """A fleet would serve for ever on what was bought once."""
    assert solved(problem([asset()], [buy([10] * 3, term=2)], [1, 1, 1])).ordered.sum() == 2
    assert solved(problem([asset()], [buy([10] * 3, term=3)], [1, 1, 1])).ordered.sum() == 1


def test_what_is_held_is_used_first():
    """Machines already paid for would stand idle beside new ones."""
    found = solved(problem([asset(held={1: 2.0})], [buy([100, 100])], [2, 2]))
    assert found.ordered.tolist() == [[0, 2]]


def test_a_run_takes_its_units_for_its_periods_and_ends_in_time():
    """Serving would be promised the units that training holds."""
    ways = [Option("big", 0, 4.0, periods=1.0), Option("small", 0, 1.0, periods=3.0)]
    run = Run("train", 0, 2, ways)
    one = problem([asset()], [buy([10] * 3, term=3)], [1, 1, 1], runs=[run])
    found = solved(one)
    assert found.ordered.sum() == 2
    assert found.runs["train"].when[1].tolist() == [1, 0, 0]
    late = problem([asset()], [buy([10] * 3, term=3)], [1, 1, 1], runs=[replace(run, due=0)])
    assert solved(late).ordered.sum() == 5


def test_power_and_money_bind_together():
    """A plan would be bought that the site cannot feed."""
    watts = problem([asset()], [buy([100, 100])], [3, 3], site_w={"s": 2500.0})
    assert solved(watts).status == "infeasible"
    two = [asset("hot"), asset("cool", peak_w=500.0)]
    deals = [buy([10, 10]), buy([50, 50], 1)]
    found = solved(problem(two, deals, [4, 4], site_w={"s": 2500.0}))
    assert found.ordered[:, 0].tolist() == [1, 3]
    poor = problem([asset()], [buy([10, 10])], [3, 3], budget_usd=[20, 20])
    assert solved(poor).status == "infeasible"
    enough = problem([asset()], [buy([10, 10])], [1, 3], budget_usd=[20, 20])
    assert solved(enough).ordered.sum() == 3


def two_grids(demand=(2, 2), clean_usd=30.0, **given):
    """The same chip on a dirty grid for 10, on a clean one for 30; 8.76 t a year on the dirty."""
    dirty = asset("d", "coal", kgco2e_per_kwh=1.0, usd_per_kwh=0.0)
    clean = asset("c", "wind", clean_frac=1.0)
    options = [Option("d", 0, 1.0, 1000.0), Option("c", 1, 1.0, 1000.0)]
    periods = len(demand)
    deals = [buy([10.0] * periods), buy([clean_usd] * periods, 1)]
    return problem([dirty, clean], deals, demand, options, **given)


def test_the_front_of_cost_and_carbon_by_bounds():
    """Less carbon would come for less money on a front."""
    program = Program(two_grids())
    cheap, green = program.solve(COST), program.solve(CARBON)
    assert green.value == pytest.approx(0.0)
    worst = program.figure(CARBON, cheap.columns)
    assert worst == pytest.approx(2 * 2 * 8760.0)
    half = program.solve(COST, bounds={CARBON: worst / 2})
    assert cheap.value < half.value < program.solve(COST, bounds={CARBON: 0.0}).value
    assert program.solve(PEAK).value == pytest.approx(0.002)


def test_a_least_share_of_clean_energy_is_bought():
    """A plan would call itself half clean on a dirty grid."""
    assert solved(two_grids(clean_frac=0.5)).ordered[:, 0].tolist() == [1, 1]
    assert solved(two_grids(clean_frac=0.51)).ordered[:, 0].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("limit", "kg", "words", "usd"),
    [
        # two on coal: 20 less 10 left, 17.52 t a year. Under a cap a year below it one is clean
        # from the start: 10 + 30 less 20 left
        ("kgco2e_per_year", 17e3, "+1 t CO2e a year", 10.0),
        # 35.04 t in all: one clean is bought for the second year, its 30 less three quarters left
        ("kgco2e", 34.5e3, "+1 t CO2e in all", 7.5),
    ],
)
def test_a_tonne_costs_what_it_spares(limit, kg, words, usd):
    """Carbon would have a price that no plan pays."""
    tight, loose, scarce = (two_grids(**{limit: kg + more}) for more in (0.0, 1000.0, -1000.0))
    found = solved(tight)
    assert found.value == pytest.approx(10.0 + usd)
    assert solved(loose).value == pytest.approx(10.0)
    told = worth_of_more(tight, found, EXACT)[words]
    assert (told["worth"], told["at_most"], told["unit"]) == pytest.approx((usd, usd, "USD"))
    for other in (loose, scarce):  # a tonne is less than one whole unit more on coal emits
        assert worth_of_more(other, solved(other), EXACT)[words]["worth"] == 0.0


def test_what_cannot_be_meant_is_refused_at_once():
    """A solver would say infeasible where the study is wrong."""
    run = Run("train", 0, 0, [Option("slow", 0, 1.0, periods=3.0)])
    one = problem([asset()], [buy([1, 1])], [1, -1], runs=[run, Run("none", 0, 1, [])])
    with pytest.raises(BadStudy) as caught:
        Program(one)
    assert len(caught.value.faults) == 3


@pytest.mark.long
@settings(max_examples=15)
@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=4),
    st.floats(20, 200),
    st.floats(20, 200),
    st.sampled_from([0.0, 0.1]),
)
def test_more_budget_power_or_options_is_never_worse(demand, usd, rented, wacc):
    """A larger allowance would make the best plan dearer."""
    if not any(demand):
        demand = [*demand[:-1], 1]
    count = len(demand)
    assets, deals = [asset(), lot_of()], [buy([usd] * count), rent(rented, 1, count)]
    money = np.full(count, 4 * usd)
    tight = problem(assets, deals, demand, wacc=wacc, site_w={"s": 3000.0}, budget_usd=money,
                    kgco2e=1.0)  # fmt: skip
    loose = problem(assets, deals, demand, wacc=wacc)
    cool = asset("B", peak_w=300.0)
    more = problem([*assets, cool], [*deals, buy([1.2 * usd] * count, 2)], demand, wacc=wacc,
                   site_w={"s": 3000.0}, budget_usd=money, kgco2e=1.0)  # fmt: skip
    base = solved(tight).value
    for other in (loose, more):
        assert solved(other).value <= base * (1 + 1e-5) + 1e-6


@pytest.mark.long
@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=4),
    st.floats(5, 60),
    st.floats(0.0, 0.99),
    st.sampled_from(["kgco2e", "kgco2e_per_year"]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([1e-6, 0.05, 0.5]),
)
def test_without_its_carbon_cap_a_plan_is_never_dearer(demand, usd, share, limit, wacc, gap_frac):
    """A buyer would pay for emitting more."""
    one = two_grids(demand, usd, wacc=wacc)
    free = solved(one, gap_frac=gap_frac)
    emitted = books(one, free).kgco2e
    most = {"kgco2e": emitted.sum(), "kgco2e_per_year": emitted.max()}[limit]
    capped = solved(two_grids(demand, usd, wacc=wacc, **{limit: share * most}), gap_frac=gap_frac)
    gaps = free.value - free.bound + capped.value - capped.bound
    assert free.value <= capped.value + gaps + 1e-6
    assert free.bound <= capped.value + 1e-6


def test_without_discount_worth_is_the_plain_sum():
    """A plan at no interest would cost something else than what is paid."""
    one = problem([asset(hold_usd=7.0)], [buy([100, 90, 80], term=9)], [1, 2, 3])
    found = solved(one)
    kept = books(one, found)
    paid = kept.capex_usd.sum() + kept.holding_usd.sum() + kept.energy_usd.sum()
    assert found.value == pytest.approx(paid - kept.left_usd[0])


def test_splitting_a_period_in_two_changes_nothing():
    """The answer would depend on how finely the calendar is drawn."""
    one = asset(hold_usd=7.0)
    whole = problem([one], [buy([100.0], term=2)], [2.0], wacc=0.08)
    halves = problem([one], [buy([100.0, np.nan], term=4)], [2.0, 2.0], wacc=0.08, years=0.5)
    assert solved(halves).value == pytest.approx(solved(whole).value, rel=1e-9)


def test_the_second_books_find_a_plan_that_cheats():
    """The check would pass whatever the solver says."""
    one = problem([asset()], [buy([100, 100])], [2, 2], site_w={"s": 1500.0}, capex_usd=150.0)
    found = solved(problem([asset()], [buy([100, 100])], [2, 2]))
    lazy = replace(found, ordered=np.array([[1.0, 1.0]]))
    told = " ".join(broken(one, lazy, books(one, lazy)))
    for words in ("units of A @ s at work", "power at s", "capital in all"):
        assert words in told
    idle = replace(found, replicas={"chat": np.zeros((1, 2))})
    assert "what is served of chat" in " ".join(broken(one, idle, books(one, idle)))


def test_whole_replicas_share_a_server():
    """Three times a half-server fleet would be bought as three servers, not two."""
    options = [Option("half", 0, 0.5, serves=1.0)]
    one = problem([asset()], [buy([100, 100])], [2.5, 3.0], options)
    found = solved(one)
    assert found.replicas["chat"][0].tolist() == [3, 3]
    assert found.ordered.sum() == 2


def test_headroom_spares_and_survival_add_units():
    """A fleet would miss its latencies when one machine is out of work."""
    one = problem([asset()], [buy([100])], [2.0])
    assert solved(one).ordered.sum() == 2
    assert solved(with_stream(one, headroom_frac=0.5)).ordered.sum() == 3
    assert solved(replace(one, assets=[asset(spare_frac=0.2)])).ordered.sum() == 3
    surviving = replace(one, limits=replace(one.limits, survive_units=2))
    assert solved(surviving).ordered.sum() == 4
    lost = with_stream(one, options=[Option("p", 0, 1.0, serves=0.8, serves_full=1.0, lost=1)])
    assert solved(lost).ordered.sum() == 3


def test_any_one_site_may_be_lost():
    """All of a service would stand on one site that can fail."""
    assets = [asset("A", "s"), asset("A", "r")]
    one = problem(assets, [buy([100]), buy([200], 1)], [4.0], survive_site_frac=0.5)
    assert solved(one).ordered.ravel().tolist() == [2, 2]
    assert solved(replace(one, limits=replace(one.limits, survive_site_frac=0.0))).value < 600


def test_floor_and_power_of_racks_bound_what_is_bought():
    """More racks would be bought than the hall has room, or power, for."""
    assets = [asset(racks=0.5, it_w=800.0), asset("B", racks=0.25, it_w=900.0)]
    one = problem(assets, [buy([10]), buy([20], 1)], [4.0])
    assert solved(one).ordered.ravel().tolist() == [4, 0]
    small = replace(one, limits=replace(one.limits, site_racks={"s": 1.5}))
    assert solved(small).ordered.ravel().tolist() == [2, 2]
    weak = replace(small, limits=replace(small.limits, site_it_w={"s": 3300.0}))
    assert solved(weak).status == "infeasible"


def test_units_are_sold_when_newer_ones_need_their_power():
    """Old servers would block the power of new ones for ever."""
    old = asset("old", held={9: 2.0}, kept_frac=0.0, hold_usd=5.0)
    new = asset("new")
    options = [Option("o", 0, 1.0, serves=1.0), Option("n", 1, 1.0, serves=3.0)]
    deals = [buy([10, 10], 1, first=1)]
    found = solved(problem([old, new], deals, [2, 5], options, site_w={"s": 2000.0}))
    assert [(one.units, one.node) for one in found.left] == [(2.0, 1)] or (
        [(one.units, one.node) for one in found.left] == [(1.0, 1)]
    )
    assert found.ordered.sum() in (1, 2)
    stuck = problem([replace(old, kept_frac=float("nan")), new], deals, [2, 5], options,
                    site_w={"s": 2000.0})  # fmt: skip
    assert solved(stuck).status == "infeasible"


def test_a_sale_brings_its_share_of_the_straight_line():
    """A sale would bring more than the unit is worth, or be counted twice."""
    one = problem([asset(kept_frac=0.5)], [buy([100, 100, 100], term=4)], [2, 1, 1])
    # 25 are left of each at the end; after a period half of 75 is had for one.
    assert solved(one).value == pytest.approx(200 - 25 - 37.5)
    poor = replace(one, assets=[asset(kept_frac=0.3)])
    assert solved(poor).value == pytest.approx(200 - 2 * 25)
    dear = replace(one, assets=[asset(kept_frac=0.5, hold_usd=20.0)])
    # kept: 60 of upkeep each, 25 left; sold after a period: 20 of upkeep, 37.5.
    assert solved(dear).value == pytest.approx(200 - 25 + 60 + 20 - 37.5)


def test_units_move_to_the_site_that_needs_them():
    """A unit would be bought anew beside an idle one of another site."""
    here = asset("A", "s", held={9: 1.0}, move_usd=3.0)
    there = asset("A", "r")
    at = [Option("here", 0, 1.0), Option("there", 1, 1.0)]
    one = problem([here, there], [buy([100] * 3, 1)], [1, 0, 1], at[:1])
    moved = replace(one, streams=[
        Stream("a", np.array([1.0, 0.0, 0.0]), at[:1]), Stream("b", np.array([0, 0, 1.0]), at[1:]),
    ])  # fmt: skip
    found = solved(moved)
    assert found.value == pytest.approx(3.0)
    assert [(one.node, one.to) for one in found.left] == [(1, 1)]


def test_a_contract_has_a_term_and_a_least_take():
    """A reservation would be given back when it is not needed, or taken for one server."""
    assets = [lot_of(), lot_of("B")]
    deals = [rent(10, 0, 3, term=3), rent(18, 1, 3)]
    one = problem(assets, deals, [1, 1, 0], [Option("r", 0, 1.0), Option("d", 1, 1.0)])
    assert solved(one).value == pytest.approx(30.0)  # three periods, or 36 by the period
    least = replace(one, deals=[replace(deals[0], least=2), deals[1]])
    assert solved(least).value == pytest.approx(36.0)


def test_what_is_sold_together_is_bought_whole():
    """Two thirds of a supernode would be ordered, which nobody sells."""
    deal = buy([10.0, 20.0], term=2)
    one = problem([asset(kept_frac=1.0)], [replace(deal, step=3)], [4.0, 2.0], review_periods=1)
    found = solved(one)
    # six at once; one of the two threes is sold for half its price when two are enough.
    assert found.ordered.tolist() == [[6, 0]]
    assert found.value == pytest.approx(60.0 - 15.0)
    assert [left.units for left in found.left] == [3.0]
    apart = solved(replace(one, deals=[deal]))
    assert apart.ordered.tolist() == [[4, 0]]
    cut = replace(found, ordered=found.ordered - 1.0)
    assert "sold by 3" in " ".join(broken(replace(one, deals=[replace(deal, step=3)]), cut,
                                          books(one, cut)))  # fmt: skip


def test_a_cap_lets_more_units_stand_under_the_same_power():
    """The power of capped servers would be planned as if they had no cap."""
    full, low = Option("full", 0, 1.0, peak_w=1000.0), Option("low", 0, 1.0, peak_w=600.0,
                                                              serves=0.9)  # fmt: skip
    one = problem([asset()], [buy([100])], [2.7], [full, low], site_w={"s": 2000.0})
    found = solved(one)
    assert found.replicas["chat"][:, 0].tolist() == [0, 3]
    assert solved(
        problem([asset()], [buy([100])], [2.7], [full], site_w={"s": 2000.0})
    ).status == ("infeasible")


def test_a_run_may_pause_for_a_spike():
    """Training would hold machines that a busy quarter needs, though its date is far."""
    run = Run("train", 0, 3, [Option("p", 0, 2.0, periods=2.0)], may_pause=True)
    deals = [buy([10] * 4, term=9)]
    one = problem([asset()], deals, [0, 2, 0, 0.01], runs=[run])
    found = solved(one)
    assert found.ordered.sum() == 2 or found.runs["train"].when[0].sum() >= 2
    stiff = replace(one, runs=[replace(run, may_pause=False)])
    assert found.value <= solved(stiff).value + 1e-6
    dear = replace(one, runs=[replace(run, stop_hours=0.75 * 8760.0)])
    assert solved(dear).value >= found.value - 1e-6


def test_training_fills_the_troughs_of_serving():
    """Machines would be bought for training that stand idle at night."""
    options = [Option("c", 0, 1.0)]
    ways = [Option("t", 0, 4.0, periods=0.25, block_units=2.0)]
    run = Run("train", 0, 0, ways, stop_hours=2.0)
    one = problem([asset()], [buy([10.0])], [4.0], options, runs=[run])
    by_hour = with_stream(one, by_hour=np.array([1.0, 0.5, 0.0, 0.5]))
    found = solved(by_hour)
    # of 4 servers 0, 2, 4, 2 are free: blocks 0, 1, 2, 1, one of which stops twice a day for 2 h:
    # (4 x 6 h - 2 x 2 h) of 48 h of two blocks at work, times 4, which is more than the run.
    assert found.ordered.sum() == 4
    apart = solved(replace(one, runs=[replace(run, options=[replace(ways[0], block_units=0.0)])]))
    assert apart.ordered.sum() == 8


def test_futures_share_what_is_decided_before_they_part():
    """A plan would know in advance which future comes."""
    from planner.fleet.tree import Branch

    gates = [Branch("boom", 1, 0.5, {"chat": 3.0}), Branch("bust", 1, 0.5, {"chat": 0.0})]
    tree = tree_of(2, gates)
    assert tree.words == ("", "boom", "bust")
    now = problem([asset(), lot_of()], [buy([10, 10], lead=1, first=1, term=2), rent(30, 1, 2)],
                  [0.0, 3.0, 0.0], tree=tree)  # fmt: skip
    found = solved(now)
    # ordered now, 3 x (10 - 5) whatever comes; rented where it booms, 0.5 x 3 x 30.
    assert found.value == pytest.approx(15.0)
    assert found.ordered[0].tolist() == [3, 0, 0]
    dear = replace(now, deals=[replace(now.deals[0], usd=np.array([200.0, 200.0])), now.deals[1]])
    assert solved(dear).ordered[1].tolist() == [0, 3, 0]


def test_the_worst_futures_can_be_made_to_count():
    """A plan that is cheap in the mean would be called safe."""
    from planner.fleet.problem import Risk
    from planner.fleet.tree import Branch

    gates = [Branch("boom", 1, 0.1, {"chat": 1.0}), Branch("bust", 1, 0.9, {"chat": 0.0})]
    one = problem([asset(), lot_of()], [buy([20, 20], lead=1, first=1, term=1), rent(90, 1, 2)],
                  [0.0, 1.0, 0.0], tree=tree_of(2, gates))  # fmt: skip
    assert solved(one).value == pytest.approx(9.0)  # rent in one of ten futures
    wary = solved(replace(one, risk=Risk(1.0, 0.1)))
    assert wary.ordered[0].tolist() == [1, 0, 0]
    assert wary.value == pytest.approx(20.0)


def test_late_deliveries_are_bridged_where_they_are_late():
    """A plan would count on servers in a future in which they have not come."""
    from planner.fleet.tree import Branch

    gates = [Branch("in time", 1, 0.5), Branch("late", 1, 0.5, {}, 1)]
    tree = tree_of(3, gates)
    one = problem([asset(), lot_of()], [buy([10] * 3, lead=1, first=1, term=9), rent(30, 1, 3)],
                  [0, 1, 1, 1, 1], tree=tree)  # fmt: skip
    found = solved(one)
    rented = {tree.words[n]: units for n, units in enumerate(found.ordered[1]) if units}
    assert rented == {"late": 1.0}
