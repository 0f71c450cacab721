"""A run of hardware alone on every page: no model, no memory, an open count, several scenarios."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.archive.store import Archive
from planner.documents import answers as commands
from planner.documents.figures import human
from planner.pages.points import ids_of
from planner.pages.words import plain
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.training.engine import catalogue_names

ROOT = Path(__file__).resolve().parents[2]


def stored(tmp_path_factory, name):
    """A database with a run of a shipped study."""
    db = tmp_path_factory.mktemp(name) / "planner.duckdb"
    study = read_study(ROOT / "studies" / f"{name}.toml", catalogue_names())
    run_study(prepare(study), Archive(db), workers=1)
    return db


@pytest.fixture(scope="module")
def bought(tmp_path_factory):
    """Servers and racks under megawatts and dollars."""
    return stored(tmp_path_factory, "buy_under_power")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """One cluster at eleven sites under five prices of carbon."""
    return stored(tmp_path_factory, "where_to_build")


@pytest.mark.long
@pytest.mark.parametrize("name", ["front", "why", "what_if", "removed", "assumptions"])
def test_a_purchase_can_be_looked_at_on_every_page(bought, name, monkeypatch):
    """A page would end in a traceback for want of a training run."""
    monkeypatch.setenv("PLANNER_DB", str(bought))
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    page.switch_page(f"planner/pages/{name}.py").run()
    assert not page.exception
    assert not page.error


def test_one_option_in_two_scenarios_is_two_points(bought):
    """A click on the larger budget would explain the smaller."""
    archive = Archive(bought)
    front = archive.front(archive.runs()[0].run)
    assert len(set(ids_of(front))) == len(front["plan"]) == 3


@pytest.mark.long
def test_why_can_be_asked_at_every_place_of_the_plan(built, monkeypatch):
    """A site that lost, or another price of carbon, could not be looked at."""
    monkeypatch.setenv("PLANNER_DB", str(built))
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    page.switch_page("planner/pages/why.py").run()
    boxes = {box.label: box for box in page.main.selectbox}
    assert len(boxes["Site"].options) == 11
    assert boxes["Scenario"].value == "carbon_usd_per_t = 0"
    boxes["Site"].select("us-in").run()
    {box.label: box for box in page.main.selectbox}["Scenario"].select(
        "carbon_usd_per_t = 400"
    ).run()
    assert not page.exception
    document = commands.explain(built, "last", "p0", "us-in", "carbon_usd_per_t = 400")
    shown = {metric.label: metric.value for metric in page.main.metric}
    assert shown["usd"] == human(document["metrics"]["usd"], "USD")
    assert plain("p0 @ us-in @ carbon_usd_per_t = 400") in page.main.caption[0].value


@pytest.mark.long
def test_a_limit_of_a_scenario_stands_among_the_limits(bought, monkeypatch):
    """The budget that binds would not be in the table of limits."""
    monkeypatch.setenv("PLANNER_DB", str(bought))
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    page.switch_page("planner/pages/why.py").run()
    limits = [
        list(table.value["limit"]) for table in page.main.dataframe if "limit" in table.value
    ]
    assert limits == [["peak_facility_mw", "capex_usd"]]


def what_if(db, monkeypatch):
    """The page of sliders of a database."""
    monkeypatch.setenv("PLANNER_DB", str(db))
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    page.switch_page("planner/pages/what_if.py").run()
    assert not page.exception
    return page


@pytest.mark.long
@pytest.mark.parametrize(
    ("chip", "usd", "key", "given"),
    [
        ("H100-SXM", 40000.0, "all_in_usd_per_device", 30000.0),
        ("GB200", 3.9e6 / 72, "all_in_usd_per_unit", 72 * 30000.0),
    ],
)
def test_a_slider_moves_the_price_in_force(bought, chip, usd, key, given, monkeypatch):
    """A slider of a price that an all-in price holds would move nothing."""
    page = what_if(bought, monkeypatch)
    (slider,) = (s for s in page.slider if s.label.startswith(chip))
    assert slider.value == pytest.approx(usd)
    assert "all in" in slider.label
    page.sidebar.selectbox(key="chosen").select(chosen_of(page, bought, chip)).run()
    before = {metric.label: metric.value for metric in page.metric}
    (slider,) = (s for s in page.slider if s.label.startswith(chip))
    slider.set_value(30000.0).run()
    assert not page.exception
    setting = page.code[0].value.split("--set ")[1].strip()
    name, _, value = setting.partition("=")
    assert name == f"costing.{key}.{chip}"
    assert float(value) == given
    after = {metric.label: metric.value for metric in page.metric}
    assert after["capex_usd"] != before["capex_usd"]


def chosen_of(page, db, chip):
    """A plan of the front with this chip."""
    archive = Archive(db)
    front = archive.front(archive.runs()[0].run)
    return next(
        i for i, name in zip(ids_of(front), front["accelerator"], strict=True) if name == chip
    )


@pytest.mark.long
def test_what_is_a_scenario_has_no_slider(built, monkeypatch):
    """A price for all scenarios would tell plans of the front as not sold."""
    page = what_if(built, monkeypatch)
    assert not [s for s in page.slider if s.label.startswith("Carbon price")]
    assert any(
        "No slider for Carbon price" in c.value and "Choose a plan of that scenario" in c.value
        for c in page.caption
    )


@pytest.mark.long
def test_sliders_compare_plans_within_their_scenario(built, monkeypatch):
    """Every plan would be told to have left, and the chosen one not to be sold."""
    page = what_if(built, monkeypatch)
    (slider,) = (s for s in page.slider if s.label == "PUE")
    slider.set_value(1.5).run()
    assert not page.exception
    assert not page.info
    chosen = page.sidebar.selectbox(key="chosen").value
    assert plain(f"What happens to {chosen}") in [s.value for s in page.subheader]
    assert not any(" 0 stayed" in c.value for c in page.caption)
