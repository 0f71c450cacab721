"""Bounds against the physics they stand for: no candidate breaks one, and no answer changes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.archive.store import Archive
from planner.runs.run import run_study
from planner.runs.total import Total
from planner.search import sweep as room
from planner.search.bounds import ROUNDING, broken_by, least_days
from planner.search.legal import layouts_of, random_codes, repaired
from planner.space.blocks import values_of
from planner.study.read import read_study, study_from_text
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare
from planner.training.evaluate import evaluate

STUDIES = Path(__file__).parents[2] / "studies"

WIDE = """
[study]
name = "wide"
kind = "train"
[workload.main]
model = "{model}"
tokens = 1e13
tokens_per_sequence = {sequence}
{more}
[axes]
accelerator = "all"
devices = [8, 64, 512, 4096]
supernode_devices = "offered"
tensor_parallel = [1, 2, 8]
pipeline_parallel = [1, 2, 4, 8]
context_parallel = [1, 2]
expert_parallel = [1, 2, 8, 32]
schedule = ["gpipe", "one_forward_one_backward", "interleaved", "zero_bubble", "dual_pipe"]
virtual_stages = [1, 2]
micro_batch_sequences = [1, 4, 16]
global_batch_sequences = [512, 4096]
zero_stage = [0, 1, 3]
recompute = ["none", "full"]
precision = ["bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4"]
power_cap_frac = [0.5, 1.0]
profile = "{profile}"
[costing]
site = ["us-tx"]
[limits]
days = 60
"""

MODELS = (
    ("meta-llama--Meta-Llama-3.1-8B", ""),
    ("Qwen--Qwen3-30B-A3B", 'expert_imbalance = "uniform"'),
    ("deepseek-v3", 'expert_imbalance = "uniform"'),
)
PROFILES = ("shipped", "compiled_2023", "unfused_2020")


TIGHT = (
    *('accelerator=["A100-80G-SXM", "H100-SXM", "Trainium2"]', "devices=[512, 8192]"),
    *("ep=[8, 64]", "tp=[1, 4]", "pp=[1, 8]", "gbs=[7680]", 'costing.site=["se"]'),
)
"""A few thousand candidates of the main job, on chips old and new."""


@cache
def wide(model, profile, sequence):
    """A space of everything: every chip, old and new stacks, short and long sequences."""
    name, more = MODELS[model]
    text = WIDE.format(model=name, more=more, profile=PROFILES[profile], sequence=sequence)
    engine = prepare(study_from_text(text, "wide.toml", STUDIES, catalogue_names()))
    return engine, layouts_of(engine.space)


def drawn(layouts, chip, seed):
    """Random candidates that can exist, on one chip as far as it has any."""
    rng = np.random.default_rng(seed)
    wishes = random_codes(layouts, 64, rng)
    wishes[:, 0] = chip
    codes, is_legal = repaired(layouts, wishes, rng)
    codes = codes[is_legal]
    return codes[codes[:, 0] == chip]


@pytest.mark.long
@settings(max_examples=15)
@given(
    model=st.integers(0, len(MODELS) - 1),
    profile=st.integers(0, len(PROFILES) - 1),
    sequence=st.sampled_from([128, 4096]),
    chip=st.integers(0, 200),
    seed=st.integers(0, 10_000),
)
def test_no_plan_is_faster_than_its_products_alone(model, profile, sequence, chip, seed):
    """A plan that keeps its deadline would be left out unseen."""
    engine, layouts = wide(model, profile, sequence)
    names = engine.space.levels["accelerator"]
    codes = drawn(layouts, chip % len(names), seed)
    if not len(codes):
        return
    accelerator = str(names[chip % len(names)])
    columns = values_of(engine.space, codes)
    found = evaluate(engine, columns, accelerator)
    least = least_days(engine, columns, accelerator)
    is_known = np.isfinite(least) & np.isfinite(found.metrics["days"])
    assert np.all(least[is_known] <= found.metrics["days"][is_known] * (1 + ROUNDING))
    for limit, is_broken in broken_by(engine, columns, accelerator).items():
        assert np.all(found.limits[limit].excess[is_broken] > 0)


def test_no_curve_lets_a_product_run_faster_than_the_bound_takes_it():
    """A new table of curves could make a product faster than the rate of a very large one."""
    engine, _ = wide(0, 0, 4096)
    for name in engine.space.levels["accelerator"]:
        curve = engine.chip(str(name)).gemm
        for half in (curve.rows_half, curve.columns_half, curve.inner_half, curve.floor_s):
            assert np.all(half[np.isfinite(half)] >= 0)


def made(*more):
    """The main job, narrowed."""
    names = catalogue_names()
    study = read_study(STUDIES / "deepseek_v3_training.toml", names)
    return prepare(with_settings(study, (*TIGHT, *more), names))


def total_of(engine):
    """A whole sweep."""
    total = Total()
    for result in room.sweep(engine, 1, lambda: False):
        total.add(result)
    return total


def test_bounds_leave_the_physical_front_as_it_is(monkeypatch):
    """A plan on the front would be lost, and nobody would know."""
    engine = made()
    with_bounds = total_of(engine)
    monkeypatch.setattr(room, "broken_by", lambda *given: {})
    without = total_of(engine)
    assert set(with_bounds.skipped) == {"days", "kernels"}
    skipped = sum(with_bounds.skipped.values())
    assert with_bounds.evaluated + skipped == without.evaluated
    assert with_bounds.masked == without.masked
    for limit, count in without.rejected.items():
        assert with_bounds.rejected[limit] <= count
        assert count - with_bounds.rejected[limit] <= skipped
    one, other = with_bounds.physical(), without.physical()
    assert one["key"].tolist() == other["key"].tolist()
    assert one["days"].tolist() == other["days"].tolist()


@pytest.mark.long
def test_where_nothing_is_feasible_all_is_evaluated_after_all(tmp_path, monkeypatch):
    """The plans that come nearest to a hopeless deadline would not be among those named."""
    engine = made("limits.days=2")
    plain = without_bounds(engine, tmp_path, monkeypatch)
    done = run_study(engine, Archive(tmp_path / "x.duckdb"), workers=1)
    assert done.summary.skipped == {}
    assert done.summary.evaluated == plain.summary.evaluated
    assert done.summary.rejected == plain.summary.rejected
    assert done.summary.nearest == plain.summary.nearest
    assert len(done.summary.nearest["plans"]) == 10


def without_bounds(engine, folder, monkeypatch):
    """The run of a study that evaluates everything."""
    with monkeypatch.context() as patch:
        patch.setattr(room, "broken_by", lambda *given: {})
        return run_study(engine, Archive(folder / "plain.duckdb"), workers=1)
