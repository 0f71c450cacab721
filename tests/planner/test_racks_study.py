"""Density and cooling of racks as limits of a study."""

import pytest
from small import DENSE, MOE, study_of

from planner.documents.answers import evaluate_study
from planner.study.settings import with_settings

H100 = ("tp=1", "pp=1", "mbs=1", "devices=64", "accelerator=H100-SXM", "costing.site=us-tx")
RACK = ("accelerator=GB200", "tp=1", "pp=1", "ep=8", "zero_stage=1", "supernode_devices=72")


def evaluated(text, *settings):
    return evaluate_study(with_settings(study_of(text), settings))


def test_a_hall_that_carries_40_kw_takes_no_rack_of_seventy_two():
    """The plan would be bought and could not be plugged in."""
    found = evaluated(MOE, *RACK, "limits.rack_kw=40.0")
    assert "rack_kw" in [v["limit"] for v in found["violations"]]
    assert 90 < found["metrics"]["rack_kw"] < 150
    servers = evaluated(DENSE, *H100, "limits.rack_kw=40.0")["metrics"]
    assert servers["rack_kw"] <= 40
    assert servers["racks"] == -(-servers["purchase_units"] // (40 // (servers["rack_kw"] / 4)))


def test_without_coolant_only_air_cooled_chips_are_left():
    """A hall without pipes would get cold plates."""
    found = evaluated(MOE, *RACK, "limits.liquid_cooled=0")
    assert "liquid_cooled" in [v["limit"] for v in found["violations"]]
    air = evaluated(DENSE, *H100, "limits.liquid_cooled=0")
    assert air["metrics"]["liquid_cooled"] == 0
    assert "liquid_cooled" not in [v["limit"] for v in air["violations"]]


def test_three_powers_are_kept_apart():
    """A hall would be built for the mean, or billed for the name plate."""
    m = evaluated(DENSE, *H100)["metrics"]
    assert m["it_mean_w"] < m["it_peak_w"] < m["provisioned_w"]
    assert m["provisioned_w"] == pytest.approx(1.1 * m["it_peak_w"])
    assert m["device_mean_w"] <= m["device_peak_w"] <= 700
