"""What a period asks of a stream: no less than any day in it."""

from types import SimpleNamespace

import numpy as np
import pytest

from planner.fleet import posed
from planner.fleet.demand import levels_of
from planner.fleet.problem import Asset, Option
from planner.study.fleet import Demand, FanOut, Fleet, Ramp, Spike
from simkernel.errors import BadStudy

YEARS = Fleet(periods=3, period_years=1.0)


def test_growth_is_served_to_the_last_day_of_a_period():
    """A service that doubles in a year would be short of half its servers when the year ends."""
    grows = Demand(level=2.0, growth_frac_per_year=1.0)
    assert levels_of(YEARS, grows) == pytest.approx([4.0, 8.0, 16.0])
    shrinks = Demand(level=2.0, growth_frac_per_year=-0.5)
    assert levels_of(YEARS, shrinks) == pytest.approx([2.0, 1.0, 0.5])


def test_a_ramp_is_served_to_its_height_in_each_period():
    """The period in which demand rises would be planned as it was before."""
    ramp = Demand(ramp=Ramp(1, 3, 3.0))
    assert levels_of(YEARS, ramp) == pytest.approx([1.0, 2.0, 3.0])


def test_what_is_given_by_the_period_stands_through_it():
    """Levels, spikes and fan-outs would be smeared into their neighbours."""
    given = Demand(levels=(1.0, 5.0, 2.0), spikes=(Spike(0, 2.0),), fan_out=FanOut(2, 4.0))
    assert levels_of(YEARS, given) == pytest.approx([2.0, 5.0, 8.0])


def test_a_period_asks_for_the_higher_of_its_halves():
    """A finer calendar would ask for other capacity at the same moment."""
    for own in (
        Demand(growth_frac_per_year=0.7),
        Demand(growth_frac_per_year=0.7, ramp=Ramp(0, 3, 0.2)),
    ):
        fine = own if own.ramp is None else Demand(growth_frac_per_year=0.7, ramp=Ramp(0, 6, 0.2))
        halves = levels_of(Fleet(periods=6, period_years=0.5), fine).reshape(3, 2)
        assert levels_of(YEARS, own) == pytest.approx(np.max(halves, axis=1), rel=1e-4)


def offer(name, devices, copy_devices, units):
    """A way to train on so many devices, whose model takes some of them."""
    return SimpleNamespace(name=name, devices=devices, copy_devices=copy_devices, units=units)


def test_a_block_is_as_many_devices_on_servers_and_on_racks():
    """A block of 72 devices would be nine racks of them where the first chip has servers of 8."""
    options = [Option("a", 0, 18.0), Option("b", 1, 2.0)]
    assets = [Asset("A", "s", devices=8.0), Asset("B", "s", devices=72.0)]
    demand = Demand(block_devices=72, due=0)
    study = SimpleNamespace(fleet=Fleet(periods=1))
    run = posed._run(study, "train", demand, options, assets)
    assert [option.block_units for option in run.options] == [9.0, 1.0]


def test_a_block_holds_whole_copies_of_the_model():
    """Half a pipeline would be called a block that trains."""
    ways = [offer("A", 64, 16, 8.0), offer("B", 64, 24, 8.0), offer("C", 32, 16, 4.0)]
    kept = posed._in_blocks("train", Demand(block_devices=48), ways)
    assert [one.name for one in kept] == ["A", "B"]
    assert posed._in_blocks("train", Demand(), ways) == ways
    with pytest.raises(BadStudy, match="a copy of the model takes 16 of 32"):
        posed._in_blocks("train", Demand(block_devices=24), ways[2:])
