"""One pool: plans of one phase with so many replicas each, everything but what joins the pools.

The same rows whatever stands on the other side, so a pool is evaluated once and met by every
plan of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.evaluated import Limit, keeps
from planner.serving.bought import Bought, bought_by
from planner.serving.engine import ServeEngine
from planner.serving.evaluate import (
    WHOLE_PROMPTS,
    floors,
    lane_of,
    memory_limit,
    resident_of,
)
from planner.serving.plans import serving_plans, serving_rig
from planner.serving.watts import LaneWatts, lane_watts, shares_of, watts_of_shares
from planner.study.pools import PREFILL
from simkernel.answer_lane import answer_pace, answer_times, most_answers_per_s
from simkernel.columns import Codes, Floats, Masks, taken
from simkernel.kv_cache import free_bytes, resident_sequence_bytes
from simkernel.kv_transfer import End, end_of
from simkernel.lane import Lane
from simkernel.lane_pace import CROWD_Z
from simkernel.ledger import Ledger
from simkernel.prompt_lane import (
    PromptPace,
    most_prompts_per_s,
    prompt_pace,
    prompt_times,
    prompts_step_s,
)
from simkernel.serve_open import Spread
from simkernel.serving_rig import Rig
from simkernel.step_curves import taken_rig
from simkernel.step_parts import step_parts

EMPTIEST = "least_loaded"
"""The router that looks for the replica with the fewest requests."""


@dataclass(frozen=True)
class Ready:
    """Plans of one pool before anyone says how many replicas; n rows.

    Parameters
    ----------
    pool, accelerator : name, and the chip that all rows are on
    columns : axis name to (n,) as the pool's space gives them
    rig, lane : in closed form, of the pool's phase
    lanes : (n,) of a replica
    saturated_per_s : (n,) requests that a replica takes on at most [1/s]
    lost : (n,) replicas that the failures to survive take
    picks_emptiest : (n,) the router gives each request to the replica with the fewest
    """

    pool: str
    accelerator: str
    columns: Mapping[str, Any]
    rig: Rig
    lane: Lane
    lanes: Floats
    saturated_per_s: Floats
    lost: Floats
    picks_emptiest: Masks

    def __len__(self) -> int:
        return len(self.saturated_per_s)

    def take(self, rows: Codes) -> Ready:
        """The same for some rows, in the order given."""
        curves = replace(self.lane.curves, layout=self.lane.curves.layout[rows])
        if curves.shared is not None:
            hides = np.asarray(curves.shared.hides_frac)[rows]
            curves = replace(curves, shared=replace(curves.shared, hides_frac=hides))
        cells: dict[str, Any] = {
            name: value[rows]
            for name, value in vars(self.lane).items()
            if name in Lane.__dataclass_fields__ and isinstance(value, np.ndarray)
        }
        return replace(
            self,
            columns={name: np.asarray(column)[rows] for name, column in self.columns.items()},
            rig=taken_rig(self.rig, rows),
            lane=replace(self.lane, **cells, curves=curves),
            lanes=self.lanes[rows],
            saturated_per_s=self.saturated_per_s[rows],
            lost=self.lost[rows],
            picks_emptiest=self.picks_emptiest[rows],
        )


def ready(engine: ServeEngine, pool: str, columns: Mapping[str, Any], accelerator: str) -> Ready:
    """Plans of one pool on one accelerator.

    Parameters
    ----------
    columns : axis name to (n,), as `planner.space.blocks.columns` gives them
    """
    plans = serving_plans(engine, columns)
    rig = serving_rig(engine, columns, plans, accelerator)
    lane = lane_of(engine, rig)
    lanes = plans.attention_data_parallel * plans.pipeline_parallel * 1.0
    most = most_prompts_per_s if pool == PREFILL else most_answers_per_s
    per_host = float(engine.space.chips[accelerator].devices_per_host)
    failures = engine.study.serving.survive_failures
    lost = failures * np.maximum(np.ceil(per_host / plans.devices), 1.0)
    names = np.array([name == EMPTIEST for name in engine.space.levels["routing"]])
    emptiest = names[np.asarray(columns["routing"])]
    saturated_per_s = most(lane) * lanes
    return Ready(pool, accelerator, columns, rig, lane, lanes, saturated_per_s, lost, emptiest)


@dataclass(frozen=True)
class Times:
    """What a request sees of one pool; (n,) each.

    Parameters
    ----------
    spread : until the prompt is computed; or between later tokens
    own_s, own_sd_s : of prompts, as `prompt_lane.PromptTimes`; 0 of answers
    decoding_sequences : of a lane
    step_s, busy_frac : of a lane
    """

    spread: Spread
    own_s: Floats
    own_sd_s: Floats
    decoding_sequences: Floats
    step_s: Floats
    busy_frac: Floats
    terms: dict[str, Floats]


def times_at(found: Ready, requests_per_s: Floats, lanes: Floats) -> Times:
    """What a request sees where so many come to each of some lanes; (n,)."""
    lane = found.lane
    if found.pool == PREFILL:
        choice = np.where(found.picks_emptiest, lanes, 1.0)
        return _prompt_times(lane, prompt_pace(lane, requests_per_s), choice)
    at = answer_pace(lane, requests_per_s)
    spread, none = answer_times(lane, at), 0.0 * at.step_s
    busy = 1.0 - np.exp(-at.decoding_sequences)
    return Times(spread, none, none, at.decoding_sequences, at.step_s, busy, {})


def _prompt_times(lane: Lane, at: PromptPace, lanes: Floats) -> Times:
    seen = prompt_times(lane, at, lanes)
    none = 0.0 * at.step_s
    return Times(seen.spread, seen.own_s, seen.own_sd_s, none, at.step_s, at.busy_frac, seen.terms)


@dataclass(frozen=True)
class PoolRows:
    """Plans of one pool with so many replicas each; n rows.

    Parameters
    ----------
    ready : the plans, each as often as it stands here with other replicas
    replicas : (n,)
    times, short : in the busiest window, with all replicas and with those lost out of work
    end : wires of one copy of attention
    transfers_per_s, short_transfers_per_s : that come to it in the busiest window
    steps_frac : share of the time that its wires are busy with steps
    usual_w, busiest_w : of a device and its share of the host
    bought : what all replicas make one buy
    room_sequences : prompts, or sequences, that a copy of attention has room for
    metrics, limits : of the pool alone, by name
    """

    ready: Ready
    replicas: Floats
    times: Times
    short: Times
    end: End
    transfers_per_s: Floats
    short_transfers_per_s: Floats
    steps_frac: Floats
    usual_w: LaneWatts
    busiest_w: LaneWatts
    bought: Bought
    room_sequences: Floats
    metrics: dict[str, Floats]
    limits: dict[str, Limit]

    def __len__(self) -> int:
        return len(self.replicas)

    @property
    def is_feasible(self) -> Masks:
        """Rows that keep every limit of the pool alone; (n,)."""
        return keeps(self.limits, len(self))

    def take(self, rows: Codes) -> PoolRows:
        """The same for some rows, in the order given."""
        names = [n for n in PoolRows.__dataclass_fields__ if n != "ready"]
        cells = {name: taken(getattr(self, name), rows) for name in names}
        return PoolRows(ready=self.ready.take(rows), **cells)


def pool_rows(engine: ServeEngine, found: Ready, replicas: Floats) -> PoolRows:
    """Plans of one pool with a number of replicas each; (n,)."""
    load, rig = engine.load, found.rig
    lanes, left = replicas * found.lanes, np.maximum(replicas - found.lost, 1e-9) * found.lanes
    peak, mean = load.peak.requests_per_s, load.mean.requests_per_s
    most = found.saturated_per_s / found.lanes
    times = times_at(found, np.minimum(peak / lanes, most), lanes)
    short = times
    if np.any(found.lost > 0):
        short = times_at(found, np.minimum(peak / left, most), left)
    usual_w, busiest_w = (_watts(found, np.minimum(rate / lanes, most)) for rate in (mean, peak))
    copies = rig.plans.attention_data_parallel * 1.0
    bought = bought_by(engine, rig, replicas, found.accelerator)
    rows = PoolRows(
        ready=found,
        replicas=replicas,
        times=times,
        short=short,
        end=end_of(rig),
        transfers_per_s=peak / (replicas * copies),
        short_transfers_per_s=peak / (np.maximum(replicas - found.lost, 1e-9) * copies),
        steps_frac=_steps_frac(found, times),
        usual_w=usual_w,
        busiest_w=busiest_w,
        bought=bought,
        room_sequences=_room(found),
        metrics={},
        limits={},
    )
    metrics = _metrics(engine, rows)
    return replace(rows, metrics=metrics, limits=_limits(engine, rows, metrics))


def _watts(found: Ready, requests_per_s: Floats) -> LaneWatts:
    """Watts of a device at a rate of each of its lanes."""
    cap_frac = np.asarray(found.columns["power_cap_frac"], float)
    lane, rig = found.lane, found.rig
    if found.pool != PREFILL:
        answers = answer_pace(lane, requests_per_s)
        return lane_watts(rig, lane, replace(answers, arrivals=0.0 * answers.arrivals), cap_frac)
    shares = prompt_shares(lane, prompt_pace(lane, requests_per_s))
    return watts_of_shares(rig, shares, cap_frac)


def prompt_shares(lane: Lane, at: PromptPace) -> Floats:
    """Of all time: kernels at work, memory, arithmetic and links busy, messages alone; (5, n)."""
    curves, tokens = lane.curves, at.prompts * lane.mix.prompt_tokens_mean
    total = curves.of(curves.layers_s, tokens) + curves.of(curves.head_s, at.prompts)
    if curves.shared is not None:
        for part_s in (curves.shared.experts_s, curves.shared.exchange_s):
            total = total + curves.of(part_s, tokens)
    total = total + curves.prompts_s.mean(axis=2)[:, curves.layout] * at.prompts
    return shares_of(np.asarray(total), at.step_s, at.busy_frac)


def _steps_frac(found: Ready, times: Times) -> Floats:
    """Share of the time that a device's scale-out wires are busy with its own steps; (n,)."""
    plans, lane = found.rig.plans, found.lane
    if np.all(plans.devices <= plans.supernode_devices):
        return np.zeros(len(plans))
    tokens = np.maximum(times.decoding_sequences * lane.queries, 1.0)
    if found.pool == PREFILL:
        tokens = np.maximum(lane.mix.prompt_tokens_mean * np.ones(len(plans)), 1.0)
    context = np.full(len(plans), lane.mix.context_tokens)
    parts = step_parts(found.rig, tokens, context)
    outside_s = sum((part.outside_s for part in parts.values()), start=0.0)
    step_s = prompts_step_s(lane, np.ones(len(plans))) if found.pool == PREFILL else times.step_s
    return np.asarray(np.minimum(outside_s / step_s, 1.0) * times.busy_frac)


def _room(found: Ready) -> Floats:
    """Mean sequences that a copy of attention has room for, all its slots together; (n,)."""
    rig, lane = found.rig, found.lane
    room = free_bytes(rig.model, rig.engine, rig.plans, rig.chips.memory_bytes)
    each = resident_sequence_bytes(rig.model, rig.plans, lane.mix.context_tokens)
    return np.maximum(room / each, 0.0)


def _metrics(engine: ServeEngine, rows: PoolRows) -> dict[str, Floats]:
    """Figures of one pool."""
    found, load = rows.ready, engine.load
    plans, chips = found.rig.plans, found.rig.chips
    capacity_per_s = rows.replicas * found.saturated_per_s
    mix = load.peak.mix
    tokens = mix.prompt_tokens_mean if found.pool == PREFILL else mix.later_tokens
    return {
        **rows.bought.metrics,
        "replicas": rows.replicas,
        "capacity_requests_per_s": capacity_per_s,
        "utilisation_frac": np.minimum(load.peak.requests_per_s / capacity_per_s, 1.0),
        **floors(engine, found.rig, tokens),
        "device_mean_w": rows.usual_w.device_w,
        "device_peak_w": rows.busiest_w.device_w,
        "memory_bytes": np.broadcast_to(chips.memory_bytes, len(plans)) * 1.0,
    }


def _limits(
    engine: ServeEngine, rows: PoolRows, metrics: Mapping[str, Floats]
) -> dict[str, Limit]:
    """What one pool has to keep whatever the other is."""
    found, load, ones = rows.ready, engine.load, np.ones(len(rows))
    rig, plans = found.rig, found.rig.plans
    most_tokens = rig.model.max_tokens or load.longest_tokens
    peak, left = load.peak.requests_per_s, rows.replicas - found.lost
    limits = {
        "memory": memory_limit(rig, float(load.longest_tokens)),
        "saturation": Limit(ones * peak, rows.replicas * found.saturated_per_s, "requests/s"),
        "peak_utilisation": Limit(
            peak / (rows.replicas * found.saturated_per_s),
            engine.study.serving.peak_utilisation_frac * ones,
            "1",
        ),
        "survive_failures": Limit(
            np.where(found.lost > 0, ones * peak, 0.0),
            np.maximum(left, 0.0) * found.saturated_per_s,
            "requests/s",
        ),
        "context": Limit(ones * load.longest_tokens, ones * most_tokens, "tokens"),
        "arithmetic": Limit(metrics["floor_devices"], metrics["devices"], "devices"),
        "kernels": Limit(
            engine.unsupported(found.accelerator)[plans.precision_code], 0.0 * ones, "kernels"
        ),
        "prompt_in_a_step": _prompt_limit(engine, found),
    }
    for bound in load.bounds:
        name = f"{bound.latency}_{bound.statistic}"
        need = bound.most_s * ones
        limits[name] = Limit(rows.times.spread.at(bound.statistic), need, "s")
        if np.any(found.lost > 0):
            have = rows.short.spread.at(bound.statistic)
            limits[f"{name} after failures"] = Limit(have, need, "s")
    return limits


def _prompt_limit(engine: ServeEngine, found: Ready) -> Limit:
    """The longest prompt where a policy takes prompts whole: one step has to hold it."""
    names = np.array([str(name) for name in engine.space.levels["batching"]])
    is_whole = names[np.asarray(found.columns["batching"])] == WHOLE_PROMPTS
    longest = np.where(is_whole, engine.load.longest_prompt_tokens * 1.0, 0.0)
    return Limit(longest, np.asarray(found.columns["token_budget"], float), "tokens")


def resident_bytes(rows: PoolRows, held: Floats) -> Ledger:
    """Bytes on the heaviest device where a copy of attention holds so many mean sequences; (n,).

    Parameters
    ----------
    held : (n,) sequences, those that wait to be moved included
    """
    crowded = held + CROWD_Z * np.sqrt(np.maximum(held, 0.0))
    return resident_of(rows.ready.rig, rows.ready.lane.mix.context_tokens, crowded)
