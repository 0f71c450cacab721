"""Serving studies that draft ahead, overlap two batches or copy hot experts."""

import numpy as np
import pytest
from small_serve import chat

from planner.runs.facts_used import facts_used
from planner.runs.kinds import prepare
from planner.serving.evaluate import evaluate
from planner.serving.replay import plan_of, replayed
from planner.space.blocks import bills, blocks, values_of
from planner.space.plan_keys import codes_of
from planner.space.single import single
from simkernel.errors import BadStudy

ONE = ("accelerator=H100-SXM", "supernode_devices=8", "tp=1", "max_batch=64", "token_budget=2048")
WIDE = (
    "workload.chat.model=deepseek-ai--DeepSeek-V3", "accelerator=H200-SXM", "precision=fp8_block",
    "supernode_devices=8", "tp=1", "attention_data_parallel=16", "ep=16", "max_batch=64",
    "token_budget=2048", "workload.chat.slo.tpot_s_p95=1.0", "workload.chat.slo.ttft_s_p95=5.0",
)  # fmt: skip


def one(*settings):
    """One plan: its engine, its row and what it comes to."""
    found = single(chat(*settings))
    columns = values_of(found.engine.space, codes_of(found.engine.space, np.array([found.key])))
    name = str(found.engine.space.levels["accelerator"][columns["accelerator"][0]])
    return found.engine, columns, evaluate(found.engine, columns, name)


def masked(*settings):
    """Rules that remove the one plan of some settings."""
    space = prepare(chat(*settings)).space
    return {
        rule for bill in bills(space) for block in blocks(space, bill) for rule in block.masked
    }


def figure(found, name):
    return float(found.metrics[name][0])


def test_drafts_shorten_the_time_between_tokens_and_take_memory():
    """The axis would be read and change nothing."""
    _, _, plain = one(*ONE)
    engine, columns, ahead = one(*ONE, "speculative=eagle:3")
    assert figure(ahead, "tpot_s_mean") < 0.6 * figure(plain, "tpot_s_mean")
    assert ahead.ledgers["resident_bytes"].terms["drafter"][0] > 1e8
    assert figure(ahead, "validated") == 0.0
    total = float(np.asarray(ahead.ledgers["tpot_s"].total)[0])
    assert total == pytest.approx(figure(ahead, "tpot_s_mean"), rel=0.15)
    facts = facts_used(engine.study, engine.catalog, {"accelerator": ["H100-SXM"]})
    assert any(name.endswith("speculation.eagle.first_accept_frac") for name in facts)
    found = replayed(plan_of(engine, columns, "H100-SXM"), 1)
    gap = figure(ahead, "tpot_s_mean") / found.metrics["tpot_s_mean"] - 1.0
    assert abs(gap) < 0.1


def test_an_acceptance_of_ones_own_is_taken():
    """A team that measured its drafts would be answered with somebody else's."""
    right, wrong = (
        one(*ONE, "speculative=eagle:3", f"workload.chat.draft_acceptance_frac={frac}")[2]
        for frac in (0.95, 0.1)
    )
    assert figure(right, "tpot_s_mean") < 0.6 * figure(wrong, "tpot_s_mean")


def test_a_small_model_of_the_same_tokens_may_draft():
    """Only trained heads could be planned with, which most models do not have."""
    settings = (*ONE, "workload.chat.model=qwen3-32b", "precision=fp8", "speculative=draft:4")
    _, _, found = one(*settings, "workload.chat.draft_model=qwen3-0.6b")
    assert found.ledgers["resident_bytes"].terms["drafter"][0] > 0.5e9


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (("speculative=mtp",), "no prediction layers"),
        (("speculative=draft:3",), "names no draft_model"),
        (("speculative=draft:3", "workload.chat.draft_model=qwen3-8b"), "same tokens"),
        (("speculative=medusa:3",), "speculative"),
        (("workload.chat.draft_acceptance_frac=1.5",), "draft_acceptance_frac"),
    ],
)
def test_what_cannot_draft_is_refused_with_what_could(settings, wanted):
    """A plan would be priced with a drafter that does not exist."""
    with pytest.raises(BadStudy, match=wanted):
        prepare(chat(*ONE, *settings))


def test_off_and_names_without_a_number_are_understood():
    """What engines call one draft, or none, would be an error."""
    assert chat("speculative=off").axes["speculative"] == ("none",)
    assert chat("speculative=eagle").axes["speculative"] == ("eagle:1",)


def test_two_batches_need_an_exchange_and_hide_some_of_it():
    """An overlap of nothing would be a second name for the same plan."""
    assert "batch_overlap_repeats" in masked(*ONE, "batch_overlap=two_batch")
    _, _, plain = one(*WIDE)
    _, _, hidden = one(*WIDE, "batch_overlap=two_batch")
    assert figure(hidden, "capacity_requests_per_s") / figure(hidden, "replicas") > 1.1 * (
        figure(plain, "capacity_requests_per_s") / figure(plain, "replicas")
    )


def test_copies_of_hot_experts_have_to_fill_all_ranks():
    """A rank would hold half an expert."""
    assert "expert_parallel_does_not_divide_experts" in masked(*WIDE, "redundant_experts=3")
    assert "redundant_experts_repeat" in masked(*ONE, "redundant_experts=8")
    _, _, plain = one(*WIDE)
    _, _, copied = one(*WIDE, "redundant_experts=32")
    weights = "expert_weights"
    more = [float(f.ledgers["resident_bytes"].terms[weights][0]) for f in (plain, copied)]
    assert more[1] / more[0] == pytest.approx(1 + 32 / 256)


def test_wide_experts_replay_in_step_with_mtp_and_two_batches():
    """Everything at once would be a plan that the closed form has and the replay has not."""
    longer = "workload.chat.peak_window_s=100"  # than answers, which end on an emptying fleet
    engine, columns, closed = one(*WIDE, longer, "batch_overlap=two_batch", "speculative=mtp")
    plan = plan_of(engine, columns, "H200-SXM")
    assert plan.fleet.copies == 16
    assert plan.fleet.drafted_tokens == 1
    found = replayed(plan, 1)
    for name, most in (("tpot_s_mean", 0.2), ("ttft_s_p50", 0.3)):
        assert abs(figure(closed, name) / found.metrics[name] - 1.0) < most


@pytest.mark.long
def test_a_longer_batch_never_needs_a_larger_fleet():
    """A bound that few requests break, and more keep, sized a fleet of 12 replicas for 5."""
    alike = (
        *("workload.chat.engine=sglang", "kv_precision=bf16", "batch_overlap=two_batch"),
        *("attention_data_parallel=8", "ep=8", "token_budget=8192"),
        *("workload.chat.slo.tpot_s_p95=0.1", "workload.chat.slo.ttft_s_p95=3.0"),
        *("workload.chat.trace.prompt_tokens=azure_conversation_2023",),
        *("workload.chat.trace.output_tokens=azure_conversation_2023",),
        *("workload.chat.trace.arrivals.requests_per_s=20", "workload.chat.peak_window_s=10"),
        *("workload.chat.trace.duration_s=20",),
    )
    found = [one(*WIDE, *alike, f"max_batch={most}")[2] for most in (64, 128, 256)]
    assert [figure(fleet, "replicas") for fleet in found] == [figure(found[0], "replicas")] * 3
    for fleet in found:
        assert 0.07 < figure(fleet, "tpot_s_p95") <= 0.1
