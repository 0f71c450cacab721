"""What a supply does to price, carbon and water of plans, against arithmetic by hand."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_bill import terms

from costdata.supply import Supply, met_by, unsupplied
from costdata.tariff import Period, Source, Tier, hours_in, shape_of

KWH = np.array([8760 * 10e3])
"""Of a year of 10 MW."""


def plant(year=2027, own=True, mw=4.0, price=0.05, made=0.0, **changes):
    """A flat plant or contract."""
    shape = shape_of("flat", year)
    return Source(
        "it", mw * 1e6, shape, price, kgco2e_per_kwh=made, is_behind_meter=own, **changes
    )


def met(*sources, year=2027, grid_clean_frac=None, **changed):
    one = terms(grid_average_kgco2e_per_kwh=0.4, grid_marginal_kgco2e_per_kwh=0.6,
                market_kgco2e_per_kwh=0.5, usd_per_kwh=0.10, **changed)  # fmt: skip
    supply = Supply(year, sources=sources, grid_clean_frac=grid_clean_frac)
    return met_by(one, KWH, supply)


def test_own_plant_lowers_location_based_carbon_and_a_contract_does_not():
    """4 of 10 MW: 60% of the grid's 0.4 behind the meter, all of it under contract."""
    own, contract = met(plant(own=True)), met(plant(own=False))
    assert own.terms.grid_average_kgco2e_per_kwh[0] == pytest.approx(0.6 * 0.4)
    assert own.terms.grid_marginal_kgco2e_per_kwh[0] == pytest.approx(0.6 * 0.6)
    assert contract.terms.grid_average_kgco2e_per_kwh[0] == pytest.approx(0.4)
    for one in (own, contract):
        assert one.terms.market_kgco2e_per_kwh[0] == pytest.approx(0.6 * 0.5)
        assert one.terms.usd_per_kwh[0] == pytest.approx(0.4 * 0.05 + 0.6 * 0.10)
        assert one.matched_frac[0] == pytest.approx(0.4)
    assert (own.own_frac[0], contract.own_frac[0]) == pytest.approx((0.4, 0.0))


def test_fuel_burnt_behind_the_meter_is_not_clean():
    """A gas plant at 0.45 for 4 of 10 MW: 0.6 x 0.4 + 0.4 x 0.45, more than the grid alone."""
    found = met(plant(made=0.45)).terms
    assert found.grid_average_kgco2e_per_kwh[0] == pytest.approx(0.6 * 0.4 + 0.4 * 0.45)


def test_without_a_residual_mix_there_is_no_market_figure():
    """The grid's average, or nought, would stand in for a mix nobody gave."""
    found = met(plant(own=False), plant(own=False, mw=20.0))
    assert found.terms.market_kgco2e_per_kwh[0] == pytest.approx(0.0)
    unknown = met_by(terms(market_kgco2e_per_kwh=np.nan), KWH, Supply(2027, sources=(plant(),)))
    assert np.isnan(unknown.terms.market_kgco2e_per_kwh[0])


def test_a_leap_year_of_the_same_load_costs_a_day_more_and_the_same_a_kwh():
    """In 2028 the bill has 8,784 hours: the price of a kWh may not fall by a day."""
    common, leap = (met(plant(year=year), year=year) for year in (2027, 2028))
    assert hours_in(2028) - hours_in(2027) == 24
    assert leap.terms.usd_per_kwh[0] == pytest.approx(common.terms.usd_per_kwh[0], rel=1e-12)
    assert leap.matched_frac[0] == pytest.approx(common.matched_frac[0], rel=1e-12)


def test_the_clean_share_of_the_grid_comes_on_top_of_the_matched():
    """4 of 10 MW matched, the rest from a grid that is 30% clean: 0.4 + 0.6 x 0.3."""
    found = met(plant(own=False), grid_clean_frac=None)
    assert found.clean_frac[0] == pytest.approx(0.4 + 0.6 * 0.3)
    by_hour = np.tile(np.repeat([0.0, 1.0], 12), 365)
    assert met(plant(), grid_clean_frac=by_hour).clean_frac[0] == pytest.approx(0.4 + 0.6 * 0.5)
    bare = unsupplied(terms(grid_clean_frac=0.3), KWH)
    assert (bare.matched_frac[0], bare.clean_frac[0]) == (0.0, 0.3)


BILLS = {
    "flat": ({}, 0.10),
    "by the hour": ({"periods": (Period(0.20, from_hour=12, to_hour=18),)}, 0.05 + 0.075),
    "in tiers": ({"tiers": (Tier(0.12, 3.65e6), Tier(0.06))}, (3.65 * 0.12 + 3.65 * 0.06) / 7.3),
    "as produced": ({"sources": (plant(mw=15.0, own=False, excess_usd_per_kwh=0.02),)},
                    (15 * 0.05 - 5 * 0.02) / 10),
    "as used": ({"sources": (plant(mw=15.0, own=False, is_paid_as_produced=False),)}, 0.05),
    "own plant": ({"sources": (plant(mw=4.0),)}, 0.4 * 0.05 + 0.6 * 0.10),
    "tiers of what a contract leaves": (
        {"sources": (plant(mw=5.0, own=False),), "tiers": (Tier(0.12, 1.825e6), Tier(0.06))},
        0.5 * 0.05 + 0.5 * 0.09,
    ),
}  # fmt: skip
"""Tariff and the price of a kWh by hand, for 10 MW in every hour (7.3 GWh a month)."""


@pytest.mark.parametrize("kind", BILLS)
def test_every_kind_of_bill_is_the_one_by_hand(kind):
    """A kind of tariff would be billed as another."""
    given, usd_per_kwh = BILLS[kind]
    found = met_by(terms(usd_per_kwh=0.10), KWH, Supply(2027, **given)).terms
    assert found.usd_per_kwh[0] == pytest.approx(usd_per_kwh, rel=1e-9)


@settings(max_examples=40)
@given(st.floats(0.1, 30.0), st.floats(0.0, 1.0), st.booleans())
def test_shares_stay_shares_and_more_plant_never_matches_less(mw, made, own):
    """A larger contract would leave more hours unmatched, or match more than there is."""
    one, more = (met(plant(mw=size, own=own, made=made)) for size in (mw, mw * 1.5))
    for found in (one, more):
        for share in (found.matched_frac, found.clean_frac, found.own_frac):
            assert 0.0 <= share[0] <= 1.0 + 1e-12
        assert found.clean_frac[0] >= found.matched_frac[0]
    assert more.matched_frac[0] >= one.matched_frac[0] - 1e-12


def test_nothing_is_matched_where_nothing_runs():
    """A site at rest would divide by its own nothing."""
    found = met_by(terms(), np.array([0.0]), Supply(2027, sources=(plant(),)))
    figures = dataclasses.asdict(found)
    figures.pop("terms")
    assert all(np.isfinite(value).all() for value in figures.values())
