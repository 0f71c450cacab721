"""Bills by the hour, by tier and by contract, against arithmetic by hand and hourly loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costdata import carbon, energy_bill
from costdata.tariff import (
    Period,
    Source,
    Tier,
    hours_in,
    prices_by_hour,
    shape_of,
    supplied,
    tiered_usd,
    tiered_year_usd,
)
from simkernel.errors import BadStudy

PEAK = Period(0.20, months=(6, 7, 8, 9), days="weekdays", from_hour=14, to_hour=20)


def source(peak_w, shape, price=0.05, **changes):
    return Source("ppa", peak_w, np.asarray(shape, float), price, **changes)


def test_summer_afternoons_are_billed_at_their_price():
    """2027: June to September have 88 weekdays, six hours of each: 528 h at 20 cents, not 6."""
    prices = prices_by_hour([PEAK], 0.06, 2027)
    assert len(prices) == 8760
    assert (prices == 0.20).sum() == 88 * 6
    bill = supplied(np.array([1e6]), prices, [])
    assert bill.usd[0] == pytest.approx(1000 * (528 * 0.20 + (8760 - 528) * 0.06))


def test_a_leap_year_bills_its_last_two_days():
    """REopt.jl#470: in 2028 the 29th of February moved every later hour, the last day was lost."""
    ends = [Period(1.0, months=(12,), from_hour=23), Period(2.0, months=(2,))]
    prices = prices_by_hour(ends, 0.0, 2028)
    assert len(prices) == hours_in(2028) == 8784
    assert (prices == 2.0).sum() == 29 * 24
    assert prices[-1] == 1.0
    assert prices[31 * 24 + 29 * 24] == 0.0
    month = energy_bill.month_of_hour(8784)
    assert np.array_equal(np.flatnonzero(month == 1), np.flatnonzero(prices == 2.0))


def test_weekends_and_nights_through_midnight():
    """A night rate that ends at midnight would bill the small hours by day."""
    night = prices_by_hour([Period(0.03, from_hour=22, to_hour=6)], 0.10, 2026)
    assert (night == 0.03).sum() == 8 * 365
    weekend = prices_by_hour([Period(0.01, days="weekends")], 0.10, 2026)
    assert (weekend == 0.01).sum() == 104 * 24
    assert weekend[2 * 24] == 0.01  # 3 January 2026 is a Saturday


def test_each_kwh_is_billed_in_its_tier():
    """1.5 GWh a month: 1 GWh at 10 cents and the rest at 7, not everything at 7."""
    tiers = (Tier(0.10, 1e6), Tier(0.07))
    assert tiered_usd(np.array([0.4e6, 1.5e6]), tiers) == pytest.approx([40e3, 135e3])
    assert tiered_year_usd(18e6, tiers) == pytest.approx(12 * 135e3)


def test_hourly_matching_is_the_worked_example():
    """cost_carbon G15: loads 10, CFE 14, 8, 2: 4.0 t with hourly matching, 2.4 with yearly."""
    clean = source(1.0, [14e6, 8e6, 2e6], price=0.0)
    year = supplied(np.array([10e6]), np.zeros(3), [clean])
    assert year.matched_frac[0] == pytest.approx(2 / 3)
    load, made = np.full(3, 10e3), np.array([14e3, 8e3, 2e3])
    market = carbon.market_kgco2e(year.grid_kwh, 0.4, year.source_kgco2e)[0]
    assert market == pytest.approx(4000.0)
    assert market == pytest.approx(carbon.market_hourly_kgco2e(load, made, 0.4))
    assert year.matched_frac[0] == pytest.approx(carbon.hourly_match_frac(load, made))
    assert year.excess_kwh[0] == pytest.approx(4e3)


def test_the_grids_own_clean_hours_count_where_sources_fall_short():
    """Loads of 10 MW, sources 14, 8, 2, the grid clean to 0.9, 0.5, 0.1: 2 x 0.5 + 8 x 0.1."""
    profile = np.array([0.9, 0.5, 0.1])
    clean = source(1.0, [14e6, 8e6, 2e6], price=0.0)
    year = supplied(np.array([10e6]), np.zeros(3), [clean], profile)
    assert year.grid_clean_kwh[0] == pytest.approx(1e3 + 0.8e3)
    load, made = np.full(3, 10e3), np.array([14e3, 8e3, 2e3])
    both = carbon.matched_frac(year.matched_kwh, year.grid_clean_kwh, load.sum())[0]
    assert both == pytest.approx(carbon.hourly_match_frac(load, made, profile))


def test_a_contract_is_paid_as_produced_or_as_used():
    """10 MW against 14, 8, 2 MW at 5 cents: 24 MWh produced, 20 used, 4 sold at 2 cents."""
    for is_all, paid, sold in ((True, 24e3 * 0.05, 4e3 * 0.02), (False, 20e3 * 0.05, 0.0)):
        one = source(1.0, [14e6, 8e6, 2e6], 0.05, is_paid_as_produced=is_all,
                     excess_usd_per_kwh=0.02)  # fmt: skip
        year = supplied(np.array([10e6]), np.array([0.1, 0.1, 0.3]), [one])
        assert year.contract_usd[0] == pytest.approx(paid)
        assert year.sold_usd[0] == pytest.approx(-sold)
        assert year.grid_usd[0] == pytest.approx(2e3 * 0.1 + 8e3 * 0.3)


@settings(max_examples=60)
@given(
    st.lists(st.floats(0, 30e6), min_size=4, max_size=4),
    st.lists(st.floats(0, 30e6), min_size=4, max_size=4),
    st.lists(st.floats(-0.1, 0.5), min_size=4, max_size=4),
    st.floats(0, 40e6),
)
def test_the_sorted_bill_is_the_bill_hour_by_hour(first, second, prices, load):
    """A shortcut through sorted hours that is wrong for some load would misprice its plans."""
    sources = [source(1.0, first, 0.04), source(1.0, second, 0.06, is_paid_as_produced=False)]
    year = supplied(np.array([load]), np.array(prices), sources)
    left = np.full(4, load)
    paid = sum(first) / 1e3 * 0.04
    used = []
    for made in (np.array(first), np.array(second)):
        used.append(np.minimum(left, made))
        left = left - used[-1]
    paid += used[1].sum() / 1e3 * 0.06
    assert year.grid_kwh[0] == pytest.approx(left.sum() / 1e3, abs=1e-3)
    assert year.grid_usd[0] == pytest.approx((left * prices).sum() / 1e3, abs=1e-3)
    assert year.contract_usd[0] == pytest.approx(paid, rel=1e-9, abs=1e-3)
    assert year.matched_kwh[0] + year.grid_kwh[0] == pytest.approx(4 * load / 1e3, abs=1e-3)


def test_a_flat_contract_below_the_load_is_a_price_for_its_share():
    """Flat 4 of 10 MW at 5 cents and the grid at 10: 8 cents a kWh, whatever the year."""
    for year in (2027, 2028):
        bill = supplied(np.array([10e6]), np.full(hours_in(year), 0.10),
                        [source(4e6, shape_of("flat", year))])  # fmt: skip
        assert bill.usd[0] / (bill.grid_kwh[0] + bill.matched_kwh[0]) == pytest.approx(0.08)


def test_stand_in_shapes_have_the_capacity_they_say():
    """A solar farm that shines at night would match everything."""
    solar, wind = (shape_of(name, 2027) for name in ("solar", "wind"))
    assert solar.mean() == pytest.approx(0.24, abs=0.005)
    assert wind.mean() == pytest.approx(0.35, abs=0.005)
    assert solar.reshape(-1, 24)[:, :6].max() == 0.0
    assert min(solar.min(), wind.min()) >= 0.0
    assert max(solar.max(), wind.max()) <= 1.0
    with pytest.raises(BadStudy, match="moon"):
        shape_of("moon", 2027)


def test_avoiding_nothing_has_no_cost_per_tonne():
    """$3M more for 50 kt less is 60 $/t; with no tonne avoided there is no figure, not 0."""
    got = carbon.abatement_usd_per_t([103e6, 101e6], [50e6, 100e6], 100e6, 100e6)
    assert got[0] == pytest.approx(60.0)
    assert np.isnan(got[1])
