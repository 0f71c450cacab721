"""Targets: what is wished for is told of every plan and forbids none."""

import numpy as np
import pytest
from small import DENSE, planner, study_of
from small_hardware import OPEN

from planner.archive.store import Archive
from planner.costing.targets import with_targets
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.written import study_document
from simkernel.errors import BadStudy

WISHES = "[targets]\ndays = 25\nusd = 70000\ntokens_per_s = 600000\n"
RANKED = '[objectives]\nminimise = ["usd", "target_shortfall_frac"]\n'


def ran(text, folder):
    """The run of a study."""
    return run_study(prepare(study_of(text)), Archive(folder / "x.duckdb"), workers=1)


@pytest.mark.long
def test_a_target_forbids_nothing_and_is_told_of_every_plan(tmp_path):
    """A wish would be taken for a limit, or forgotten."""
    plain, wished = ran(DENSE, tmp_path), ran(DENSE + WISHES, tmp_path)
    assert wished.summary.front_hash == plain.summary.front_hash
    assert "missed_targets" not in plain.front
    front = wished.front
    for i, missed in enumerate(front["missed_targets"]):
        short = {
            "days": front["days"][i] / 25 - 1,
            "usd": front["usd"][i] / 70000 - 1,
            "tokens_per_s": 1 - front["tokens_per_s"][i] / 600000,
        }
        assert set(missed.split("; ")) - {""} == {name for name, by in short.items() if by > 0}
        worst = max(0.0, *short.values())
        assert front["target_shortfall_frac"][i] == pytest.approx(worst, abs=1e-12)


@pytest.mark.long
def test_plans_are_ranked_by_how_near_they_come(tmp_path):
    """Two wishes that no plan meets would leave a person without the best compromise."""
    ranked = ran(DENSE + WISHES + RANKED, tmp_path)
    whole = ran(DENSE + WISHES + RANKED.replace('"usd", ', '"days", "usd", "kgco2e", '), tmp_path)
    shortest = ranked.front["target_shortfall_frac"].min()
    assert shortest == pytest.approx(whole.front["target_shortfall_frac"].min(), rel=1e-12)
    order = np.argsort(ranked.front["usd"])
    assert (np.diff(ranked.front["target_shortfall_frac"][order]) < 0).all()


@pytest.mark.long
def test_hardware_has_targets_too(tmp_path):
    """A budget that is only hoped for could not be written down."""
    front = ran(OPEN + "[targets]\npeak_facility_mw = 1\n", tmp_path).front
    over = np.array(front["peak_facility_mw"]) > 1
    assert [bool(missed) for missed in front["missed_targets"]] == over.tolist()


@pytest.mark.long
def test_targets_are_shown(tmp_path):
    """A reader could not tell a plan that meets every wish from one that meets none."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(DENSE + WISHES)
    document = planner("run", study, "--db", db, "--json").document
    assert document["targets"] == {"days": 25, "usd": 70000, "tokens_per_s": 600000}
    met = sum("days" not in row["missed_targets"] for row in document["front"])
    text = planner("show", "last", "--db", db).out
    assert (
        f"targets met by plans of the front, of {len(document['front'])}: days 25: {met}" in text
    )


def test_a_figure_that_is_not_known_meets_no_target():
    """What nobody knows would be told as reached."""
    study = study_of(DENSE + "[targets]\nwater_l = 5\n")
    found = with_targets(study, {"water_l": np.array([4.0, np.nan, 10.0])})
    assert found["missed_targets"].tolist() == ["", "water_l", "water_l"]
    assert found["target_shortfall_frac"][[0, 2]].tolist() == [0.0, 1.0]
    assert np.isnan(found["target_shortfall_frac"][1])


def test_targets_are_checked_as_limits_are():
    """A slip of the pen would be a wish for nothing."""
    with pytest.raises(BadStudy, match="dayz"):
        study_of(DENSE + "[targets]\ndayz = 5\n")
    with pytest.raises(BadStudy, match="target_shortfall_frac"):
        study_of(DENSE + RANKED)
    assert "targets" not in study_document(study_of(DENSE))
