"""Two pools joined: every figure of a fleet from one row of each, in closed form.

What the pools know of themselves is only added up here; what is new is the wire between them, the
fabric that joins them, and the bounds that need both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from costdata.hardware_bill import HardwareBill, it_w, provisioned_w
from costdata.network_build import TIERS_MOST
from planner.axes import LAYER_WISE
from planner.costing.purchase import on_one_fabric
from planner.costing.wholes import whole_metrics
from planner.evaluated import Evaluated, Limit
from planner.metrics import find_metric, is_at_least
from planner.pools.engine import PoolsEngine
from planner.pools.phase import PoolRows, Times, resident_bytes
from planner.serving.engine import PERIOD_DAYS
from planner.serving.evaluate import SECONDS_PER_DAY
from planner.serving.metrics import STATISTICS
from planner.study.pools import DECODE, POOLS, PREFILL, TRANSFER
from simkernel.columns import Codes, Floats, Masks
from simkernel.kv_transfer import Wire, exposed_s, sequence_bytes, transfer_s, wire_under
from simkernel.ledger import Ledger
from simkernel.serve_open import Spread


@dataclass(frozen=True)
class Moved:
    """Keys and values of one request on their way; (n,) each.

    Parameters
    ----------
    mean_bytes, sd_bytes : that move
    alone_s, wait_s : of the transfer on free wires, and of the wait for them, both ends
    exposed_s, exposed_sd_s : what the first token waits for, and its deviation
    exposed_by_length_s : of that deviation, what follows from the length of the prompt
    source, destination : the wires under the load
    """

    mean_bytes: Floats
    sd_bytes: Floats
    alone_s: Floats
    wait_s: Floats
    exposed_s: Floats
    exposed_sd_s: Floats
    exposed_by_length_s: Floats
    source: Wire
    destination: Wire

    @property
    def held_s(self) -> Floats:
        """For which both ends hold the blocks of a prompt, after it is computed."""
        return self.wait_s + self.alone_s


@dataclass(frozen=True)
class Pair:
    """Rows of both pools side by side, with what moves between them; n rows.

    Parameters
    ----------
    prefill, decode : row i of the one stands with row i of the other
    is_layer_wise : (n,)
    moved, short : with all replicas; with the failures of prefill, and of decode
    """

    prefill: PoolRows
    decode: PoolRows
    is_layer_wise: Masks
    moved: Moved
    short: tuple[Moved, ...]


def pair_of(
    engine: PoolsEngine, prefill: PoolRows, decode: PoolRows, is_layer_wise: Masks
) -> Pair:
    """Rows of both pools side by side."""
    per_s = (prefill.transfers_per_s, decode.transfers_per_s)
    moved = _moved(engine, (prefill, decode), prefill.times, is_layer_wise, per_s)
    short: tuple[Moved, ...] = ()
    if engine.study.serving.survive_failures:
        left = (prefill.short_transfers_per_s, decode.short_transfers_per_s)
        rates = ((prefill.short, (left[0], per_s[1])), (prefill.times, (per_s[0], left[1])))
        short = tuple(
            _moved(engine, (prefill, decode), times, is_layer_wise, rate) for times, rate in rates
        )
    return Pair(prefill, decode, is_layer_wise, moved, short)


def _moved(
    engine: PoolsEngine,
    pools: tuple[PoolRows, PoolRows],
    prompts: Times,
    is_layer_wise: Masks,
    transfers_per_s: tuple[Floats, Floats],
) -> Moved:
    """What moves between two rows, so many times a second at each end."""
    prefill, decode = pools
    plans, mix = prefill.ready.rig.plans, engine.load.peak.mix
    widths = np.broadcast_to(plans.cache_bytes_per_value, len(prefill))
    sizes = np.stack([
        np.asarray(sequence_bytes(engine.model, float(n), widths)) for n in mix.prompt_tokens
    ])  # fmt: skip
    mean, second, third = (np.mean(sizes**power, axis=0) for power in (1, 2, 3))
    source, destination = (
        wire_under(pool.end, per_s, mean, second, third, pool.steps_frac)
        for pool, per_s in zip(pools, transfers_per_s, strict=True)
    )
    ends = [pool.end.beside(pool.steps_frac) for pool in pools]
    alone_s = transfer_s(mean, *ends)
    wait_s = source.wait_s + destination.wait_s
    sd = np.sqrt(np.maximum(second - mean**2, 0.0))
    slower = np.minimum(*(end.bytes_per_s for end in ends))
    layers = engine.model.layers
    hidden = exposed_s(alone_s + wait_s, prompts.own_s, layers)
    left_s = np.where(is_layer_wise, hidden, alone_s + wait_s)
    share = left_s / np.maximum(alone_s + wait_s, 1e-12)
    by_length_s = sd / slower * share
    waits = np.sqrt(source.wait_sd_s**2 + destination.wait_sd_s**2) * share
    return Moved(
        mean, sd, alone_s, wait_s, left_s, np.sqrt(by_length_s**2 + waits**2), by_length_s,
        source, destination,
    )  # fmt: skip


def first_token(prompts: Times, moved: Moved) -> Spread:
    """Time to first token: the prompt, and what of its keys and values is still to come.

    Notes
    -----
    A long prompt takes longer in both, so these deviations add; waits for wires come by chance.
    """
    own = prompts.spread
    by_chance = moved.exposed_sd_s**2 - moved.exposed_by_length_s**2
    variance = own.sd_s**2 + by_chance + moved.exposed_by_length_s**2
    variance = variance + 2.0 * prompts.own_sd_s * moved.exposed_by_length_s
    return Spread(own.mean_s + moved.exposed_s, np.sqrt(variance), own.constant_s)


def latencies_of(
    engine: PoolsEngine, prompts: Times, moved: Moved, answers: Times
) -> dict[str, Spread]:
    """Every latency of pairs by name."""
    mix, first, later = engine.load.peak.mix, first_token(prompts, moved), answers.spread
    variance = first.sd_s**2 + (later.mean_s * mix.output_sd_tokens) ** 2
    variance = variance + (mix.later_tokens * later.sd_s) ** 2
    whole_s = first.mean_s + later.mean_s * mix.later_tokens
    return {
        "ttft_s": first,
        "tpot_s": later,
        "e2e_s": Spread(whole_s, np.sqrt(variance), first.constant_s),
    }


def evaluated(engine: PoolsEngine, pair: Pair) -> Evaluated:
    """Metrics, limits and ledgers of pairs; as of a fleet that does both."""
    spreads = latencies_of(engine, pair.prefill.times, pair.moved, pair.decode.times)
    bought = _bought(engine, pair)
    resident = _resident(pair)
    metrics = {
        **{f"{n}_{s}": spread.at(s) for n, spread in spreads.items() for s in STATISTICS},
        **bought.metrics,
        **_rates(engine, pair, bought),
        **_transfers(pair),
        **_of_pools(pair),
        **{f"{p}.resident_bytes": np.asarray(resident[p].total) for p in POOLS},
        "resident_bytes": np.maximum(*(np.asarray(resident[p].total) for p in POOLS)),
        "headroom_bytes": _headroom(pair, resident),
        "validated": np.zeros(len(pair.prefill)),
    }
    limits = {
        **_of_both(pair),
        **_joint_limits(engine, pair, metrics),
        **_latency_limits(engine, pair, spreads),
    }
    return Evaluated(metrics, limits, _ledgers(pair, bought, resident), {})


@dataclass(frozen=True)
class _Bought:
    """What pairs buy: the bills of both pools on one fabric, IT power, counts as metrics."""

    it_mean: Ledger
    it_peak: Ledger
    metrics: dict[str, Floats]


def _rows_of(pair: Pair) -> dict[str, PoolRows]:
    return {PREFILL: pair.prefill, DECODE: pair.decode}


def _bought(engine: PoolsEngine, pair: Pair) -> _Bought:
    """Hardware of both pools, and what it draws."""
    rows = _rows_of(pair)
    hosts = np.asarray(sum(pool.bought.bill.hosts for pool in rows.values()))
    bills: dict[str, HardwareBill] = {}
    means, peaks, wholes = [], [], []
    for name, pool in rows.items():
        own, shelf = pool.bought, engine.pools[name].shelf(pool.ready.accelerator)
        bills[name] = on_one_fabric(shelf, own.rows, own.bill, hosts)
        usual, busiest = pool.usual_w.working, pool.busiest_w.working
        means.append(it_w(bills[name], own.watts, usual))
        peaks.append(it_w(bills[name], own.watts, busiest))
        most_kw = engine.study.limits.get("rack_kw")
        boxed = (usual.boxed_w(own.watts), busiest.boxed_w(own.watts))
        wholes.append(
            whole_metrics(shelf, own.rows, bills[name], own.watts, boxed[0], boxed[1], most_kw)
        )
    it_mean, it_peak = (_sum_of(ledgers) for ledgers in (means, peaks))
    added = ("devices", "stranded_devices", "nodes", "supernodes", "purchase_units")
    counts = {n: sum(pool.bought.metrics[n] for pool in rows.values()) for n in added}
    headroom = engine.catalog.planning("provision_headroom_frac")
    metrics = {
        **{name: np.asarray(value) for name, value in counts.items()},
        "fabric_tiers": np.maximum(*(bill.tiers for bill in bills.values())),
        **{name: np.maximum(*(one[name] for one in wholes)) for name in wholes[0]},
        "racks": wholes[0]["racks"] + wholes[1]["racks"],
        "it_mean_w": np.asarray(it_mean.total),
        "it_peak_w": np.asarray(it_peak.total),
        "provisioned_w": np.asarray(provisioned_w(it_peak.total, headroom)),
    }
    return _Bought(it_mean, it_peak, metrics)


def _sum_of(ledgers: list[Ledger]) -> Ledger:
    """Ledgers of two pools as one, terms with the pool before a dot."""
    terms = {
        f"{pool}.{name}": term
        for pool, ledger in zip(POOLS, ledgers, strict=True)
        for name, term in ledger.terms.items()
    }
    return Ledger(ledgers[0].name, ledgers[0].unit, terms)


def _rates(engine: PoolsEngine, pair: Pair, bought: _Bought) -> dict[str, Floats]:
    """What the fleet serves: no more than the slower pool takes on."""
    load, devices = engine.load, bought.metrics["devices"]
    capacity = _capacity_per_s(pair)
    served = np.minimum(load.peak.requests_per_s, capacity)
    usual = np.minimum(load.mean.requests_per_s, capacity)
    output_per_s = served * load.peak.mix.output_tokens_mean
    mean_output_per_s = usual * load.mean.mix.output_tokens_mean
    seconds = PERIOD_DAYS * SECONDS_PER_DAY
    mean_w = sum(p.usual_w.device_w * p.metrics["devices"] for p in _rows_of(pair).values())
    return {
        "days": np.full(len(devices), PERIOD_DAYS),
        "output_tokens_per_s": output_per_s,
        "tokens_per_s_per_device": output_per_s / devices,
        "capacity_requests_per_s": capacity,
        "utilisation_frac": served / capacity,
        "j_per_token": bought.metrics["it_mean_w"] / mean_output_per_s,
        "input_tokens": usual * load.mean.mix.prompt_tokens_mean * seconds,
        "output_tokens": mean_output_per_s * seconds,
        "prompt_share_frac": pair.prefill.metrics["devices"] / devices,
        "device_mean_w": np.asarray(mean_w) / devices,
        "device_peak_w": np.maximum(*(p.busiest_w.device_w for p in _rows_of(pair).values())),
    }


def _capacity_per_s(pair: Pair) -> Floats:
    """Rate matching: requests that both pools take on, whatever they wait; (n,)."""
    both = [pool.metrics["capacity_requests_per_s"] for pool in _rows_of(pair).values()]
    return np.minimum(*both)


def _transfers(pair: Pair) -> dict[str, Floats]:
    """What is told of keys and values that move."""
    moved = pair.moved
    return {
        "kv_moved_bytes": moved.mean_bytes,
        "kv_transfer_s": moved.alone_s,
        "kv_wait_s": moved.wait_s,
        "kv_exposed_s": moved.exposed_s,
        "prefill.wire_use_frac": moved.source.use_frac,
        "decode.wire_use_frac": moved.destination.use_frac,
    }


def _of_pools(pair: Pair) -> dict[str, Floats]:
    """Figures of each pool under its name, and those of the fleet that are their sum."""
    rows = _rows_of(pair)
    own = ("replicas", "devices", "nodes", "purchase_units", "used_per_domain",
           "utilisation_frac", "device_mean_w", "device_peak_w", "weight_bytes_per_value",
           "replica_weight_bytes")  # fmt: skip
    summed = ("replicas", "floor_devices")
    return {
        **{f"{name}.{key}": pool.metrics[key] for name, pool in rows.items() for key in own},
        **{key: np.asarray(sum(pool.metrics[key] for pool in rows.values())) for key in summed},
    }


def _holding(pair: Pair) -> dict[str, Floats]:
    """Sequences that a copy of attention holds, those that wait to be moved included; (n,)."""
    prefill, decode, moved = pair.prefill, pair.decode, pair.moved
    own_s = prefill.times.own_s
    stages = decode.ready.rig.plans.pipeline_parallel
    return {
        PREFILL: prefill.transfers_per_s * (own_s + moved.held_s),
        DECODE: decode.times.decoding_sequences * stages + decode.transfers_per_s * moved.held_s,
    }


def _resident(pair: Pair) -> dict[str, Ledger]:
    holding = _holding(pair)
    return {name: resident_bytes(pool, holding[name]) for name, pool in _rows_of(pair).items()}


def _headroom(pair: Pair, resident: Mapping[str, Ledger]) -> Floats:
    rows = _rows_of(pair)
    left = [rows[p].metrics["memory_bytes"] - np.asarray(resident[p].total) for p in POOLS]
    return np.minimum(*left)


def _of_both(pair: Pair) -> dict[str, Limit]:
    """Limits of each pool alone, under its name."""
    return {
        f"{name}: {key}": limit
        for name, pool in _rows_of(pair).items()
        for key, limit in pool.limits.items()
    }


def _joint_limits(
    engine: PoolsEngine, pair: Pair, metrics: Mapping[str, Floats]
) -> dict[str, Limit]:
    """What needs both pools: wires, room for what waits to be moved, the fabric, study limits."""
    ones, holding = np.ones(len(pair.prefill)), _holding(pair)
    most = engine.study.serving.peak_utilisation_frac * ones
    found = {
        "prefill: wires": Limit(pair.moved.source.use_frac, most, "1"),
        "decode: wires": Limit(pair.moved.destination.use_frac, most, "1"),
        "prefill: room": Limit(holding[PREFILL], pair.prefill.room_sequences, "sequences"),
        "decode: room": Limit(holding[DECODE], pair.decode.room_sequences, "sequences"),
        "fabric_tiers": Limit(metrics["fabric_tiers"], TIERS_MOST * ones, "layers"),
    }
    for name, bound in engine.study.limits.items():
        if find_metric(name).stage == "physics" and name in metrics:
            unit = find_metric(name).unit
            found[name] = Limit(metrics[name], bound * ones, unit, is_at_least(name))
    return found


def _latency_limits(
    engine: PoolsEngine, pair: Pair, spreads: Mapping[str, Spread]
) -> dict[str, Limit]:
    """Bounds of the study on pairs: with all replicas, and with each pool's failures."""
    states = [("", spreads)]
    for pool, moved in zip(POOLS, pair.short, strict=False):
        prompts = pair.prefill.short if pool == PREFILL else pair.prefill.times
        answers = pair.decode.short if pool == DECODE else pair.decode.times
        found = latencies_of(engine, prompts, moved, answers)
        states.append((f" after failures of {pool}", found))
    limits = {}
    for said, of_state in states:
        for bound in engine.load.bounds:
            have = of_state[bound.latency].at(bound.statistic)
            need = np.full(len(pair.prefill), bound.most_s)
            limits[f"{bound.latency}_{bound.statistic}{said}"] = Limit(have, need, "s")
    return limits


def _ledgers(pair: Pair, bought: _Bought, resident: Mapping[str, Ledger]) -> dict[str, Ledger]:
    """What sums: the time to first token with its transfer, a step, memory and watts."""
    moved, answers = pair.moved, pair.decode.times
    left = moved.exposed_s / np.maximum(moved.held_s, 1e-12)
    first = {
        **pair.prefill.times.terms,
        "kv_transfer": moved.alone_s * left,
        "kv_wait_for_wires": moved.wait_s * left,
    }
    mean = answers.spread.mean_s + answers.spread.constant_s
    made = pair.decode.ready.lane.made_tokens
    later = {"step": answers.step_s / made, "joining_and_crowds": mean - answers.step_s / made}
    return {
        "tpot_s": Ledger("tpot_s", "s", later),
        "ttft_s": Ledger("ttft_s", "s", first),
        "resident_bytes": _fuller(pair, resident),
        "it_w": bought.it_mean,
    }


def _fuller(pair: Pair, resident: Mapping[str, Ledger]) -> Ledger:
    """The resident bytes of the pool whose devices hold more, each term with its name."""
    own, other = (np.asarray(resident[pool].total) for pool in POOLS)
    is_of = {POOLS[0]: own >= other, POOLS[1]: own < other}
    terms = {
        f"{pool}.{name}": np.where(is_of[pool], term, 0.0)
        for pool in POOLS
        for name, term in resident[pool].terms.items()
    }
    return Ledger("resident_bytes", "B", terms)


def is_layer_wise(engine: PoolsEngine, transfer: Codes) -> Masks:
    """Pairs that send layer by layer; (n,)."""
    levels = np.array([level == LAYER_WISE for level in engine.space.levels[TRANSFER]])
    return levels[transfer]
