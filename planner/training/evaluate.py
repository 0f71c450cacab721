"""From columns of decisions to columns of physical metrics, limits and ledgers; no price.

One function serves the sweep (thousands of rows), `planner evaluate` (one row) and the one-change
table of `explain`: the same numbers, whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.hardware_bill import HardwareBill, Watts, Working, it_w, provisioned_w
from costdata.network_build import TIERS_MOST
from planner.costing.purchase import Rows, bill_of, rest_watts
from planner.costing.wholes import whole_metrics
from planner.evaluated import Evaluated, Limit
from planner.metrics import find_metric, is_at_least
from planner.space.wires_given import as_given, is_as_sold
from planner.study.read import Study
from planner.training.engine import Engine
from planner.training.goodput import Stops, stop_ledgers, stop_metrics, stops
from planner.training.watts import DeviceWatts, at_another_pace, capped
from simkernel import plugins
from simkernel.candidates import CONTEXT_EXCHANGE, IS_IN_POOL, OFFLOAD, RECOMPUTE, TrainingPlans
from simkernel.columns import Floats
from simkernel.hardware import PRECISIONS, SCALEOUT_FABRICS, Chips
from simkernel.placement import order_code
from simkernel.power import fan_w
from simkernel.train import Step, training_step

SECONDS_PER_DAY = 86400.0
SECONDS_PER_HOUR = 3600.0
LEAST_USEFUL_FRAC = 0.01  # our choice: a run that fails before it saves anything does not end

UNPHYSICAL = "unphysical_link_rule"
"""Limit that every plan breaks which was priced with links as no ranks can have them."""


def evaluate(engine: Engine, columns: Mapping[str, Any], accelerator: str) -> Evaluated:
    """Physics of some candidates on one accelerator.

    Parameters
    ----------
    columns : axis name to (n,) as `planner.space.blocks.columns` gives them
    accelerator : catalogue name; all rows are on it
    """
    plans = training_plans(engine, columns)
    chip = chip_of(engine, columns, accelerator)
    job, reserve = engine.job_on(accelerator), engine.reserve(accelerator)
    step = training_step(job, engine.model, chip, plans, reserve)
    step, watts = capped(chip, plans, step, engine.catalog.clock_following())
    if not is_step_given(engine.study):
        return _gathered(engine, chip, plans, step, watts, accelerator)
    pinned = _pinned_step(engine, chip, plans, step)
    faster = np.asarray(step.time.total) / np.asarray(pinned.time.total)
    watts = at_another_pace(chip, watts, faster)
    found = _gathered(engine, chip, plans, pinned, watts, accelerator)
    found.metrics["unpinned_step_s"] = np.asarray(step.time.total)
    return found


def evaluate_at(
    engine: Engine, columns: Mapping[str, Any], accelerator: str, step_s: Floats
) -> Evaluated:
    """The same where a step is known to take another time, as a replay found it.

    Parameters
    ----------
    step_s : (n,) of a whole step [s]
    """
    plans = training_plans(engine, columns)
    chip = chip_of(engine, columns, accelerator)
    job, reserve = engine.job_on(accelerator), engine.reserve(accelerator)
    own = training_step(job, engine.model, chip, plans, reserve)
    step, watts = capped(chip, plans, own, engine.catalog.clock_following())
    watts = at_another_pace(chip, watts, np.asarray(step.time.total) / step_s)
    return _gathered(engine, chip, plans, _stretched(step, step_s), watts, accelerator)


def is_step_given(study: Study) -> bool:
    """The study pins how long a step takes."""
    return bool({"mfu_frac", "step_s"} & set(study.pin))


def training_plans(engine: Engine, columns: Mapping[str, Any]) -> TrainingPlans:
    """Columns of a space as the plans the physics reads: names become the kernel's own codes."""
    collectives = plugins.names("collectives")
    coded: dict[str, tuple[str, Callable[[str], int]]] = {
        "scaleout_fabric_code": ("scaleout_fabric", SCALEOUT_FABRICS.index),
        "recompute_code": ("recompute", RECOMPUTE.index),
        "sequence_parallel": ("sequence_parallel", ("off", "on").index),
        "context_exchange_code": ("context_exchange", CONTEXT_EXCHANGE.index),
        "offload_code": ("offload", OFFLOAD.index),
        "schedule_code": ("schedule", lambda name: plugins.code("schedules", name)),
        "precision_code": ("precision", PRECISIONS.index),
        "placement_code": ("placement", order_code),
        "collective_code": (
            "collective",
            lambda name: len(collectives) if name == "best" else collectives.index(name),
        ),
    }
    found: dict[str, Any] = {}
    for field in TrainingPlans.__dataclass_fields__:
        if field in coded:
            axis, code = coded[field]
            table = np.array([code(str(level)) for level in engine.space.levels[axis]])
            found[field] = table[columns[axis]]
        else:
            found[field] = columns[field]
    return TrainingPlans(**found)


def chip_of(engine: Engine, columns: Mapping[str, Any], accelerator: str) -> Chips:
    """The chip, with the rates and the topology the rows ask for instead of the catalogue's.

    One row where nothing is overridden, else one row per candidate.
    """
    chip, levels = engine.chip(accelerator), engine.space.levels
    if is_as_sold(columns, levels, float(chip.devices_per_host[0])):
        return chip
    devices = np.asarray(columns["devices"], float)
    chips = chip.take(np.zeros(len(devices), dtype=np.int64))
    return as_given(chips, columns, levels, engine.catalog, engine.shelf(accelerator), devices)


LEAST_TIMED_FRAC = 0.5
"""Of the time of products and collectives, what times of such ones have to speak for; own choice:
below, most of a prediction lies outside the data."""


def _validated(engine: Engine, plans: TrainingPlans, step: Step, accelerator: str) -> Floats:
    """1 where what times a plan's kernels stand on is measured; (n,)."""
    if engine.chip(accelerator).tiles is not None:
        return np.zeros(len(plans))
    if engine.chip(accelerator).timed is None:
        return engine.measured(accelerator)[plans.precision_code]
    return np.asarray(step.timed_frac >= LEAST_TIMED_FRAC) * np.ones(len(plans))


def _pinned_step(engine: Engine, chip: Chips, plans: TrainingPlans, step: Step) -> Step:
    """The step when the study pins it, or its model FLOP utilisation: all terms scaled to it."""
    pin = engine.study.pin
    if "mfu_frac" in pin:
        flop = engine.flop_per_token * _tokens(engine, plans)
        wanted_s = flop / (peak_of(chip, plans) * plans.devices * pin["mfu_frac"])
    elif "step_s" in pin:
        wanted_s = np.full(len(plans), pin["step_s"])
    else:
        return step
    return _stretched(step, wanted_s)


def _stretched(step: Step, wanted_s: Floats) -> Step:
    """A step that takes another time: all terms scaled to it, the same work in it."""
    factor = wanted_s / np.asarray(step.time.total)
    return replace(
        step,
        time=step.time.scaled(factor),
        compute_frac=np.minimum(step.compute_frac / factor, 1.0),
        memory_frac=np.minimum(step.memory_frac / factor, 1.0),
        network_frac=np.minimum(step.network_frac / factor, 1.0),
    )


def peak_of(chip: Chips, plans: TrainingPlans) -> Floats:
    """Dense peak of each candidate's GEMM precision [flop/s]; (n,)."""
    rows = np.arange(len(chip)) if len(chip) > 1 else 0
    return chip.peak_flop_per_s[rows, plans.precision_code]


def _tokens(engine: Engine, plans: TrainingPlans) -> Floats:
    """Tokens of one optimiser step."""
    return plans.global_batch_sequences * float(engine.job.tokens_per_sequence)


def _gathered(
    engine: Engine,
    chip: Chips,
    plans: TrainingPlans,
    step: Step,
    watts: DeviceWatts,
    accelerator: str,
) -> Evaluated:
    """Metrics, limits and ledgers from the step and the watts."""
    pin = engine.study.pin
    mean_w = np.full(len(plans), pin["device_mean_w"]) if "device_mean_w" in pin else watts.mean_w
    peak_w = np.full(len(plans), pin["device_peak_w"]) if "device_peak_w" in pin else watts.peak_w
    bought = _bought(engine, chip, plans, step, accelerator)
    stopped = stops(engine, bought.bill, accelerator)
    usual = Working(mean_w, watts.host_mean_w, fan_w(chip.power, watts.busy_frac, 1.0))
    busiest = Working(peak_w, watts.host_peak_w, fan_w(chip.power, 1.0, 1.0))
    it_mean, it_peak = (it_w(bought.bill, bought.watts, one) for one in (usual, busiest))
    metrics = {
        **_times(engine, chip, plans, step, stopped),
        **bought.metrics,
        "validated": _validated(engine, plans, step, accelerator),
        "resident_bytes": np.asarray(step.resident.total),
        "headroom_bytes": chip.memory_bytes - step.resident.total,
        "device_mean_w": mean_w,
        "device_peak_w": peak_w,
        "it_mean_w": np.asarray(it_mean.total),
        "it_peak_w": np.asarray(it_peak.total),
        "provisioned_w": np.asarray(
            provisioned_w(it_peak.total, engine.catalog.planning("provision_headroom_frac"))
        ),
        **whole_metrics(
            engine.shelf(accelerator),
            bought.rows,
            bought.bill,
            bought.watts,
            usual.boxed_w(bought.watts),
            busiest.boxed_w(bought.watts),
            engine.study.limits.get("rack_kw"),
        ),
    }
    return Evaluated(
        metrics=metrics,
        limits=_limits(engine, chip, plans, metrics, accelerator)
        | _host_limits(engine, chip, plans, step),
        ledgers={
            "step_s": step.time,
            "resident_bytes": step.resident,
            "it_w": it_mean,
            **stop_ledgers(engine, stopped),
        },
        traffic={
            "inside_bytes_per_step": step.inside_bytes,
            "outside_bytes_per_step": step.outside_bytes,
        },
    )


@dataclass(frozen=True)
class Bought:
    """What the rows buy: the hardware bill, what one of each draws, and the counts as metrics."""

    rows: Rows
    bill: HardwareBill
    watts: Watts
    metrics: dict[str, Floats]


def _bought(
    engine: Engine, chip: Chips, plans: TrainingPlans, step: Step, accelerator: str
) -> Bought:
    """Whole units, hosts and fabric of each row; idle ones draw their rest power."""
    shelf = engine.shelf(accelerator)
    rows = Rows(
        accelerator=np.zeros(len(plans), dtype=np.int64),
        devices=plans.devices,
        supernode_devices=plans.supernode_devices,
        used_per_domain=step.used_per_domain,
        oversubscription=plans.oversubscription,
        fabric_code=plans.scaleout_fabric_code,
        scaleup_code=np.broadcast_to(chip.scaleup_topology_code, len(plans)),
        scaleup_bytes_per_s=np.broadcast_to(chip.scaleup_bytes_per_s, len(plans)),
        chassis_devices=np.broadcast_to(chip.devices_per_host * 1.0, len(plans)),
    )
    bill = bill_of(shelf, rows)
    rest_w = np.full(len(plans), float(shelf.rest_w[0]))
    metrics = {
        "devices": plans.devices * 1.0,
        "stranded_devices": bill.stranded_devices,
        "nodes": bill.hosts,
        "supernodes": np.ceil(bill.hosts * rows.chassis_devices / plans.supernode_devices),
        "purchase_units": bill.purchase_units + bill.spare_units,
        "fabric_tiers": bill.tiers,
        "used_per_domain": step.used_per_domain * 1.0,
    }
    return Bought(rows, bill, rest_watts(shelf, rows, rest_w), metrics)


def _times(
    engine: Engine, chip: Chips, plans: TrainingPlans, step: Step, stopped: Stops
) -> dict[str, Floats]:
    """Speed, days and goodput of each row."""
    step_s = np.asarray(step.time.total)
    tokens_per_s = _tokens(engine, plans) / step_s
    per_device = tokens_per_s / plans.devices
    flop_per_s = per_device * engine.flop_per_token
    useful_s = engine.job.tokens / tokens_per_s
    seconds = useful_s / stopped.goodput_frac
    return {
        "step_s": step_s,
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_device": per_device,
        "model_flop_per_s_per_device": flop_per_s,
        "mfu_frac": flop_per_s / peak_of(chip, plans),
        **stop_metrics(engine, stopped, useful_s),
        "days": seconds / SECONDS_PER_DAY,
        "device_hours": seconds / SECONDS_PER_HOUR * plans.devices,
    }


def _host_limits(
    engine: Engine, chip: Chips, plans: TrainingPlans, step: Step
) -> dict[str, Limit]:
    """Memory of host and pool, 0 where not known; no limit in a study that asks nothing of it."""
    if engine.space.levels["offload"] == (OFFLOAD[0],):
        return {}
    in_host = np.where(plans.is_in_pool, 0.0, step.host_bytes)
    there = np.nan_to_num(chip.host_memory_bytes) + 0.0 * in_host
    limits = {"host_memory": Limit(in_host, there, "B")}
    if not any(IS_IN_POOL[OFFLOAD.index(str(n))] for n in engine.space.levels["offload"]):
        return limits
    there = np.nan_to_num(chip.pool_memory_bytes) + 0.0 * in_host
    return {**limits, "pool_memory": Limit(step.host_bytes - in_host, there, "B")}


def _limits(
    engine: Engine,
    chip: Chips,
    plans: TrainingPlans,
    metrics: Mapping[str, Floats],
    accelerator: str,
) -> dict[str, Limit]:
    """Memory, batch, kernels, and the study's limits that need no price."""
    memory = chip.memory_bytes * np.ones(len(plans))
    batch = _tokens(engine, plans)
    most = np.full(len(plans), engine.job.max_global_batch_tokens)
    found = {
        "memory": Limit(metrics["resident_bytes"], memory, "B"),
        "global_batch_tokens": Limit(batch, most, "tokens"),
        "fabric_tiers": Limit(
            metrics["fabric_tiers"], np.full(len(plans), TIERS_MOST * 1.0), "layers"
        ),
        "kernels": Limit(
            engine.unsupported(accelerator)[plans.precision_code], 0.0 * memory, "kernels"
        ),
    }
    if "job_mtbf_h" in metrics and not engine.study.reliability.is_mtbf_unknown:
        least = np.full(len(plans), LEAST_USEFUL_FRAC)
        found["useful_time"] = Limit(metrics["goodput_frac"], least, "of all time", True)
    if engine.job.links.is_by_group_size:
        found[UNPHYSICAL] = Limit(np.ones(len(plans)), 0.0 * memory, "rule")
    for name, bound in engine.study.limits.items():
        if find_metric(name).stage == "physics" and name in metrics:
            need = np.full(len(plans), bound)
            found[name] = Limit(metrics[name], need, find_metric(name).unit, is_at_least(name))
    return found
