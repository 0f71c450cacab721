"""The replay against the published rules of two schedulers, written once more with plain lists.

The text of vLLM's V1 step and of Vidur's Sarathi step, without blocks' arithmetic shared, without
fast-forward, without arrays: a queue, a list of those who run, a dictionary of blocks.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkernel.replay.fleet import Fleet
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.serve import replay
from simkernel.replay.tables import StepTables

LAUNCH_S, TOKEN_S = 0.01, 0.001
"""A step of t tokens takes LAUNCH_S + TOKEN_S t, whatever else it holds."""


@dataclass(eq=False)
class Sequence:
    """One request on its way."""

    row: int
    arrival_s: float
    prompt: int
    output: int
    made: int = 0
    cached: int = 0
    blocks: int = 0
    thrown: int = 0
    first_s: float = 0.0
    finish_s: float = 0.0

    @property
    def due(self):
        return self.prompt + self.made - self.cached


class Server:
    """One replica: `waiting` in order, `running` in order, blocks that are free."""

    def __init__(self, fleet, is_split):
        self.fleet, self.is_split = fleet, is_split
        self.waiting, self.running, self.free = [], [], fleet.pool_blocks

    def grow(self, sequence, tokens):
        more = max(ceil(tokens / self.fleet.block_tokens) - sequence.blocks, 0)
        if more > self.free:
            return False
        sequence.blocks += more
        self.free -= more
        return True

    def throw_out(self, sequence):
        self.running.remove(sequence)
        self.free += sequence.blocks
        sequence.blocks = sequence.cached = 0
        sequence.thrown += 1
        self.waiting.insert(0, sequence)

    def vllm_step(self):
        chosen, budget, has_thrown = {}, self.fleet.token_budget, False
        for sequence in list(self.running):
            if sequence not in self.running or budget == 0:
                break
            tokens = min(sequence.due, budget)
            while sequence in self.running and not self.grow(sequence, sequence.cached + tokens):
                self.throw_out(self.running[-1])
                has_thrown = True
            if sequence not in self.running:
                break
            chosen[sequence] = tokens
            budget -= tokens
        while not has_thrown and self.waiting and budget:
            first = self.waiting[0]
            tokens = min(first.due, budget)
            if len(self.running) == self.fleet.max_batch or (
                tokens < first.due and not self.is_split
            ):
                break
            if not self.grow(first, tokens):
                break
            self.running.append(self.waiting.pop(0))
            chosen[first] = tokens
            budget -= tokens
        return chosen

    def sarathi_step(self):
        chosen, prompts, todo = {}, [], list(self.running)
        while todo:
            sequence = todo.pop(0)
            if sequence.due > 1 or not sequence.made:
                prompts.append(sequence)
                continue
            while self.free < 1:
                last = todo.pop() if todo else sequence
                self.throw_out(last)
                if last is sequence:
                    break
            else:
                self.grow(sequence, sequence.cached + 1)
                chosen[sequence] = 1
        self.add_prompts(chosen, prompts)
        return chosen

    def add_prompts(self, chosen, prompts):
        mark = int(self.fleet.watermark_frac * self.fleet.pool_blocks)
        for sequence in prompts:
            tokens = min(sequence.due, self.fleet.token_budget - sum(chosen.values()))
            if tokens:
                chosen[sequence] = tokens
        while self.waiting and len(self.running) < self.fleet.max_batch:
            first = self.waiting[0]
            tokens = min(first.due, self.fleet.token_budget - sum(chosen.values()))
            if self.free - ceil(first.due / self.fleet.block_tokens) < mark or not tokens:
                break
            self.grow(first, first.due)
            self.running = sorted([*self.running, self.waiting.pop(0)], key=lambda s: s.row)
            chosen[first] = tokens

    def serve(self, sequences, batching):
        step = self.sarathi_step if batching == "sarathi" else self.vllm_step
        now_s, coming, steps = 0.0, list(sequences), 0
        while coming or self.waiting or self.running:
            if not (self.waiting or self.running):
                now_s = max(now_s, coming[0].arrival_s)
            while coming and coming[0].arrival_s <= now_s:
                self.waiting.append(coming.pop(0))
            chosen = step()
            now_s += LAUNCH_S + TOKEN_S * sum(chosen.values())
            steps += 1
            for sequence, tokens in chosen.items():
                self.end_step(sequence, tokens, now_s)
        return steps

    def end_step(self, sequence, tokens, now_s):
        sequence.cached += tokens
        if sequence.due:
            return
        sequence.made += 1
        if sequence.made == 1:
            sequence.first_s = now_s
        if sequence.made == sequence.output:
            sequence.finish_s = now_s
            self.running.remove(sequence)
            self.free += sequence.blocks


def tables():
    """The same price as grids: exact on a line."""
    nothing, ends = np.zeros((2, 2)), np.array([1, 4096])
    return StepTables(
        tokens=np.array([0, 4096]),
        token_s=LAUNCH_S + TOKEN_S * np.array([0, 4096]),
        sequences=ends,
        sequence_s=np.zeros(2),
        decode_contexts=ends,
        decode_s=nothing,
        prefill_contexts=ends,
        prefill_chunks=ends,
        prefill_s=nothing,
    )


@st.composite
def situations(draw):
    """A stream that overfills a small pool, and its fleet; every request fits alone.

    Where prompts are not split, the test gives the budget of a longest request instead.
    """
    block, budget = draw(st.sampled_from([1, 4, 16])), draw(st.integers(2, 80))
    longest = draw(st.integers(4, 60))
    mark = draw(st.sampled_from([0.0, 0.1]))
    pool = ceil((ceil(longest / block) + 1) / (1 - mark)) + draw(st.integers(1, 60))
    fleet = {
        "max_batch": draw(st.integers(1, 12)),
        "token_budget": budget,
        "block_tokens": block,
        "pool_blocks": pool,
        "max_context_tokens": longest,
        "watermark_frac": mark,
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 40))
    totals = rng.integers(2, longest + 1, count)
    prompts = np.array([rng.integers(1, total) for total in totals])
    arrival_s = np.cumsum(rng.exponential(draw(st.sampled_from([0.001, 0.05, 1.0])), count))
    return fleet, Requests(arrival_s, prompts, totals - prompts)


def served_by(replicas, batching, routing, limits):
    """The fleet; a policy that computes prompts whole gets a budget that holds the longest."""
    is_whole = batching in ("continuous", "static")
    least = limits["max_context_tokens"] if is_whole else 1
    budget = max(limits["token_budget"], least)
    return Fleet(replicas, batching, routing, **{**limits, "token_budget": budget})


@pytest.mark.long
@pytest.mark.parametrize("batching", ["continuous", "chunked_prefill", "sarathi"])
@settings(max_examples=150)
@given(situation=situations())
def test_every_request_has_the_times_of_the_plain_rules(batching, situation):
    """A policy would differ from the scheduler it is named after, in some corner of its rules."""
    limits, requests = situation
    fleet = served_by(1, batching, "round_robin", limits)
    columns = (requests.arrival_s, requests.prompt_tokens, requests.output_tokens)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    sequences = [Sequence(row, *given) for row, given in enumerate(rows)]
    result = replay(requests, fleet, tables())
    assert np.all(result.is_served)
    steps = Server(fleet, batching == "chunked_prefill").serve(sequences, batching)
    assert result.totals.steps.tolist() == [steps]
    assert result.preemptions.tolist() == [s.thrown for s in sequences]
    assert result.first_token_s == pytest.approx([s.first_s for s in sequences], rel=1e-12)
    assert result.finish_s == pytest.approx([s.finish_s for s in sequences], rel=1e-12)
    assert result.totals.blocks_left.tolist() == [0]


@pytest.mark.long
@settings(max_examples=100)
@given(situation=situations(), replicas=st.integers(1, 4), concurrency=st.integers(0, 8))
def test_laws_hold_whatever_is_asked(situation, replicas, concurrency):
    """Blocks, tokens or time would be lost in a corner that no example visits."""
    limits, requests = situation
    for batching in ("continuous", "chunked_prefill", "prefill_first", "sarathi", "static"):
        fleet = served_by(replicas, batching, "least_loaded", limits)
        run = Run(concurrency=concurrency, logged_steps=10**5)
        result = replay(requests, fleet, tables(), run)
        assert np.all(result.is_served)
        assert np.max(result.log.blocks) <= fleet.pool_blocks
        assert not np.any(result.totals.blocks_left)
        assert np.sum(result.totals.request_s) == pytest.approx(np.sum(result.e2e_s), rel=1e-9)
        assert np.all(result.start_s >= result.arrival_s)
        assert np.all(result.finish_s >= result.first_token_s)
        assert np.max(result.log.tokens) <= max(fleet.token_budget, fleet.max_batch)
