"""Rules of serving plans that need no physics: which ways of cutting a replica can exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.axes import DERIVED, TWO_BATCHES
from planner.space.bill_rules import bill_rules
from planner.space.rule import Columns, Context, Mask, Rule
from planner.space.rules import (
    groups_nest,
    model_rules,
    placement_is_first,
    precision_supported,
)

STICKY = "session_sticky"
"""The router that goes by whose a request is."""

REPLICA = ("tensor_parallel", "pipeline_parallel", "attention_data_parallel")
SPLIT = (*REPLICA, "context_parallel")
EXPERT = ("expert_parallel", "expert_tensor_parallel")


def serve_bill_rules() -> tuple[Rule, ...]:
    """Rules on what is bought; how many devices is not said where the load decides."""
    return tuple(rule for rule in bill_rules() if "devices" not in rule.axes)


def serve_rules() -> tuple[Rule, ...]:
    """Rules on how a replica is cut, in the order in which they are told."""
    cut = (rule for rule in model_rules() if rule.name != EVENLY)
    return (*cut, *_expert_rules(), *_cut_rules(), *_count_rules(), *_repeats())


EVENLY = "expert_parallel_does_not_divide_experts"


def _expert_rules() -> tuple[Rule, ...]:
    """With second copies of some, the slots have to be shared out evenly, not the experts."""
    return (
        Rule(
            EVENLY,
            ("expert_parallel", "redundant_experts"),
            lambda c, x: (
                (x.model.experts == 0)
                | ((x.model.experts + c["redundant_experts"]) % c["expert_parallel"] == 0)
            ),
            "experts, and their second copies, cannot be shared out evenly",
        ),
        Rule(
            "redundant_experts_repeat",
            ("expert_parallel", "redundant_experts"),
            lambda c, x: (c["redundant_experts"] == 0) | (c["expert_parallel"] > 1),
            "on one rank a second copy of an expert relieves nobody",
        ),
        Rule(
            "more_copies_than_experts",
            ("redundant_experts",),
            lambda c, x: np.asarray(c["redundant_experts"] <= x.model.experts),
            "more second copies than there are experts",
        ),
        Rule(
            "batch_overlap_repeats",
            ("attention_data_parallel", "batch_overlap"),
            lambda c, x: (c["attention_data_parallel"] > 1) | ~_overlaps(c, x),
            "attention that is not copied exchanges nothing that could be hidden",
        ),
    )


def _overlaps(c: Columns, x: Context) -> Any:
    is_two = np.array([level == TWO_BATCHES for level in x.levels["batch_overlap"]])
    return is_two[c["batch_overlap"]]


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
        Rule(
            "sessions_not_known",
            ("routing",),
            lambda c, x: ~np.array([name == STICKY for name in x.levels["routing"]])[c["routing"]],
            "no trace here says whose a request is; cache_aware finds how a conversation begins",
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
