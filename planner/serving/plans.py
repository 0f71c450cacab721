"""Columns of a serving space as the plans and the rig that the physics reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.axes import TWO_BATCHES
from planner.serving.engine import ServeEngine
from planner.space.wires_given import as_given, is_as_sold
from simkernel import plugins
from simkernel.capped_passes import PowerLimit
from simkernel.columns import Floats, taken
from simkernel.hardware import PRECISION_BYTES, PRECISIONS, SCALEOUT_FABRICS
from simkernel.placement import order_code
from simkernel.serving_plans import ServingPlans
from simkernel.serving_rig import Rig, rig_of

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
        scaleout_fabric_code=coded("scaleout_fabric", SCALEOUT_FABRICS.index),
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
    chips = taken(engine.chip(accelerator), rows)
    levels = engine.space.levels
    if not is_as_sold(columns, levels, float(chips.devices_per_host[0])):
        shelf, devices = engine.shelf(accelerator), np.asarray(plans.devices, float)
        chips = as_given(chips, columns, levels, engine.catalog, shelf, devices)
    curves = taken(engine.curves(accelerator), rows)
    cap_frac = np.asarray(columns["power_cap_frac"], float)
    limit = _limit(engine, cap_frac, chips.scaleup_bytes_per_s)
    return rig_of(engine.model, engine.host(accelerator), chips, curves, plans, limit)


def _limit(engine: ServeEngine, cap_frac: Floats, link_bytes_per_s: Floats) -> PowerLimit | None:
    """Caps on power with what follows the clock; None where no plan has one."""
    if np.all(cap_frac >= 1.0):
        return None
    follow_frac = engine.catalog.clock_following()
    return PowerLimit(
        cap_frac=cap_frac,
        compute_frac=follow_frac["compute"],
        memory_frac=follow_frac["memory"],
        communication_frac=follow_frac["communication"],
        link_bytes_per_s=link_bytes_per_s,
    )
