"""What is bought is a whole thing at a listed price, or an estimate that says so."""

import pytest

from costdata.catalog import load
from costdata.purchase import server_over_chips, server_over_tdp


@pytest.mark.parametrize(
    ("name", "unit", "devices"),
    [
        ("H100-SXM", "HGX/DGX-H100", 8),
        ("GB200", "GB200-NVL72", 72),
        ("Ascend-910C", "CloudMatrix384", 384),
    ],
)
def test_what_is_bought_is_a_whole(name, unit, devices):
    """One GPU of an NVL72 rack was bought alone, at a seventy-second of its price."""
    bought = load().purchase_unit(name)
    assert (bought.name, bought.devices, bought.rent_only) == (unit, devices, False)
    assert bought.price_usd[0] <= bought.price_usd[1] <= bought.price_usd[2]


def test_a_chip_that_is_not_sold_is_rent_only_and_says_so():
    """A model of what a TPU costs to make was taken for a price to buy it at."""
    bought = load().purchase_unit("TPU-v5p")
    assert bought.rent_only
    assert bought.price_usd is None
    assert bought.missing == ("price_usd", "max_power_w")
    assert "no price to buy at (model estimate)" in bought.basis
    assert load().is_obtainable("TPU-v5p")
    assert not load().is_obtainable("Trainium2")


def test_an_estimated_price_says_its_rule_and_has_a_wide_band():
    """A server price made up from chip prices looked like a quote."""
    bought = load().purchase_unit("H20")
    (low, typical, high), of = server_over_chips(load().tables)
    assert bought.is_estimate
    assert not bought.rent_only
    assert bought.price_usd == pytest.approx(
        (8 * 9000 * low, 8 * 10392 * typical, 8 * 15000 * high)
    )
    assert f"server over chips in {of} servers" in bought.basis
    assert not load().purchase_unit("H100-SXM").is_estimate
    assert load().purchase_unit("GB300").is_estimate


def test_a_baseboard_without_a_host_is_not_a_server():
    """A kit of eight Gaudi cards was bought without processors to run them."""
    assert load().purchase_unit("Gaudi3-OAM").is_estimate
    assert load().purchase_unit("Gaudi3-OAM").price_usd[1] > 125000


def test_power_of_eight_h100_is_between_2_and_10_2_kilowatts():
    """codecarbon#286: watts taken for kilowatts."""
    h100 = load().accelerator("H100-SXM")
    assert 8 * h100.tdp_w < load().purchase_unit("H100-SXM").max_power_w <= 10200
    assert 8 * h100.idle_w > 300
    (low, _, high), _ = server_over_tdp(load().tables)
    assert 1 < low < high < 3


def test_no_chip_is_without_a_purchase_unit():
    """A chip ended the listing because it has no server."""
    for name in load().accelerators:
        bought = load().purchase_unit(name)
        assert bought.devices >= 1
        assert (bought.price_usd is None) == bought.rent_only == ("price_usd" in bought.missing)
        assert (bought.max_power_w is None) == ("max_power_w" in bought.missing)
