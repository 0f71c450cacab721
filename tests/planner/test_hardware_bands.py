"""Bands of hardware rows follow from the bands of what they rest on, and from nothing else."""

import numpy as np
import pytest
from small import planner
from small_hardware import OPEN, job, rows_of, study_of

from costdata import catalog
from planner.hardware.bands import BANDED
from planner.hardware.nulls import NO_END
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

RENT = "costing.rent_usd_per_device_hour=2.5"
GIVEN = (
    "it_mean_w", "it_peak_w", "facility_mwh", "peak_facility_mw", "capex_usd", "usd",
    "usd_per_year", "usd_per_device_hour", "own_npv_usd", "rent_npv_usd", "npv_usd",
    "breakeven_utilisation_frac",
)  # fmt: skip
"""Figures of the job of buying or renting that rest on the buyer's own."""


def band(row, name):
    """Ends of a band over the figure."""
    return row[f"{name}_low"] / row[name], row[f"{name}_high"] / row[name]


def one(*settings):
    """An H100 cluster of 50 million dollars on the catalogue's figures, but for some."""
    return rows_of(with_settings(study_of(OPEN), [*settings], catalogue_names()))[0]


@pytest.mark.parametrize("name", GIVEN)
def test_what_rests_on_given_figures_alone_has_no_spread(name):
    """A buyer's own price would be doubted by a third."""
    (row,) = job("buy_or_rent", RENT)
    assert band(row, name) == (1.0, 1.0)


@pytest.mark.parametrize("scope", ["device", "it", "facility"])
def test_a_mean_is_nowhere_in_its_band_above_the_peak(scope):
    """Energy, carbon and money of watts that the devices cannot draw would widen every band."""
    row = one()
    for end in ("low", "high"):
        mean_w, peak_w = row[f"{scope}_mean_w_{end}"], row[f"{scope}_peak_w_{end}"]
        assert mean_w <= peak_w * (1.0 + 1e-12)


def test_what_the_buyer_does_not_give_keeps_its_band():
    """Carbon of a grid would be known to the gram because the price is."""
    (row,) = job("buy_or_rent", RENT)
    assert band(row, "operational_kgco2e") == pytest.approx((0.85, 1.15))
    assert band(row, "embodied_kgco2e")[1] > 1.2
    (row,) = job("buy_or_rent", RENT, "costing.grid_kgco2e_per_kwh=0.4")
    assert band(row, "operational_kgco2e") == (1.0, 1.0)


@pytest.mark.long
def test_the_band_of_worth_is_that_of_what_it_is_the_difference_of():
    """The figure that decides between owning and renting would come without a doubt."""
    row = one(RENT)
    assert row["npv_usd_low"] < row["npv_usd"] < row["npv_usd_high"]
    for low, high in (("low", "high"), ("high", "low")):
        away = row[f"npv_usd_{low}"] - row["npv_usd"]
        assert away == pytest.approx(row["own_npv_usd"] - row[f"own_npv_usd_{high}"], rel=1e-9)
    no_rent = with_settings(study_of(OPEN), ["accelerator=Ascend-910C"], catalogue_names())
    (unknown,) = rows_of(no_rent)
    assert np.isnan([unknown["npv_usd"], unknown["npv_usd_low"], unknown["npv_usd_high"]]).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("costing.all_in_usd_per_device.H100-SXM=40000", "capex_usd"),
        ("costing.price_usd.H100-SXM=32000", "capex_usd"),
        ("costing.usd_per_kwh=0.08", "usd"),
        ("costing.pue=1.2", "facility_mwh"),
        ("costing.colo_usd_per_kw_month=180", "usd"),
        ("costing.maintenance_frac=0.05", "own_npv_usd"),
        ("costing.residual_frac=0.2", "own_npv_usd"),
        (RENT, "rent_npv_usd"),
        ("costing.grid_kgco2e_per_kwh=0.4", "operational_kgco2e"),
        ("pin.device_peak_w=700", "device_peak_w"),
    ],
)
def test_giving_a_figure_narrows_the_band_of_what_rests_on_it(given, name):
    """A quote would leave as much in doubt as a list price."""
    (before, after) = (np.ptp(band(one(*s), name)) for s in ((), (given,)))
    assert after < before


def test_a_price_of_the_catalogue_is_as_wide_as_its_list():
    """The spread of one server would be taken from the spread of all servers."""
    row = one("costing.usd_per_kwh=0.08")
    low, typical, high = catalog.load().purchase_unit("H100-SXM").price_usd
    units = row["purchase_units"]
    down, up = row["capex_usd"] - row["capex_usd_low"], row["capex_usd_high"] - row["capex_usd"]
    assert units * (typical - low) < down < units * (typical - low) * 2
    assert units * (high - typical) <= up < units * (high - typical) * 1.1


@pytest.mark.long
def test_a_figure_is_inside_its_band():
    """A limit on the upper end would let in what the middle forbids."""
    for row in [*rows_of(study_of(OPEN)), *job("where_to_build"), *job("power_capped_site")]:
        for name in BANDED:
            if not np.isnan(row[name]):
                slack = 1e-12 * abs(row[name])
                assert row[f"{name}_low"] - slack <= row[name] <= row[f"{name}_high"] + slack, name


@pytest.mark.long
def test_a_limit_on_the_end_of_a_band_ends_a_count():
    """A budget that must hold at dear prices would be spent at middling ones."""
    free = one()
    held = one("limits.capex_usd_high=50e6")
    assert held["purchase_units"] < free["purchase_units"]
    assert held["capex_usd_high"] <= 50e6


@pytest.mark.long
def test_a_rent_near_the_energy_of_work_leaves_the_band_open_above(tmp_path):
    """A use that may never be enough would have a figure and no band, without a word."""
    study, words = tmp_path / "x.toml", ("--db", tmp_path / "x.duckdb", "--json")
    study.write_text(OPEN.replace('"H100-SXM", "GB200"', '"H100-SXM"'))
    name, settings = "npv_zero_utilisation_frac", ["costing.rent_usd_per_device_hour=0.06"]
    asked = [word for one in settings for word in ("--set", one)]
    (row,) = planner("run", study, *asked, *words).document["options"]
    assert 0 <= row[f"{name}_low"] < row[name]
    assert row[f"{name}_high"] is None
    assert row["null_reasons"][f"{name}_high"] == NO_END
    assert name not in row["null_reasons"]
    explained = planner("explain", "last", "1", *words).document
    assert explained["null_reasons"][f"{name}_high"] == NO_END
