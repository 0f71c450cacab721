"""A share of use: dollars, megawatt-hours, carbon and water of one energy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_bill import H100_128, column, cost, prices, run, terms

from costdata.terms import ACQUIRE

USES = st.floats(0.05, 1.0)
HOSTED = [ACQUIRE.index("buy"), ACQUIRE.index("lease")]


def life(use, years=4.0, **changed):
    """A run that fills the life of the hardware at a use of it."""
    return run(hours=years * 8760 * use, tokens=np.nan, **changed)


@given(USES, st.floats(0.0, 1.0), st.floats(1.0, 2.0), st.sampled_from(HOSTED))
def test_dollars_energy_and_carbon_rest_on_the_same_kwh(use, idle, pue, acquire):
    """The bill would charge energy that is in no megawatt-hour, or emit what nobody paid for."""
    t = terms(utilisation_frac=use, pue=pue, acquire_code=acquire)
    got = cost(H100_128, t, r=run(idle_w=idle * 1e6))
    paid = got.run.terms["energy"][0] + got.run.terms["idle_energy"][0]
    mwh = got.columns["facility_mwh"][0]
    assert paid == pytest.approx(mwh * 1000 * 0.08, rel=1e-12)
    assert got.columns["operational_kgco2e"][0] == pytest.approx(mwh * 400, rel=1e-12)
    assert got.columns["water_l"][0] == pytest.approx(mwh * 1000 * (0.2 / pue + 3.0), rel=1e-12)
    assert got.columns["it_mwh"][0] * pue == pytest.approx(mwh, rel=1e-12)


def test_a_run_pays_its_own_energy_and_its_share_of_idle_hours():
    """1 MW for 1,440 h at 60 %: 1,440 MWh of work and 960 h at 0.25 MW, times PUE."""
    got = cost(H100_128, terms(utilisation_frac=0.6)).columns
    assert got["facility_mwh"][0] == pytest.approx(1.25 * (1440 + 0.25 * 960))
    assert got["idle_mwh"][0] == pytest.approx(1.25 * 0.25 * 960)


def test_what_does_not_follow_use_is_paid_in_full_by_the_hours_at_work():
    """Capital, colocation and staff of unsold hours would be paid by nobody."""
    asked = {"staff_usd_per_year": 2e5, "demand_usd_per_kw_month": 7.0}
    whole, half = (cost(H100_128, terms(utilisation_frac=u, **asked)) for u in (1.0, 0.5))
    for name in ("servers", "network", "maintenance", "colocation", "staff", "demand"):
        assert half.year.terms[name] == whole.year.terms[name], name
        assert half.run.terms[name] == pytest.approx(2 * whole.run.terms[name]), name


def test_hardware_at_half_use_draws_half_its_work_and_half_its_rest():
    """Energy of a life would halve in megawatt-hours and stay whole in dollars."""
    got = cost(H100_128, terms(utilisation_frac=0.5), r=life(0.5))
    hours = 4 * 8760 * 0.5
    mwh = 1.25 * (1.0 + 0.25) * hours
    assert got.columns["facility_mwh"][0] == pytest.approx(mwh)
    energy = got.run.terms["energy"] + got.run.terms["idle_energy"]
    assert energy[0] == pytest.approx(mwh * 80)


def test_idle_hours_count_towards_a_minimum_take():
    """Energy that was drawn at rest would be paid once more as not taken."""
    asked = {"minimum_take_frac": 0.9, "contract_w": 1.25e6}
    for use in (1.0, 0.5):
        year = cost(H100_128, terms(utilisation_frac=use, **asked)).year.terms
        paid = year["energy"] + year["idle_energy"] + year["energy_not_taken"]
        assert paid[0] == pytest.approx(max(0.9, use + 0.25 * (1 - use)) * 1250 * 8760 * 0.08)


def test_idle_hours_of_a_machine_rented_by_the_hour_are_somebody_elses():
    """A renter would emit for hours in which others work."""
    t = terms(utilisation_frac=0.5, acquire_code=ACQUIRE.index("on_demand"))
    got = cost(H100_128, t).columns
    assert got["facility_mwh"][0] == pytest.approx(1.25 * 1440)
    assert got["idle_mwh"][0] == 0
    assert got["usd"][0] == pytest.approx(2.5 * 1024 * 1440)
    t = terms(utilisation_frac=0.5, acquire_code=ACQUIRE.index("reserved"))
    kept = cost(H100_128, t).columns
    assert kept["usd"][0] == pytest.approx(2 * 2.5 * 1024 * 1440)
    assert kept["facility_mwh"][0] == pytest.approx(1.25 * (1440 + 0.25 * 1440))


class TestBreakEven:
    @given(USES, st.floats(1.8, 20.0), st.floats(0, 100), st.sampled_from([0.0, 0.8]))
    def test_owning_wins_where_the_use_is_above_its_break_even(self, use, rent, tonne, take):
        """The break-even would point one way and the dollars the other."""
        t = terms(utilisation_frac=use, carbon_usd_per_t=tonne, minimum_take_frac=take)
        got = cost(H100_128, t, prices(rent_usd_per_device_hour=rent))
        saved = got.rented.usd_per_year[0] - got.year.total[0]
        above = use - got.columns["breakeven_utilisation_frac"][0]
        assert saved == pytest.approx(above * got.rented.full_usd[0], rel=1e-9, abs=1e-3)

    @given(USES, st.floats(2.5, 20.0), st.floats(0, 100), st.sampled_from([0.0, 0.5, 1.0]))
    def test_where_the_worth_is_nought_owning_costs_what_renting_does(
        self, use, rent, tonne, take
    ):
        """The crossing would be that of another energy, or move with the use that is given."""
        p = prices(rent_usd_per_device_hour=rent)
        asked = {"carbon_usd_per_t": tonne, "minimum_take_frac": take}
        told = cost(H100_128, terms(utilisation_frac=use, **asked), p)
        zero = told.columns["npv_zero_utilisation_frac"][0]
        at = cost(H100_128, terms(utilisation_frac=min(zero, 1.0), **asked), p)
        if zero <= 1:
            assert at.rented.usd_per_year[0] == pytest.approx(at.year.total[0], rel=1e-9)
            assert at.columns["breakeven_utilisation_frac"][0] == pytest.approx(zero, rel=1e-9)
        else:
            assert at.rented.usd_per_year[0] < at.year.total[0]

    def test_a_reservation_is_paid_whatever_the_use(self):
        """Half the use would halve a price that is due in full."""
        p = prices(rent_is_by_hour=0)
        whole, half = (cost(H100_128, terms(utilisation_frac=u), p) for u in (1.0, 0.5))
        assert half.rented.paid_usd[0] == whole.rented.paid_usd[0]
        assert np.isnan(half.columns["breakeven_utilisation_frac"][0])
        assert "reservation" in half.reasons["breakeven_utilisation_frac"]
        assert half.columns["payback_months"][0] < whole.columns["payback_months"][0]

    def test_half_the_hours_by_the_hour_repay_later(self):
        """A purchase that stands idle would repay as fast as one at work."""
        p = prices(rent_usd_per_device_hour=6.0)
        months = [
            cost(H100_128, terms(utilisation_frac=u), p).columns["payback_months"][0]
            for u in (1.0, 0.5)
        ]
        assert months[1] > 2 * months[0]


def test_a_use_of_one_has_no_idle_hours():
    """A figure at full use would depend on what the machines draw at rest."""
    one, other = (cost(H100_128, r=run(idle_w=w)) for w in (0.0, 9e5))
    for name, values in one.columns.items():
        if name != "npv_zero_utilisation_frac":
            np.testing.assert_array_equal(values, other.columns[name], err_msg=name)
    assert one.year.terms["idle_energy"] == column(0)
