"""Every shipped serving study, narrowed to seconds: its front is lawful and golden.

Golden fronts are kept under golden/ as those of the training studies are, and refreshed by the
same option. One plan of each is replayed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner.archive.store import Archive
from planner.documents.answers import show
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

HERE = Path(__file__).parent
NARROWED = {
    "serve_azure_conversation": ("max_batch=[128,256]", "token_budget=[2048,8192]",
                                 "power_cap_frac=[0.8,1]", 'costing.site=["us-tx","se"]'),
    "serve_deepseek_wide_ep": ("max_batch=[64,128]", "token_budget=4096",
                               'costing.site="us-tx"'),
    "serve_prefix_cache": ("accelerator=H100-SXM", "tp=[4,8]", "kv_precision=fp8", "max_batch=128",
                           "token_budget=8192", 'costing.site="us-tx"'),
}  # fmt: skip
DIGITS = 4
CHOSEN = (
    *("accelerator", "supernode_devices", "tensor_parallel", "attention_data_parallel"),
    *("expert_parallel", "kv_precision", "max_batch", "token_budget", "power_cap_frac"),
    *("replicas", "devices", "site"),
)
FIGURES = (
    *("ttft_s_p50", "ttft_s_p95", "tpot_s_mean", "tpot_s_p95", "e2e_s_p95", "utilisation_frac"),
    *("capacity_requests_per_s", "j_per_token", "it_mean_w", "it_peak_w", "usd", "kgco2e"),
    *("usd_per_mtoken_input", "usd_per_mtoken_output", "usd_per_mtoken_total"),
)


def test_every_serving_study_is_tested():
    """A study would ship that nobody has run."""
    shipped = {
        path.stem
        for path in (HERE.parents[1] / "studies").glob("*.toml")
        if read_study(path).kind == "serve"
    }
    assert shipped == {*NARROWED, "serve_disaggregated"}  # in test_pools_study.py


@pytest.fixture(scope="module", params=NARROWED)
def ran(request, tmp_path_factory):
    """A narrowed study, the document of its run, and where its golden front is kept."""
    names = catalogue_names()
    study = read_study(HERE.parents[1] / "studies" / f"{request.param}.toml", names)
    study = with_settings(study, NARROWED[request.param], names)
    db = tmp_path_factory.mktemp("serving") / "studies.duckdb"
    done = run_study(prepare(study), Archive(db), workers=1, replays=0)
    return study, show(db, done.run), HERE / "golden" / f"{request.param}.json"


def test_a_serving_study_ends_with_a_front(ran):
    """The first thing a new user tries would come to nothing."""
    _, document, _ = ran
    counts = document["candidates"]
    assert document["front"]
    assert counts["evaluated"] + sum(counts["masked"].values()) == counts["enumerated"]


def test_every_plan_of_a_serving_front_keeps_its_bounds(ran):
    """A fleet would be advised that misses what it was asked for."""
    study, document, _ = ran
    for row in document["front"]:
        for name, most in study.serving.slo.items():
            assert row[name] <= most
        assert row["utilisation_frac"] <= study.serving.peak_utilisation_frac + 1e-9
        assert row["devices"] >= row["floor_devices"]
        assert row["headroom_bytes"] >= 0
        per_replica = row["tensor_parallel"] * row["attention_data_parallel"]
        assert row["devices"] == row["replicas"] * per_replica * row["pipeline_parallel"]


def test_dollars_of_tokens_add_up_to_the_year(ran):
    """Prompts and answers would pay more, or less, than the fleet costs."""
    _, document, _ = ran
    for row in document["front"]:
        paid = row["usd_per_mtoken_input"] * row["input_tokens"]
        paid += row["usd_per_mtoken_output"] * row["output_tokens"]
        assert paid / 1e6 == pytest.approx(row["usd"], rel=1e-9)


def test_the_azure_fleet_lies_where_hand_arithmetic_puts_it():
    """553 requests/s of 1,155 + 211 tokens, 2 N flop each, at dense FP8 peak: 54 H100 at least.

    At the busiest minute prompts are longer, 1,442 tokens at 835 requests/s: 92. Real kernels
    reach a quarter to a third of the peak on prompts.
    """
    names = catalogue_names()
    study = read_study(HERE.parents[1] / "studies" / "serve_azure_conversation.toml", names)
    engine = prepare(study)
    mean, peak = engine.load.mean, engine.load.peak
    assert mean.requests_per_s == pytest.approx(553.0, rel=0.001)
    tokens = mean.mix.prompt_tokens_mean + mean.mix.output_tokens_mean
    assert 2 * 70.55e9 * tokens * mean.requests_per_s / 1978.9e12 == pytest.approx(54.0, rel=0.02)
    assert 1.4 < peak.requests_per_s / mean.requests_per_s < 1.6


def test_a_serving_front_is_the_one_that_was_reviewed(ran, refresh_golden):
    """A change of physics, facts or prices would move the answers without anyone looking."""
    _, document, path = ran
    found = golden(document)
    if refresh_golden:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert found["candidates"] == kept["candidates"]
    assert found["rejected"] == pytest.approx(kept["rejected"], abs=2)
    assert [row["chosen"] for row in found["front"]] == [row["chosen"] for row in kept["front"]]
    exact = golden(document, digits=16)
    for now, then in zip(exact["front"], kept["front"], strict=True):
        assert now["figures"] == pytest.approx(then["figures"], rel=5.1 * 10.0**-DIGITS)


def golden(document, digits=DIGITS):
    """What is compared: counts, and of each plan what is chosen and its figures."""
    rows = [
        {
            "chosen": " ".join(f"{row[name]}" for name in CHOSEN),
            "figures": {name: float(f"{row[name]:.{digits - 1}e}") for name in FIGURES},
        }
        for row in document["front"]
    ]
    order = np.argsort([row["chosen"] for row in rows], kind="stable")
    return {
        "study": document["study"],
        "candidates": document["candidates"],
        "rejected": document["rejected"],
        "columns": " ".join(CHOSEN),
        "front": [rows[i] for i in order],
    }
