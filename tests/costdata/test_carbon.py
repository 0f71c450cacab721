"""Carbon and water: sharing, matching, methods side by side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata import carbon

CARD_KGCO2E = {"pcf": 164.0, "act": 29.456, "boavizta": 575.18}  # anchors G5, G6, NVIDIA PCF


@given(st.lists(st.floats(0.01, 8), min_size=1, max_size=8))
def test_tenants_sum_to_the_host(sizes):
    """Carbon would be lost or counted twice between the tenants of a server, slices included."""
    installed = sum(sizes)
    shares = [carbon.embodied_share_kgco2e(7012, 1.0, 8760.0, s / installed) for s in sizes]
    assert sum(shares) == pytest.approx(7012 / 8760, rel=1e-12)


def test_the_key_is_the_accelerator_not_the_cpu():
    """A tenant with 1 of 8 GPUs and a quarter of the CPUs carries an eighth, a slice 1/32."""
    assert carbon.resource_frac(1.0, 8.0) == 1 / 8
    assert carbon.resource_frac(0.25, 8.0) == 1 / 32


def test_memory_of_a_shared_host_is_shared_too():
    """One GPU of eight would be charged the RAM of the whole 1 TB host."""
    host_w, gpu_w = 378.0, 102.0
    tenant = gpu_w + host_w * carbon.resource_frac(1.0, 8.0)
    assert tenant == pytest.approx(149.25)


def test_eight_cards_add_eight_cards():
    """The number of cards would be ignored in a server's embodied carbon."""
    card = carbon.boavizta_card_kgco2e(
        carbon.CardParts(0.79, 0.9, 296.0, 2810.0, 2343.0, 1.69), carbon.CardFactors()
    ).total
    host = 5700.0
    assert (host + 8 * card) - (host + 0 * card) == pytest.approx(8 * card)


def test_methods_stay_apart_and_each_explains_itself():
    """Two methods differ 19-fold on one card: a sum without its terms could not be checked."""
    made = carbon.act_package_kgco2e(8.14, 2.778, 80e9, 65e-12, 6.0)
    assert set(made.terms) == {"die", "memory", "packaging"}
    assert made.total == pytest.approx(CARD_KGCO2E["act"], rel=1e-4)
    assert CARD_KGCO2E["boavizta"] / made.total == pytest.approx(19.5, rel=0.01)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=24))
def test_an_hourly_match_never_beats_the_yearly_one(pairs):
    """Noon's sun would light the night."""
    load, clean = np.array(pairs).T + 1.0
    hourly = carbon.hourly_match_frac(load, clean)
    assert 0 <= hourly <= carbon.annual_match_frac(load, clean) + 1e-12 <= 1 + 1e-12
    emitted = carbon.market_hourly_kgco2e(load, clean, 0.4)
    assert emitted <= carbon.location_kgco2e(load, 0.4) * (1 + 1e-12)


def test_the_grids_own_clean_share_counts_for_what_is_left():
    """The clean energy score would ignore a clean grid, or count it twice."""
    load, clean = np.array([10.0, 10.0]), np.array([5.0, 20.0])
    assert carbon.hourly_match_frac(load, clean, 0.5) == pytest.approx((7.5 + 10) / 20)


@given(st.floats(0, 1e9), st.floats(0, 1), st.floats(0, 100))
def test_carbon_scales_exactly_with_intensity(kwh, intensity, k):
    """Twice as dirty a grid would not emit twice as much."""
    assert carbon.operational_kgco2e(kwh, k * intensity) == pytest.approx(
        k * carbon.operational_kgco2e(kwh, intensity), rel=1e-9, abs=1e-9
    )


def test_a_tonne_at_51_dollars_costs_51_dollars():
    """The price is per tonne, the emissions in kilograms."""
    assert carbon.carbon_usd(1000.0, 51.0) == 51.0


def test_offsite_water_follows_the_meter_onsite_water_the_machines():
    """PUE would be applied to the cooling water too, or to neither."""
    assert carbon.water_l(1.0, 2.0, 1.0, 0.0) == carbon.water_l(1.0, 2.0, 1.5, 0.0) == 2.0
    assert carbon.water_l(1.0, 0.0, 1.5, 2.0) == 3.0


UNKNOWN_IN = {
    "operational": lambda x: carbon.operational_kgco2e(1.0, x),
    "hourly": lambda x: carbon.hourly_match_frac(np.array([1.0, x]), np.ones(2)),
    "annual": lambda x: carbon.annual_match_frac(np.ones(2), np.array([1.0, x])),
    "market": lambda x: carbon.market_hourly_kgco2e(np.ones(2), np.array([1.0, x]), 0.4),
    "share": lambda x: carbon.embodied_share_kgco2e(x, 1.0, 2.0),
    "silicon": lambda x: carbon.effective_silicon_mm2(x),
}


@pytest.mark.parametrize("name", UNKNOWN_IN)
def test_an_unknown_never_becomes_a_number(name):
    """A missing intensity or reading would count as clean."""
    assert np.isnan(UNKNOWN_IN[name](np.nan))
