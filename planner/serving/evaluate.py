"""From columns of serving plans to physical metrics, limits and ledgers; no price.

One function serves the sweep, `planner evaluate` and the one-change table. The number of replicas
follows from the busiest window; latencies are of that window, mean watts of the whole stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.hardware_bill import it_w, provisioned_w
from costdata.network_build import TIERS_MOST
from planner.axes import DERIVED
from planner.costing.wholes import whole_metrics
from planner.evaluated import Evaluated, Limit
from planner.metrics import find_metric, is_at_least
from planner.serving.bought import bought_by
from planner.serving.engine import PERIOD_DAYS, ServeEngine
from planner.serving.load import Load
from planner.serving.metrics import STATISTICS
from planner.serving.plans import serving_plans, serving_rig
from planner.serving.prefixes import caches_of, has_prefix_cache, with_hits
from planner.serving.sizing import (
    Capacity,
    Rule,
    capacity,
    more_where_broken,
    paces_at,
    replicas_for,
)
from planner.serving.watts import LaneWatts, lane_watts
from simkernel.columns import Column, Floats, Masks
from simkernel.drafting import expected_tokens, token_sd_tokens
from simkernel.full_lane import held, thrown
from simkernel.hardware import PRECISIONS
from simkernel.kv_cache import (
    free_bytes,
    reserve_bytes,
    resident_sequence_bytes,
    weight_bytes,
)
from simkernel.lane import Lane, plain_parts
from simkernel.lane_pace import CROWD_Z, Pace, most_arrivals, pace
from simkernel.ledger import Ledger
from simkernel.models import WEIGHT_BITS, active_parameters
from simkernel.serve_open import Spread, latencies, ttft_parts
from simkernel.serving_plans import ServingPlans
from simkernel.serving_rig import Rig
from simkernel.step_curves import step_curves

SECONDS_PER_DAY = 86400.0
AGREED_FRAC = 0.15
"""Widest gap to the replay that is wanted of the closed form, of the median to first token."""

LEAST_PLACES = 1.0 / AGREED_FRAC**2
"""Sequences of a lane from which the closed form is held to the replay. It knows a lane by its
mean: of p places the number that stands there deviates by 1 / sqrt(p) of itself (Poisson), and
what follows from means is no nearer than that where memory decides."""


WHOLE_PROMPTS = "continuous"
"""The policy that does not cut prompts; `static` is not offered."""


@dataclass(frozen=True)
class Fleet:
    """The replicas of every candidate, and how busy they are; (n,) each.

    Parameters
    ----------
    replicas, lanes : whole copies; attention groups and pipeline slots of each
    busiest, usual : steady states in the busiest window, and at the mean load
    found : what one replica serves
    lost : replicas that the failures to survive take
    """

    replicas: Floats
    lanes: Floats
    busiest: Pace
    usual: Pace
    found: Capacity
    lost: Floats


def evaluate(
    engine: ServeEngine,
    columns: Mapping[str, Any],
    accelerator: str,
    replicas: Floats | None = None,
) -> Evaluated:
    """Physics of some serving plans on one accelerator.

    Parameters
    ----------
    columns : axis name to (n,) as `planner.space.blocks.columns` gives them
    accelerator : catalogue name; all rows are on it
    replicas : (n,) of fleets that someone else has sized; None sizes them on the load

    Notes
    -----
    With a prefix cache it is what the same plan computes of a load without what the caches have.
    """
    found = evaluate_alone(engine, columns, accelerator, replicas)
    found.metrics["prefix_hit_frac"] = np.zeros(len(found.metrics["devices"]))
    is_there = has_prefix_cache(engine, columns)
    if not np.any(is_there):
        return found
    plans = serving_plans(engine, columns)
    rig = serving_rig(engine, columns, plans, accelerator)
    caches = caches_of(engine, columns, rig, found.metrics["replicas"])
    for capacity_tokens, count, rows in caches.groups():
        cached = with_hits(engine, capacity_tokens, count)
        own = {name: np.asarray(column)[rows] for name, column in columns.items()}
        given = None if replicas is None else replicas[rows]
        part = evaluate_alone(cached, own, accelerator, given)
        asked, computed = engine.load, cached.load
        # who pays by the token pays for what was asked
        part.metrics["input_tokens"] /= _left_frac(asked.mean, computed.mean)
        hit_frac = 1.0 - _left_frac(asked.peak, computed.peak)
        part.metrics["prefix_hit_frac"] = np.full(len(rows), hit_frac)
        part.metrics["validated"] = np.zeros(len(rows))  # no measured run here shares prompts
        found = found.put(rows, part)
    return found


def _left_frac(asked: Load, computed: Load) -> float:
    """Of the prompt tokens that are asked, those that no cache has."""
    return float(computed.mix.prompt_tokens_mean / asked.mix.prompt_tokens_mean)


def evaluate_alone(
    engine: ServeEngine,
    columns: Mapping[str, Any],
    accelerator: str,
    replicas: Floats | None = None,
) -> Evaluated:
    """Physics of some plans under the load as it is computed."""
    plans = serving_plans(engine, columns)
    rig = serving_rig(engine, columns, plans, accelerator)
    cap_frac = np.asarray(columns["power_cap_frac"], float)
    lane = lane_of(engine, rig)
    lanes = plans.attention_data_parallel * plans.pipeline_parallel * 1.0
    lane = shared(engine, columns, lane, lanes)
    fleet = fleet_of(engine, columns, plans, lane, replicas)
    usual_w, busiest_w = (
        lane_watts(rig, lane, at, cap_frac) for at in (fleet.usual, fleet.busiest)
    )
    found = _gathered(engine, rig, lane, fleet, usual_w, busiest_w, accelerator)
    found.limits["prompt_in_a_step"] = _prompt_limit(engine, columns)
    found.limits["peak_utilisation"] = _use_limit(engine, columns, fleet)
    return found


def lane_of(engine: ServeEngine, rig: Rig) -> Lane:
    """Lanes of the busiest window for every candidate, under its power cap."""
    mix, plans, host = engine.load.peak.mix, rig.plans, rig.engine
    curves = step_curves(
        rig,
        float(np.max(plans.budget_tokens)),
        mix.context_tokens,
        mix.prompt_tokens,
        mix.cached_tokens,
    )
    room = free_bytes(rig.model, host, plans, rig.chips.memory_bytes)
    each = resident_sequence_bytes(rig.model, plans, mix.context_tokens)
    mean_room = np.maximum(room / each / plans.pipeline_parallel, 0.0)
    places = np.minimum(mean_room, most_sequences(plans))
    most = most_sequences(plans)
    return Lane(
        curves=curves,
        engine=host,
        mix=mix,
        stages=plans.pipeline_parallel,
        places=places,
        held_sequences=held(mix, mean_room, most),
        thrown_frac=thrown(mix, mean_room, most, plans.budget_tokens),
        budget_tokens=plans.budget_tokens,
        **drafted(plans),
        copies=plans.attention_data_parallel * 1.0,
    )


def drafted(plans: ServingPlans) -> dict[str, Floats]:
    """Tokens that a sequence brings to a step and makes in it; none where nobody drafts."""
    if not np.any(plans.drafted_tokens > 0):
        return {}
    drafts = (plans.drafted_tokens, plans.first_accept_frac, plans.later_accept_frac)
    return {
        "queries": 1.0 + plans.drafted_tokens,
        "made_tokens": expected_tokens(*drafts),
        "made_sd_tokens": token_sd_tokens(*drafts),
    }


def most_sequences(plans: ServingPlans) -> Floats:
    """Sequences that one lane may run: stages of a pipeline share the engine's limit; (n,)."""
    return np.maximum(plans.max_sequences // plans.pipeline_parallel, 1) * 1.0


def fleet_of(
    engine: ServeEngine,
    columns: Mapping[str, Any],
    plans: ServingPlans,
    lane: Lane,
    given: Floats | None = None,
) -> Fleet:
    """Replicas as given, as the study gives them, or as the busiest window needs them."""
    load, work = engine.load, engine.study.serving
    lanes = plans.attention_data_parallel * plans.pipeline_parallel * 1.0
    found = capacity(lane, lanes, load.bounds)
    devices = np.asarray(columns["devices"])
    per_host = np.asarray(columns["chassis_devices"], float)
    lost = work.survive_failures * np.maximum(np.ceil(per_host / plans.devices), 1.0)
    needed = replicas_for(load.peak.requests_per_s, found, Rule(work.peak_utilisation_frac, lost))
    needed = more_where_broken(lane, lanes, needed, load.peak.requests_per_s, load.bounds)
    if engine.space.levels["replicas"] != (DERIVED,):
        needed = np.asarray(columns["replicas"], float)
    needed = np.where(lane.places < 1.0, 1.0, needed)  # no fleet serves what one cannot hold
    replicas = np.where(devices > 0, devices / plans.devices, needed) if given is None else given
    busiest, usual = paces_at(lane, lanes, replicas, (load.peak, load.mean))
    return Fleet(replicas, lanes, busiest, usual, found, lost)


def shared(engine: ServeEngine, columns: Mapping[str, Any], lane: Lane, lanes: Floats) -> Lane:
    """The lanes as a router deals requests out to as many as the load needs at the least.

    At random, each has a stream as irregular as the whole. Dealt out in turn to r lanes, gaps
    have 1/r of the variance, and those in a lane, of whom departures stay random, half. Given to
    who has least, lanes are alike and only the whole crowd varies.
    """
    names = engine.space.levels["routing"]
    codes = np.asarray(columns["routing"])
    full = pace(lane, most_arrivals(lane)).requests_per_s
    count = np.maximum(np.ceil(engine.load.peak.requests_per_s / full), lanes)
    is_random, is_least = (
        np.array([name == wanted for name in names])[codes]
        for wanted in ("random", "least_loaded")
    )
    crowd = np.where(is_least, 1.0 / count, 0.5 + 0.5 / count)
    return replace(
        lane,
        clumped_frac=np.where(is_random, 1.0, 1.0 / count),
        crowd_frac=np.where(is_random, 1.0, crowd),
    )


def _accelerator(engine: ServeEngine, columns: Mapping[str, Any]) -> str:
    return str(engine.space.levels["accelerator"][columns["accelerator"][0]])


def _gathered(
    engine: ServeEngine,
    rig: Rig,
    lane: Lane,
    fleet: Fleet,
    usual_w: LaneWatts,
    busiest_w: LaneWatts,
    accelerator: str,
) -> Evaluated:
    """Metrics, limits and ledgers of every row."""
    plans, mix = rig.plans, engine.load.peak.mix
    spreads = latencies(lane, fleet.busiest)
    bought = bought_by(engine, rig, fleet.replicas, accelerator)
    usual, busiest = usual_w.working, busiest_w.working
    it_mean, it_peak = (it_w(bought.bill, bought.watts, one) for one in (usual, busiest))
    resident = resident_ledger(rig, lane, fleet.busiest)
    metrics = {
        **{f"{n}_{s}": spread.at(s) for n, spread in spreads.items() for s in STATISTICS},
        **_rates(engine, plans, fleet, np.asarray(it_mean.total)),
        **floors(engine, rig, mix.prompt_tokens_mean + mix.output_tokens_mean),
        **bought.metrics,
        "validated": _is_valid(engine, lane, plans, accelerator) * 1.0,
        "resident_bytes": np.asarray(resident.total),
        "headroom_bytes": rig.chips.memory_bytes - resident.total,
        "device_mean_w": usual_w.device_w,
        "device_peak_w": busiest_w.device_w,
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
    ledgers = {
        "tpot_s": tpot_ledger(lane, fleet.busiest),
        "ttft_s": Ledger("ttft_s", "s", dict(ttft_parts(lane, fleet.busiest))),
        "resident_bytes": resident,
        "it_w": it_mean,
    }
    return Evaluated(
        metrics=metrics,
        limits={
            **_limits(engine, rig, fleet, metrics, accelerator),
            **_latency_limits(engine, fleet, spreads),
        },
        ledgers=ledgers,
        traffic={},
    )


def _is_valid(engine: ServeEngine, lane: Lane, plans: ServingPlans, accelerator: str) -> Masks:
    """Plans inside what was held to measurements and to the replay; (n,).

    No measured run here drafts ahead, or has copies of attention that step together: those plans
    are outside.
    """
    is_alone = (plans.attention_data_parallel == 1) & (plans.drafted_tokens == 0)
    return np.asarray(is_alone & engine.measured(accelerator) & (lane.places >= LEAST_PLACES))


def _rates(
    engine: ServeEngine, plans: ServingPlans, fleet: Fleet, it_mean_w: Floats
) -> dict[str, Floats]:
    """What the fleet serves: rates of the busiest window, and sums of a year at the mean load."""
    load, devices = engine.load, fleet.replicas * plans.devices
    capacity_per_s = fleet.replicas * fleet.found.saturated_per_s
    served = np.minimum(load.peak.requests_per_s, capacity_per_s)
    usual = np.minimum(load.mean.requests_per_s, capacity_per_s)
    output_per_s = served * load.peak.mix.output_tokens_mean
    mean_output_per_s = usual * load.mean.mix.output_tokens_mean
    seconds = PERIOD_DAYS * SECONDS_PER_DAY
    usual_pace = fleet.usual
    prompts_s = usual_pace.carrying_frac * (usual_pace.carrying_s - usual_pace.plain_s)
    return {
        "days": np.full(len(plans), PERIOD_DAYS),
        "replicas": fleet.replicas,
        "output_tokens_per_s": output_per_s,
        "tokens_per_s_per_device": output_per_s / devices,
        "capacity_requests_per_s": fleet.replicas
        * np.minimum(fleet.found.within_per_s, fleet.found.saturated_per_s),
        "utilisation_frac": served / capacity_per_s,
        "j_per_token": it_mean_w / mean_output_per_s,
        "input_tokens": usual * load.mean.mix.prompt_tokens_mean * seconds,
        "output_tokens": mean_output_per_s * seconds,
        "prompt_share_frac": prompts_s / usual_pace.step_s,
    }


def floors(engine: ServeEngine, rig: Rig, tokens: Column) -> dict[str, Floats]:
    """Devices that the arithmetic of the busiest window takes at dense peak, and weights.

    Parameters
    ----------
    tokens : that a request makes a replica compute
    """
    plans, tokens_per_s = rig.plans, engine.load.peak.requests_per_s * tokens
    flop = 2.0 * float(active_parameters(engine.model, "without_input").total) * tokens_per_s
    peaks = np.broadcast_to(rig.chips.peak_flop_per_s, (len(plans), len(PRECISIONS)))
    dense = peaks[np.arange(len(plans)), plans.precision_code]
    widths = np.array([WEIGHT_BITS[name] / 8.0 for name in PRECISIONS])
    weights = np.asarray(weight_bytes(rig.model, plans).total)
    return {
        "floor_devices": flop / dense,
        "weight_bytes_per_value": widths[plans.precision_code],
        "replica_weight_bytes": weights * plans.devices / plans.attention_data_parallel,
    }


def resident_ledger(rig: Rig, lane: Lane, at: Pace) -> Ledger:
    """Bytes on the heaviest device in the busiest window, nearly all crowds included."""
    held = at.decoding_sequences + CROWD_Z * np.sqrt(at.decoding_sequences) + at.arrivals
    return resident_of(rig, lane.mix.context_tokens, held * rig.plans.pipeline_parallel)


def resident_of(rig: Rig, context_tokens: float, sequences: Floats) -> Ledger:
    """Bytes on the heaviest device where a copy of attention holds so many sequences; (n,).

    Parameters
    ----------
    context_tokens : of each
    """
    each = resident_sequence_bytes(rig.model, rig.plans, context_tokens)
    terms = dict(weight_bytes(rig.model, rig.plans).terms)
    terms["reserve"] = reserve_bytes(rig.model, rig.engine, rig.plans, rig.chips.memory_bytes)
    terms["kv_cache"] = each * sequences
    return Ledger("resident_bytes", "B", terms)


def memory_limit(rig: Rig, longest_tokens: float) -> Limit:
    """The longest sequence beside the weights, in what the engine leaves of a device."""
    room = free_bytes(rig.model, rig.engine, rig.plans, rig.chips.memory_bytes)
    longest = resident_sequence_bytes(rig.model, rig.plans, longest_tokens)
    weights = np.asarray(weight_bytes(rig.model, rig.plans).total)
    return Limit(weights + longest, weights + room, "B")


def tpot_ledger(lane: Lane, at: Pace) -> Ledger:
    """What the mean time between tokens is made of: a step, over the tokens it makes of each."""
    known = plain_parts(lane, at.standing)
    terms = {
        **known,
        "power_cap": at.plain_s - sum(known.values()),
        "prompts_of_others": at.step_s - at.plain_s,
    }
    terms = {name: term / lane.made_tokens for name, term in terms.items()}
    return Ledger("tpot_s", "s", terms)


def _limits(
    engine: ServeEngine,
    rig: Rig,
    fleet: Fleet,
    metrics: Mapping[str, Floats],
    accelerator: str,
) -> dict[str, Limit]:
    """Memory, saturation, kernels, latencies with their floors, and the study's own limits."""
    plans, ones = rig.plans, np.ones(len(rig.plans))
    load = engine.load
    most_tokens = rig.model.max_tokens or load.longest_tokens  # 0: the file does not say
    found = {
        "memory": memory_limit(rig, float(load.longest_tokens)),
        "saturation": Limit(
            ones * load.peak.requests_per_s,
            fleet.replicas * fleet.found.saturated_per_s,
            "requests/s",
        ),
        "context": Limit(ones * load.longest_tokens, ones * most_tokens, "tokens"),
        "survive_failures": Limit(_with_lost(load.peak, fleet), fleet.replicas, "replicas"),
        "arithmetic": Limit(metrics["floor_devices"], metrics["devices"], "devices"),
        "fabric_tiers": Limit(metrics["fabric_tiers"], TIERS_MOST * ones, "layers"),
        "kernels": Limit(
            engine.unsupported(accelerator)[plans.precision_code], 0.0 * ones, "kernels"
        ),
    }
    for name, bound in engine.study.limits.items():
        if find_metric(name).stage == "physics" and name in metrics:
            need = bound * ones
            found[name] = Limit(metrics[name], need, find_metric(name).unit, is_at_least(name))
    return found


def _with_lost(peak: Load, fleet: Fleet) -> Floats:
    """Replicas that keep the bounds in the busiest window, and those that may be out of work.

    What no number of replicas keeps is for the limits on latencies to tell.
    """
    within_per_s = fleet.found.within_per_s
    working = np.ceil(peak.requests_per_s / np.maximum(within_per_s, 1e-12))
    is_asked = (np.asarray(fleet.lost) > 0) & (within_per_s > 0)
    return np.where(is_asked, working + fleet.lost, 0.0)


def _prompt_limit(engine: ServeEngine, columns: Mapping[str, Any]) -> Limit:
    """The longest request where a policy takes prompts whole: one step has to hold it.

    All but the last token of its answer too: a request put back computes again what it wrote.
    """
    names = np.array([str(name) for name in engine.space.levels["batching"]])
    is_whole = names[np.asarray(columns["batching"])] == WHOLE_PROMPTS
    longest = np.where(is_whole, engine.load.longest_tokens - 1.0, 0.0)
    return Limit(longest, np.asarray(columns["token_budget"], float), "tokens")


def _use_limit(engine: ServeEngine, columns: Mapping[str, Any], fleet: Fleet) -> Limit:
    """Share of its saturated rate that a fleet uses in the busiest window; one that is given.

    A fleet that follows from the load has it by its size, rounded up to whole replicas.
    """
    most = engine.study.serving.peak_utilisation_frac
    used = engine.load.peak.requests_per_s / (fleet.replicas * fleet.found.saturated_per_s)
    has_replicas = engine.space.levels["replicas"] != (DERIVED,)
    is_given = (np.asarray(columns["devices"]) > 0) | has_replicas
    return Limit(used, np.where(is_given, most, np.maximum(used, most)), "1")


def _latency_limits(
    engine: ServeEngine, fleet: Fleet, spreads: Mapping[str, Spread]
) -> dict[str, Limit]:
    """Bounds of the study: on an empty replica, which no fleet beats, and on the fleet."""
    found = {}
    for bound in engine.load.bounds:
        name = f"{bound.latency}_{bound.statistic}"
        floor = fleet.found.floors[bound.latency, bound.statistic]
        need = np.full(len(floor), bound.most_s)
        found[f"{name} of an empty replica"] = Limit(floor, need, "s")
        found[name] = Limit(spreads[bound.latency].at(bound.statistic), need, "s")
    return found
