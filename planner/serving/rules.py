"""Rules of serving plans that need no physics: which ways of cutting a replica can exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.axes import DERIVED
from planner.space.rule import Columns, Context, Mask, Rule
from planner.space.rules import (
    bill_rules,
    groups_nest,
    model_rules,
    placement_is_first,
    precision_supported,
)

REPLICA = ("tensor_parallel", "pipeline_parallel", "attention_data_parallel")
SPLIT = (*REPLICA, "context_parallel")
EXPERT = ("expert_parallel", "expert_tensor_parallel")


def serve_bill_rules() -> tuple[Rule, ...]:
    """Rules on what is bought; how many devices is not said where the load decides."""
    offered, _ = bill_rules()
    return (offered,)


def serve_rules() -> tuple[Rule, ...]:
    """Rules on how a replica is cut, in the order in which they are told."""
    return (*model_rules(), *_cut_rules(), *_count_rules(), *_repeats())


def _cut_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "context_parallel_not_served",
            ("context_parallel",),
            lambda c, x: np.asarray(c["context_parallel"] == 1),
            "splitting a sequence over devices has no serving physics here",
        ),
        Rule(
            "experts_do_not_fill_replica",
            (*REPLICA, *EXPERT),
            _experts_fill,
            "tensor x attention data parallel is not expert x expert tensor parallel",
        ),
        Rule(
            "attention_data_parallel_needs_experts",
            ("attention_data_parallel",),
            lambda c, x: (x.model.experts > 0) | (c["attention_data_parallel"] == 1),
            "copies of attention share experts; without experts they are replicas",
        ),
        Rule(
            "serving_groups_do_not_nest",
            (*SPLIT, *EXPERT, "placement"),
            lambda c, x: groups_nest(_as_ranks(c), x),
            "a group would straddle the edge of another",
        ),
        Rule(
            "budget_below_batch",
            ("max_batch", "token_budget"),
            lambda c, x: np.asarray(c["token_budget"] >= c["max_batch"]),
            "every decoding sequence needs a token of the budget",
        ),
    )


def _count_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "replicas_do_not_divide_devices",
            ("devices", *REPLICA),
            lambda c, x: np.asarray(c["devices"] % replica_devices(c) == 0),
            "whole replicas do not use up the devices",
        ),
        Rule(
            "replicas_do_not_fit_devices",
            ("devices", *REPLICA, "replicas"),
            _replicas_agree,
            "the study gives both devices and replicas, and they disagree",
        ),
    )


def _repeats() -> tuple[Rule, ...]:
    return (
        Rule(
            "serving_placement_repeats",
            (*SPLIT, "placement"),
            lambda c, x: placement_is_first(_as_ranks(c), x),
            "the order differs only in groups of one",
        ),
        Rule(
            "precision_not_supported",
            ("precision",),
            precision_supported,
            "the chip does not have this precision",
        ),
    )


def replica_devices(c: Columns) -> Any:
    """Devices of one replica."""
    return c["tensor_parallel"] * c["pipeline_parallel"] * c["attention_data_parallel"]


def _experts_fill(c: Columns, x: Context) -> Mask:
    ranks = c["expert_parallel"] * c["expert_tensor_parallel"]
    stage = c["tensor_parallel"] * c["attention_data_parallel"]
    return np.asarray((x.model.experts == 0) | (ranks == stage))


def _as_ranks(c: Columns) -> Columns:
    """One replica as a training job of as many ranks, whose data ranks are attention groups."""
    return {**c, "devices": replica_devices(c) * c["context_parallel"]}


def _replicas_agree(c: Columns, x: Context) -> Mask:
    if x.levels["replicas"] == (DERIVED,):
        return True
    is_free = np.asarray(c["devices"]) == 0
    return np.asarray(is_free | (c["replicas"] * replica_devices(c) == c["devices"]))
