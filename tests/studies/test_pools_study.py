"""The shipped study of pools apart, narrowed: its front is lawful, its corners reviewed."""

import json
from pathlib import Path

import pytest

from planner.archive.store import Archive
from planner.documents.answers import show
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.pools import POOLS
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "serve_disaggregated.json"
NARROWED = ("prefill.tp=[1,2]", "prefill.token_budget=8192", "decode.tp=[2,4]",
            "decode.max_batch=256", "kv_precision=fp8", "power_cap_frac=1",
            'costing.site="us-tx"')  # fmt: skip
DIGITS = 4
CHOSEN = ("accelerator", "kv_transfer", "prefill.tensor_parallel", "prefill.replicas",
          "decode.tensor_parallel", "decode.replicas", "devices")  # fmt: skip
FIGURES = ("ttft_s_p50", "ttft_s_p95", "tpot_s_p95", "kv_transfer_s", "kv_wait_s", "it_mean_w",
           "it_peak_w", "usd", "kgco2e", "usd_per_mtoken_input",
           "usd_per_mtoken_total")  # fmt: skip


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The narrowed study and the document of its run."""
    names = catalogue_names()
    study = read_study(HERE.parents[1] / "studies" / "serve_disaggregated.toml", names)
    study = with_settings(study, NARROWED, names)
    db = tmp_path_factory.mktemp("pools") / "studies.duckdb"
    return study, show(db, run_study(prepare(study), Archive(db), workers=1).run)


def test_every_plan_of_the_front_keeps_its_bounds(ran):
    """A fleet would be advised that misses what it was asked for, or leaves a pool unpaid."""
    study, document = ran
    assert document["front"]
    for row in document["front"]:
        for name, most in study.serving.slo.items():
            assert row[name] <= most
        assert row["utilisation_frac"] <= study.serving.peak_utilisation_frac + 1e-9
        assert row["devices"] == sum(row[f"{pool}.devices"] for pool in POOLS)
        assert row["devices"] >= row["floor_devices"]
        assert row["headroom_bytes"] >= 0
        assert row["kv_transfer_s"] > row["kv_moved_bytes"] / (50e9 * row["prefill.devices"])
        paid = row["usd_per_mtoken_input"] * row["input_tokens"]
        paid += row["usd_per_mtoken_output"] * row["output_tokens"]
        assert paid / 1e6 == pytest.approx(row["usd"], rel=1e-9)


def test_the_corners_of_the_front_are_those_that_were_reviewed(ran, refresh_golden):
    """A change of physics, facts or prices would move the answers without anyone looking."""
    study, document = ran
    found = {
        "front": len(document["front"]),
        "physical_front": document["physical_front"],
        "evaluated": document["candidates"]["evaluated"],
        "best": {name: _best(document, name) for name in study.objectives.minimise},
    }
    if refresh_golden:
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    counts = ("front", "physical_front", "evaluated")
    assert {n: found[n] for n in counts} == pytest.approx({n: kept[n] for n in counts}, rel=0.02)
    for name, row in kept["best"].items():
        assert found["best"][name]["chosen"] == row["chosen"], name
        assert found["best"][name]["figures"] == pytest.approx(row["figures"], rel=1e-3), name


def _best(document, objective):
    row = min(document["front"], key=lambda r: (r[objective], r["usd"], r["plan"]))
    return {
        "chosen": {name: row[name] for name in CHOSEN},
        "figures": {name: float(f"{row[name]:.{DIGITS - 1}e}") for name in FIGURES},
    }
