"""Every fault of serving on the list is held by tests that are there, or waits; those left."""

from pathlib import Path

import numpy as np
import pytest
from faults import faults_of, missing_tests

from planner.documents.answers import evaluate
from planner.serving.replay import plan_of, replayed
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.space.single import single
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names
from simkernel.peak import peak_window, warmed_from_empty

FAULTS = faults_of("serving_faults.toml")
OPEN_ISSUES = {"5"}

SERVED = """
[study]
name = "served"
kind = "serve"
[workload.chat]
model = "{model}"
peak_window_s = 20
[workload.chat.trace]
arrivals = {{ process = "poisson", requests_per_s = 2 }}
prompt_tokens = {{ from = 100, to = {longest} }}
output_tokens = 50
duration_s = 60
[axes]
accelerator = "{chip}"
supernode_devices = "offered"
tensor_parallel = {tensor}
precision = "bf16"
replicas = 4
[costing]
site = "us-tx"
"""


def told(folder, **words):
    """One plan as `planner evaluate` tells it, and its study."""
    plain = {"model": "meta-llama--Meta-Llama-3.1-8B", "chip": "H100-SXM", "tensor": 1}
    text = SERVED.format(**{**plain, "longest": 1000, **words})
    path = folder / "served.toml"
    path.write_text(text, encoding="utf-8")
    return evaluate(str(path), []), text


def test_every_serving_fault_has_a_test_or_waits_for_an_open_issue():
    """A fault would come back unseen."""
    assert not missing_tests(FAULTS)
    for fault in FAULTS:
        pending = fault.get("pending", "")
        assert fault["tests"] or pending.split(":")[0] in OPEN_ISSUES, fault["thread"]


def test_simai_262_a_model_nobody_timed_is_served_all_the_same(tmp_path):
    """A file of kernel times that is not there would end in a traceback."""
    document, _ = told(tmp_path, model="google--gemma-3-27b", tensor=2)
    assert document["metrics"]["tpot_s_mean"] > 0.0


def test_sarathi_55_a_chip_from_its_datasheet_is_priced_and_said_to_be_unmeasured(tmp_path):
    """A new chip would need days of profiling, or pass for a measured one."""
    document, _ = told(tmp_path, chip="MI300X")
    assert document["metrics"]["tpot_s_mean"] > 0.0
    assert document["metrics"]["validated"] == 0


def test_vidur_36_requests_beyond_the_models_context_are_refused(tmp_path):
    """A prompt that the model cannot read would be answered as any other.

    The file of Gemma-2 states 8,192 tokens; prompts of up to 12,000 come.
    """
    words = {"model": "google--gemma-2-9b", "longest": 12_000}
    document, text = told(tmp_path, **words)
    assert "context" in [line["limit"] for line in document["violations"]]
    study = study_from_text(text, "x.toml", Path.cwd(), catalogue_names())
    found = single(study)
    columns = values_of(found.engine.space, codes_of(found.engine.space, np.array([found.key])))
    replay = replayed(plan_of(found.engine, columns, "H100-SXM"), 1)
    assert replay.refused > 0
    assert "refused" in [line["limit"] for line in replay.broken()]


def test_dynamo_10104_the_longest_request_has_to_fit_the_cache(tmp_path):
    """A plan would be handed over that runs out of memory at its own context."""
    document, _ = told(tmp_path, model="meta-llama--Meta-Llama-3.1-70B", tensor=2, longest=60_000)
    assert "memory" in [line["limit"] for line in document["violations"]]


def test_a_replay_begins_where_the_fleet_had_no_backlog():
    """A peak after a busy hour would find an empty house: 90 tokens are left from 20 s before."""
    arrival_s = np.arange(0.0, 100.0)
    tokens = np.where(arrival_s < 60, 1.0, 4.0)
    window = peak_window(arrival_s, tokens, 100.0, 10.0, warm_up_s=5.0)
    free = warmed_from_empty(window, arrival_s, tokens, 1e9)
    assert free.warm_up_from_s == window.warm_up_from_s
    behind = warmed_from_empty(window, arrival_s, tokens, 2.0)
    assert behind.warm_up_from_s <= 60.0
    assert behind.warm_up_backlog_tokens == pytest.approx(0.0)
