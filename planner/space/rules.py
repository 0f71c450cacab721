"""Which combinations of axis values can exist at all: named masks that need no physics.

A rule sees columns of integers, the model's counts and the chip's sizes, and says where a
combination stands. It knows no time, no memory and no price. Rules that forbid a second name for
the same plan are called `..._repeats`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.axes import DERIVED, Level
from planner.space.rule import (
    BATCH,
    EXPERT,
    SPLIT,
    Columns,
    Context,
    Mask,
    ModelCounts,
    Rule,
    expert_ranks,
    micro_batch_of_all,
    replicas,
    split,
    stage_ranks,
)
from planner.space.schedule_rules import (
    of_schedule,
    pipeline_filled,
    schedule_is_first,
    schedule_rules,
)
from planner.study.parts import TrainWorkload
from simkernel.candidates import IS_IN_POOL, OFFLOAD
from simkernel.models import LayerKind, Model


def model_counts(model: Model, work: TrainWorkload | None = None) -> ModelCounts:
    """The counts of a model that the rules read; without a run, no length of its sequences."""
    kinds = [model.kinds[code] for code in sorted(set(model.layer_codes))]
    cores = sorted({_heads(kind) for kind in kinds if kind.core and kind.core.heads})
    moe = [kind for kind in kinds if kind.experts]
    dense = {kind.mlp_width for kind in kinds if not kind.experts and kind.mlp_width}
    shared = {kind.shared_width for kind in moe if kind.shared_width}
    return ModelCounts(
        layers=len(model.layer_codes),
        heads=tuple(heads for heads, _ in cores),
        kv_heads=tuple(kv_heads for _, kv_heads in cores),
        mlp_widths=tuple(sorted(dense | shared)),
        experts=min((kind.experts for kind in moe), default=0),
        expert_widths=tuple(sorted({kind.mlp_width for kind in moe})),
        tokens_per_sequence=work.tokens_per_sequence if work else 0,
        selects_keys=any(core.selected_keys > 0 for kind in kinds for core in kind.cores),
    )


def _heads(kind: LayerKind) -> tuple[int, int]:
    core = kind.core
    if core is None:
        return 0, 0
    return core.heads, core.kv_heads if core.kind == "softmax" else 0


def train_rules() -> tuple[Rule, ...]:
    """Rules on how the devices are used, in the order in which they are told."""
    return (
        *model_rules(),
        *_sequence_rules(),
        *_rank_rules(),
        *schedule_rules(),
        *_batch_rules(),
        *_repeats(),
        *_offloads(),
        *_shards_and_precisions(),
    )


def model_rules() -> tuple[Rule, ...]:
    """Rules on how a model can be cut, whatever it is cut for."""
    return (
        Rule(
            "tensor_parallel_does_not_divide_heads",
            ("tensor_parallel",),
            lambda c, x: _divides_all(c["tensor_parallel"], x.model.heads),
            "attention heads cannot be shared out evenly",
        ),
        Rule(
            "tensor_parallel_does_not_divide_kv_heads",
            ("tensor_parallel",),
            lambda c, x: _divides_or_copies(c["tensor_parallel"], x.model.kv_heads),
            "key-value heads can neither be shared out nor copied evenly",
        ),
        Rule(
            "experts_need_sequence_parallel",
            ("tensor_parallel", "sequence_parallel"),
            _experts_see_a_token_once,
            "tensor ranks would dispatch the same tokens to the experts several times",
        ),
        Rule(
            "tensor_parallel_does_not_divide_mlp",
            ("tensor_parallel",),
            lambda c, x: _divides_all(c["tensor_parallel"], x.model.mlp_widths),
            "MLP columns cannot be shared out evenly",
        ),
        Rule(
            "pipeline_longer_than_layers",
            ("pipeline_parallel",),
            lambda c, x: c["pipeline_parallel"] <= x.model.layers,
            "a stage would hold no layer",
        ),
        Rule(
            "dense_model_has_no_experts",
            EXPERT,
            lambda c, x: (x.model.experts > 0) | (expert_ranks(c) == 1),
            "a model without experts has no expert groups",
        ),
        Rule(
            "expert_parallel_does_not_divide_experts",
            ("expert_parallel",),
            lambda c, x: (x.model.experts == 0) | (x.model.experts % c["expert_parallel"] == 0),
            "experts cannot be shared out evenly",
        ),
        Rule(
            "expert_tensor_parallel_does_not_divide_experts",
            ("expert_tensor_parallel",),
            lambda c, x: _divides_all(c["expert_tensor_parallel"], x.model.expert_widths),
            "columns of an expert cannot be shared out evenly",
        ),
    )


def _sequence_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "context_parallel_does_not_divide_sequence",
            ("tensor_parallel", "context_parallel"),
            _sequence_divides,
            "tokens cannot be shared out evenly (two chunks per rank, for balance)",
        ),
        Rule(
            "context_parallel_does_not_divide_heads",
            ("tensor_parallel", "context_parallel", "context_exchange"),
            lambda c, x: ~_is_scattered(c, x) | _divides_all(_heads_over(c), x.model.heads),
            "heads of a tensor rank cannot be scattered evenly over the context ranks",
        ),
        Rule(
            "context_parallel_does_not_divide_kv_heads",
            ("tensor_parallel", "context_parallel", "context_exchange"),
            lambda c, x: (
                ~_is_scattered(c, x) | _divides_or_copies(_heads_over(c), x.model.kv_heads)
            ),
            "key-value heads can neither be scattered nor copied evenly over the context ranks",
        ),
        Rule(
            "selected_keys_need_ring",
            ("context_parallel", "context_exchange"),
            lambda c, x: ~(_is_scattered(c, x) & x.model.selects_keys),
            "keys are selected for all heads of a query together; nobody describes how, scattered",
        ),
    )


def _rank_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "degrees_do_not_divide_devices",
            ("devices", *SPLIT),
            lambda c, x: c["devices"] % split(c) == 0,
            "tensor x pipeline x context parallel does not divide the devices",
        ),
        Rule(
            "data_parallel_not_listed",
            ("devices", *SPLIT, "data_parallel"),
            _data_parallel_listed,
            "the study keeps other replica counts",
        ),
        Rule(
            "experts_do_not_fit_ranks",
            ("devices", *SPLIT, *EXPERT),
            lambda c, x: stage_ranks(c) % expert_ranks(c) == 0,
            "expert groups do not divide the ranks of a pipeline stage",
        ),
        Rule(
            "groups_do_not_nest",
            ("devices", *SPLIT, *EXPERT, "placement"),
            groups_nest,
            "a group would straddle the edge of another",
        ),
    )


def _batch_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "batch_does_not_divide",
            ("devices", *SPLIT, *BATCH),
            lambda c, x: c["global_batch_sequences"] % micro_batch_of_all(c) == 0,
            "replicas x micro-batch does not divide the global batch",
        ),
        Rule(
            "micro_batches_do_not_fill_pipeline",
            ("devices", *SPLIT, "schedule", *BATCH),
            pipeline_filled,
            "the schedule needs micro-batches in multiples of its stages (interleaved), or an "
            "even number of at least twice as many (dual pipes)",
        ),
    )


def _shards_and_precisions() -> tuple[Rule, ...]:
    return (
        Rule(
            "shards_do_not_divide_replicas",
            ("devices", *SPLIT, *EXPERT, "shard_devices"),
            _shards_divide,
            "replicas, or copies of the experts, do not split into groups of this size",
        ),
        Rule(
            "shard_devices_repeats",
            ("devices", *SPLIT, "zero_stage", "shard_devices"),
            _shards_are_fewest,
            "all replicas share one copy, or none is shared out",
        ),
        Rule(
            "precision_not_supported",
            ("precision",),
            precision_supported,
            "the chip does not have this precision",
        ),
    )


def _offloads() -> tuple[Rule, ...]:
    return (
        Rule(
            "host_not_known",
            ("offload",),
            lambda c, x: (np.array(x.levels["offload"]) == "none")[c["offload"]] | x.chip.has_host,
            "nobody publishes the memory of this chip's host or the link to it",
        ),
        Rule(
            "pool_not_known",
            ("offload",),
            lambda c, x: (
                x.chip.has_pool
                | ~IS_IN_POOL[[OFFLOAD.index(str(n)) for n in x.levels["offload"]]][c["offload"]]
            ),
            "no memory pool of these hosts is known; a hosts.csv of your own tables may state one",
        ),
    )


def _repeats() -> tuple[Rule, ...]:
    return (
        Rule(
            "schedule_repeats",
            ("pipeline_parallel", "schedule"),
            schedule_is_first,
            "without a pipeline every schedule is the same",
        ),
        Rule(
            "placement_repeats",
            ("devices", *SPLIT, "placement"),
            placement_is_first,
            "the order differs only in groups of one",
        ),
        Rule(
            "context_exchange_repeats",
            ("context_parallel", "context_exchange"),
            lambda c, x: (c["context_parallel"] > 1) | (c["context_exchange"] == 0),
            "a single context rank exchanges nothing",
        ),
        Rule(
            "sequence_parallel_repeats",
            ("tensor_parallel", "sequence_parallel"),
            lambda c, x: (c["tensor_parallel"] > 1) | (c["sequence_parallel"] == 0),
            "a single tensor rank has all tokens either way",
        ),
        Rule(
            "zero_stage_repeats",
            ("devices", *SPLIT, "schedule", "zero_stage"),
            _zero_is_lowest,
            "a single replica has nobody to share its state with; a pipeline keeps whole weights "
            "and gradients until its step ends, so stages 2 and 3 are stage 1 there",
        ),
    )


def _divides_all(degree: Any, counts: Sequence[int]) -> Mask:
    allowed: Mask = degree > 0
    for count in counts:
        allowed = allowed & (count % degree == 0)
    return allowed


def _divides_or_copies(degree: Any, counts: Sequence[int]) -> Mask:
    allowed: Mask = degree > 0
    for count in counts:
        if count:
            allowed = allowed & ((count % degree == 0) | (degree % count == 0))
    return allowed


def _sequence_divides(c: Columns, x: Context) -> Mask:
    """Sequence parallelism cuts by tensor ranks, context parallelism by two chunks a rank."""
    chunks = np.where(c["context_parallel"] > 1, 2 * c["context_parallel"], 1)
    return np.asarray(x.model.tokens_per_sequence % (chunks * c["tensor_parallel"]) == 0)


def _is_scattered(c: Columns, x: Context) -> Any:
    """Heads are scattered over more than one context rank."""
    is_named = np.array([name == "all_to_all" for name in x.levels["context_exchange"]])
    return is_named[c["context_exchange"]] & (c["context_parallel"] > 1)


def _heads_over(c: Columns) -> Any:
    """Ranks among which scattered heads are shared out."""
    return c["tensor_parallel"] * c["context_parallel"]


def _data_parallel_listed(c: Columns, x: Context) -> Mask:
    if x.levels["data_parallel"] == (DERIVED,):
        return True
    return np.asarray(replicas(c) == c["data_parallel"])


def groups_nest(c: Columns, x: Context) -> Mask:
    """All edges of dense and expert groups divide one another, in order of size.

    An expert edge beyond the pipeline's place is counted in ranks of all stages.
    """
    pipeline_stride, edges = _dense_edges(c, x)
    for edge in (c["expert_tensor_parallel"], expert_ranks(c)):
        edges.append(np.where(edge > pipeline_stride, edge * c["pipeline_parallel"], edge))
    ordered = np.sort(np.broadcast_arrays(*edges), axis=0)
    return np.asarray(np.all(ordered[1:] % ordered[:-1] == 0, axis=0))


def _dense_edges(c: Columns, x: Context) -> tuple[Any, list[Any]]:
    """Rank stride of the pipeline group, and the size of everything inside each dense group."""
    sizes = (c["tensor_parallel"], c["context_parallel"], replicas(c), c["pipeline_parallel"])
    inside = _inside(x.levels["placement"])[c["placement"]]
    one: Any = np.int64(1)
    strides = [
        math.prod((np.where(inside[..., of, by], sizes[by], 1) for by in range(4)), start=one)
        for of in range(4)
    ]
    return strides[3], [stride * size for stride, size in zip(strides, sizes, strict=True)]


@cache
def _inside(placements: tuple[Level, ...]) -> npt.NDArray[np.bool_]:
    """(placements, 4, 4): True where the second of tp, cp, dp, pp lies inside the first."""
    groups = ("tp", "cp", "dp", "pp")
    orders = [str(name).split("-") for name in placements]
    return np.array([[[o.index(b) < o.index(a) for b in groups] for a in groups] for o in orders])


def placement_is_first(c: Columns, x: Context) -> Mask:
    """No earlier level nests the groups larger than one in the same order."""
    sizes = (c["tensor_parallel"], c["context_parallel"], replicas(c), c["pipeline_parallel"])
    present = sum((np.asarray(size) > 1) << bit for bit, size in enumerate(sizes))
    return np.asarray(_first_placements(x.levels["placement"])[c["placement"], present])


@cache
def _first_placements(placements: tuple[Level, ...]) -> npt.NDArray[np.bool_]:
    """(placements, 16): True where no earlier one has the same order of the groups present."""
    groups = ("tp", "cp", "dp", "pp")
    first = np.zeros((len(placements), 16), dtype=bool)
    for present in range(16):
        here = {group for bit, group in enumerate(groups) if present >> bit & 1}
        orders = [tuple(g for g in str(name).split("-") if g in here) for name in placements]
        first[:, present] = [orders.index(order) == i for i, order in enumerate(orders)]
    return first


def _zero_is_lowest(c: Columns, x: Context) -> Mask:
    stages = {int(stage) for stage in x.levels["zero_stage"]}
    copies = of_schedule("stage_copies", c, x)
    shared = replicas(c) * c["context_parallel"] * copies > 1
    is_one = (c["zero_stage"] >= 2) & (c["pipeline_parallel"] > 1) & (1 in stages)
    return np.asarray((shared & ~is_one) | (c["zero_stage"] == min(stages)))


def _experts_see_a_token_once(c: Columns, x: Context) -> Mask:
    is_on = np.array([name == "on" for name in x.levels["sequence_parallel"]])
    is_alone = is_on[c["sequence_parallel"]] | (c["tensor_parallel"] == 1)
    return np.asarray((x.model.experts == 0) | is_alone)


def _shards_divide(c: Columns, x: Context) -> Mask:
    ranks, given = replicas(c) * c["context_parallel"], c["shard_devices"]
    size = np.where(given > 0, given, ranks)
    experts = stage_ranks(c) // expert_ranks(c)
    copies = np.maximum(ranks // size, 1)
    return np.asarray((ranks % size == 0) & (experts % copies == 0))


def _shards_are_fewest(c: Columns, x: Context) -> Mask:
    """One name for one copy in all, and for nothing shared out: the first level, 0 before all."""
    levels = [int(level) for level in x.levels["shard_devices"]]
    ranks, given = replicas(c) * c["context_parallel"], c["shard_devices"]
    is_again = (given == ranks) & (0 in levels)
    is_idle = (c["zero_stage"] == 0) & (given != levels[0])
    return np.asarray(~(is_again | is_idle))


def precision_supported(c: Columns, x: Context) -> Mask:
    """The chip multiplies in this precision."""
    names = x.levels["precision"]
    known = [not x.chip.precisions or name in x.chip.precisions for name in names]
    return np.asarray(np.array(known)[c["precision"]])
