"""What a replay found: the times of every request, and what each replica did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Floats, Masks

REFUSALS = (
    "",
    "no prompt token",
    "no output token",
    "longer than the context limit",
    "longer than the pool of cache blocks",
    "longer than the token budget, and prompts are not split",
    "not let in by the admission policy",
    "lost with a replica that failed",
    "no replica was left to serve it",
)
"""Why a request is not served, by its code; 0 is served."""

STEADY_GROWTH_FRAC = 0.02
"""A queue at 95% load still swings by some 20 requests: 2% of a thousand arrivals."""

SERVED, NO_PROMPT, NO_OUTPUT, BEYOND_CONTEXT, BEYOND_POOL, BEYOND_BUDGET = range(6)
NOT_ADMITTED, LOST, STRANDED = range(6, len(REFUSALS))


@dataclass(frozen=True)
class ReplicaTotals:
    """What each replica did, summed over the steps it ran; all (r,) but where it is said.

    Parameters
    ----------
    steps : that it ran
    busy_s : in steps [s]
    prefill_tokens, decode_tokens : computed, those computed again included
    recomputed_tokens : lost by preemptions, and computed again but for what the cache still has
    hit_tokens : found in the cache instead of computed, also after a preemption
    loaded_tokens : of them, read from tiers below the device
    loading_s : that steps waited for tiers below, or to swap requests out and in [s]
    preemptions : requests thrown out
    request_s : integral over time of the requests in the house, waiting or running [s]
    running_s : integral over time of the sequences in the batch [s]
    most_blocks, blocks_left : of the pool in use: at most, and at the end
    holders_left : of blocks of shared beginnings at the end, summed over blocks
    read_blocks, written_blocks : (t, r) from each tier below, and to it
    swapped_blocks : of requests thrown out, to the host and back
    step_j, idle_j : energy in steps and between them, zero without tables of joules [J]
    extended_steps : steps that read a table beyond its last grid point
    end_s : when its last step ended [s]
    powered_s : that it was switched on, from the first moment until its end or the last step of
        the fleet [s]
    """

    steps: Codes
    busy_s: Floats
    prefill_tokens: Codes
    decode_tokens: Codes
    recomputed_tokens: Codes
    hit_tokens: Codes
    loaded_tokens: Codes
    loading_s: Floats
    preemptions: Codes
    request_s: Floats
    running_s: Floats
    most_blocks: Codes
    blocks_left: Codes
    holders_left: Codes
    read_blocks: Codes
    written_blocks: Codes
    swapped_blocks: Codes
    step_j: Floats
    idle_j: Floats
    extended_steps: Codes
    end_s: Floats
    powered_s: Floats


@dataclass(frozen=True)
class Backlog:
    """Whether the fleet keeps up with the stream, seen at the arrivals.

    Parameters
    ----------
    growth_frac : of the arrivals, those by which the queue grew from the first to the last tenth
    last_requests : waiting for their first step at the last arrival
    drain_s : from the last arrival until the last token [s]
    """

    growth_frac: float
    last_requests: int
    drain_s: float

    @property
    def is_overload(self) -> bool:
        """True where a longer stream would wait longer: its percentiles are of its length."""
        return self.growth_frac > STEADY_GROWTH_FRAC


@dataclass(frozen=True)
class StepLog:
    """The first steps of the fleet, in the order they started; all (m,).

    Parameters
    ----------
    replica, start_s, step_s : where, when and how long [s]
    decodes, prefills, tokens : sequences that decoded, that prefilled, tokens computed
    running, waiting : sequences in the batch, requests not yet in it
    blocks : of the pool in use once the step was formed
    """

    replica: Codes
    start_s: Floats
    step_s: Floats
    decodes: Codes
    prefills: Codes
    tokens: Codes
    running: Codes
    waiting: Codes
    blocks: Codes


@dataclass(frozen=True)
class ReplayResult:
    """Times of n requests in order of arrival; a refused request has no times (NaN) but a reason.

    Parameters
    ----------
    arrival_s : (n,) as they came [s]
    start_s : (n,) start of the first step that computed a token of it [s]
    first_token_s, finish_s : (n,) end of the step of the first and of the last output token [s]
    prompt_tokens, output_tokens : (n,) as asked
    replica : (n,) where it was routed, -1 where refused
    preemptions : (n,) times it was thrown out and computed again
    hit_tokens : (n,) of its prompt found in the cache when it was first taken in
    refusal_code : (n,) index into REFUSALS
    totals : of each replica
    token_s : (all output tokens,) when each token came, in order of request, NaN for one refused;
        empty unless kept [s]
    token_start : (n,) where each request's begin in it
    log : the first steps, as many as were kept
    """

    arrival_s: Floats
    start_s: Floats
    first_token_s: Floats
    finish_s: Floats
    prompt_tokens: Codes
    output_tokens: Codes
    replica: Codes
    preemptions: Codes
    hit_tokens: Codes
    refusal_code: Codes
    totals: ReplicaTotals
    token_start: Codes
    token_s: Floats
    log: StepLog

    @property
    def is_served(self) -> Masks:
        """(n,) False where a request was refused."""
        return self.refusal_code == SERVED

    @property
    def ttft_s(self) -> Floats:
        """(n,) time to first token, from arrival [s]."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> Floats:
        """(n,) from arrival to the last token [s]."""
        return self.finish_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """(n,) mean time per output token after the first; NaN for a single token [s]."""
        gaps = np.where(self.output_tokens > 1, self.output_tokens - 1.0, np.nan)
        return (self.finish_s - self.first_token_s) / gaps

    def backlog(self, first_requests: int | None = None) -> Backlog:
        """How the queue grew while requests came; all zero when none was served.

        Parameters
        ----------
        first_requests : of the stream that are looked at; all without

        Notes
        -----
        Of an open stream: a closed loop holds its number in the house, whatever the fleet does.
        """
        is_seen = self.is_served & (np.arange(len(self.arrival_s)) < (first_requests or np.inf))
        arrival_s = self.arrival_s[is_seen]
        if not len(arrival_s):
            return Backlog(0.0, 0, 0.0)
        started = np.searchsorted(np.sort(self.start_s[self.is_served]), arrival_s, side="right")
        come = np.searchsorted(arrival_s, arrival_s, side="right")  # all of one moment at once
        waiting = come - started
        tenth = max(len(waiting) // 10, 1)
        growth = np.mean(waiting[-tenth:]) - np.mean(waiting[:tenth])
        apart = max(len(waiting) - tenth, 1)
        drain_s = np.nanmax(self.finish_s) - arrival_s[-1]
        return Backlog(float(max(growth, 0.0) / apart), int(waiting[-1]), float(drain_s))

    def refused(self) -> dict[str, int]:
        """How many requests were refused for each reason that was met."""
        counts = np.bincount(self.refusal_code, minlength=len(REFUSALS))
        return {reason: int(n) for reason, n in zip(REFUSALS, counts, strict=True) if reason and n}
