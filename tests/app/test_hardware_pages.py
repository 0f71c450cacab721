"""A run of hardware alone on every page: no model, no memory, an open count, several scenarios."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.archive import Archive
from planner.engine import catalogue_names
from planner.kinds import prepare
from planner.pages.points import ids_of
from planner.run import run_study
from planner.study import read_study

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bought(tmp_path_factory):
    """A database with the study of servers and racks under megawatts and dollars."""
    db = tmp_path_factory.mktemp("bought") / "planner.duckdb"
    study = read_study(ROOT / "studies" / "buy_under_power.toml", catalogue_names())
    run_study(prepare(study), Archive(db), workers=1)
    return db


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
