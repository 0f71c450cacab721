"""The meter and the tariff: scopes, demand, hours of the year."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata import energy_bill as bill
from simkernel.errors import BadStudy

watts = st.floats(0, 1e9)
hours = st.floats(0, 1e5)
pues = st.floats(1.0, 2.5)


@given(watts, hours, pues)
def test_energy_is_power_times_time_in_both_scopes(it_w, time, pue):
    """PUE would be in the energy of a row and not in its power, or in twice."""
    it = bill.energy_kwh(it_w, time)
    facility = bill.energy_kwh(bill.facility_w(it_w, pue), time)
    assert it == pytest.approx(it_w * time / 1000, rel=1e-12)
    assert facility == pytest.approx(pue * it, rel=1e-12)


def test_ten_seconds_of_55_w_are_the_same_in_each_column():
    """55 W, 10 s, PUE 1.5: 0.000153 kWh IT and 0.000229 kWh facility."""
    it = bill.energy_kwh(55.0, 10 / 3600)
    facility = bill.energy_kwh(bill.facility_w(55.0, 1.5), 10 / 3600)
    assert (it, facility) == (pytest.approx(0.000153, abs=5e-7), pytest.approx(0.000229, abs=5e-7))


def test_a_server_of_8400_w_uses_8_4_kwh_in_an_hour():
    """Watts would be taken for kilowatts."""
    assert bill.energy_kwh(8400.0, 1.0) == 8.4


@given(st.floats(-0.5, 1), st.floats(-100, 100))
def test_the_energy_charge_scales_exactly_with_the_price(price, k):
    """A negative price, an income on windy days, would be refused or clipped."""
    assert bill.flat_energy_usd(1e3, k * price) == pytest.approx(
        k * bill.flat_energy_usd(1e3, price), rel=1e-12, abs=1e-12
    )


def test_a_flat_price_by_the_hour_is_the_flat_bill():
    """Two ways to the same bill would differ."""
    load = np.linspace(1e6, 2e6, 8760)
    hourly = bill.hourly_energy_usd(load, np.full(8760, 0.07))
    assert hourly == pytest.approx(bill.flat_energy_usd(bill.energy_kwh(1.5e6, 8760), 0.07))


def test_a_leap_year_keeps_its_last_day_and_its_29th_of_february():
    """8,784 hours would be cut to 8,760 or shift the tariff by a day from March on."""
    load = np.full(8784, 1e3)
    load[(31 + 28) * 24] = 5e3
    load[-1] = 7e3
    peaks = bill.monthly_peak_w(load)
    assert (peaks[1], peaks[11]) == (5e3, 7e3)
    assert np.all(np.delete(peaks, [1, 11]) == 1e3)


def test_a_common_year_has_twelve_months_of_the_right_length():
    """A peak would be billed in its neighbour's month."""
    counts = np.bincount(bill.month_of_hour(8760))
    np.testing.assert_array_equal(counts, 24 * np.array(bill.DAYS_PER_MONTH))


def test_another_number_of_hours_is_refused_by_name():
    """A truncated series would be billed as a year."""
    with pytest.raises(BadStudy, match=r"8,759 hours; give 8,760, or 8,784"):
        bill.month_of_hour(8759)
    with pytest.raises(BadStudy, match="8784 hours, the prices 8760"):
        bill.hourly_energy_usd(np.ones(8784), np.ones(8760))


@given(watts, watts, st.floats(0, 1))
def test_the_demand_charge_knows_capacity_not_energy(peak, contract, minimum):
    """The minimum bill would be charged per MWh, or the peak above contract be free."""
    billed = bill.billed_w(peak, contract, minimum)
    assert billed >= peak
    assert billed == max(peak, minimum * contract)
    assert bill.demand_usd_per_year(billed, 7.45) == pytest.approx(billed / 1e3 * 12 * 7.45)


def test_a_ratchet_remembers_one_high_month():
    """Eleven months after a peak, its share would already be forgotten, or stay for ever."""
    peaks = np.full(14, 10e6)
    peaks[1] = 20e6
    billed = bill.ratcheted_w(peaks, contract_w=0.0, minimum_frac=0.0, ratchet_frac=0.8)
    assert billed[0] == 10e6
    assert billed[1] == 20e6
    np.testing.assert_array_equal(billed[2:13], 16e6)
    assert billed[13] == 10e6


def test_twelve_equal_months_are_a_year():
    """A monthly price would be applied once, or 730 times."""
    months = bill.demand_usd_per_year(np.full(12, 500e6), 7.45)
    assert months == pytest.approx(bill.demand_usd_per_year(500e6, 7.45))
    assert months == pytest.approx(44.7e6)


def test_a_minimum_take_is_paid_though_not_used():
    """Take-or-pay energy would be saved by switching off."""
    assert bill.take_or_pay_kwh(50.0, 100.0, 0.6) == 60.0
    assert bill.take_or_pay_kwh(80.0, 100.0, 0.6) == 80.0


@given(st.floats(0.01, 1), st.floats(0.01, 1))
def test_pue_never_falls_below_one_and_falls_with_load(one, other):
    """A half-empty hall would look more efficient than a full one."""
    low, high = sorted([one, other])
    assert bill.pue_at_load_frac(low, 0.06, 0.12) >= bill.pue_at_load_frac(high, 0.06, 0.12) > 1


UNKNOWN_IN = {
    "billed": lambda x: bill.billed_w(x, 1.0, 0.5),
    "contract": lambda x: bill.billed_w(1.0, x, 0.5),
    "take": lambda x: bill.take_or_pay_kwh(x, 1.0, 0.5),
    "hourly": lambda x: bill.hourly_energy_usd(np.array([1.0, x]), np.ones(2)),
    "demand": lambda x: bill.demand_usd_per_year(np.array([1.0, x]), 7.0),
}


@pytest.mark.parametrize("name", UNKNOWN_IN)
def test_an_unknown_never_becomes_a_number(name):
    """A missing meter reading would be billed as 0."""
    assert np.isnan(UNKNOWN_IN[name](np.nan))
