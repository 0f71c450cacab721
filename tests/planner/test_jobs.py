"""Jobs whose answers were worked out by hand: how many devices by a date, at a given use."""

from pathlib import Path

import numpy as np
import pytest
from small import ROOT, study_of

from planner.search.sweep import sweep
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare

SHIPPED = ROOT / "studies" / "llama31_70b_training.toml"
PEAK = 989.4e12
"""Dense bf16 peak of H100 and H800 [flop/s]; the hand's 989e12 is 0.04% below."""

EXPERTS = """
[study]
name = "deepseek-v3"
kind = "train"

[workload.main]
model = "deepseek-ai--DeepSeek-V3"
tokens = 14.8e12
tokens_per_sequence = 4096
max_global_batch_tokens = 65e6

[axes]
accelerator = "H800-SXM"
devices = { from = 1024, to = 4096, step = 32 }
tensor_parallel = 1
pipeline_parallel = [4, 8, 16]
expert_parallel = 64
global_batch_sequences = [7680, 8192, 9216, 15360]
zero_stage = 1
recompute = "full"
precision = "bf16"

[limits]
days = 55

[pin]
mfu_frac = 0.352
goodput_frac = 1.0
model_flop_per_token = 2.253e11  # 6 x 37.55e9 active parameters
"""


def feasible(study):
    """Plans of the physical front of a study, as columns."""
    fronts = [result.front for result in sweep(prepare(study), 1, lambda: False) if result.front]
    return {name: np.concatenate([front[name] for front in fronts]) for name in fronts[0]}


def with_set(study, *settings):
    """A study with some keys replaced."""
    return with_settings(study, settings, catalogue_names())


def by_hand(flop_per_token, tokens, days, mfu_frac, goodput_frac):
    """Devices that do the work by the date."""
    return flop_per_token * tokens / (PEAK * mfu_frac * goodput_frac * days * 86_400)


@pytest.fixture(scope="module")
def experts():
    """DeepSeek-V3 by a date on H800s."""
    return feasible(study_of(EXPERTS))


def test_a_model_of_experts_needs_the_devices_that_its_active_parameters_need(experts):
    """DeepSeek-V3 took 2,664 thousand H800-hours, 2,018 devices for 55 days: counted with all of
    its 671e9 parameters it would need 36 thousand."""
    hand = by_hand(6 * 37.55e9, 14.8e12, 55, 0.352, 1.0)
    assert hand == pytest.approx(2_018, rel=2e-3)
    least = experts["devices"].min()
    assert 1_700 <= least <= 2_600
    assert hand <= least
    for row in range(len(experts["devices"])):
        seconds = 6 * 37.55e9 * 14.8e12 / (PEAK * 0.352 * experts["devices"][row])
        assert experts["days"][row] == pytest.approx(seconds / 86_400, rel=1e-3)


def test_its_memory_is_that_of_all_parameters(experts):
    """A model of experts would be planned on cards that cannot hold it (llmfit#230)."""
    devices, resident = experts["devices"], experts["resident_bytes"]
    assert np.all(resident * devices > 2 * 671e9), "the weights of all experts are on the devices"
    assert np.all(experts["headroom_bytes"] >= 0)
    few = with_set(
        study_of(EXPERTS), "devices=64", "pp=1", "ep=64", "limits.days=99999", "gbs=8192"
    )
    (result,) = sweep(prepare(few), 1, lambda: False)
    assert not result.front
    assert set(result.nearest["binding"]) == {"memory"}


def test_all_parameters_in_the_work_would_be_eighteen_times_too_many():
    """The check itself would be blind to the fault that it looks for."""
    hand = by_hand(6 * 671e9, 14.8e12, 55, 0.352, 1.0)
    assert hand > 30_000
    study = with_set(
        study_of(EXPERTS),
        f"pin.model_flop_per_token={6 * 671e9}",
        'devices={ from = 28672, to = 40960, step = 1024 }',
        "pp=[16,32,60]", "gbs=[15360,30720,61440,122880]",
        "workload.main.max_global_batch_tokens=9e9",
    )  # fmt: skip
    assert feasible(study)["devices"].min() > 30_000


def test_the_work_without_a_pin_is_that_of_active_parameters():
    """A study that pins nothing would be answered with the total."""
    engine = prepare(study_of(EXPERTS.replace("model_flop_per_token", "# model_flop_per_token")))
    assert 6 * 36.6e9 < engine.flop_per_token < 1.3 * 6 * 37.55e9


@pytest.fixture(scope="module")
def dense_job():
    """The shipped study of a dense model, and the same on a few counts and splits."""
    study = read_study(SHIPPED, catalogue_names())
    return study, with_set(
        study, "devices=[3352,3448,3680,3712,3744,3840,4096,4800]", "tp=8", "pp=[1,2,4,5]",
        "cp=1", "schedule=1f1b", "vp=1", "mbs=1", "recompute=full", "zero_stage=1",
        "gbs={ from = 1024, to = 2048, step = 2 }",
    )  # fmt: skip


def test_a_dense_model_by_a_date_in_whole_hosts(dense_job):
    """Llama 3.1 70B in 60 days: 3,440 devices by six operations a parameter, 7.6% more with
    attention; the model card's hours give 4,861."""
    study, narrow = dense_job
    work = 6 * 70.554e9
    hand = by_hand(work, 15e12, 60, 0.40, 0.90)
    assert hand == pytest.approx(3_440, rel=2e-3)
    plans = feasible(narrow)
    least = plans["devices"].min()
    assert 3_350 <= least <= 4_900
    assert least >= hand
    assert np.all(plans["devices"] % 8 == 0)
    whole = range(int(study.axes["devices"][0]), int(study.axes["devices"][-1]) + 1, 8)
    assert study.axes["devices"] == tuple(whole)
    split = plans["tensor_parallel"] * plans["pipeline_parallel"] * plans["data_parallel"]
    assert np.all(split * plans["context_parallel"] == plans["devices"])
    assert np.all(plans["days"] <= 60)
    assert np.all(plans["resident_bytes"] <= 80 * 2**30)


def test_attention_is_part_of_the_work_and_told_apart(dense_job):
    """The causal attention of long sequences, 7.6% here, would be left out."""
    _, narrow = dense_job
    engine = prepare(narrow)
    attention = 6 * 80 * 8_192 * 8_192
    without_input = 70.554e9 - 128_256 * 8_192
    assert engine.flop_per_token == pytest.approx(6 * without_input + attention, rel=5e-3)
    plans = feasible(narrow)
    row = int(np.argmin(plans["devices"]))
    assert plans["step_s[s].attention"][row] > 0
    hand = by_hand(engine.flop_per_token, 15e12, 60, 0.40, 0.90)
    assert hand == pytest.approx(3_650, rel=0.02)
    assert hand <= plans["devices"][row]


def test_the_shipped_study_is_the_job():
    """The test would pass on another job than the one that is shipped."""
    study = read_study(Path(SHIPPED), catalogue_names())
    work = study.training
    assert (work.tokens, work.tokens_per_sequence) == (15e12, 8_192)
    assert dict(study.pin) == {"mfu_frac": 0.40, "goodput_frac": 0.90}
    assert study.limits["days"] == 60
