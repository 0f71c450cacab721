"""Explaining a plan at each of its places: every scenario and site, as `show` names them."""

from pathlib import Path

import pytest
from small import planner

from planner.costing.places import study_at
from planner.study.read import read_study
from planner.training.engine import catalogue_names
from simkernel.errors import UnknownName

STUDIES = Path(__file__).parents[2] / "studies"
RENTS = [f"rent_usd_per_device_hour = {rent}" for rent in ("2", "2.5", "3", "4")]


def shown(tmp_path_factory, name):
    """A shipped study run into a database of its own, and what `show` says of it."""
    db = tmp_path_factory.mktemp(name) / "planner.duckdb"
    assert planner("run", STUDIES / f"{name}.toml", "--db", db).code == 0
    return db, planner("show", "last", "--db", db, "--json").document


@pytest.fixture(scope="module")
def rented(tmp_path_factory):
    """Buy or rent: one plan in four scenarios."""
    return shown(tmp_path_factory, "buy_or_rent")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Where to build: one plan at eleven sites in five scenarios."""
    return shown(tmp_path_factory, "where_to_build")


def explained(db, *words):
    return planner("explain", "last", *words, "--db", db, "--json")


def assert_is_row(document, row):
    """Every figure that both tell is the same."""
    assert document["plan"] == row["plan"]
    assert (document["site"], document["scenario"]) == (row["site"], row["scenario"])
    both = document["metrics"].keys() & row.keys()
    assert {"usd", "kgco2e", "capex_usd", "npv_usd"} <= both
    for name in both:
        wanted = row[name]
        is_number = isinstance(wanted, float)
        found = document["metrics"][name]
        assert found == (pytest.approx(wanted, rel=1e-12) if is_number else wanted), name


@pytest.mark.long
def test_each_scenario_of_a_plan_can_be_explained(rented):
    """A buyer who asks about a rent of 2 would be shown the figures of a rent of 4."""
    db, document = rented
    assert [row["scenario"] for row in document["options"]] == RENTS
    for row in document["options"]:
        answer = explained(db, row["plan"], "--scenario", row["scenario"])
        assert_is_row(answer.document, row)
        assert answer.document["scenarios"] == RENTS


@pytest.mark.long
def test_each_site_in_each_scenario_can_be_explained(built):
    """A site that lost could not be asked why, and a name would stand for the winner alone."""
    db, document = built
    assert len(document["options"]) == 55
    for row in document["options"][::6]:
        place = ("--site", row["site"], "--scenario", row["scenario"])
        assert_is_row(explained(db, row["plan"], *place).document, row)


@pytest.mark.long
def test_a_place_on_the_front_is_explained_as_it_stands(rented):
    """The second line of the table would be explained with the rent of the first."""
    db, document = rented
    for place, row in enumerate(document["front"], start=1):
        found = explained(db, str(place)).document
        assert_is_row(found, row)
        there = {"site": row["site"], "scenario": row["scenario"]}
        assert {"place": place, **there} in found["on_front"]
        assert len(found["on_front"]) == 4


@pytest.mark.parametrize(
    "words",
    [
        "rent_usd_per_device_hour=2.5",
        "costing.rent_usd_per_device_hour = 2.50",
        "rent_usd_per_device_hour = 2.5",
    ],
)
def test_a_scenario_is_named_as_shown_or_as_set(rented, words):
    """A person would have to type the words of the table to the letter."""
    found = explained(rented[0], "p0", "--scenario", words).document
    assert found["metrics"]["costing_rent_usd_per_device_hour"] == 2.5


@pytest.mark.long
def test_thousands_of_a_figure_part_no_scenario(tmp_path_factory):
    """A budget of 200,000,000 would be read as 200."""
    db, document = shown(tmp_path_factory, "buy_under_power")
    row = next(r for r in document["options"] if not r["is_front"])
    assert row["scenario"] == "capex_usd = 200,000,000"
    for words in (row["scenario"], "capex_usd=200e6"):
        found = explained(db, row["plan"], "--scenario", words).document
        assert found["metrics"]["purchase_units"] == 625
        assert found["limits"] == {"peak_facility_mw": 10, "capex_usd": 200e6}
        assert found["metrics"]["site"] == row["site"]


@pytest.mark.parametrize(
    ("option", "words", "known"),
    [
        ("--scenario", "rent_usd_per_device_hour = 9", RENTS),
        ("--scenario", "pue = 2", RENTS),
        ("--scenario", "cheap", RENTS),
        ("--site", "mars", ["us-avg"]),
    ],
)
def test_a_place_that_is_not_there_is_an_error_that_lists_what_is(rented, option, words, known):
    """Another scenario would be explained in its stead."""
    answer = explained(rented[0], "p0", option, words)
    assert answer.code == 2
    assert words in answer.err
    assert all(name in answer.err for name in known)


def test_words_of_no_scenario_never_stand_for_the_first():
    """A front stored in other words would be explained with the figures of another row."""
    study = read_study(STUDIES / "buy_or_rent.toml", catalogue_names())
    assert study_at(study, "", RENTS[1]).costing.rent_usd_per_device_hour == 2.5
    with pytest.raises(UnknownName, match="is 0 of this run"):
        study_at(study, "", "rent = 2.5")


def test_a_study_without_scenarios_says_so(workspace):
    """A scenario would be taken in silence where there is none."""
    words = ("--db", workspace.db, "--json")
    row = workspace.documents[0]["front"][0]
    answer = planner("explain", "1", row["plan"], "--scenario", "pue=2", *words)
    assert answer.code == 2
    assert "this run has none" in answer.err


@pytest.mark.long
def test_a_training_plan_is_explained_at_the_site_asked_for(workspace):
    """The carbon of one grid would be told for the other."""
    words = ("--db", workspace.db, "--json")
    row = workspace.documents[0]["front"][0]
    for site in ("us-tx", "se", "cn-west"):
        found = planner("explain", "1", row["plan"], "--site", site, *words).document
        assert found["site"] == found["metrics"]["site"] == site
        assert found["scenario"] is None
        assert found["scenarios"] == []
        assert found["sites"] == ["us-tx", "se", "cn-west"]


@pytest.mark.long
def test_the_text_names_the_place_and_the_others(rented, built):
    """A person at a terminal would not know which scenario is before him."""
    text = " ".join(planner("explain", "last", "1", "--db", rented[0]).out.split())
    assert "at us-avg, rent_usd_per_device_hour = 4 scenarios, each by --scenario" in text
    assert all(words in text for words in RENTS)
    words = ("explain", "last", "p0", "--site", "us-in", "--db", built[0])
    lines = planner(*words).out.splitlines()
    assert lines[0].endswith("at us-in, carbon_usd_per_t = 0; not on the front there")
    assert lines[1].startswith("sites, each by --site: us-tx, us-wa")
