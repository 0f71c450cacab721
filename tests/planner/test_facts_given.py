"""Facts that a study's own figures replace are not counted among those it rests on."""

import pytest
from small import DENSE, planner, study_of
from small_hardware import OPEN, STUDIES, job, rows_of
from small_hardware import study_of as hardware_of

from costdata import catalog
from planner.runs.facts_used import facts_used
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

H100 = {"accelerator": ["H100-SXM"], "site": ["us-avg"]}
SITE = "costing.site=us-avg"


def names_of(study, *settings):
    """Names of the facts of an H100 plan in Ohio under some settings."""
    study = with_settings(study, [SITE, *settings], catalogue_names())
    return set(facts_used(study, catalog.load(), H100))


REPLACED = {
    "costing.price_usd.H100-SXM=30000": "H100-SXM.servers.price_usd",
    "costing.all_in_usd_per_device.H100-SXM=30000": "H100-SXM.accelerators.price_usd",
    "costing.all_in_usd_per_unit.H100-SXM=300000": "H100-SXM.accelerators.price_usd",
    "costing.usd_per_kwh=0.08": "us-avg.regions.usd_per_kwh",
    "costing.pue=1.2": "us-avg.regions.pue",
    "costing.grid_kgco2e_per_kwh=0.4": "us-avg.regions.grid_average_kgco2e_per_kwh",
    "costing.wacc_frac=0.1": "facility.wacc.default",
    "costing.life_years=3": "facility.life.it",
    "costing.residual_frac=0.2": "facility.residual.after_36_months",
    "costing.maintenance_frac=0.05": "facility.maintenance.annual",
    "costing.staff_usd_per_year=0": "facility.staff.small_fleet",
    "costing.colo_usd_per_kw_month=0": "facility.colo.us_primary",
    "costing.facility_usd_per_w=11": "facility.colo.us_primary",
    "costing.acquire=reserved": "H100-SXM.servers.price_usd",
    "costing.acquire=on_demand": "us-avg.regions.usd_per_kwh",
    "pin.goodput_frac=0.9": "defaults.checkpoint_wait_s",
}


@pytest.mark.parametrize("setting", REPLACED)
def test_what_a_study_gives_no_longer_rests_on_the_catalogue(setting):
    """A quote would be as doubtful as the list price that it replaces."""
    study, gone = study_of(DENSE), REPLACED[setting]
    assert gone in names_of(study)
    assert gone not in names_of(study, setting)


def test_pinned_speed_and_watts_need_no_curves():
    """A measured step would be as doubtful as the curves of a chip that nobody timed."""
    study = study_of(DENSE)
    assert any("efficiency_gemm" in name for name in names_of(study, "pin.step_s=3"))
    pins = ("pin.step_s=3", "pin.device_mean_w=600", "pin.device_peak_w=700")
    assert not any("efficiency_gemm" in name for name in names_of(study, *pins))
    assert "H100-SXM.power_curves.idle_w" in names_of(study, *pins)


def test_a_watt_of_a_server_replaces_that_of_the_host():
    """The buyer's own server would be doubted for the catalogue's."""
    study = hardware_of(OPEN)
    host = "H100-SXM.power_curves.host_span_w"
    assert host in names_of(study)
    assert host not in names_of(study, "pin.unit_other_w=4600")
    assert "defaults.storage_w_per_pb" not in names_of(study, "pin.network_overhead_frac=0.1")
    assert not any("efficiency" in n or "checkpoint" in n for n in names_of(study))


def test_a_figure_of_a_scenario_is_given():
    """A price that is varied would count as the catalogue's."""
    text = OPEN + "\n[scenarios.costing]\nusd_per_kwh = [0.05, 0.1]\n"
    assert "us-avg.regions.usd_per_kwh" not in names_of(hardware_of(text))


@pytest.mark.long
def test_a_price_that_nobody_checked_counts_until_a_price_is_given():
    """The count would be the same for a quote and a guess."""
    chip = "accelerator=GB300"
    before, after = (
        rows_of(with_settings(hardware_of(OPEN), [chip, *more], catalogue_names()))[0]
        for more in ((), ("costing.price_usd.GB300=60000",))
    )
    assert after["unverified_facts"] == before["unverified_facts"] - 1


@pytest.mark.long
def test_the_count_is_of_the_facts_that_are_listed():
    """The number of doubts and their list would be two truths."""
    for name in ("buy_or_rent", "where_to_build"):
        answer = planner("evaluate", STUDIES / f"{name}.toml", "--json").document
        assert len(answer["unverified_facts"]) == answer["metrics"]["unverified_facts"]
        told = {row["unverified_facts"] for row in job(name)}
        assert answer["metrics"]["unverified_facts"] in told
