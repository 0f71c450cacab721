"""Every shipped study of hardware alone, whole: its front is lawful and golden.

Golden fronts are kept under golden/ as those of the training studies are, and refreshed by the
same option.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner.archive.store import Archive
from planner.documents.answers import show
from planner.metrics import is_at_least
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.training.engine import catalogue_names

HERE = Path(__file__).parent
SHIPPED = [
    path
    for path in sorted((HERE.parents[1] / "studies").glob("*.toml"))
    if read_study(path).kind == "hardware"
]
DIGITS = 4
BOUGHT = ("scenario", "site", "accelerator", "power_cap_frac", "purchase_units", "binding")
FIGURES = (
    *("peak_flop_per_s", "it_peak_w", "facility_peak_w", "capex_usd", "usd_per_year", "usd"),
    *("own_npv_usd", "rent_npv_usd", "npv_usd", "usd_per_device_hour", "payback_months"),
    *("breakeven_utilisation_frac", "operational_kgco2e", "embodied_kgco2e", "kgco2e"),
)


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda path: path.stem)
def ran(request, tmp_path_factory):
    """A study, the document of its run, and where its golden front is kept."""
    study = read_study(request.param, catalogue_names())
    db = tmp_path_factory.mktemp("hardware") / "studies.duckdb"
    done = run_study(prepare(study), Archive(db), workers=1)
    return study, show(db, done.run), HERE / "golden" / f"{request.param.stem}.json"


def test_a_study_of_hardware_answers_every_option(ran):
    """An option would vanish without a word."""
    study, document, _ = ran
    counts = document["candidates"]
    assert document["front"]
    assert counts["evaluated"] + sum(counts["masked"].values()) == counts["enumerated"]
    scenarios = np.prod([len(values) for values in study.scenarios.values()])
    rows = counts["evaluated"] * len(study.costing.site) * int(scenarios)
    assert len(document["options"]) == rows


def test_every_option_of_a_front_keeps_all_limits_of_its_study(ran):
    """Hardware would be advised that the study forbids."""
    study, document, _ = ran
    for row in document["front"]:
        for name, bound in study.limits.items():
            slack = 1e-9 * abs(bound)
            kept = row[name] >= bound - slack if is_at_least(name) else row[name] <= bound + slack
            assert kept, name


def test_no_option_of_a_scenario_beats_another(ran):
    """A front with a beaten option on it asks a person to choose between better and worse."""
    study, document, _ = ran
    signs = {name: 1.0 for name in study.objectives.minimise}
    signs |= {name: -1.0 for name in study.objectives.maximise}
    for scenario in {row.get("scenario") for row in document["front"]}:
        rows = [row for row in document["front"] if row.get("scenario") == scenario]
        points = np.array([[s * row[n] for n, s in signs.items()] for row in rows])
        no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
        better = (points[:, None, :] < points[None, :, :]).any(axis=2)
        assert not (no_worse & better).any()


def test_every_front_of_hardware_is_the_one_that_was_reviewed(ran, refresh_golden):
    """A change of facts or prices would move the answers without anyone looking."""
    _, document, path = ran
    found = golden(document)
    if refresh_golden:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert found["candidates"] == kept["candidates"]
    assert [row["bought"] for row in found["front"]] == [row["bought"] for row in kept["front"]]
    exact = golden(document, digits=16)
    for now, then in zip(exact["front"], kept["front"], strict=True):
        assert now["figures"] == pytest.approx(then["figures"], rel=5.1 * 10.0**-DIGITS)


def golden(document, digits=DIGITS):
    """What is compared: counts, and of each option what is bought where, and its figures."""
    rows = [
        {
            "bought": " | ".join(str(row.get(name, "")) for name in BOUGHT),
            "figures": {
                name: float(f"{row[name]:.{digits - 1}e}")
                for name in FIGURES
                if row[name] is not None
            },
        }
        for row in document["front"]
    ]
    return {
        "study": document["study"],
        "candidates": document["candidates"],
        "columns": {"bought": " | ".join(BOUGHT)},
        "front": sorted(rows, key=lambda row: row["bought"]),
    }
