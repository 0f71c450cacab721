"""Closed form of steady serving: a replica under a constant number of requests in flight.

A closed loop keeps `requests` in flight; each walks through waiting, prefill and its
output tokens. Steps serve all running sequences at once and carry the prompts of newcomers.
Where requests arrive at their own times the event replay is right and this is its limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.kv_cache import free_bytes, resident_sequence_bytes
from simkernel.ops import Parts, summed
from simkernel.passes import Pass, wires_s
from simkernel.serving_passes import decode_parts, launched_s, prefill_parts
from simkernel.serving_rig import Rig


@dataclass(frozen=True)
class Load:
    """What one replica is asked, each a number or (n,).

    `prompt_tokens` and `output_tokens` of one request, on average; `requests` in
    flight on the replica; `burst_frac` is the least share of the other requests that come
    together with one, whatever the engine; `has_equal_lengths` is 1 where all prompts and outputs
    have one length. How the engine was started: `held_steps` a prompt may be held back for others
    at most, until `held_prompts` are there; `poll_steps` between two looks for new requests.
    """

    prompt_tokens: Column
    output_tokens: Column
    requests: Column
    burst_frac: Column = 0.0
    has_equal_lengths: Column = 0.0
    held_steps: Column = 0.0
    held_prompts: Column = 1.0
    poll_steps: Column = 1.0


@dataclass(frozen=True)
class Steady:
    """What a replica gives under a load; (n,) each.

    `sequences` run at once (of all attention groups), `fitting_sequences` is what memory holds.
    `ttft_s` from sending a request to its first token, `tpot_s` between later tokens, `wait_s`
    of the first for a place among the running. `step` is the decode step of one group and slot,
    `prefill` the pass of one prompt, `step_wires_s` and `prefill_wires_s` of them in which devices
    wait for messages alone. `utilisation_frac` is the share of time that work fills.
    """

    ttft_s: Floats
    tpot_s: Floats
    output_tokens_per_s: Floats
    utilisation_frac: Floats
    sequences: Floats
    fitting_sequences: Floats
    wait_s: Floats
    step: Pass
    prefill: Pass
    step_wires_s: Floats
    prefill_wires_s: Floats
    is_infeasible: Floats


def steady(rig: Rig, load: Load) -> Steady:
    """A replica in the steady state of a closed loop.

    Parameters
    ----------
    rig : n candidates
    load : what each is asked

    Notes
    -----
    In one cycle of a request every other one is prefilled once: some before its first token, of
    those that came together with it, the others in steps that carry its output. A step that
    carries prompts and decoding sequences reads the weights once for both; an engine that does
    not mix them stops decoding for each prompt. What does not fit in memory waits for a place:
    (requests - running) at the throughput of the running ones (Little 1961). Prompts
    and outputs have one length each; a spread of lengths changes tails, not means, below
    saturation.
    """
    plans, engine = rig.plans, rig.engine
    lanes = plans.attention_data_parallel * plans.pipeline_parallel
    fitting = _fitting(rig, load)
    running = np.minimum(np.maximum(load.requests, 1.0), np.maximum(fitting, 1.0))
    each = np.maximum(running / lanes, 1.0)
    step = decode_parts(rig, each, load.prompt_tokens + load.output_tokens / 2.0)
    prefill = prefill_parts(rig, 1.0, load.prompt_tokens)
    host_s = rig.engine.host_s(plans.pipeline_parallel, each) + _uneven_s(rig, running, step)
    step_s = np.asarray(summed(step).floor_s + host_s)
    launch_s = launched_s(rig)
    prefill_s = (
        np.maximum(summed(prefill).floor_s, launch_s) + engine.step_s * plans.pipeline_parallel
    )
    held_steps, beside = _held_back(load, each)
    tpot_s, stop_s = _mixed(rig, load, each, step, step_s, prefill_s)
    before_s = (
        _others_s(rig, load, _before(rig, load, each) + beside, prefill) + held_steps * step_s
    )
    first_s = stop_s + before_s + engine.request_s + engine.prompt_token_s * load.prompt_tokens
    first_s = first_s + 0.5 * tpot_s
    cycle_s = first_s + tpot_s * np.maximum(load.output_tokens - 1.0, 0.0)
    wait_s = np.maximum(load.requests - running, 0.0) / running * cycle_s
    busy_s = step_s * load.output_tokens + prefill_s * each
    return Steady(
        ttft_s=first_s + wait_s,
        tpot_s=tpot_s,
        output_tokens_per_s=running * load.output_tokens / cycle_s,
        utilisation_frac=np.minimum(busy_s / cycle_s, 1.0),
        sequences=running,
        fitting_sequences=fitting,
        wait_s=wait_s,
        step=summed(step),
        prefill=summed(prefill),
        step_wires_s=_wires_s(step),
        prefill_wires_s=_wires_s(prefill),
        is_infeasible=fitting < 1.0,
    )


def _mixed(
    rig: Rig, load: Load, each: Floats, step: Parts, step_s: Floats, prefill_s: Floats
) -> tuple[Floats, Floats]:
    """Mean time between tokens under the prompts of others, and of a step with one prompt; (n,).

    Of the steps of one output a share carries prompts, in chunks of the token budget; when there
    are more prompts than steps, each carries several. Attention copies step together, so a prompt
    of any of them holds up all, while the experts see what all of them bring on average; an engine
    that balances them lets prompts wait until every copy has one.
    """
    engine, prompt = rig.engine, load.prompt_tokens
    after = each - 1.0 - _before(rig, load, each)
    carried_tokens = after * prompt / np.maximum(load.output_tokens, 1.0)
    most = np.maximum(rig.plans.budget_tokens - each, 1.0)
    spare_tokens = np.minimum(prompt, most)
    _, beside = _held_back(load, each)
    chunk = np.maximum(np.minimum(spare_tokens * (1.0 + beside), most), carried_tokens)
    own_frac = carried_tokens / chunk
    carrying_frac = _carrying_frac(rig, own_frac)
    host_s = step_s - summed(step).floor_s
    parts = prefill_parts(rig, (chunk + each) / prompt, prompt)
    spared_s = (1.0 - own_frac / np.maximum(carrying_frac, 1e-9)) * _experts_more_s(parts, step)
    both = summed(parts).floor_s - np.where(own_frac > 0, spared_s, 0.0)
    decode_s = step.get("attention", Pass()).floor_s
    mixed_s = np.maximum(both + decode_s, launched_s(rig)) + host_s
    alone = summed(prefill_parts(rig, chunk / prompt, prompt)).floor_s
    apart_s = step_s + np.maximum(alone, launched_s(rig)) + engine.step_s
    long_s = engine.mixed_frac * mixed_s + (1.0 - engine.mixed_frac) * apart_s
    tpot_s = step_s + carrying_frac * np.maximum(long_s - step_s, 0.0)
    first_s = engine.mixed_frac * (decode_s + host_s) * prompt / spare_tokens + prefill_s
    return tpot_s, first_s


def _carrying_frac(rig: Rig, own_frac: Floats) -> Floats:
    """Share of steps that carry a prompt of any attention copy; (n,)."""
    at_random = 1.0 - (1.0 - own_frac) ** rig.plans.attention_data_parallel
    balanced_frac = np.minimum(rig.engine.balanced_frac, 1.0)
    return np.asarray(at_random + balanced_frac * (own_frac - at_random))


def _uneven_s(rig: Rig, running: Floats, step: Parts) -> Floats:
    """What full slots wait for the last stage, which has the head beside its layers; (n,)."""
    stages = rig.plans.pipeline_parallel
    is_full = running >= stages * rig.plans.attention_data_parallel
    return np.asarray(np.where(is_full, (stages - 1.0) * step["head"].floor_s, 0.0))


def _experts_more_s(parts: Parts, step: Parts) -> Column:
    """What experts and their exchange take in a step with prompts beyond one without."""
    names = ("experts", "expert_parallel")
    with_prompts, without = (
        sum((p[name].floor_s for name in names if name in p), start=0.0) for p in (parts, step)
    )
    return np.maximum(with_prompts - without, 0.0)


def offline_run(rig: Rig, load: Load) -> Steady:
    """All requests queued at once and run to the last: whole crowds one after another, a rest.

    Parameters
    ----------
    rig : n candidates
    load : `requests` are those of the run

    Notes
    -----
    Requests of one length that start together end together, so a crowd that fills the memory
    follows another, and the last one is as large as what is left and quicker by that. Times to
    first token and between tokens are those of the full crowds.
    """
    crowd = steady(rig, load)
    crowds = np.floor(load.requests / crowd.sequences)
    rest = load.requests - crowds * crowd.sequences
    last = steady(rig, replace(load, requests=np.maximum(rest, 1.0)))
    run_s = crowds * _lasts_s(crowd, load) + (rest >= 1.0) * _lasts_s(last, load)
    return replace(crowd, output_tokens_per_s=load.requests * load.output_tokens / run_s)


def _lasts_s(crowd: Steady, load: Load) -> Floats:
    """From the first request of a crowd to its last token."""
    return np.asarray(crowd.sequences * load.output_tokens / crowd.output_tokens_per_s)


def static_batch(rig: Rig, load: Load) -> Steady:
    """One batch from start to end: all prompts in one pass, then steps with all sequences.

    Parameters
    ----------
    rig : n candidates
    load : `requests` are the batch
    """
    plans = rig.plans
    lanes = plans.attention_data_parallel * plans.pipeline_parallel
    each = np.maximum(load.requests / lanes, 1.0) * np.ones(len(plans))
    parts = decode_parts(rig, each, load.prompt_tokens + load.output_tokens / 2.0)
    prompts = prefill_parts(rig, each, load.prompt_tokens)
    step, prefill = summed(parts), summed(prompts)
    host_s = np.asarray(rig.engine.host_s(plans.pipeline_parallel, each))
    step_s, first_s = step.floor_s + host_s, prefill.floor_s + host_s
    whole_s = first_s + step_s * (load.output_tokens - 1.0)
    fitting = _fitting(rig, load)
    return Steady(
        ttft_s=first_s,
        tpot_s=step_s,
        output_tokens_per_s=each * lanes * load.output_tokens / whole_s,
        utilisation_frac=np.ones(len(plans)),
        sequences=each * lanes,
        fitting_sequences=fitting,
        wait_s=np.zeros(len(plans)),
        step=step,
        prefill=prefill,
        step_wires_s=_wires_s(parts),
        prefill_wires_s=_wires_s(prompts),
        is_infeasible=fitting < each * lanes,
    )


def _wires_s(parts: Parts) -> Floats:
    """Of a pass, waiting for messages alone; (n,)."""
    return np.asarray(sum((wires_s(part) for part in parts.values()), start=0.0))


def _others_s(rig: Rig, load: Load, others: Floats, prefill: Parts) -> Floats:
    """What prompts of others take before one's own, as many in a pass as fit its budget; (n,)."""
    in_pass = np.floor(rig.plans.budget_tokens / load.prompt_tokens)
    in_pass = np.clip(in_pass, 1.0, np.maximum(others, 1.0))
    host_s = launched_s(rig) / in_pass
    each_s = np.maximum(summed(prefill).floor_s, host_s)
    return others * (each_s + rig.engine.step_s * rig.plans.pipeline_parallel / in_pass)


def _held_back(load: Load, each: Floats) -> tuple[Floats, Floats]:
    """Steps a prompt is held back for, and others that go with it, on average; (n,) each.

    Notes
    -----
    Prompts come at random, as many in a step as sequences end in it. The first of a group waits
    until enough are there or its steps are over, later ones for the rest of that; or an engine
    looks for new ones every so many steps. A request is more often in a large group.

    References
    ----------
    TensorRT-LLM, batch_wait_timeout_iters and batch_wait_max_tokens_ratio; SGLang,
    scheduler_recv_interval.
    """
    rate = each / np.maximum(load.output_tokens, 1.0)
    enough_steps = np.maximum(np.ceil(load.held_prompts) - 1.0, 0.0) / rate
    held = np.minimum(load.held_steps, enough_steps)
    more = rate * held
    beside = more * (2.0 + more) / (1.0 + more) + rate * (load.poll_steps - 1.0)
    waited = held * (1.0 + 0.5 * more) / (1.0 + more) + 0.5 * (load.poll_steps - 1.0)
    return np.asarray(waited), np.minimum(beside, each - 1.0)


def _before(rig: Rig, load: Load, each: Floats) -> Floats:
    """Prompts of other requests that come before one's own first token; (n,).

    Of equal lengths, those that ended in the same step come back and stay together: half of such
    a group is served before one. A share of all others comes together with it once, as a run
    begins.
    """
    engine = rig.engine
    group = np.maximum(np.minimum(each, engine.group_sequences), 1.0)
    together = (group - 1.0) / 2.0 * load.has_equal_lengths
    at_once = np.maximum(engine.burst_frac, load.burst_frac) * (each - 1.0)
    return np.asarray(np.clip(together + at_once, 0.0, each - 1.0))


def _fitting(rig: Rig, load: Load) -> Floats:
    """Sequences of one replica that its memory and its engine's limit hold at once.

    A sequence grows from its prompt to its end, so the mean one is half its output longer than
    the prompt; blocks are recycled as sequences end, and the last to come is put back when none
    is left (recomputation), which costs less than holding room for every end.
    """
    plans = rig.plans
    mean_tokens = load.prompt_tokens + load.output_tokens * rig.engine.growth_frac
    room = free_bytes(rig.model, rig.engine, plans, rig.chips.memory_bytes)
    each = resident_sequence_bytes(rig.model, plans, mean_tokens)
    whole = resident_sequence_bytes(rig.model, plans, load.prompt_tokens + load.output_tokens)
    groups = plans.attention_data_parallel
    held = np.where(room >= whole, np.maximum(room / each, 1.0), 0.0) * groups
    return np.minimum(held, plans.max_sequences * groups)
