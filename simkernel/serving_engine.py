"""What a serving engine adds to a chip's kernels: floors, host work, and how it fills its steps.

Kernel and link curves stand with the chip (an engine may replace them by its own); here is what
no kernel timing shows. Which engine a figure belongs to is known outside.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from simkernel.columns import Column
from simkernel.hardware import AttentionCurve, GemmCurve, LinkCurve

SEEN_YEARS = 0.35
"""Before and after the reference year's start that runs of latent attention lie."""


MIXES_FRAC = 0.5  # our choice: engines mix, 1, or stop for prompts, 0


MIXING, PROMPTS_FIRST = "chunked_prefill", "prefill_first"
"""Files in batching/: prompts in steps that decode as well, and prompts apart."""


@dataclass(frozen=True)
class Engine:
    """One engine and release on one chip, or one per candidate: numbers, or (n,) each.

    The defaults are isolated kernels that follow each other without a gap.

    Parameters
    ----------
    gemm_frac, narrow_gemm_frac : arithmetic of the isolated product that is reached inside a
        step, in 16 bits and in fewer
    grouped_frac : the same for grouped products of experts, on top
    router_spread_frac : of how well experts are liked, standard deviation over mean
    kernel_floor_frac : of the isolated floor of a kernel that is left inside a captured graph
    memory_rate_frac, narrow_memory_rate_frac, least_memory_rate_frac : memory rate of products
        inside a step over that of the isolated one, in 16 bits, in 8 and in 4: weights of the
        next kernel are fetched early
    core_frac, cache_frac : of the rate of the isolated attention core, over prompts and in decode
    layer_s, expert_layer_s, latent_layer_s : small kernels of every layer, of one with experts,
        of one with latent attention, beside what their bytes take [s]
    launch_layer_s, launch_latent_layer_s : the host needs to launch the kernels of a layer outside
        a captured graph, as steps with prompts run; of one with latent attention [s]
    matures_per_year : small kernels of latent attention get shorter as releases follow each other,
        e-fold [1/year]
    stream_passes : memory traffic of element-wise kernels, times what `ops` counts
    exchange_passes : time of the exchange between experts, times what the wires say
    reduce_latency_frac, reduce_floor_s : of the isolated latency of an all-reduce that is left
        inside a captured graph; added to each [s]
    step_s, sequence_s : the host between two steps; more for every running sequence [s]
    request_s : before the first token, once per request: HTTP, tokeniser, scheduler, first
        detokenisation [s]
    prompt_token_s : the same for every token of the prompt [s]
    mixed_frac : of the steps that carry prompts, those that carry decoding sequences as well;
        the rest of the prompts stop all decoding while they run
    balanced_frac : of the prompts that attention copies hold back until every copy has one; the
        rest come when they come and hold up all copies
    burst_frac : share of the other requests whose prefill a request waits for, because they
        arrive together
    group_sequences : requests that end in one step, come back and stay together
    growth_frac : of its output by which a sequence has grown while memory is counted: 1/2 in a
        mixed crowd, 1 where all end together or room is kept for the whole output
    memory_frac, free_frac : of a device's memory that the engine takes, and of what weights and
        reserve leave that it gives to keys and values [1]
    reserve_bytes : of it, for context, workspaces, graphs and communication [bytes]
    full_weights_frac : of a device from which weights fill it: the engine is then given nearly all
    full_memory_frac, full_reserve_bytes : share that it takes then, and what it keeps of that
    """

    gemm_frac: Column = 1.0
    narrow_gemm_frac: Column = 1.0
    grouped_frac: Column = 1.0
    router_spread_frac: Column = 0.0
    kernel_floor_frac: Column = 1.0
    memory_rate_frac: Column = 1.0
    narrow_memory_rate_frac: Column = 1.0
    least_memory_rate_frac: Column = 1.0
    core_frac: Column = 1.0
    cache_frac: Column = 1.0
    layer_s: Column = 0.0
    expert_layer_s: Column = 0.0
    latent_layer_s: Column = 0.0
    launch_layer_s: Column = 0.0
    launch_latent_layer_s: Column = 0.0
    matures_per_year: Column = 0.0
    stream_passes: Column = 1.0
    exchange_passes: Column = 1.0
    reduce_latency_frac: Column = 1.0
    reduce_floor_s: Column = 0.0
    step_s: Column = 0.0
    sequence_s: Column = 0.0
    request_s: Column = 0.0
    prompt_token_s: Column = 0.0
    mixed_frac: Column = 1.0
    balanced_frac: Column = 0.0
    burst_frac: Column = 0.0
    group_sequences: Column = 1.0
    growth_frac: Column = 0.5
    memory_frac: Column = 0.9
    free_frac: Column = 1.0
    reserve_bytes: Column = 4e9
    full_weights_frac: Column = 0.85
    full_memory_frac: Column = 0.95
    full_reserve_bytes: Column = 3e9

    def aged(self, years: Column) -> Engine:
        """The engine some years later, or earlier where negative.

        Notes
        -----
        Kernels of latent attention were new when the first runs were made and get fused release
        by release; those of other layers are older and show no such trend in the runs. The
        trend was seen over two thirds of a year and is not carried on beyond.
        """
        shorter = np.exp(-self.matures_per_year * np.clip(years, -SEEN_YEARS, SEEN_YEARS))
        return replace(self, latent_layer_s=self.latent_layer_s * shorter)

    def host_s(self, stages: Column, sequences: Column) -> Column:
        """The host's part of a step: it schedules once for every stage that a slot comes to.

        Parameters
        ----------
        stages : (n,) of the pipeline
        sequences : (n,) that get a token in this step

        Notes
        -----
        Each time it walks over the running sequences of all slots, as many slots as stages.
        """
        return self.step_s * stages + self.sequence_s * sequences * stages**2

    @property
    def is_stopped_by_prompts(self) -> bool:
        """Decoding stops while prompts run; one engine of numbers."""
        return float(np.asarray(self.mixed_frac)) < MIXES_FRAC

    def batching(self, policy: str) -> str:
        """The policy that forms batches: engines that stop for prompts take them before all else.

        Parameters
        ----------
        policy : as a study names it
        """
        return PROMPTS_FIRST if self.is_stopped_by_prompts and policy == MIXING else policy

    @cached_property
    def is_by_row(self) -> bool:
        """One number or more is given per candidate."""
        return any(isinstance(getattr(self, f.name), np.ndarray) for f in fields(self))


@dataclass(frozen=True)
class EngineCurves:
    """What an engine's own kernels reach, one row per chip or candidate.

    Parameters
    ----------
    gemm, grouped : (n, len(PRECISIONS)) products, and grouped ones of experts
    prefill, latent_prefill : (n,) attention over a prompt
    decode, latent_decode : (n, 2) attention of one query over a cache in 16 bits, and in fewer
    all_reduce, all_reduce_once, all_reduce_switched : (n,) inside the scale-up domain: in a ring,
        whole messages to all peers at once, and added up by the switch; no end of time where it
        cannot
    """

    gemm: GemmCurve
    grouped: GemmCurve
    prefill: AttentionCurve
    decode: AttentionCurve
    latent_prefill: AttentionCurve
    latent_decode: AttentionCurve
    all_reduce: LinkCurve
    all_reduce_once: LinkCurve
    all_reduce_switched: LinkCurve
