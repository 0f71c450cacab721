"""Every shipped study of purchases, its cheapest plan: lawful by its own books, and golden."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner.archive.store import Archive
from planner.documents.answers import explain
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.training.engine import catalogue_names

HERE = Path(__file__).parent
LARGE = ("three_year_fleet",)
"""Solved in tests/bench."""

SHIPPED = [
    path
    for path in sorted((HERE.parents[1] / "studies").glob("*.toml"))
    if read_study(path).kind == "fleet" and path.stem not in LARGE
]
TOLD = ("buy", "rent", "runs")


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda path: path.stem)
def ran(request, tmp_path_factory):
    """A study, its cheapest plan, and where its golden calendar is kept."""
    study = read_study(request.param, catalogue_names())
    study = replace(study, fleet=replace(study.fleet, points=1))
    db = tmp_path_factory.mktemp("fleet") / "studies.duckdb"
    done = run_study(prepare(study), Archive(db), workers=1)
    return study, explain(db, done.run, "1"), HERE / "golden" / f"{request.param.stem}.json"


def test_a_purchase_study_has_a_plan_within_its_gap(ran):
    """A plan would be shown as best that nobody proved to be near it."""
    study, document, _ = ran
    assert document["status"] == "optimal"
    assert document["gap_frac"] <= study.fleet.gap_frac
    assert len(document["calendar"]) == study.fleet.periods


def test_the_calendar_of_a_study_is_the_golden_one(ran, refresh_golden):
    """A purchase order would change without anybody deciding so."""
    _, document, path = ran
    found = {
        "own_npv_usd": float(f"{document['metrics']['own_npv_usd']:.3g}"),
        "kgco2e": float(f"{document['metrics']['kgco2e']:.3g}"),
        "calendar": [{name: period[name] for name in TOLD} for period in document["calendar"]],
    }
    if refresh_golden:
        path.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(path.read_text())
