"""A purchase plan of one period: whole units by hand, and what the sweep of hardware says."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from small import ROOT

from planner.fleet import study as fleet
from planner.fleet.follow import books
from planner.fleet.limits import with_limits
from planner.fleet.posed import problem_of, ways_to
from planner.fleet.program import FLOP, Program
from planner.fleet.worth import Effort, left_over, worth_of_more
from planner.hardware import study as hardware
from planner.runs.kinds import prepare
from planner.runs.total import Total
from planner.study.read import read_study
from planner.study.supply import EnergySource
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy

EXACT = Effort(FLOP, 1e-7, 60.0)


def posed_of(study, catalog):
    """Hardware alone as a problem."""
    return problem_of(study, catalog, ways_to(study, catalog, {}))


@pytest.fixture(scope="module")
def study():
    return read_study(ROOT / "studies" / "buy_in_one_period.toml", catalogue_names())


@pytest.fixture(scope="module")
def catalog(study):
    return prepare(study).catalog


@pytest.fixture(scope="module")
def alone(study, catalog):
    """The problem of one chip under a budget; a chip is looked up once, its prices are all-in."""
    found = {}

    def posed(chip, capex_usd):
        if chip not in found:
            axes = MappingProxyType({**study.axes, "accelerator": (chip,)})
            found[chip] = posed_of(replace(study, axes=axes), catalog)
        return with_limits(found[chip], capex_usd=capex_usd)

    return posed


BY_HAND = [
    # chip, budget, units, devices, EFLOP/s, IT kW, what binds, units of +1 MW and of +$10M
    ("H100-SXM", 200e6, 625, 5000, 4.95, 7013, "capex_usd", 0, 31),
    ("GB200", 200e6, 51, 3672, 9.18, 6732, "capex_usd", 0, 2),
    ("H100-SXM", 300e6, 713, 5704, 5.64, 8000, "power at us-tx", 71, 0),
    ("GB200", 300e6, 60, 4320, 10.80, 7920, "power at us-tx", 6, 0),
]


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: f"{case[0]}, {case[1]:.0e} USD")
def test_a_plan_of_one_period_is_what_one_computes_by_hand(alone, case):
    """A buyer would order parts of a server, or not know that money, and not power, ends it."""
    chip, usd, units, devices, exaflops, it_kw, binds, with_mw, with_usd = case
    problem = alone(chip, usd)
    plan = Program(problem).solve(FLOP, EXACT.gap_frac)
    kept = books(problem, plan)
    assert plan.ordered.sum() == units
    assert units * problem.assets[0].devices == devices
    assert plan.value / 1e18 == pytest.approx(exaflops, abs=0.006)
    assert kept.site_w["us-tx"][0] / 1.25e3 == pytest.approx(it_kw, abs=1)
    left = left_over(problem, plan, kept)
    assert left["binding"] == [binds]
    assert left["stranded_mw"] == pytest.approx(10 - units * problem.assets[0].peak_w / 1e6)
    assert left["stranded_usd"] == pytest.approx(usd - units * problem.deals[0].usd[0])
    worth = worth_of_more(problem, plan, EXACT)
    assert {name: one["units"] for name, one in worth.items()} == {
        "+1 MW at us-tx": with_mw, "+$10M in all": with_usd,
    }  # fmt: skip
    each = plan.value / units
    assert worth["+$10M in all"]["worth"] == pytest.approx(with_usd * each, rel=1e-9, abs=1.0)


@pytest.mark.long
def test_a_plan_of_one_period_is_the_best_row_of_the_static_sweep(alone):
    """Two parts of the planner would buy different clusters with the same money."""
    static = read_study(ROOT / "studies" / "buy_under_power.toml", catalogue_names())
    engine, total = hardware.prepare(static), Total()
    for result in hardware.sweep(engine, 1, lambda: False):
        total.add(result)
    rows = hardware.cost(static, engine.catalog, total.physical()).columns
    for i, chip in enumerate(rows["accelerator"]):
        usd = float(rows["limits_capex_usd"][i])
        plan = Program(alone(str(chip), usd)).solve(FLOP, 1e-7)
        assert plan.ordered.sum() == rows["purchase_units"][i]
        assert plan.value == pytest.approx(float(rows["peak_flop_per_s"][i]), rel=1e-9)
    assert len(rows["accelerator"]) == 4


def test_a_mix_of_whole_units_beats_one_kind(study, catalog):
    """Money that buys no rack would be left over, though it buys servers."""
    problem = posed_of(study, catalog)
    plan = Program(problem).solve(FLOP, 1e-7)
    bought = {problem.assets[d.asset].name: plan.ordered[i].sum()
              for i, d in enumerate(problem.deals)}  # fmt: skip
    assert bought == {"GB200": 51, "H100-SXM": 3}  # 198.9 and 0.96 of 200 M$
    assert np.isfinite(plan.bound)


@pytest.mark.long
def test_units_of_hardware_alone_draw_what_they_draw_at_work(study, catalog):
    """A carbon limit would pass that is broken three times over: idle watts all year."""
    axes = MappingProxyType({**study.axes, "accelerator": ("H100-SXM",)})
    pin = MappingProxyType({"unit_w.H100-SXM": 10_000.0, "network_overhead_frac": 0.0})
    costing = replace(study.costing, pue=1.25, utilisation_frac=1.0)
    chip = replace(study, axes=axes, pin=pin, costing=costing)
    (asset,) = posed_of(chip, catalog).assets
    assert asset.idle_w == pytest.approx(12_500.0, rel=1e-9)
    half = replace(chip, costing=replace(costing, utilisation_frac=0.5))
    (less,) = posed_of(half, catalog).assets
    assert 6_250.0 < less.idle_w < 12_500.0


NONE = [{"site_mw": {"us-tx": 0.001}}, {"lead_weeks": 110.0}]


@pytest.mark.parametrize("table", NONE, ids=lambda table: next(iter(table)))
def test_a_plan_that_buys_nothing_is_no_plan(study, catalog, table):
    """No arithmetic at all would be called the most that the limits allow."""
    none = replace(study, fleet=replace(study.fleet, **table))
    engine = fleet.prepare(none, catalog)
    (result,) = fleet.sweep(engine, 1, lambda: False)
    assert not result.front
    assert dict(result.rejected) == {fleet.NOTHING: 1}
    assert fleet.nearest(engine)["why"] == [fleet.NOTHING]


def test_a_plant_behind_the_meter_is_refused(study, catalog):
    """What it saves would be left out of the cost in silence."""
    plant = EnergySource("roof", 1.0, 0.05, "solar", behind_the_meter=True)
    costing = replace(study.costing, sources=(plant,))
    with pytest.raises(BadStudy, match=r"behind the meter.*wanted a contract"):
        fleet.prepare(replace(study, costing=costing), catalog)
