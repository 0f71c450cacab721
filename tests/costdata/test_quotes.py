"""Catalogue facts as columns of costing: stand-ins told, own figures first, one site one row."""

from dataclasses import fields

import numpy as np
import pytest

from costdata import quotes
from costdata.catalog import load
from costdata.making import embodied_factors
from costdata.network_build import fabric_links, laid_above_frac
from costdata.terms import MAY_BE_UNKNOWN, CostingTerms, refuse_bad_terms
from simkernel.errors import BadStudy, UnknownName


@pytest.fixture(scope="module")
def catalog():
    return load()


def test_every_site_of_the_catalogue_can_be_costed(catalog):
    """A site would fail in the middle of a study, or pass with a figure missing."""
    terms = quotes.site_terms(catalog, catalog.sites).table
    refuse_bad_terms(terms)
    assert len(terms) == len(catalog.sites)
    for name in {f.name for f in fields(CostingTerms)} - set(MAY_BE_UNKNOWN):
        assert np.isfinite(getattr(terms, name)).all(), name


def test_a_row_of_terms_is_one_site(catalog):
    """Price, intensity and PUE would come from different sites."""
    terms = quotes.site_terms(catalog, ("se", "us-tx")).table
    for row, name in enumerate(("se", "us-tx")):
        site = catalog.site(name)
        assert terms.usd_per_kwh[row] == site.usd_per_kwh[1]
        assert terms.grid_average_kgco2e_per_kwh[row] == site.grid_average_kgco2e_per_kwh
        assert terms.pue[row] == site.pue[1]


def test_the_studys_own_figures_go_first(catalog):
    """A price in the study would be ignored, or spill into another accounting."""
    own = {"usd_per_kwh": 0.05, "life_years": 4.0, "grid_kgco2e_per_kwh": 0.1}
    terms = quotes.site_terms(catalog, ("se",), own, accounting="location_marginal").table
    assert terms.usd_per_kwh[0] == 0.05
    assert (
        terms.it_life_years[0] == terms.network_life_years[0] == terms.embodied_life_years[0] == 4
    )
    assert terms.grid_marginal_kgco2e_per_kwh[0] == 0.1
    assert terms.grid_average_kgco2e_per_kwh[0] == catalog.site("se").grid_average_kgco2e_per_kwh


def test_an_own_building_is_not_also_rented(catalog):
    """Colocation would be added to the price of one's own hall."""
    terms = quotes.site_terms(catalog, ("se",), {"facility_usd_per_w": 12.0}).table
    refuse_bad_terms(terms)
    assert terms.colo_usd_per_kw_month[0] == 0


def test_a_figure_that_is_no_term_is_refused_by_name(catalog):
    """A misspelt setting would have no effect."""
    with pytest.raises(BadStudy, match="usd_per_kw is no term of costing"):
        quotes.site_terms(catalog, ("se",), {"usd_per_kw": 0.05})
    with pytest.raises(UnknownName, match="did you mean"):
        quotes.site_terms(catalog, ("se",), accounting="location_avrage")


def test_residual_falls_by_the_same_share_every_year(catalog):
    """A quarter of the price after three years would still be a quarter after ten."""
    three = quotes.site_terms(catalog, ("se",), {"life_years": 3.0}).table.residual_frac[0]
    six = quotes.site_terms(catalog, ("se",), {"life_years": 6.0}).table.residual_frac[0]
    assert three == catalog.facility("residual", "after_36_months").value
    assert six == pytest.approx(three**2)


def test_ports_are_split_or_bundled_to_the_rate_of_the_host(catalog):
    """A 200 Gb/s port would fill a 400 Gb/s switch port, an 800 Gb/s one go through half."""
    radixes = [quotes.room_parts(catalog, rate).table.radix[0] for rate in (25e9, 50e9, 100e9)]
    assert radixes == [128, 64, 64]
    assert quotes.room_parts(catalog, 200e9).table.radix[0] == 32


def test_links_cost_what_the_sheet_says_per_port_and_layer(catalog):
    """128 servers of 8 ports in two layers would not cost $2,621,440 of cabling."""
    links = quotes.room_parts(catalog, 50e9).table.port_links_usd
    np.testing.assert_allclose(links, [[0, 1320, 2560, 3800]])
    assert 128 * 8 * links[0, 2] == 2_621_440


def test_prices_follow_the_layers_of_the_bill(catalog):
    """A one-layer fabric would pay for three layers of cable."""
    chips = quotes.chip_prices(catalog, "H100-SXM").table
    parts = quotes.room_parts(catalog, 50e9).table
    got = quotes.prices(chips, parts, np.array([0.0, 1, 2, 3]))
    np.testing.assert_allclose(got.port_links_usd, [0, 1320, 2560, 3800])
    assert set(got.unit_usd) == {chips.unit_usd[0]}


def test_uplinks_that_are_not_laid_are_not_paid_for(catalog):
    """A thin spine would save switches and watts, and pay for all of its cables."""
    chips = quotes.chip_prices(catalog, "H100-SXM").table
    parts = quotes.room_parts(catalog, 50e9).table
    hosts, tiers = np.full(3, 1024.0), np.full(3, 2.0)
    links = fabric_links(hosts, 8, 64, np.array([1.0, 2.0, 4.0]))
    above_frac = laid_above_frac(hosts * 8, links, tiers)
    np.testing.assert_allclose(above_frac, [1.0, 0.5, 0.25])
    got = quotes.prices(chips, parts, tiers, above_frac)
    np.testing.assert_allclose(got.port_links_usd, [2560, 1320 + 620, 1320 + 310])
    alone = laid_above_frac(np.array([0.0, 64]), np.array([0.0, 64]), np.array([0.0, 1]))
    got = quotes.prices(chips, parts, np.array([0.0, 1]), alone)
    np.testing.assert_allclose(got.port_links_usd, [0, 1320])


def test_a_studys_price_is_per_device_or_per_server_by_its_name(catalog):
    """$25,000 for an H100 would be taken as the price of eight, or be ignored."""
    by_chip = quotes.chip_prices(catalog, "H100-SXM", price_usd={"H100-SXM": 25_000.0}).table
    by_server = quotes.chip_prices(catalog, "H100-SXM", price_usd={"HGX/DGX-H100": 3e5}).table
    assert by_chip.unit_usd[0] == 200_000
    assert by_server.unit_usd[0] == 300_000


def test_a_chip_nobody_sells_has_no_price(catalog):
    """A rent-only chip would be bought for nothing."""
    quoted = quotes.chip_prices(catalog, "TPU-v5e")
    assert np.isnan(quoted.table.unit_usd[0])
    assert quoted.table.rent_usd_per_device_hour[0] > 0
    assert "no price to buy" in quoted.notes[0]


def test_half_a_host_carries_half_a_host_of_carbon(catalog):
    """A tray of four devices would weigh as much as a server of eight."""
    tray = embodied_factors(catalog, "GB200").table.host_kgco2e[0]
    server = embodied_factors(catalog, "H100-SXM").table.host_kgco2e[0]
    assert tray == server / 2 == 2850


def test_a_figure_with_its_host_share_gets_no_host_again(catalog):
    """The host of an A100 would be counted twice."""
    assert embodied_factors(catalog, "A100-80G-SXM").table.host_kgco2e[0] == 0


def test_rows_stack_in_order(catalog):
    """Prices would land on another chip."""
    names = ("H100-SXM", "B200-SXM")
    table = quotes.stacked(quotes.chip_prices(catalog, name).table for name in names)
    expected = [catalog.purchase_unit(name).price_usd[1] for name in names]
    np.testing.assert_array_equal(table.unit_usd, expected)


def test_every_quote_names_its_facts(catalog):
    """An assumption could not be shown with its source."""
    quoted = quotes.site_terms(catalog, ("se",))
    assert "regions.se.usd_per_kwh" in quoted.facts
    assert "facility.wacc.default" in quoted.facts
    assert all(fact.source for fact in quoted.facts.values())
