"""Columns of a serving space as the plans and the rig that the physics reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from planner.axes import TWO_BATCHES
from planner.serving.engine import ServeEngine
from simkernel import plugins
from simkernel.columns import taken
from simkernel.hardware import PRECISION_BYTES, PRECISIONS, TOPOLOGIES, Chips
from simkernel.placement import order_code
from simkernel.serving_plans import ServingPlans
from simkernel.serving_rig import Rig, rig_of

BYTES_PER_GBYTE = 1e9
BEST_COLLECTIVE = "hierarchical"
"""What all-reduces of engines were fitted with; "best" is it."""


def serving_plans(engine: ServeEngine, columns: Mapping[str, Any]) -> ServingPlans:
    """Columns of a space as plans: names become the kernel's own codes; (n,)."""
    levels = engine.space.levels
    collectives = plugins.names("collectives")

    def coded(axis: str, code: Any) -> Any:
        return np.array([code(str(level)) for level in levels[axis]])[columns[axis]]

    precision = coded("precision", PRECISIONS.index)
    cache_bytes = coded("kv_precision", lambda name: PRECISION_BYTES[PRECISIONS.index(name)])
    best = collectives.index(BEST_COLLECTIVE)
    return ServingPlans(
        supernode_devices=columns["supernode_devices"],
        oversubscription=np.asarray(columns["oversubscription"], float),
        tensor_parallel=columns["tensor_parallel"],
        pipeline_parallel=columns["pipeline_parallel"],
        attention_data_parallel=columns["attention_data_parallel"],
        expert_parallel=columns["expert_parallel"],
        expert_tensor_parallel=columns["expert_tensor_parallel"],
        precision_code=precision,
        expert_precision_code=precision,
        cache_bytes_per_value=cache_bytes,
        max_sequences=np.asarray(columns["max_batch"], float),
        budget_tokens=np.asarray(columns["token_budget"], float),
        collective_code=coded(
            "collective", lambda name: best if name == "best" else collectives.index(name)
        ),
        placement_code=coded("placement", order_code),
        **_drafts(engine, columns),
        micro_batches=coded("batch_overlap", lambda name: 1 + (name == TWO_BATCHES)),
        copied_experts=np.asarray(columns["redundant_experts"], float),
    )


def _drafts(engine: ServeEngine, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Who drafts ahead, how many tokens and how well; (n,) each."""
    rows = np.asarray(columns["speculative"])
    ways = {
        "draft_code": [way.code for way in engine.draftings],
        "drafted_tokens": [way.drafted_tokens for way in engine.draftings],
        "first_accept_frac": [way.first_accept_frac for way in engine.draftings],
        "later_accept_frac": [way.later_accept_frac for way in engine.draftings],
    }
    return {name: np.array(values)[rows] for name, values in ways.items()}


def serving_rig(
    engine: ServeEngine, columns: Mapping[str, Any], plans: ServingPlans, accelerator: str
) -> Rig:
    """Plans on one chip, at the rates and the topology that the rows ask for; n rows."""
    rows = np.zeros(len(plans), dtype=np.int64)
    chips = _at_given_rates(engine, columns, taken(engine.chip(accelerator), rows))
    curves = taken(engine.curves(accelerator), rows)
    return rig_of(engine.model, engine.host(accelerator), chips, curves, plans)


def _at_given_rates(engine: ServeEngine, columns: Mapping[str, Any], chips: Chips) -> Chips:
    """The chips with the study's rates instead of the catalogue's, where it gives any."""
    topology = engine.space.levels["scaleup_topology"]
    up, out = columns["scaleup_gbytes_per_s"], columns["scaleout_gbytes_per_s"]
    shapes = np.array([TOPOLOGIES.index(str(t)) if t in TOPOLOGIES else -1 for t in topology])
    shape = shapes[columns["scaleup_topology"]]
    rate = np.where(np.isnan(up), chips.scaleup_bytes_per_s, up * BYTES_PER_GBYTE)
    peer = chips.scaleup_peer_bytes_per_s * rate / chips.scaleup_bytes_per_s
    out_rate = np.where(np.isnan(out), chips.scaleout_bytes_per_s, out * BYTES_PER_GBYTE)
    return replace(
        chips,
        scaleup_bytes_per_s=rate,
        scaleup_peer_bytes_per_s=np.where(shape == 0, rate, peer),
        scaleup_topology_code=np.where(shape < 0, chips.scaleup_topology_code, shape),
        scaleout_bytes_per_s=out_rate,
    )
