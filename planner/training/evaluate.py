"""From columns of decisions to columns of physical metrics, limits and ledgers; no price.

One function serves the sweep (thousands of rows), `planner evaluate` (one row) and the one-change
table of `explain`: the same numbers, whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.hardware_bill import HardwareBill, Watts, it_w, provisioned_w
from costdata.network_build import TIERS_MOST
from planner.costing.purchase import Rows, bill_of, rack_metrics, rest_watts
from planner.metrics import find_metric, is_at_least
from planner.space.wires_given import as_given, is_as_sold
from planner.study.read import Study
from planner.training.engine import Engine
from planner.training.goodput import Stops, stop_ledgers, stop_metrics, stops
from simkernel import plugins
from simkernel.candidates import CONTEXT_EXCHANGE, IS_IN_POOL, OFFLOAD, RECOMPUTE, TrainingPlans
from simkernel.columns import Floats, Masks
from simkernel.hardware import PRECISIONS, SCALEOUT_FABRICS, Chips
from simkernel.ledger import Ledger
from simkernel.placement import order_code
from simkernel.power import device_w, host_w, mean_device_w
from simkernel.power_cap import capped_slowdown_frac, following_frac, held_clock_frac
from simkernel.train import Step, training_step

SECONDS_PER_DAY = 86400.0
SECONDS_PER_HOUR = 3600.0
PHASES = {
    "compute": ("gemm", "attention", "embedding_and_head", "recompute"),
    "memory": ("elementwise", "optimiser"),
}
"""Terms of a step by what they wait for; of the rest, messages and the host, nothing stretches."""

LEAST_USEFUL_FRAC = 0.01  # our choice: a run that fails before it saves anything does not end

UNPHYSICAL = "unphysical_link_rule"
"""Limit that every plan breaks which was priced with links as no ranks can have them."""

WAITING_TERMS = (
    "bubble",
    "pipeline_send",
    "data_parallel",
    "data_parallel_per_micro_batch",
    "offload",
)


@dataclass(frozen=True)
class Limit:
    """One limit over a table: what each row has and needs; violated where have is beyond need."""

    have: Floats
    need: Floats
    unit: str
    at_least: bool = False

    @property
    def excess(self) -> Floats:
        """g: positive where violated, 1 = 100% over; (n,)."""
        sign = -1.0 if self.at_least else 1.0
        size = np.where(self.need == 0, 1.0, np.abs(self.need))  # a count against none: per piece
        return sign * (self.have - self.need) / size


@dataclass(frozen=True)
class Evaluated:
    """Rows of one hardware bill after physics.

    Parameters
    ----------
    metrics : metric name to (n,)
    limits : limit name to what is had and needed
    ledgers : "step_s", "resident_bytes", "it_w", over the same rows
    traffic : bytes per device and step inside and outside the scale-up domain, (n,)
    """

    metrics: dict[str, Floats]
    limits: dict[str, Limit]
    ledgers: dict[str, Ledger]
    traffic: dict[str, Floats]

    def take(self, rows: slice) -> Evaluated:
        """The same for some rows."""
        limits = {
            name: replace(limit, have=limit.have[rows], need=limit.need[rows])
            for name, limit in self.limits.items()
        }
        return Evaluated(
            metrics={name: value[rows] for name, value in self.metrics.items()},
            limits=limits,
            ledgers={name: ledger.take(rows) for name, ledger in self.ledgers.items()},
            traffic={name: value[rows] for name, value in self.traffic.items()},
        )

    @property
    def is_feasible(self) -> Masks:
        """Rows that violate no limit."""
        count = len(self.metrics["devices"])
        ok = np.ones(count, dtype=bool)
        for limit in self.limits.values():
            ok &= limit.excess <= 0
        return ok


@dataclass(frozen=True)
class Replay:
    """One plan as its replay finds it.

    Parameters
    ----------
    found : one row, with what was replayed in the place of the closed form's; limits too
    told : further figures for a reader, by name
    """

    found: Evaluated
    told: Mapping[str, float | str]


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
    step, watts = _capped(chip, plans, step, engine.catalog.clock_following())
    if not is_step_given(engine.study):
        return _gathered(engine, chip, plans, step, watts, accelerator)
    pinned = _pinned_step(engine, chip, plans, step)
    faster = np.asarray(step.time.total) / np.asarray(pinned.time.total)
    watts = _at_another_pace(chip, watts, faster)
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
    step, watts = _capped(chip, plans, own, engine.catalog.clock_following())
    watts = _at_another_pace(chip, watts, np.asarray(step.time.total) / step_s)
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
    if is_as_sold(columns, levels):
        return chip
    devices = np.asarray(columns["devices"], float)
    chips = chip.take(np.zeros(len(devices), dtype=np.int64))
    return as_given(chips, columns, levels, engine.catalog, engine.shelf(accelerator), devices)


@dataclass(frozen=True)
class DeviceWatts:
    """Watts of one device and its host share, mean over a step and in its busiest passes; (n,)."""

    mean_w: Floats
    peak_w: Floats
    host_mean_w: Floats
    host_peak_w: Floats


def _at_another_pace(chip: Chips, watts: DeviceWatts, faster: Floats) -> DeviceWatts:
    """Watts when the study gives a step that is `faster` times our own.

    The same work in another time draws the same energy above the context, so mean watts above it
    grow with the pace, up to the busiest watts and from there to the cap.
    """
    power = chip.power
    mean_w = power.context_w + (watts.mean_w - power.context_w) * faster
    mean_w = np.minimum(mean_w, power.cap_w)
    return replace(watts, mean_w=mean_w, peak_w=np.maximum(watts.peak_w, mean_w))


def _capped(
    chip: Chips, plans: TrainingPlans, step: Step, follow_frac: Mapping[str, float]
) -> tuple[Step, DeviceWatts]:
    """The step under a power cap: a lower clock stretches each phase by what follows it.

    The cap is a share of the chip's rated power; below what the device draws it binds.
    """
    power, step_s = chip.power, np.asarray(step.time.total)
    waiting_s = sum((step.time.terms[n] for n in WAITING_TERMS), start=0.0 * step_s)
    busy_frac = np.maximum(1.0 - waiting_s / step_s, 1e-6)
    shares = [step.memory_frac, step.compute_frac, step.network_frac]
    busy_w = device_w(power, *(np.minimum(share / busy_frac, 1.0) for share in shares))
    cap_w = power.cap_w * plans.power_cap_frac
    clock = held_clock_frac(cap_w, power.context_w, busy_w)
    slower = np.asarray(capped_slowdown_frac(clock, _following(step, busy_frac, follow_frac)))
    terms = {**step.time.terms, "power_cap": step_s * slower}
    scale = 1.0 / (1.0 + slower)
    capped = replace(
        step,
        time=Ledger("step_s", "s", terms),
        compute_frac=step.compute_frac * scale,
        memory_frac=step.memory_frac * scale,
        network_frac=step.network_frac * scale,
    )
    peak_w = np.minimum(busy_w, cap_w)
    busy = 1.0 - (1.0 - busy_frac) * scale
    watts = DeviceWatts(
        mean_w=np.asarray(mean_device_w(power, busy, peak_w)),
        peak_w=peak_w,
        host_mean_w=np.asarray(host_w(power, busy)),
        host_peak_w=np.asarray(host_w(power, 1.0)) + 0.0 * step_s,
    )
    return capped, watts


def _following(step: Step, busy_frac: Floats, follow_frac: Mapping[str, float]) -> Floats:
    """Share of a step that stretches as the clock falls; a bubble as the passes it waits for."""
    step_s = np.asarray(step.time.total)
    phases = {
        phase: sum((step.time.terms.get(n, 0.0) for n in names), start=0.0 * step_s) / step_s
        for phase, names in PHASES.items()
    }
    bubble_frac = step.time.terms["bubble"] / step_s
    return np.asarray(following_frac(phases, follow_frac) * (1.0 + bubble_frac / busy_frac))


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
    it_mean, it_peak = (
        it_w(bought.bill, bought.watts, working)
        for working in (mean_w + watts.host_mean_w, peak_w + watts.host_peak_w)
    )
    metrics = {
        **_times(engine, chip, plans, step, stopped),
        **bought.metrics,
        "validated": engine.measured(accelerator)[plans.precision_code],
        "resident_bytes": np.asarray(step.resident.total),
        "headroom_bytes": chip.memory_bytes - step.resident.total,
        "device_mean_w": mean_w,
        "device_peak_w": peak_w,
        "it_mean_w": np.asarray(it_mean.total),
        "it_peak_w": np.asarray(it_peak.total),
        "provisioned_w": np.asarray(
            provisioned_w(it_peak.total, engine.catalog.planning("provision_headroom_frac"))
        ),
        **_racks(engine, bought, peak_w + watts.host_peak_w, accelerator),
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


def _racks(
    engine: Engine, bought: Bought, device_peak_w: Floats, accelerator: str
) -> dict[str, Floats]:
    """Racks of each row under the study's limit on one."""
    code = np.zeros(len(device_peak_w), dtype=np.int64)
    units, most_kw = bought.metrics["purchase_units"], engine.study.limits.get("rack_kw")
    return rack_metrics(engine.shelf(accelerator), code, units, device_peak_w, most_kw)


@dataclass(frozen=True)
class Bought:
    """What the rows buy: the hardware bill, what one of each draws, and the counts as metrics."""

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
    )
    bill = bill_of(shelf, rows)
    rest_w = np.full(len(plans), float(shelf.rest_w[0]))
    metrics = {
        "devices": plans.devices * 1.0,
        "stranded_devices": bill.stranded_devices,
        "nodes": bill.hosts,
        "supernodes": np.ceil(bill.hosts * shelf.devices_per_host[0] / plans.supernode_devices),
        "purchase_units": bill.purchase_units + bill.spare_units,
        "fabric_tiers": bill.tiers,
        "used_per_domain": step.used_per_domain * 1.0,
    }
    return Bought(bill, rest_watts(shelf, rows, rest_w), metrics)


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
