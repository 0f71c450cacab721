"""What a period asks of a stream: no less than any day in it."""

import numpy as np
import pytest

from planner.fleet.demand import levels_of
from planner.study.fleet import Demand, FanOut, Fleet, Ramp, Spike

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
