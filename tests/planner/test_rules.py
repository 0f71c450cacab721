"""Rules by hand: one combination that each forbids, and what it must not forbid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.axes import AXES
from planner.space.bill_rules import bill_rules
from planner.space.rule import ChipSizes, Context, ModelCounts
from planner.space.rules import model_counts, train_rules
from planner.study.parts import TrainWorkload
from simkernel.models import Core, LayerKind, Model

MOE = ModelCounts(61, (128,), (0,), (2048, 18432), 256, (2048,), 4096)
GQA = ModelCounts(80, (64,), (8,), (28672,), 0, (), 8192)
CHIP = ChipSizes((4, 8, 16), 4, ("bf16",))
LEVELS = {
    "schedule": (
        "one_forward_one_backward",
        "gpipe",
        "interleaved",
        "zero_bubble",
        "dual_pipe",
        "dual_pipe_v",
        "combined_1f1b",
    ),  # fmt: skip
    "recompute": ("none", "full"),
    "placement": ("tp-cp-ep-dp-pp", "tp-cp-pp-ep-dp", "cp-tp-ep-dp-pp"),
    "sequence_parallel": ("on", "off"),
    "context_exchange": ("ring", "all_to_all"),
    "offload": ("none", "optimizer", "activations"),
    "shard_devices": (0, 8),
    "zero_stage": (0, 1, 3),
    "precision": ("bf16", "fp8"),
    "data_parallel": ("derived",),
}
PLAIN = {
    "devices": 64,
    "supernode_devices": 8,
    "chassis_devices": 4,
    "scaleup_topology": "catalogue",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "context_parallel": 1,
    "expert_parallel": 1,
    "expert_tensor_parallel": 1,
    "data_parallel": 0,
    "sequence_parallel": 0,
    "context_exchange": 0,
    "offload": 0,
    "shard_devices": 0,
    "schedule": 0,
    "first_stage_layers": 0,
    "last_stage_layers": 0,
    "virtual_stages": 1,
    "micro_batch_sequences": 1,
    "global_batch_sequences": 1024,
    "placement": 0,
    "zero_stage": 1,
    "recompute": 0,
    "precision": 0,
}


def broken(model, **values):
    """Names of the rules that a combination breaks."""
    context = Context(model, CHIP, LEVELS)
    row = {**PLAIN, **values}
    rules = (*bill_rules(), *train_rules())
    return {rule.name for rule in rules if not np.all(rule.allows(row, context))}


@pytest.mark.parametrize(
    ("model", "values", "names"),
    [
        (MOE, {}, set()),
        (GQA, {}, set()),
        (GQA, {"sequence_parallel": 1}, {"sequence_parallel_repeats"}),
        (GQA, {"pipeline_parallel": 4, "first_stage_layers": 18, "last_stage_layers": 18}, set()),
        (GQA, {"pipeline_parallel": 2, "first_stage_layers": 42, "last_stage_layers": 38}, set()),
        (
            GQA,
            {"pipeline_parallel": 2, "first_stage_layers": 42, "last_stage_layers": 37},
            {"stage_layers_do_not_add_up"},
        ),
        (GQA, {"pipeline_parallel": 4, "last_stage_layers": 78}, {"stage_layers_do_not_add_up"}),
        (GQA, {"first_stage_layers": 80}, {"stage_layers_do_not_add_up"}),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 5, "last_stage_layers": 8},
            {"stage_layers_do_not_add_up"},
        ),
        (
            GQA,
            {
                "pipeline_parallel": 4,
                "schedule": 2,
                "virtual_stages": 4,
                "first_stage_layers": 3,
            },
            {"stage_layers_do_not_add_up"},
        ),
        (GQA, {"shard_devices": 8}, set()),
        (GQA, {"shard_devices": 64}, {"shard_devices_repeats"}),
        (GQA, {"shard_devices": 8, "zero_stage": 0}, {"shard_devices_repeats"}),
        (GQA, {"shard_devices": 12}, {"shards_do_not_divide_replicas"}),
        (MOE, {"shard_devices": 8, "expert_parallel": 8}, set()),
        (
            MOE,
            {"shard_devices": 8, "expert_parallel": 64},
            {"shards_do_not_divide_replicas"},
        ),
        (GQA, {"sequence_parallel": 1, "tensor_parallel": 8}, set()),
        (
            MOE,
            {"sequence_parallel": 1, "tensor_parallel": 8},
            {"experts_need_sequence_parallel"},
        ),
        (GQA, {"supernode_devices": 32}, {"supernode_not_offered"}),
        (GQA, {"scaleup_topology": "none"}, {"scaleup_topology_does_not_join_domain"}),
        (GQA, {"scaleup_topology": "bridge"}, {"scaleup_topology_does_not_join_domain"}),
        (GQA, {"scaleup_topology": "full_mesh"}, set()),
        (GQA, {"devices": 8, "supernode_devices": 16}, {"supernode_larger_than_job"}),
        (GQA, {"devices": 12, "supernode_devices": 16, "global_batch_sequences": 12}, set()),
        (GQA, {"tensor_parallel": 64, "zero_stage": 0}, set()),
        (GQA, {"tensor_parallel": 16}, set()),
        (
            ModelCounts(4, (12,), (8,), (48,), 0, (), 4096),
            {"tensor_parallel": 4},
            set(),
        ),
        (
            ModelCounts(4, (12,), (8,), (48,), 0, (), 4097 * 12),
            {"tensor_parallel": 12, "devices": 12, "global_batch_sequences": 8}
            | {"supernode_devices": 16, "zero_stage": 0},
            {"tensor_parallel_does_not_divide_kv_heads"},
        ),
        (
            ModelCounts(4, (64,), (8,), (11008 + 4,), 0, (), 8192),
            {"tensor_parallel": 8},
            {"tensor_parallel_does_not_divide_mlp"},
        ),
        (GQA, {"context_parallel": 8}, set()),
        (
            ModelCounts(80, (64,), (8,), (28672,), 0, (), 8),
            {"context_parallel": 8},
            {"context_parallel_does_not_divide_sequence"},
        ),
        (GQA, {"context_exchange": 1}, {"context_exchange_repeats"}),
        (GQA, {"context_parallel": 8, "context_exchange": 1}, set()),
        (MOE, {"context_parallel": 8, "context_exchange": 1}, set()),
        (GQA, {"tensor_parallel": 4, "context_parallel": 16, "context_exchange": 1}, set()),
        (
            GQA,
            {"tensor_parallel": 8, "context_parallel": 16, "context_exchange": 1}
            | {"devices": 128},
            {"context_parallel_does_not_divide_heads"},
        ),
        (
            ModelCounts(4, (24,), (8,), (48,), 0, (), 4096 * 12),
            {"tensor_parallel": 2, "context_parallel": 6, "context_exchange": 1}
            | {"devices": 12, "supernode_devices": 16, "zero_stage": 0},
            {"context_parallel_does_not_divide_kv_heads"},
        ),
        (
            replace(MOE, selects_keys=True),
            {"context_parallel": 8, "context_exchange": 1},
            {"selected_keys_need_ring"},
        ),
        (replace(MOE, selects_keys=True), {"context_parallel": 8}, set()),
        (GQA, {"expert_parallel": 2}, {"dense_model_has_no_experts"}),
        (MOE, {"expert_parallel": 64}, set()),
        (
            MOE,
            {"devices": 48, "expert_parallel": 48, "global_batch_sequences": 48},
            {"expert_parallel_does_not_divide_experts"},
        ),
        (
            MOE,
            {"devices": 96, "expert_tensor_parallel": 3, "global_batch_sequences": 96},
            {"expert_tensor_parallel_does_not_divide_experts"},
        ),
        (MOE, {"expert_parallel": 128}, {"experts_do_not_fit_ranks"}),
        (GQA, {"pipeline_parallel": 4}, set()),
        (
            MOE,
            {"pipeline_parallel": 64, "zero_stage": 0},
            {"pipeline_longer_than_layers", "virtual_stages_exceed_layers"},
        ),
        (
            MOE,
            {"pipeline_parallel": 32, "virtual_stages": 2, "schedule": 2},
            {"virtual_stages_exceed_layers"},
        ),
        (GQA, {"virtual_stages": 2}, {"virtual_stages_need_interleaving"}),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 2},
            {"virtual_stages_need_interleaving"},
        ),
        (GQA, {"pipeline_parallel": 4, "schedule": 2, "virtual_stages": 5}, set()),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 2, "virtual_stages": 5}
            | {"global_batch_sequences": 32},
            {"micro_batches_do_not_fill_pipeline"},
        ),
        (GQA, {"pipeline_parallel": 4, "schedule": 3}, set()),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 3, "virtual_stages": 5},
            {"virtual_stages_need_interleaving"},
        ),
        (GQA, {"pipeline_parallel": 4, "schedule": 4, "global_batch_sequences": 128}, set()),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 4, "global_batch_sequences": 112},
            {"micro_batches_do_not_fill_pipeline"},
        ),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 4, "global_batch_sequences": 144},
            {"micro_batches_do_not_fill_pipeline"},
        ),
        (
            GQA,
            {"devices": 48, "pipeline_parallel": 3, "schedule": 4}
            | {"global_batch_sequences": 160},
            {"schedule_needs_even_stages"},
        ),
        (
            GQA,
            {"devices": 48, "pipeline_parallel": 3, "schedule": 5}
            | {"global_batch_sequences": 144},
            set(),
        ),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 5, "virtual_stages": 2},
            {"virtual_stages_need_interleaving"},
        ),
        (
            MOE,
            {"pipeline_parallel": 32, "schedule": 5},
            {"virtual_stages_exceed_layers"},
        ),
        (
            GQA,
            {"devices": 4, "pipeline_parallel": 4, "schedule": 4, "supernode_devices": 4},
            set(),
        ),
        (
            GQA,
            {"devices": 4, "pipeline_parallel": 4, "schedule": 5, "supernode_devices": 4},
            {"zero_stage_repeats"},
        ),
        (
            MOE,
            {"pipeline_parallel": 4, "schedule": 6, "virtual_stages": 5, "expert_parallel": 8},
            set(),
        ),
        (
            MOE,
            {"pipeline_parallel": 4, "schedule": 6, "virtual_stages": 5},
            {"schedule_needs_expert_parallel"},
        ),
        (
            MOE,
            {"pipeline_parallel": 4, "schedule": 6, "virtual_stages": 5}
            | {"recompute": 1, "expert_parallel": 8},
            {"schedule_forbids_full_recompute"},
        ),
        (MOE, {"schedule": 6, "expert_parallel": 8}, set()),
        (
            MOE,
            {"schedule": 6, "expert_parallel": 8, "virtual_stages": 2},
            {"virtual_stages_need_interleaving"},
        ),
        (MOE, {"schedule": 3, "expert_parallel": 8}, {"schedule_repeats"}),
        (GQA, {"pipeline_parallel": 4, "schedule": 4, "recompute": 1}, set()),
        (GQA, {"pipeline_parallel": 4, "schedule": 4, "offload": 1}, set()),
        (
            GQA,
            {"pipeline_parallel": 4, "schedule": 4, "offload": 2},
            {"schedule_forbids_offloaded_activations"},
        ),
        (GQA, {"pipeline_parallel": 4, "offload": 2}, set()),
        (GQA, {"pipeline_parallel": 4, "schedule": 4, "shard_devices": 8}, set()),
        (GQA, {"global_batch_sequences": 100}, {"batch_does_not_divide"}),
        (GQA, {"schedule": 1}, {"schedule_repeats"}),
        (GQA, {"placement": 1}, {"placement_repeats"}),
        (GQA, {"placement": 2}, {"placement_repeats"}),
        (GQA, {"placement": 2, "tensor_parallel": 2, "context_parallel": 2}, set()),
        (
            GQA,
            {"devices": 4, "tensor_parallel": 4, "zero_stage": 0},
            {"supernode_larger_than_job"},
        ),
        (
            GQA,
            {"devices": 4, "tensor_parallel": 4, "zero_stage": 3, "supernode_devices": 4},
            {"zero_stage_repeats"},
        ),
        (GQA, {"precision": 1}, {"precision_not_supported"}),
    ],
)
def test_a_combination_breaks_the_rules_it_should(model, values, names):
    """A plan that cannot exist would be priced, or one that can would be lost."""
    assert broken(model, **values) == names


def test_groups_that_straddle_an_edge_do_not_nest():
    """Bytes per domain are only right where groups divide one another."""
    wide = {"devices": 96, "tensor_parallel": 4, "expert_parallel": 16}
    assert broken(MOE, **wide, global_batch_sequences=96) == set()
    straddling = {"devices": 96, "tensor_parallel": 8, "context_parallel": 2}
    uneven = {"expert_parallel": 32, "expert_tensor_parallel": 1}
    assert "groups_do_not_nest" not in broken(MOE, **straddling, **uneven)
    three = {"devices": 192, "context_parallel": 1, "tensor_parallel": 2, "expert_parallel": 64}
    assert broken(MOE, **three, global_batch_sequences=960) == set()
    assert "groups_do_not_nest" in broken(
        ModelCounts(60, (96,), (0,), (2304,), 96, (2304,), 6144),
        devices=192,
        tensor_parallel=4,
        expert_tensor_parallel=6,
        expert_parallel=8,
        global_batch_sequences=96,
    )


def test_given_replica_counts_keep_only_these():
    """--set dp=16 would be taken and ignored."""
    context = Context(GQA, CHIP, {**LEVELS, "data_parallel": (16, 64)})
    (rule,) = (rule for rule in train_rules() if rule.name == "data_parallel_not_listed")
    row = {**PLAIN, "tensor_parallel": np.array([1, 2, 4])}
    allowed = rule.allows({**row, "data_parallel": 16}, context)
    assert np.asarray(allowed).tolist() == [False, False, True]


def test_rules_read_known_axes_and_have_reasons():
    """A rule on a misspelt axis would never be applied."""
    for rule in (*bill_rules(), *train_rules()):
        assert set(rule.axes) <= set(AXES)
        assert rule.reason


def test_counts_come_from_every_kind_of_layer():
    """A rule would look at the first layer only and pass a split the others cannot make."""
    dense = LayerKind("dense", (), Core("softmax", heads=32, kv_heads=8), 0, "dense", 11008)
    moe = LayerKind(
        "moe", (), Core("mla", heads=64, latent=576), 0, "moe", 2048,
        experts=64, top_k=6, shared_width=4096,
    )  # fmt: skip
    state = LayerKind("state", (), Core("state", state_values=10), 0, "none")
    model = Model("m", 4096, 32000, False, 8192, (dense, moe, state), (0, 1, 1, 2))
    work = TrainWorkload(model="m", tokens=1e12, tokens_per_sequence=4096)
    assert model_counts(model, work) == ModelCounts(
        layers=4,
        heads=(32, 64),
        kv_heads=(8, 0),
        mlp_widths=(4096, 11008),
        experts=64,
        expert_widths=(2048,),
        tokens_per_sequence=4096,
    )


def test_nothing_is_put_into_a_host_that_nobody_knows():
    """A plan would fit because its state is in memory that may not be there."""
    rule = next(rule for rule in train_rules() if rule.name == "host_not_known")
    for has_host, allowed in ((True, [True, True]), (False, [True, False])):
        chip = ChipSizes((8,), 8, ("bf16",), has_host)
        found = rule.allows({"offload": np.array([0, 1])}, Context(GQA, chip, LEVELS))
        assert list(found) == allowed


@pytest.mark.parametrize(("shape", "most"), [("none", 1), ("bridge", 2)])
def test_a_domain_is_no_larger_than_its_links_join(shape, most):
    """A what-if domain of cards without links, or in pairs, would run at the rate of a switch."""
    chip = replace(CHIP, topology=shape, domain_options=(1, 2, 4))
    rule = next(r for r in bill_rules() if r.name == "scaleup_topology_does_not_join_domain")
    context = Context(GQA, chip, LEVELS)
    allowed = [
        n
        for n in chip.domain_options
        if rule.allows({"scaleup_topology": "catalogue", "supernode_devices": n}, context)
    ]
    assert allowed == [n for n in chip.domain_options if n <= most]
    switched = {"scaleup_topology": "switched", "supernode_devices": 4}
    assert rule.allows(switched, context)
