"""Studies at a share of use: the same kWh everywhere, and own against rent at that use."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_hardware import OPEN, job, rows_of, study_of

from costdata import catalog
from planner.costing.second_pass import cost_plans
from planner.runs.total import joined
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy

RENT = "costing.rent_usd_per_device_hour=2.5"


def at_use(use, *settings):
    """The job of buying or renting 1,024 H100 for 2.5 $ an hour, at a use."""
    objectives = ("objectives.minimise=usd", "objectives.maximise=peak_flop_per_s")
    used = f"costing.utilisation_frac={use!r}"
    (row,) = job("buy_or_rent", RENT, used, *objectives, *settings)
    return row


def test_a_cluster_at_half_use_pays_for_the_energy_that_it_reports():
    """28.8 GWh would be billed and 14.4 reported: at 50 % it is work for half the hours, and rest
    at the catalogue's idle watts, of chips, hosts and the pinned network, for the others."""
    whole, half = at_use(1.0), at_use(0.5)
    power = catalog.load().chips(["H100-SXM"]).power
    idle_w = 1024 * float(power.idle_w[0] + power.host_idle_w[0]) + 0.1 * 128 * 10200
    mwh = 3 * 8760 * 0.5 * (1.43616 + idle_w / 1e6) * 1.3
    assert half["facility_mwh"] == pytest.approx(mwh)
    assert whole["usd"] - half["usd"] == pytest.approx(
        (whole["facility_mwh"] - half["facility_mwh"]) * 80
    )
    ratio = half["operational_kgco2e"] / whole["operational_kgco2e"]
    assert ratio == pytest.approx(half["facility_mwh"] / whole["facility_mwh"])
    assert half["water_l"] / whole["water_l"] == pytest.approx(ratio)
    for name in ("capex_usd", "it_mean_w", "it_peak_w", "facility_peak_w", "embodied_kgco2e"):
        assert half[name] == pytest.approx(whole[name]), name


def test_the_worth_of_owning_falls_with_use_and_is_nought_at_the_break_even():
    """A board would be told a break-even at which owning still loses millions."""
    rows = [at_use(u) for u in (0.5, 0.7, 0.9, 1.0)]
    worth = [row["npv_usd"] for row in rows]
    assert worth == sorted(worth)
    zero = rows[0]["npv_zero_utilisation_frac"]
    assert all(row["npv_zero_utilisation_frac"] == pytest.approx(zero) for row in rows)
    at = at_use(float(zero))
    assert at["npv_usd"] == pytest.approx(0.0, abs=1e-6 * at["own_npv_usd"])
    assert at["breakeven_utilisation_frac"] == pytest.approx(zero)
    for row, use in zip(rows, (0.5, 0.7, 0.9, 1.0), strict=True):
        assert (row["npv_usd"] > 0) == (use > row["breakeven_utilisation_frac"])
    assert 0.75 < zero < rows[-1]["breakeven_utilisation_frac"] == pytest.approx(0.774, abs=5e-4)


def test_a_reservation_is_compared_as_paid_for_every_hour():
    """A reserved price would be halved for a machine that is used half the time."""
    whole, half = (at_use(u, "costing.rent_plan=reserved") for u in (1.0, 0.5))
    assert half["rent_npv_usd"] == pytest.approx(whole["rent_npv_usd"])
    assert half["npv_usd"] > whole["npv_usd"]
    assert np.isnan(half["breakeven_utilisation_frac"])
    hourly = at_use(0.5)
    assert hourly["rent_npv_usd"] == pytest.approx(whole["rent_npv_usd"] / 2)


@pytest.mark.long
def test_a_plan_to_compare_with_takes_that_rent_of_the_catalogue():
    """A purchase would be compared with a reservation whatever is asked."""
    asked = [f"costing.rent_plan={name}" for name in ("reserved", "on_demand", "spot")]
    found = [rows_of(with_settings(study_of(OPEN), [a], catalogue_names()))[0] for a in asked]
    rents = [row["rent_usd_per_device_hour"] for row in found]
    assert rents[2] < rents[0] < rents[1]
    has_none = [bool(np.isnan(row["breakeven_utilisation_frac"])) for row in found]
    assert has_none == [True, False, False]
    leased = with_settings(study_of(OPEN), ["costing.acquire=lease", asked[0]], catalogue_names())
    with pytest.raises(BadStudy, match="buys nothing"):
        rows_of(leased)


@pytest.mark.parametrize("acquire", ["on_demand", "spot"])
def test_hardware_rented_by_the_hour_is_paid_for_the_hours_used(acquire):
    """Rent by the hour would be due around the clock."""
    hired = f"costing.acquire={acquire}"
    whole, half = (at_use(u, hired) for u in (1.0, 0.5))
    for name in ("usd", "usd_per_year", "facility_mwh", "operational_kgco2e", "rent_npv_usd"):
        assert half[name] == pytest.approx(whole[name] / 2), name
    assert half["usd_per_device_hour"] == pytest.approx(2.5)


@pytest.fixture(scope="module")
def plans(dense):
    """Feasible plans of the small training study, as the archive keeps them."""
    return joined([each["rows"] for each in dense.alone if each["feasible"]])


@settings(max_examples=15)
@given(use=st.floats(0.05, 1.0))
def test_a_training_run_bills_what_it_reports_at_any_use(dense, plans, use):
    """Dollars of idle hours would have no energy beside them, or energy no dollars."""
    asked = ["costing.site=us-tx", f"costing.utilisation_frac={use!r}"]
    study = with_settings(dense.engine.study, asked, catalogue_names())
    costed = cost_plans(study, dense.engine.catalog, plans)
    columns, usd = costed.columns, costed.ledgers["usd"].terms
    price = catalog.load().site("us-tx").usd_per_kwh[1]
    paid = usd["energy"] + usd["idle_energy"]
    np.testing.assert_allclose(paid, columns["facility_mwh"] * 1000 * price, rtol=1e-12)
    hours = columns["days"] * 24
    own_mwh = columns["facility_mean_w"] * hours / 1e6
    np.testing.assert_allclose(columns["facility_mwh"] - columns["idle_mwh"], own_mwh, rtol=1e-12)
    hourly = columns["usd_per_device_hour"] * columns["devices"] * hours
    np.testing.assert_allclose(columns["usd"], hourly, rtol=1e-12)


def test_pinned_watts_below_idle_rest_at_the_pinned_watts(dense, plans):
    """Hardware would draw more at rest than at work."""
    asked = ["costing.site=us-tx", "costing.utilisation_frac=0.5"]
    study = with_settings(dense.engine.study, asked, catalogue_names())
    low = {**plans, "it_mean_w": 0.0 * plans["it_mean_w"] + 10.0}
    columns = cost_plans(study, dense.engine.catalog, low).columns
    np.testing.assert_allclose(columns["idle_mwh"], columns["facility_mwh"] / 2, rtol=1e-12)
