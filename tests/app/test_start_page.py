"""The page that begins: shipped studies, faults at their lines, a run of its own, a stop."""

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.archive.store import Archive
from planner.pages import start
from planner.study.read import study_from_text

ROOT = Path(__file__).resolve().parents[2]

SHORT = """
[study]
name = "Short & ../odd"
kind = "hardware"
[axes]
accelerator = ["H100-SXM"]
nodes = [1, 2]
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The page over a database that does not exist yet."""
    monkeypatch.setenv("PLANNER_DB", str(tmp_path / "planner.duckdb"))
    found = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    found.switch_page("planner/pages/start.py").run()
    assert not found.exception
    return found


def written(page, text):
    """The page with another study in its text."""
    page.text_area[0].set_value(text).run()
    assert not page.exception
    return page


def test_every_fault_of_a_study_stands_with_its_line(page):
    """A person would mend one line, run, and meet the next fault."""
    written(page, SHORT.replace("nodes = [1, 2]", "nodes = [0]\nspeed = 3"))
    told = [error.value for error in page.error]
    assert len(told) == 2
    assert all(fault.startswith("line\\:") for fault in told)
    assert not [b for b in page.button if b.key == "run_study"]


@pytest.mark.long
def test_a_study_runs_in_a_process_of_its_own_and_is_found_again(page, tmp_path):
    """A page that is loaded again would lose the run."""
    written(page, SHORT)
    assert "2 combinations" in page.success[0].value
    page.button(key="run_study").click().run()
    assert not page.exception
    archive = Archive(tmp_path / "planner.duckdb")
    deadline = time.monotonic() + 60
    while not (archive.path.exists() and archive.runs() and archive.runs()[0].summary):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (tmp_path / "planner_studies" / "short-odd.toml").read_text() == SHORT
    page.run()
    (runs,) = (t.value for t in page.dataframe if "state" in t.value)
    assert runs["state"].tolist() == ["finished"]
    assert runs["evaluated"].tolist() == [2]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "=cmd|' /C calc'!A0", "<b>x</b>", "…"]
)
def test_a_name_never_leaves_the_folder(name):
    """A study's name would write over a file of the machine."""
    found = start.file_name(name)
    assert found
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_a_shipped_study_can_be_begun_with_as_it_is():
    """The first thing that a newcomer tries would be refused."""
    text = (ROOT / "studies" / "buy_under_power.toml").read_text()
    study, faults = start.faults_of(text)
    assert not faults
    assert study == study_from_text(text, "line", study.folder)
