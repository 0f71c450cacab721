"""Both sides of a limit are of one period: the whole run, or the whole life of the hardware.

pypsa-usa#815 and PyPSA#765 weighted one side of a cap by its years and not the other. Nothing here
has several periods; the years of a run or of a life are the weights, and they enter once.
"""

import pytest
from small import DENSE, engine_of, planner, study_of
from test_hardware import rows_of

from planner.costing.second_pass import cost_plans
from planner.runs.total import joined
from planner.search.sweep import sweep
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

OWNED = """
[study]
name = "owned"
kind = "hardware"
[axes]
accelerator = "H100-SXM"
nodes = 16
[costing]
site = "us-tx"
life_years = 5
"""

OF_A_LIFE = ("operational_kgco2e", "location_average_kgco2e", "facility_mwh", "it_mwh", "water_l")
"""Sums over the life that grow with every year of it."""


def owned(*settings, text=OWNED):
    """The one option, under some settings."""
    (row,) = rows_of(with_settings(study_of(text), settings, catalogue_names()))
    return row


@pytest.fixture(scope="module")
def five():
    """Five years of it."""
    return owned()


@pytest.mark.parametrize("years", [1, 2.5, 8])
def test_a_life_weighs_every_sum_once(five, years):
    """Eight years of electricity would emit as much as one, or sixty-four times as much."""
    row = owned(f"costing.life_years={years}")
    for name in OF_A_LIFE:
        assert row[name] / years == pytest.approx(five[name] / 5, rel=1e-12), name
    assert row["embodied_kgco2e"] == pytest.approx(five["embodied_kgco2e"])  # made once
    assert row["kgco2e"] == pytest.approx(row["operational_kgco2e"] + row["embodied_kgco2e"])
    assert row["usd"] == pytest.approx(years * row["usd_per_year"], rel=1e-12)
    hours = years * 8760
    assert row["facility_mwh"] == pytest.approx(row["facility_mean_w"] * hours / 1e6, rel=1e-12)


def test_a_price_of_carbon_is_paid_for_the_tonnes_of_the_same_years(five):
    """A tonne would be paid once for the life, or five times for each year."""
    priced = owned("costing.carbon_usd_per_t=100")
    paid = priced["usd"] - five["usd"]
    assert paid == pytest.approx(100 * five["operational_kgco2e"] / 1000, rel=1e-9)
    assert priced["usd_per_year"] - five["usd_per_year"] == pytest.approx(paid / 5, rel=1e-9)


@pytest.mark.parametrize("years", [1, 5, 8])
@pytest.mark.parametrize(
    ("cap_over_emitted", "is_kept"), [(20 / 17, True), (1 + 1e-6, True), (20 / 85, False)]
)
def test_a_cap_holds_the_years_that_it_is_compared_with(years, cap_over_emitted, is_kept):
    """17 kt a year for 5 years under 20 kt a year is kept; 85 beside 20 was the fault."""
    life = f"costing.life_years={years}"
    emitted = owned(life)["operational_kgco2e"]
    row = owned(life, f"limits.operational_kgco2e={cap_over_emitted * emitted}")
    assert row["is_front"] == is_kept


@pytest.mark.long
def test_what_breaks_a_cap_is_told_in_the_period_of_the_cap(tmp_path, five):
    """A reader would compare the tonnes of a year with those of five."""
    study = tmp_path / "x.toml"
    study.write_text(OWNED + "[limits]\nkgco2e = 1e6\n")
    (broken,) = planner("evaluate", study, "--json").document["violations"]
    assert broken["have"] == pytest.approx(five["kgco2e"], rel=1e-12)
    assert broken["need"] == 1e6
    document = planner("run", study, "--db", tmp_path / "x.duckdb", "--json").document
    assert document["nearest"]["plans"][0]["worst_excess"] == pytest.approx(
        five["kgco2e"] / 1e6 - 1, rel=1e-9
    )
    assert "whole life of the hardware, 5 years" in document["notes"]["period"]


@pytest.mark.parametrize("years", [2, 6])
def test_a_cap_that_ends_a_count_is_filled_over_the_whole_life(years):
    """As many servers as a year's cap allows would emit six times the cap."""
    text = OWNED.replace("nodes = 16", 'nodes = "most"').replace("= 5", f"= {years}")
    cap = 4e6
    row = owned(text=f"{text}[limits]\nkgco2e = {cap}\n")
    each = row["kgco2e"] / row["purchase_units"]
    assert row["kgco2e"] <= cap < row["kgco2e"] + 1.5 * each
    twice = owned(text=f"{text.replace(f'= {years}', f'= {2 * years}')}[limits]\nkgco2e = {cap}\n")
    assert twice["purchase_units"] < 0.6 * row["purchase_units"]


@pytest.mark.long
def test_a_life_that_differs_between_scenarios_is_told_as_such(tmp_path):
    """One number of years would be written over rows of two."""
    study = tmp_path / "x.toml"
    study.write_text(
        OWNED.replace("life_years = 5", "") + "[scenarios.costing]\nlife_years = [3, 6]\n"
    )
    document = planner("run", study, "--db", tmp_path / "x.duckdb", "--json").document
    assert "3 or 6 years, by row" in document["notes"]["period"]


@pytest.mark.parametrize("tokens", [1e11, 1e12, 7e12])
def test_a_run_longer_or_shorter_than_a_year_weighs_its_time_once(tokens):
    """A run of a month would pay and emit a year, or one of three years a single one."""
    text = DENSE.replace("tokens = 1e12", f"tokens = {tokens}").replace("days = 90", "days = 9e3")
    engine = engine_of(text)
    plans = joined([r.front for r in sweep(engine, 1, lambda: False) if r.front])
    costed = cost_plans(engine.study, engine.catalog, plans)
    c = costed.columns
    years = c["days"] / 365
    assert c["usd"] == pytest.approx(c["usd_per_year"] * years, rel=1e-12)
    mwh = c["facility_mean_w"] * c["days"] * 24 / 1e6
    assert c["facility_mwh"] == pytest.approx(mwh, rel=1e-12)
    cap = float(sorted(c["kgco2e"])[len(c["kgco2e"]) // 2])
    capped = cost_plans(
        with_settings(engine.study, [f"limits.kgco2e={cap}"], catalogue_names()),
        engine.catalog,
        plans,
    )
    assert capped.rejected["kgco2e"] == int((c["kgco2e"] > cap).sum())
    assert (capped.limits["kgco2e"].have == c["kgco2e"]).all()
