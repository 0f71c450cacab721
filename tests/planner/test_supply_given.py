"""Contracts and hourly tariffs of a study that would change nothing, or too much."""

from dataclasses import replace

import pytest

from planner.costing.terms import supply_given
from planner.study.parts import Costing, EnergySource
from simkernel.errors import BadStudy

SOLAR = EnergySource(name="solar", mw=3.0, usd_per_kwh=0.05, shape="solar")


@pytest.mark.parametrize("acquire", ["reserved", "on_demand", "spot"])
def test_whoever_rents_has_no_contract_for_electricity(acquire):
    """Rented plans would get clean power for nothing."""
    costing = replace(Costing(), bill_year=2027, sources=(SOLAR,), acquire=acquire)
    with pytest.raises(BadStudy, match="does not buy their electricity"):
        supply_given(costing)
    assert supply_given(replace(costing, acquire="lease")) is not None


def test_energy_not_taken_beside_a_plant_is_refused():
    """A minimum of the grid would be paid as if the plant had met it."""
    costing = replace(Costing(), bill_year=2027, sources=(SOLAR,), minimum_take_frac=0.9)
    with pytest.raises(BadStudy, match="minimum_take_frac is of energy from the grid"):
        supply_given(costing)
