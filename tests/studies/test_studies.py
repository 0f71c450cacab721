"""Every shipped training study, narrowed to seconds: it runs, its front is lawful and golden.

Golden fronts are kept under golden/, rounded to DIGITS significant digits. After a change that is
meant to move them:

    python -m pytest tests/studies --refresh-golden

and read the difference before it is committed; the commit says which numbers moved and why.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner.archive.store import Archive
from planner.axes import ALL, AXES, COUNTS
from planner.documents.answers import show
from planner.metrics import find_metric, is_at_least
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare

HERE = Path(__file__).parent
SHIPPED = [
    path
    for path in sorted((HERE.parents[1] / "studies").glob("*.toml"))
    if read_study(path).kind == "train"
]
CHIPS = ("H100-SXM", "GB200", "Ascend-910C")
"""In place of all: a host of eight, a rack of 72 and a supernode of 384, from two makers."""
COUNTED, SITES = 3, 3
DIGITS = 4
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel")
SPLIT = (
    *DEGREES,
    *("expert_parallel", "schedule", "virtual_stages", "micro_batch_sequences"),
    *("global_batch_sequences", "zero_stage", "recompute", "precision"),
)
BOUGHT = ("accelerator", "devices", "supernode_devices", "nodes", "purchase_units", "site")
FIGURES = (
    *("days", "mfu_frac", "goodput_frac", "it_mean_w", "it_peak_w", "facility_mwh"),
    *("capex_usd", "usd_per_year", "usd", "operational_kgco2e", "embodied_kgco2e", "kgco2e"),
)
OF_THE_SPLIT = ("step_s", "resident_bytes", "inside_bytes_per_step", "outside_bytes_per_step")


def spread(levels, count):
    """Some of many levels: the first, the last and evenly chosen ones between."""
    picked = np.unique(np.linspace(0, len(levels) - 1, min(count, len(levels))).astype(int))
    return [levels[i] for i in picked]


def narrowed(study):
    """The study on a few hardware bills and sites; how devices are used is left whole."""
    settings = []
    chips = CHIPS if study.axes["accelerator"] == (ALL,) else study.axes["accelerator"]
    settings.append(f"accelerator={json.dumps(list(chips[: len(CHIPS)]))}")
    for name, levels in study.axes.items():
        if name in COUNTS or (
            AXES[name].is_bill and len(levels) > COUNTED and name != "accelerator"
        ):
            settings.append(f"{name}={json.dumps(spread(levels, COUNTED))}")
    settings.append(f"costing.site={json.dumps(spread(study.costing.site, SITES))}")
    return with_settings(study, settings, catalogue_names())


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda path: path.stem)
def ran(request, tmp_path_factory):
    """A narrowed study, the document of its run, and where its golden front is kept."""
    study = narrowed(read_study(request.param, catalogue_names()))
    db = tmp_path_factory.mktemp("studies") / "studies.duckdb"
    done = run_study(prepare(study), Archive(db), workers=1)
    return study, show(db, done.run), HERE / "golden" / f"{request.param.stem}.json"


def test_a_shipped_study_ends_with_a_front(ran):
    """The first thing a new user tries would come to nothing."""
    _, document, _ = ran
    counts = document["candidates"]
    assert document["front"]
    assert counts["evaluated"] > 1000 or counts["enumerated"] < 1000
    seen = counts["evaluated"] + sum(counts["skipped"].values())
    assert seen + sum(counts["masked"].values()) == counts["enumerated"]


def test_every_plan_of_a_front_keeps_all_limits_of_its_study(ran):
    """A plan would be advised that the study forbids."""
    study, document, _ = ran
    job = study.training
    for row in document["front"]:
        for name, bound in study.limits.items():
            assert row[name] >= bound if is_at_least(name) else row[name] <= bound, name
        batch = row["global_batch_sequences"] * job.tokens_per_sequence
        assert batch <= job.max_global_batch_tokens
        assert row["headroom_bytes"] >= 0


def test_every_plan_of_a_front_uses_its_devices_once(ran):
    """aiconfigurator 1476: a degree left out of the product, or devices nobody paid for."""
    _, document, _ = ran
    for row in document["front"]:
        assert np.prod([row[name] for name in DEGREES]) == row["devices"]
        stage = row["devices"] // row["pipeline_parallel"]
        assert stage % (row["expert_parallel"] * row["expert_tensor_parallel"]) == 0
        replicas = row["data_parallel"] * row["micro_batch_sequences"]
        assert row["global_batch_sequences"] % replicas == 0
        assert row["stranded_devices"] >= 0
        assert 1 <= row["used_per_domain"] <= row["supernode_devices"]


def test_every_band_of_a_front_brackets_its_value(ran):
    """A prediction outside its own band is no prediction."""
    study, document, _ = ran
    for row in document["front"]:
        bounded = [name for name in row if f"{name}_low" in row]
        assert {"days", "usd", "kgco2e", "resident_bytes", "it_mean_w"} <= set(bounded)
        for name in bounded:
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"], name
        for scope in ("device", "it", "facility"):
            assert row[f"{scope}_mean_w_high"] <= row[f"{scope}_peak_w_high"]
        for name in study.objectives.minimise:
            assert find_metric(name).name in row


def test_no_plan_of_a_front_beats_another(ran):
    """A front with a beaten plan on it asks a person to choose between better and worse."""
    study, document, _ = ran
    signs = {name: 1.0 for name in study.objectives.minimise}
    signs |= {name: -1.0 for name in study.objectives.maximise}
    points = np.array([[s * row[n] for n, s in signs.items()] for row in document["front"]])
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
    better = (points[:, None, :] < points[None, :, :]).any(axis=2)
    assert not (no_worse & better).any()


def test_a_front_is_the_one_that_was_reviewed(ran, refresh_golden):
    """A change of physics, facts or prices would move the answers without anyone looking."""
    study, document, path = ran
    found = golden(study, document)
    if refresh_golden:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert found["candidates"] == kept["candidates"]
    assert found["rejected"] == pytest.approx(kept["rejected"], abs=2)
    assert [row["bought"] for row in found["front"]] == [row["bought"] for row in kept["front"]]
    exact = golden(study, document, digits=16)
    for now, then in zip(exact["front"], kept["front"], strict=True):
        assert now["split"] == then["split"]
        assert now["figures"] == pytest.approx(then["figures"], rel=5.1 * 10.0**-DIGITS)


def golden(study, document, digits=DIGITS):
    """What is compared: counts, and of each plan what is bought, how it is split, its figures.

    Where the study gives the utilisation, splits of one bill tie but for rounding noise, so
    neither the split nor what follows from it is compared.
    """
    is_tied = "mfu_frac" in study.pin
    split = () if is_tied else SPLIT
    figures = FIGURES if is_tied else (*FIGURES, *OF_THE_SPLIT)
    rows = [
        {
            "bought": " ".join(str(_plain(row[name])) for name in BOUGHT),
            "split": " ".join(f"{row[name]}" for name in split),
            "figures": {name: float(f"{row[name]:.{digits - 1}e}") for name in figures},
        }
        for row in document["front"]
    ]
    return {
        "study": document["study"],
        "candidates": document["candidates"],
        "rejected": document["rejected"],
        "columns": {"bought": " ".join(BOUGHT), "split": " ".join(split)},
        "front": sorted(rows, key=lambda r: (r["bought"], r["split"], r["figures"]["days"])),
    }


def _plain(value):
    """Whole numbers without a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
