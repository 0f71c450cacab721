"""Random feasible serving plans, each in closed form and replayed: what the two say of it."""

from dataclasses import dataclass, replace

import numpy as np

from costdata import catalog as catalogue
from costdata.configs import read_model
from planner.serving.evaluate import LEAST_PLACES
from simkernel.full_lane import held, thrown
from simkernel.hardware import PRECISIONS
from simkernel.kv_cache import free_bytes, resident_sequence_bytes
from simkernel.lane import Lane
from simkernel.lane_pace import arrivals_at, is_roomy, pace, saturated
from simkernel.replay.fleet import Fleet
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.serve import replay
from simkernel.serve_open import latencies
from simkernel.serving_mix import mix_of
from simkernel.serving_plans import serving_plan_of
from simkernel.serving_rig import rig_of
from simkernel.serving_tables import step_tables
from simkernel.step_curves import step_curves

MODELS = {
    "llama-3.1-8b": (1, 2, 4),
    "llama-3.1-70b": (2, 4, 8),
    "qwen3-32b": (1, 2, 4, 8),
    "qwen3-30b-a3b": (1, 2, 4),
}
CHIPS = ("H100-SXM", "H200-SXM", "A100-80G-SXM")
ENGINES = ("vllm", "trtllm", "sglang")
REQUESTS = 6000
"""A mean of a queue at 80% load is then known to a few per cent."""

WARM_FRAC = 0.1
"""Of the requests: the lane fills, and they do not count."""

BLOCK_TOKENS = 16


@dataclass(frozen=True)
class Pair:
    """One plan as both tell it: figures by name, and its share of the saturated rate."""

    closed: dict
    replayed: dict
    load_frac: float
    words: str


def random_pair(seed):
    """One random plan under a random load, or None where it is not feasible.

    Feasible: it holds the longest request, as many sequences as the closed form is valid from,
    and nearly all crowds of its load.
    """
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(MODELS)))
    tensor = int(rng.choice(MODELS[name]))
    chip, software = str(rng.choice(CHIPS)), str(rng.choice(ENGINES))
    precision = "bf16" if chip.startswith("A100") else str(rng.choice(["bf16", "fp8"]))
    sequences, budget = int(rng.choice([64, 128, 256])), int(rng.choice([2048, 4096, 8192]))
    rig = _rig(name, chip, software, tensor, precision, sequences, budget)
    prompt, output = _lengths(rng)
    mix = mix_of(prompt, output)
    lane = _lane(rig, mix, budget)
    longest = int(np.max(prompt + output))
    pool = _pool_blocks(rig, longest)
    if pool * BLOCK_TOKENS < longest or float(lane.places[0]) < LEAST_PLACES:
        return None
    most_per_s = float(saturated(lane).requests_per_s[0])
    load_frac = float(rng.uniform(0.2, 0.85))
    fleet = Fleet(
        1,
        rig.engine.batching("chunked_prefill"),
        "round_robin",
        sequences,
        budget,
        BLOCK_TOKENS,
        pool,
        longest,
    )
    tables = step_tables(rig, sequences, budget, longest)
    requests = Requests(_arrivals(rng, load_frac * most_per_s), prompt, output)
    at = pace(lane, arrivals_at(lane, np.array([load_frac * most_per_s])))
    if not is_roomy(lane, at)[0]:
        return None
    spreads = latencies(lane, at)
    closed = {
        "tpot_s_mean": float(spreads["tpot_s"].at("mean")[0]),
        "ttft_s_p50": float(spreads["ttft_s"].at("p50")[0]) - float(rig.engine.request_s),
        "ttft_s_p95": float(spreads["ttft_s"].at("p95")[0]) - float(rig.engine.request_s),
        "tpot_s_p95": float(spreads["tpot_s"].at("p95")[0]),
        "saturated_per_s": most_per_s,
        "utilisation_frac": load_frac,
    }
    words = (
        f"{seed}: {name} tp{tensor} {precision} {chip} {software} batch {sequences} budget "
        f"{budget}, {mix.prompt_tokens_mean:.0f}+{mix.output_tokens_mean:.0f} tokens, load "
        f"{load_frac:.2f}, places {float(lane.places[0]):.0f}"
    )
    replayed = _replayed(requests, fleet, tables, rig, load_frac * most_per_s)
    return Pair(closed, replayed, load_frac, words)


SHARES = {"random": (1.0, 1.0), "round_robin": (0.0, 0.5), "least_loaded": (0.0, 0.0)}
"""Of routers over many lanes: how clumped requests come to one, and how its crowd varies."""


def fleet_tails(routing, load_frac, lanes=24):
    """A fleet of equal lanes under prompts of very different lengths, as both tell it."""
    rng = np.random.default_rng(5)
    count, budget, sequences = 1500 * lanes, 8192, 256
    prompt = np.clip(np.rint(rng.lognormal(6.7, 1.0, count)), 8, 12_000).astype(np.int64)
    output = np.clip(np.rint(rng.lognormal(4.6, 0.8, count)), 2, 1500).astype(np.int64)
    rig = _rig("llama-3.1-70b", "H100-SXM", "vllm", 4, "fp8", sequences, budget)
    lane, longest = _lane(rig, mix_of(prompt, output), budget), int(np.max(prompt + output))
    clumped, crowd = (max(share, 1.0 / lanes) for share in SHARES[routing])
    lane = replace(lane, clumped_frac=np.full(1, clumped), crowd_frac=np.full(1, crowd))
    each_per_s = load_frac * float(saturated(lane).requests_per_s[0])
    spreads = latencies(lane, pace(lane, arrivals_at(lane, np.array([each_per_s]))))
    closed = {
        f"{name}_{statistic}": float(spreads[name].at(statistic)[0])
        for name in ("tpot_s", "ttft_s")
        for statistic in ("mean", "p95")
    }
    arrival_s = np.cumsum(rng.exponential(1.0 / (lanes * each_per_s), count))
    requests = Requests(arrival_s - arrival_s[0], prompt, output)
    fleet = Fleet(
        lanes,
        rig.engine.batching("chunked_prefill"),
        routing,
        sequences,
        budget,
        BLOCK_TOKENS,
        _pool_blocks(rig, longest),
        longest,
    )
    found = replay(requests, fleet, step_tables(rig, sequences, budget, longest))
    kept = (np.arange(count) > 0.2 * count) & (np.arange(count) < 0.8 * count)
    host_s = float(np.asarray(rig.engine.prompt_token_s)) * prompt + float(rig.engine.request_s)
    ttft_s, tpot_s = (found.ttft_s + host_s)[kept], found.tpot_s[kept]
    return closed, {
        "tpot_s_mean": float(np.nanmean(tpot_s)),
        "tpot_s_p95": float(np.nanquantile(tpot_s, 0.95)),
        "ttft_s_p95": float(np.quantile(ttft_s, 0.95)),
    }


def _replayed(requests, fleet, tables, rig, requests_per_s):
    """The same figures from two replays: the stream, and as many users as keep the lane full."""
    result = replay(requests, fleet, tables)
    kept = np.arange(len(requests)) > WARM_FRAC * len(requests)
    token_s = float(np.asarray(rig.engine.prompt_token_s)) * requests.prompt_tokens
    users = 4 * fleet.max_batch
    full = replay(requests, fleet, tables, Run(concurrency=users))
    order = np.sort(full.finish_s)
    low, high = int(0.25 * len(order)), int(0.75 * len(order))
    saturated = (high - low) / (order[high] - order[low])
    return {
        "tpot_s_mean": float(np.nanmean(result.tpot_s[kept])),
        "ttft_s_p50": float(np.median((result.ttft_s + token_s)[kept])),
        "ttft_s_p95": float(np.quantile((result.ttft_s + token_s)[kept], 0.95)),
        "tpot_s_p95": float(np.nanquantile(result.tpot_s[kept], 0.95)),
        "saturated_per_s": float(saturated),
        "utilisation_frac": requests_per_s / float(saturated),
    }


def _arrivals(rng, requests_per_s):
    """Poisson arrivals at exactly the rate: near saturation a per cent of it is five of N."""
    arrival_s = np.cumsum(rng.exponential(1.0, REQUESTS))
    arrival_s -= arrival_s[0]
    return arrival_s * (REQUESTS - 1) / requests_per_s / arrival_s[-1]


def _lengths(rng):
    """Prompts and answers spread as chats are, around random means."""
    prompt = rng.lognormal(np.log(rng.uniform(150, 2000)), rng.uniform(0.2, 0.9), REQUESTS)
    output = rng.lognormal(np.log(rng.uniform(80, 500)), rng.uniform(0.2, 0.8), REQUESTS)
    return (
        np.clip(np.rint(prompt), 8, 8000).astype(np.int64),
        np.clip(np.rint(output), 2, 1500).astype(np.int64),
    )


def _rig(name, chip, software, tensor, precision, sequences, budget):
    catalog, model = catalogue.load(), read_model(name)
    code = PRECISIONS.index(precision)
    ranks = tensor if any(kind.experts for kind in model.kinds) else 1
    plans = serving_plan_of(
        tensor_parallel=tensor,
        expert_tensor_parallel=1,
        expert_parallel=ranks,
        precision_code=code,
        expert_precision_code=code,
        cache_bytes_per_value=2.0,
        max_sequences=float(sequences),
        budget_tokens=float(budget),
    )
    architecture = catalog.accelerator(chip).architecture
    return rig_of(
        model,
        catalog.engine(software, architecture),
        catalog.chips([chip]),
        catalog.engine_curves(software, [chip]),
        plans,
    )


def _lane(rig, mix, budget):
    curves = step_curves(rig, float(budget), mix.context_tokens, mix.prompt_tokens)
    room = free_bytes(rig.model, rig.engine, rig.plans, rig.chips.memory_bytes)
    each = resident_sequence_bytes(rig.model, rig.plans, mix.context_tokens)
    mean_room = np.maximum(room / each, 0.0)
    places = np.minimum(mean_room, rig.plans.max_sequences)
    return Lane(
        curves=curves,
        engine=rig.engine,
        mix=mix,
        stages=rig.plans.pipeline_parallel,
        places=places,
        held_sequences=held(mix, mean_room, rig.plans.max_sequences),
        thrown_frac=thrown(mix, mean_room, rig.plans.max_sequences, rig.plans.budget_tokens),
        budget_tokens=rig.plans.budget_tokens,
    )


def _pool_blocks(rig, tokens):
    room = free_bytes(rig.model, rig.engine, rig.plans, rig.chips.memory_bytes)
    each = resident_sequence_bytes(rig.model, rig.plans, float(tokens)) / tokens
    return max(int(float(np.asarray(room / each)[0]) // BLOCK_TOKENS), 1)
