"""Each page as a person finds it: figures, tables, choices; without a browser."""

from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture
def app(stored, monkeypatch):
    """The app, opened on the stored run."""
    return opened(stored.db, monkeypatch)


def opened(db, monkeypatch):
    monkeypatch.setenv("PLANNER_DB", str(db))
    page = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not page.exception
    return page


def figures(page):
    """The large figures of a page by their labels."""
    return {metric.label: metric.value for metric in page.metric}


def test_the_front_is_the_one_that_was_stored(app, stored):
    """The app would show other plans than the command does."""
    table = app.dataframe(key="table").value
    names = [f"{row.plan} @ {row.site}" for row in table.itertuples()]
    front = zip(stored.front["plan"], stored.front["site"], strict=True)
    assert sorted(names) == sorted(f"{plan} @ {site}" for plan, site in front)
    assert np.allclose(sorted(table["usd"]), sorted(stored.front["usd"]), rtol=1e-12)
    assert figures(app)["Front (plan @ site)"] == str(len(names))
    assert len(app.get("vega_lite_chart")) == 1


def test_a_choice_of_plan_outlives_a_choice_of_axes(app):
    """Somebody comparing axes would lose the plan that they look at."""
    plan = app.sidebar.selectbox(key="chosen").options[-1]
    app.sidebar.selectbox(key="chosen").select(plan).run()
    app.selectbox(key="x").select("kgco2e").run()
    app.toggle(key="log_x").set_value(True).run()
    app.toggle(key="bands").set_value(True).run()
    assert app.sidebar.selectbox(key="chosen").value == plan
    assert not app.exception


def test_a_file_that_is_not_there_is_said_in_words(tmp_path, monkeypatch):
    """A first visit would end in a traceback."""
    page = opened(tmp_path / "none.duckdb", monkeypatch)
    assert "planner run STUDY" in page.error[0].value
