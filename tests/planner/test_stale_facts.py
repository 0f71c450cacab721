"""A stored run looked at after its tables were edited: said, with both figures."""

import re

import pytest
from small import DENSE, planner
from small_hardware import OPEN

SITE = (
    "name=here", "title=Here", "kind=site", "country=SWE", "usd_per_kwh=0.05", "pue=1.2",
    "grid_average_kgco2e_per_kwh=0.02", "source=own meter", "as_of=2026-01", "grade=measured",
    "licence=own",
)  # fmt: skip
"""A site of one's own."""

CHANGED = "facts: tables have changed since "


def ran(folder, text):
    """A study at a site of one's own, run; its database and its front."""
    own, study, db = folder / "own", folder / "x.toml", folder / "x.duckdb"
    added = planner("catalog", "add", "site", *SITE, "--to", own, "--json")
    assert added.code == 0, added.err
    text = re.sub(r"(?m)^site = .*$", 'site = "here"', text)
    study.write_text(re.sub(r"(?m)^(kind = .*)$", f'\\1\ntables = "{own}"', text))
    answer = planner("run", study, "--db", db, "--workers", 1, "--json")
    assert answer.code == 0, answer.err
    return db, answer.document["front"]


def dearer(folder):
    """The site's price of electricity is edited, ten times what it was."""
    (table,) = (p for p in (folder / "own").glob("*.csv") if "own meter" in p.read_text())
    before = table.read_text()
    table.write_text(before.replace("0.05", "0.55"))
    assert table.read_text() != before


@pytest.fixture(scope="module", params=[DENSE, OPEN], ids=["train", "hardware"])
def edited(request, tmp_path_factory):
    """What explain said before the edit, and the database after it."""
    folder = tmp_path_factory.mktemp("edited")
    db, front = ran(folder, request.param)
    before = planner("explain", "1", "1", "--db", db, "--json").document
    dearer(folder)
    return db, front, before


def test_tables_that_did_not_change_are_not_said_to_have(edited):
    """A reader would distrust every figure."""
    assert not {"facts", "stored"} & set(edited[2]["notes"])


@pytest.mark.long
def test_explain_says_that_tables_changed_and_by_how_much(edited):
    """Two figures of one plan would differ without a word."""
    db, front, _ = edited
    document = planner("explain", "1", "1", "--db", db, "--json").document
    notes, new_usd = document["notes"], document["metrics"]["usd"]
    assert notes["facts"].startswith("tables have changed since ")
    assert new_usd > front[0]["usd"] * 1.001
    words = f"stored usd {front[0]['usd']:,.0f}, with today's tables {new_usd:,.0f}"
    assert words in notes["stored"]
    assert "stored capex_usd" not in notes["stored"]
    text = planner("explain", "1", "1", "--db", db).out
    assert CHANGED in text
    assert text.count(words) == 1


@pytest.mark.long
def test_a_comparison_says_it_too(edited):
    """Differences of today would be read as those of the run."""
    db, front, _ = edited
    words = ("explain", "1", "1", "--against", front[-1]["plan"], "--db", db)
    assert planner(*words, "--json").document["notes"]["facts"]
    assert CHANGED in planner(*words).out


@pytest.mark.long
def test_the_text_of_recost_says_it_and_its_explanation_has_moved_no_figure(edited):
    """The note would be for programs only."""
    db, _, _ = edited
    assert CHANGED in planner("recost", "1", "--db", db).out
    notes = planner("explain", "last", "1", "--db", db, "--json").document["notes"]
    assert notes["facts"].startswith("tables have changed since ")
    assert "stored" not in notes
