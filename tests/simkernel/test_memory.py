"""Memory against the closed forms of the selective-recompute paper."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import chip, moe_model

from simkernel import plugins
from simkernel.candidates import RECOMPUTE, plan_of
from simkernel.hardware import PRECISIONS
from simkernel.keeping import Keeping
from simkernel.layout import layout_of
from simkernel.memory import (
    Reserve,
    dense_parameters,
    layer_activation_bytes,
    resident_ledger,
)
from simkernel.models import Core, LayerKind, Model, Weight
from simkernel.placement import place
from simkernel.share import share_of
from simkernel.stack import Stack
from simkernel.traffic import network
from simkernel.workload import TrainingJob

NO_RESERVE = Reserve(0.0, 0.0)


def gpt(layers, hidden, heads, vocab=51200):
    """A GPT-3-shaped model: multi-head attention, ungated 4 h MLP."""
    dim = hidden // heads
    weights = (
        Weight("qkv", hidden, 3 * hidden, "column"),
        Weight("o", hidden, hidden, "row"),
        Weight("up", hidden, 4 * hidden, "column"),
        Weight("down", 4 * hidden, hidden, "row"),
    )
    core = Core("softmax", heads, heads, dim, dim)
    kind = LayerKind("dense", weights, core, 4 * hidden, "dense", 4 * hidden, False)
    return Model("gpt", hidden, vocab, True, 2048, (kind,), (0,) * layers)


def share(job, plan):
    """What one device holds of a micro-batch."""
    placement = place(plan.degrees, plan.supernode_devices, plan.placement_code)
    wires = network(chip(), plan.supernode_devices, plan.oversubscription)
    return share_of(job, chip(), plan, placement, wires)


@pytest.mark.parametrize(
    ("mode", "formula"),
    [
        ("none", lambda s, b, h, a, t: s * b * h * (34 + 5 * a * s / h) / t),
        ("selective", lambda s, b, h, a, t: 34 * s * b * h / t),
        ("full", lambda s, b, h, a, t: 2 * s * b * h / t),
    ],
)
@pytest.mark.parametrize("tensor", [1, 8])
def test_stored_scores_match_korthikanti_table_2(mode, formula, tensor):
    """If false, a 2020-22 stack would be told it fits where it does not, or the other way."""
    s, b, h, a = 2048, 2, 12288, 96
    job = TrainingJob(1e12, s, 65e6, stack=Stack(is_attention_fused=False))
    plan = plan_of(
        devices=8,
        supernode_devices=8,
        tensor_parallel=tensor,
        micro_batch_sequences=b,
        recompute_code=RECOMPUTE.index(mode),
    )
    model = gpt(96, h, a)
    kept = layer_activation_bytes(share(job, plan), model, model.kinds[0])
    assert kept[0] == pytest.approx(formula(s, b, h, a, tensor), rel=1e-12)


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("kind", [*range(3)])
def test_running_more_again_keeps_less_and_never_less_than_nothing(kind, is_fused):
    """Scores taken off that were never put on: -16 GB of activations, and a plan that "fits"."""
    model = (gpt(8, 1024, 16), moe_model(), latent_model())[kind]
    job = TrainingJob(1e12, 4096, 65e6, stack=Stack(is_attention_fused=is_fused))
    held = [
        layer_activation_bytes(
            share(job, plan_of(devices=8, supernode_devices=8, recompute_code=code)), model, layer
        )[0]
        for code in range(len(RECOMPUTE))
        for layer in model.kinds
    ]
    by_mode = np.reshape(held, (len(RECOMPUTE), -1))
    assert (by_mode > 0).all()
    assert (np.diff(by_mode, axis=0) < 0).all()


def latent_model():
    """Two layers of latent attention, as DeepSeek-V2-Lite has them."""
    weights = (
        Weight("q", 2048, 16 * 192, "column"),
        Weight("kv_a", 2048, 576, "replicated"),
        Weight("kv_b", 512, 16 * 256, "column"),
        Weight("o", 16 * 128, 2048, "row"),
        Weight("up", 2048, 2 * 10944, "column"),
        Weight("down", 10944, 2048, "row"),
    )
    core = Core("mla", 16, 0, 192, 128, latent=576)
    kind = LayerKind("dense", weights, core, 4 * 2048, "dense", 10944, True)
    return Model("latent", 2048, 102400, False, 4096, (kind,), (0, 0))


def ledger(model, plan, job=None):
    """Resident bytes of one plan without any reserve."""
    job = job or TrainingJob(1e12, 2048, 65e6)
    layout = layout_of(job, model, chip(), plan)
    ranks = (layout.dense_ranks, layout.expert_ranks)
    args = (plan, layout.parameters, layout.memory, layout.stage_layer_counts)
    return resident_ledger(*args, ranks, NO_RESERVE, job.keeping).ledger


def test_a_parameter_takes_18_bytes_and_zero_cuts_each_part_in_its_turn():
    """2 + 4 + 12 bytes; stage 1 cuts the 12, stage 2 the 4, stage 3 the 2 (ZeRO, section 5)."""
    model = gpt(8, 1024, 16)
    parameters = None
    for zero, whole in ((0, 18), (1, 6), (2, 2), (3, 0)):
        plan = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8, zero_stage=zero)
        terms = ledger(model, plan).terms
        state = terms["weights"] + terms["gradients"] + terms["optimiser"]
        parameters = parameters if zero else state[0] / 18
        assert state[0] == pytest.approx(parameters * (whole + (18 - whole) / 8), rel=1e-12)


def test_replicas_that_share_out_a_copy_hold_as_much_as_so_few_replicas():
    """Hybrid sharding over 4 of 8 would be booked as if all 8 shared the state."""
    model = gpt(8, 1024, 16)
    eight = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8, zero_stage=3)
    four = plan_of(devices=4, supernode_devices=8, global_batch_sequences=4, zero_stage=3)
    hybrid = replace(eight, shard_devices=np.array([4]))
    for name in ("weights", "gradients", "optimiser"):
        held = [ledger(model, plan).terms[name][0] for plan in (hybrid, four, eight)]
        assert held[0] == held[1] == pytest.approx(2 * held[2], rel=1e-12)


def test_llmfit_230_memory_counts_every_expert_and_expert_parallel_divides_them():
    """Total parameters decide memory: 8 expert ranks hold an eighth of the experts each."""
    model = moe_model()
    alone = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8)
    spread = replace(alone, expert_parallel=np.array([8]))
    experts = model.layers * sum(
        w.parameters for w in model.kinds[0].weights if "expert" in w.name
    )
    weights = [ledger(model, plan).terms["weights"][0] for plan in (alone, spread)]
    assert weights[0] - weights[1] == pytest.approx(2 * experts * 7 / 8, rel=1e-12)


def test_megatron_525_the_reserve_is_a_term_of_its_own_and_counts():
    """23 GB predicted and out of memory at 32: what the framework takes must be in the sum."""
    model = gpt(8, 1024, 16)
    plan = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8)
    job = TrainingJob(1e12, 2048, 65e6)
    layout = layout_of(job, model, chip(), plan)
    args = (plan, layout.parameters, layout.memory, layout.stage_layer_counts)
    ranks = (layout.dense_ranks, layout.expert_ranks)
    bare = resident_ledger(*args, ranks, NO_RESERVE).ledger
    kept = resident_ledger(*args, ranks, Reserve(3.5e9, 0.1)).ledger
    moving = bare.terms["activations"] + bare.terms["logits"]
    assert kept.total[0] == pytest.approx(bare.total[0] + 3.5e9 + 0.1 * moving[0], rel=1e-12)


def test_llm_analysis_19_norms_are_whole_on_every_tensor_rank():
    """Norms divided by the tensor degree would hide parameters, and count one norm for two."""
    model = gpt(1, 1024, 16)
    kind = model.kinds[0]
    job = TrainingJob(1e12, 2048, 65e6)
    matrices = sum(w.parameters for w in kind.weights)
    for tensor in (1, 8):
        plan = plan_of(devices=8, supernode_devices=8, tensor_parallel=tensor)
        held = dense_parameters(share(job, plan), kind)
        assert held[0] == pytest.approx(kind.vector_parameters + matrices / tensor, rel=1e-12)


def test_megatron_1784_expert_activations_follow_top_k_and_the_expert_groups():
    """A mixture priced as a dense layer: its activations must know top_k, width and groups."""
    job = TrainingJob(1e12, 2048, 65e6)

    def kept(model, **degrees):
        plan = plan_of(devices=64, supernode_devices=8, **degrees)
        return layer_activation_bytes(share(job, plan), model, model.kinds[0])[0]

    plain = kept(moe_model(top_k=4))
    assert kept(moe_model(top_k=8)) > 1.5 * plain
    assert kept(moe_model(top_k=4, width=2048)) > 1.1 * plain
    assert kept(moe_model(top_k=4), expert_tensor_parallel=2) > plain
    assert kept(moe_model(top_k=4), expert_parallel=8) > plain


def test_the_form_in_which_a_stack_keeps_its_state_is_counted_as_it_says():
    """Gradients in 16 bits would be booked in 32, and runs that fit would be called impossible."""
    model = gpt(8, 1024, 16)
    plan = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8, zero_stage=0)
    narrow = replace(plan, precision_code=np.array([PRECISIONS.index("mxfp8")]))
    sharded = replace(plan, zero_stage=np.array([3]))
    half = TrainingJob(1e12, 2048, 65e6, keeping=Keeping(gradient_bytes=2.0, logit_bytes=4.0))
    alone = TrainingJob(1e12, 2048, 65e6, keeping=Keeping(narrow_copies=2, is_narrow_alone=True))
    single = TrainingJob(1e12, 2048, 65e6, keeping=Keeping(has_weight_copy=False))
    full = ledger(model, plan).terms
    assert ledger(model, plan, half).terms["gradients"] == full["gradients"] / 2
    assert ledger(model, plan, half).terms["logits"] == full["logits"] * 4 / 6
    held = ledger(model, narrow, alone).terms["weights"] / full["weights"]
    assert held == pytest.approx(2 * 1.03 / 2)
    assert ledger(model, plan, alone).terms["weights"] == full["weights"]
    assert ledger(model, sharded, single).terms["weights"] == 0
    assert ledger(model, plan, single).terms["weights"] == full["weights"]


def test_results_of_experts_wait_only_where_the_router_scales_them_afterwards():
    """A mixture would be booked top_k rows of hidden a token that no kernel kept."""
    model, plan = moe_model(), plan_of(devices=8, supernode_devices=8)
    after = TrainingJob(1e12, 2048, 65e6)
    before = replace(after, keeping=Keeping(keeps_combined=False))
    kept, less = (
        layer_activation_bytes(share(job, plan), model, model.kinds[0]) for job in (after, before)
    )
    assert kept - less == pytest.approx(2048 * model.kinds[0].top_k * model.hidden * 2, rel=1e-12)


PUBLISHED = Path(__file__).parents[1] / "truth" / "selective_recompute_memory.csv"


def published():
    """Rows of the paper's figures 1 and 7."""
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def seqsel(row, **changes):
    """Model, job and plan of a row; no vocabulary and no norms, as the paper counts."""
    size = {name: int(row[name]) for name in ("hidden", "heads", "layers", "sequence_tokens")}
    model = gpt(size["layers"], size["hidden"], size["heads"], vocab=0)
    kind = replace(model.kinds[0], vector_parameters=0)
    chunks = int(row["virtual_stages"])
    names = ("interleaved" if chunks > 1 else "one_forward_one_backward",)
    degrees = ("tensor_parallel", "pipeline_parallel")
    batches = ("virtual_stages", "micro_batch_sequences", "global_batch_sequences")
    decisions = {name: int(row[name]) for name in (*degrees, *batches)}
    plan = plan_of(
        **decisions,
        devices=decisions["tensor_parallel"] * decisions["pipeline_parallel"],
        supernode_devices=8,
        zero_stage=0,
        schedule_code=plugins.code("schedules", names[0]),
        sequence_parallel=row["sequence_parallel"] == "on",
        recompute_code=RECOMPUTE.index(row["recompute"]),
    )
    stack = Stack(is_attention_fused=False)
    job = TrainingJob(1e12, size["sequence_tokens"], 65e6, stack=stack)
    return replace(model, kinds=(kind,)), job, replace(plan, **changes)


@pytest.mark.parametrize("row", [r for r in published() if r["state_gib"]], ids=str)
def test_against_figure_1_of_the_selective_recompute_paper(row):
    """State and activations of the first stage in GiB; if off, a cluster is bought too small."""
    model, job, plan = seqsel(row)
    terms = ledger(model, plan, job).terms
    state = terms["weights"] + terms["gradients"] + terms["optimiser"]
    assert state[0] / 2**30 == pytest.approx(float(row["state_gib"]), rel=1e-12)
    assert terms["activations"][0] / 2**30 == pytest.approx(
        float(row["activations_gib"]), rel=1e-12
    )


@pytest.mark.parametrize("row", published(), ids=str)
def test_against_figure_7_of_the_selective_recompute_paper(row):
    """Activations against tensor parallelism alone, read off a chart: within 1.2% of it."""
    model, job, plan = seqsel(row)
    whole = replace(plan, sequence_parallel=np.array([0]), recompute_code=np.array([0]))
    kept, base = (
        layer_activation_bytes(share(job, each), model, model.kinds[0])[0]
        for each in (plan, whole)
    )
    percent = float(row["activations_percent"])
    assert 100 * kept / base == pytest.approx(percent, rel=0.012)


def test_without_sequence_parallelism_table_2_holds_as_well():
    """s b h (10 + 24 / t + 5 a s / (h t)): norms would be taken for cut."""
    s, b, h, a, t = 2048, 2, 12288, 96, 8
    job = TrainingJob(1e12, s, 65e6, stack=Stack(is_attention_fused=False))
    plan = plan_of(
        devices=8,
        supernode_devices=8,
        tensor_parallel=t,
        micro_batch_sequences=b,
        sequence_parallel=0,
    )
    model = gpt(96, h, a)
    kept = layer_activation_bytes(share(job, plan), model, model.kinds[0])
    wanted = s * b * h * (10 + 24 / t + 5 * a * s / (h * t))
    assert kept[0] == pytest.approx(wanted, rel=1e-12)


def test_a_device_that_holds_both_ends_holds_a_tied_embedding_once():
    """A model with tied embeddings would look too big for a folded pipeline."""
    fold = {
        "devices": 8,
        "supernode_devices": 8,
        "pipeline_parallel": 4,
        "global_batch_sequences": 32,
        "schedule_code": plugins.code("schedules", "dual_pipe_v"),
    }
    own, plan = moe_model(), plan_of(**fold)
    tied, table = replace(own, tied_embeddings=True), own.vocab * own.hidden
    job = TrainingJob(1e12, 2048, 65e6)
    held = [layout_of(job, m, chip(), plan).parameters.dense[0] for m in (own, tied)]
    assert (held[0] - held[1]).tolist() == [table, 0.0, table]


def test_weights_in_eight_bits_alone_are_gathered_in_eight_bits_unless_scaled_in_small_blocks():
    """A stack that gathers 8 bits would be charged 16, or one that gathers 16 would get 8."""
    codes = np.array([PRECISIONS.index(name) for name in ("bf16", "fp8", "fp8_block", "mxfp8")])
    assert Keeping(is_narrow_alone=True).gathered_bytes(codes).tolist() == [2.0, 1.0, 1.0, 2.0]
    assert Keeping().gathered_bytes(codes).tolist() == [2.0] * 4
