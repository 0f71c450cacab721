"""Shared beginnings of prompts in the replay, held to vLLM's rules written in plain Python."""

from dataclasses import replace

import numpy as np
import pytest
from plain_prefix_cache import Asked, serve
from serving_cases import families, fleet, linear_tables, same, stream

from costdata.traces import catalogue_trace
from simkernel import plugins
from simkernel.errors import BadStudy
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.serve import replay
from simkernel.workload import Prefixes

pytestmark = pytest.mark.long  # its loop takes a minute or two to compile

BATCHING = plugins.names("batching")
TABLES = linear_tables(token_s=2e-6)


def mooncake(count, first=0):
    """Some requests of the recorded conversation, with the hashes of their prompts."""
    found = catalogue_trace("mooncake_conversation_part").requests
    rows = np.arange(first, first + count)
    return Requests.of(found.take(rows, found.arrival_s[rows] - found.arrival_s[first], 0.0))


def plain(requests, house, tables=TABLES):
    """The same requests served in plain Python: each request, and all hits."""
    prefixes, asked = requests.prefixes, []
    for row in range(len(requests)):
        hashes = prefixes.hashes[prefixes.starts[row] : prefixes.starts[row + 1]]
        lengths = (int(requests.prompt_tokens[row]), int(requests.output_tokens[row]))
        asked.append(Asked(row, float(requests.arrival_s[row]), *lengths, tuple(hashes.tolist())))

    def step_s(tokens, sampled, decodes, context, prompts, cached, squared):
        seconds = 0.01 + 2e-6 * tokens + 1e-8 * context
        return seconds + (1e-8 * (cached + squared**0.5) if prompts else 0.0)

    limits = (house.pool_blocks, house.block_tokens, prefixes.block_tokens)
    hits = serve(asked, *limits, house.token_budget, house.max_batch, step_s)
    return asked, hits


LONG = {"has_prefix_cache": True, "max_context_tokens": 10**6, "max_batch": 64,
        "token_budget": 8192}  # fmt: skip


@pytest.mark.parametrize(
    ("pool_blocks", "block_tokens", "first"),
    [(20_000, 16, 0), (9_000, 16, 3000), (2_500, 64, 500), (700, 512, 0)],
)
def test_hits_of_the_mooncake_conversation_are_those_of_an_independent_cache(
    pool_blocks, block_tokens, first
):
    """A prompt would be computed that the cache has, or not computed that it has not."""
    requests = mooncake(100 if block_tokens == 16 else 400, first)
    house = fleet(pool_blocks=pool_blocks, block_tokens=block_tokens, **LONG)
    asked, hits = plain(requests, house)
    result = replay(requests, house, TABLES)
    assert result.hit_tokens.tolist() == [one.hits for one in asked]
    assert result.preemptions.tolist() == [one.preemptions for one in asked]
    assert result.totals.hit_tokens.tolist() == [hits]
    assert hits > 0.1 * requests.prompt_tokens.sum()
    for name in ("first_token_s", "finish_s"):
        wanted = [getattr(one, name) for one in asked]
        assert getattr(result, name) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("pool_blocks", [130, 400, 4096])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hits_under_preemption_are_those_of_an_independent_cache(pool_blocks, seed):
    """Who is thrown out would find more of his own than is left of it, or less."""
    requests = families(seed=seed)
    house = fleet(pool_blocks=pool_blocks, has_prefix_cache=True)
    asked, hits = plain(requests, house, linear_tables())
    result = replay(requests, house, TABLES)
    assert result.hit_tokens.tolist() == [one.hits for one in asked]
    assert result.preemptions.tolist() == [one.preemptions for one in asked]
    assert result.totals.hit_tokens.tolist() == [hits]
    assert (pool_blocks < 4096) == (result.preemptions.max() > 0)


@pytest.mark.parametrize("batching", BATCHING)
@pytest.mark.parametrize("pool_blocks", [150, 400, 4096])
def test_nobody_holds_a_block_at_the_end(batching, pool_blocks):
    """Blocks would leak, until nobody fits any more."""
    house = fleet(batching, pool_blocks=pool_blocks, replicas=2, has_prefix_cache=True)
    result = replay(families(), house, TABLES, Run(logged_steps=10**6))
    assert result.totals.holders_left.tolist() == [0, 0]
    assert result.totals.blocks_left.tolist() == [0, 0]
    assert 0 < np.max(result.log.blocks) == np.max(result.totals.most_blocks) <= pool_blocks
    assert np.all(np.isfinite(result.finish_s[result.is_served]))


@pytest.mark.parametrize("batching", BATCHING)
def test_every_token_is_computed_found_or_counted_as_again(batching):
    """Work would be lost or invented."""
    house = fleet(batching, pool_blocks=150, has_prefix_cache=True)
    result = replay(families(), house, TABLES)
    served = result.is_served
    asked = result.prompt_tokens[served] + result.output_tokens[served] - 1
    done = result.totals.prefill_tokens + result.totals.decode_tokens + result.totals.hit_tokens
    assert done.sum() == asked.sum() + result.totals.recomputed_tokens.sum()
    assert result.totals.hit_tokens.sum() > 0


@pytest.mark.parametrize("batching", BATCHING)
def test_the_compiled_cache_is_the_interpreted_one_and_skipping_changes_nothing(batching):
    """Machine code, or the way it is run, would be another cache."""
    house = fleet(batching, pool_blocks=150, replicas=2, has_prefix_cache=True)
    found = [
        replay(families(120), house, TABLES, run)
        for run in (Run(), Run(is_compiled=False), Run(can_skip=False))
    ]
    assert same(found[0], found[1])
    for name in ("finish_s", "hit_tokens", "preemptions"):
        one, other = getattr(found[0], name), getattr(found[2], name)
        assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("batching", BATCHING)
def test_without_shared_beginnings_the_cache_changes_nothing(batching):
    """It would cost, or give, where there is nothing to share."""
    requests = stream(per_s=20.0)
    found = [
        replay(requests, fleet(batching, has_prefix_cache=has_cache), TABLES)
        for has_cache in (False, True)
    ]
    assert same(*found)
    assert not found[1].hit_tokens.any()


def test_the_last_token_of_a_prompt_is_always_computed():
    """A whole prompt from the cache would have nothing to make a token from."""
    prompts = np.array([64, 64, 65, 64])
    hashes = np.array([1, 2, 1, 2, 1, 2, 3, 1, 2])
    prefixes = Prefixes(hashes, np.array([0, 2, 4, 7, 9]), 32)
    requests = Requests(np.arange(4) * 10.0, prompts, np.full(4, 5), prefixes)
    result = replay(requests, fleet(has_prefix_cache=True), TABLES)
    assert result.hit_tokens.tolist() == [0, 48, 64, 48]


def test_a_block_is_found_only_behind_the_same_beginning():
    """Keys and values of a block depend on all before it; its own hash would not be enough."""
    prefixes = Prefixes(np.array([1, 7, 2, 7]), np.array([0, 2, 4]), 32)
    requests = Requests(np.array([0.0, 10.0]), np.full(2, 80), np.full(2, 5), prefixes)
    result = replay(requests, fleet(has_prefix_cache=True), TABLES)
    assert result.hit_tokens.tolist() == [0, 0]


def test_blocks_that_do_not_fit_into_each_other_are_refused():
    """A block of the cache would belong to two blocks of the trace."""
    requests = families(10, block_tokens=40)
    with pytest.raises(BadStudy, match="blocks of 40 tokens, which blocks of 16"):
        replay(requests, fleet(has_prefix_cache=True), TABLES)
    short = Prefixes(np.array([1]), np.array([0, 1]), 32)
    with pytest.raises(BadStudy, match="10 requests have hashed blocks of 1"):
        replace(requests, prefixes=short)


def test_throughput_does_not_grow_with_a_crowd_that_fits_nowhere():
    """Blocks of those thrown out would count as work done, as in another simulator (42 times)."""
    asked = stream(400, longest=(900, 200))
    rates = []
    for crowd in (4, 16, 64, 256):
        house = fleet(pool_blocks=200, max_batch=256, has_prefix_cache=True)
        result = replay(asked, house, TABLES, Run(concurrency=crowd))
        totals, tokens = result.totals, result.output_tokens.sum()
        rates.append(tokens / totals.end_s[0])
        work_s = 2e-6 * (asked.prompt_tokens.sum() + tokens - len(asked))
        assert totals.busy_s[0] > work_s + 0.01 * totals.steps[0]
        done = totals.prefill_tokens + totals.decode_tokens
        assert done.sum() >= (asked.prompt_tokens + asked.output_tokens - 1).sum()
    assert np.all(np.diff(rates)[1:] <= 0.02 * rates[1])
