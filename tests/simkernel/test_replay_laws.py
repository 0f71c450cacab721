"""Laws that any queue obeys, and faults other simulators were caught with."""

from fractions import Fraction

import numpy as np
import pytest
from serving_cases import fleet, linear_tables, same, stream

from simkernel import plugins
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.results import BEYOND_CONTEXT, BEYOND_POOL, NO_OUTPUT, NO_PROMPT
from simkernel.replay.serve import replay

BATCHING = plugins.names("batching")
TIGHT = 150
"""Blocks of 16 tokens that two long requests of `stream` do not fit in."""


@pytest.mark.long
@pytest.mark.parametrize("batching", BATCHING)
@pytest.mark.parametrize("overhead_s", [0.0, 0.25])
def test_littles_law(batching, overhead_s):
    """The time in the house, counted at the door, would not be the time the requests spent."""
    house = fleet(batching, replicas=3, pool_blocks=TIGHT, request_overhead_s=overhead_s)
    result = replay(stream(per_s=50.0), house, linear_tables())
    for replica in range(3):
        is_here = result.replica == replica
        spent_s = np.sum(result.e2e_s[is_here])
        assert result.totals.request_s[replica] == pytest.approx(spent_s, rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("batching", BATCHING)
def test_first_token_and_gaps_add_up_to_the_end(batching):
    """Time would be counted twice after a preemption, as in another simulator."""
    house = fleet(batching, pool_blocks=TIGHT)
    result = replay(stream(per_s=50.0), house, linear_tables(), Run(has_token_times=True))
    more_than = {"static": -1, "prefill_first": 0}.get(batching, 1)
    assert np.max(result.preemptions) > more_than
    for request in np.flatnonzero(result.is_served):
        start = result.token_start[request]
        times_s = result.token_s[start : start + result.output_tokens[request]]
        points = [Fraction(t) for t in (result.arrival_s[request], *times_s)]
        gaps = [later - sooner for sooner, later in zip(points, points[1:], strict=False)]
        assert min(gaps) > 0
        assert times_s[0] == result.first_token_s[request]
        assert sum(gaps) == Fraction(result.finish_s[request]) - points[0]


@pytest.mark.parametrize("batching", BATCHING)
@pytest.mark.parametrize("pool_blocks", [TIGHT, 400, 4096])
def test_blocks_never_exceed_the_pool_and_all_come_back(batching, pool_blocks):
    """More would be cached than memory holds, or a finished request would keep its blocks."""
    house = fleet(batching, pool_blocks=pool_blocks, replicas=2)
    result = replay(stream(per_s=50.0), house, linear_tables(), Run(logged_steps=10**6))
    assert len(result.log.blocks) == np.sum(result.totals.steps)
    assert np.max(result.log.blocks) == np.max(result.totals.most_blocks) <= pool_blocks
    assert np.min(result.log.blocks) > 0
    assert result.totals.blocks_left.tolist() == [0, 0]


@pytest.mark.parametrize("batching", BATCHING)
def test_every_token_is_computed_once_or_counted_as_again(batching):
    """Work would be lost or invented: the books must balance with what was asked."""
    result = replay(stream(per_s=50.0), fleet(batching, pool_blocks=TIGHT), linear_tables())
    is_served = result.is_served
    asked = result.prompt_tokens[is_served] + result.output_tokens[is_served] - 1
    done = result.totals.prefill_tokens + result.totals.decode_tokens
    assert np.sum(done) == np.sum(asked) + np.sum(result.totals.recomputed_tokens)


def test_the_same_seed_gives_the_same_result_and_another_another():
    """A study would not be reproducible, or chance would not be chance."""
    requests, house, tables = stream(), fleet(replicas=4, routing="random"), linear_tables()
    first = replay(requests, house, tables, Run(seed=1))
    assert same(first, replay(requests, house, tables, Run(seed=1)))
    assert not np.array_equal(first.replica, replay(requests, house, tables, Run(seed=2)).replica)


@pytest.mark.parametrize(("load", "growth_frac"), [(0.7, 0.0), (0.9, 0.0), (1.1, 0.1 / 1.1)])
def test_a_stream_beyond_capacity_is_called_overload(load, growth_frac):
    """Percentiles of a queue that only grows would pass for the fleet's latency.

    At 110% of what it can do, one arrival in eleven is never caught up with.
    """
    lengths = np.full(20_000, 100)
    gaps_s = np.random.default_rng(4).exponential(0.1 / load, len(lengths))
    requests = Requests(np.cumsum(gaps_s), lengths, lengths)
    tables = linear_tables(launch_s=1e-3, token_s=0.0, context_s=0.0)
    found = replay(requests, fleet(max_batch=1), tables).backlog()
    assert found.is_overload == (load > 1)
    assert found.growth_frac == pytest.approx(growth_frac, abs=0.01)
    assert found.drain_s > 0.1
    assert load < 1 or found.last_requests > 1000


def test_requests_of_one_moment_are_no_growing_queue():
    """Three at once, served at once, would be called overload and 24 replicas be bought."""
    lengths = np.full(3, 10)
    found = replay(Requests(np.full(3, 5.0), lengths, lengths), fleet(), linear_tables()).backlog()
    assert (found.growth_frac, found.is_overload) == (0.0, False)


def test_an_empty_stream_is_served_at_once():
    """A class without traffic would stop the study."""
    nothing = Requests(np.zeros(0), np.zeros(0, int), np.zeros(0, int))
    result = replay(nothing, fleet(), linear_tables())
    assert len(result.ttft_s) == 0
    assert not result.backlog().is_overload


@pytest.mark.parametrize("routing", plugins.names("routing"))
def test_an_exported_closed_loop_replays_as_it_was(routing):
    """A trace written by one run would give other latencies when read by the next."""
    house, tables = fleet(replicas=3, routing=routing, pool_blocks=TIGHT), linear_tables()
    closed = replay(stream(), house, tables, Run(concurrency=30))
    exported = Requests(closed.arrival_s, closed.prompt_tokens, closed.output_tokens)
    assert np.sum(closed.preemptions) > 0
    assert same(closed, replay(exported, house, tables))


def test_a_closed_loop_keeps_its_concurrency():
    """Requests would come before one has left, or late."""
    result = replay(stream(), fleet(max_batch=64), linear_tables(), Run(concurrency=10))
    ends = np.sort(result.finish_s)
    assert np.all(result.arrival_s[:10] == 0)
    assert np.array_equal(result.arrival_s[10:], ends[:-10])


@pytest.mark.parametrize("batching", BATCHING)
def test_odd_requests_are_served_or_refused_with_a_reason(batching):
    """A request at t = 0, of one token, of none, or longer than memory would stop the replay."""
    prompts, outputs = [5, 0, 5, 1, 1, 3000, 1900], [1, 5, 0, 1, 9, 10, 100]
    requests = Requests(np.zeros(7), np.array(prompts), np.array(outputs))
    house = fleet(batching, pool_blocks=100, max_context_tokens=2500)
    result = replay(requests, house, linear_tables())
    reasons = [0, NO_PROMPT, NO_OUTPUT, 0, 0, BEYOND_CONTEXT, BEYOND_POOL]
    assert result.refusal_code.tolist() == reasons
    assert np.array_equal(np.isnan(result.finish_s), ~result.is_served)
    assert result.finish_s[0] == result.first_token_s[0]
    assert np.isnan(result.tpot_s[0])
    assert result.refused() == {
        "no prompt token": 1,
        "no output token": 1,
        "longer than the context limit": 1,
        "longer than the pool of cache blocks": 1,
    }


def test_one_that_can_never_fit_does_not_hold_up_the_queue():
    """An oversize request at the head of the line would block the others for ever."""
    requests = Requests(np.zeros(3), np.array([1600, 10, 10]), np.array([100, 5, 5]))
    result = replay(requests, fleet(pool_blocks=100), linear_tables())
    assert result.is_served.tolist() == [False, True, True]


def test_a_prompt_beyond_the_budget_is_refused_only_where_it_cannot_be_split():
    """Without chunked prefill it would wait at the head of the line for ever."""
    requests = Requests(np.zeros(2), np.array([600, 10]), np.array([5, 5]))
    served = {
        batching: replay(requests, fleet(batching, token_budget=512), linear_tables()).is_served
        for batching in BATCHING
    }
    assert {name for name, is_served in served.items() if not is_served[0]} == {
        "continuous",
        "static",
    }
    assert all(is_served[1] for is_served in served.values())


@pytest.mark.parametrize("batching", BATCHING)
def test_a_pool_smaller_than_two_long_requests_ends_in_bounded_steps(batching):
    """Evict, reset, evict: three other reports of a livelock."""
    count, tokens = 20, 1000
    requests = Requests(np.zeros(count), np.full(count, tokens), np.full(count, tokens))
    house = fleet(batching, pool_blocks=190, max_context_tokens=2048)
    result = replay(requests, house, linear_tables())
    assert np.all(result.is_served)
    assert np.sum(result.totals.steps) < 2 * count * tokens


def test_overheads_show_up_in_full_where_nothing_else_does():
    """Host time would be lost: a request would enter a batch the moment it arrives."""
    alone = Requests(np.array([0.0]), np.array([64]), np.array([9]))
    plain = replay(alone, fleet(), linear_tables())
    slow = replay(alone, fleet(request_overhead_s=0.5), linear_tables(launch_s=0.01 + 0.002))
    assert slow.ttft_s[0] - plain.ttft_s[0] == pytest.approx(0.5 + 0.002, rel=1e-12)
    assert slow.tpot_s[0] - plain.tpot_s[0] == pytest.approx(0.002, rel=1e-12)


def test_throughput_never_rises_past_saturation_nor_above_its_bound():
    """Blocks of requests thrown out would serve others: 42 times the throughput elsewhere.

    Twice the requests that fit whole saturate the pool: the cache of most is still growing.
    """
    count, prompt, output = 3000, 300, 100
    requests = Requests(np.zeros(count), np.full(count, prompt), np.full(count, output))
    house = fleet(max_batch=512, pool_blocks=400)
    fits = 400 * 16 // (prompt + output)
    rates = []
    for concurrency in (2 * fits, 3 * fits, 4 * fits, 16 * fits, 64 * fits):
        result = replay(requests, house, linear_tables(), Run(concurrency=concurrency))
        rates.append(count * output / np.max(result.finish_s))
    assert all(later < 1.0001 * sooner for sooner, later in zip(rates, rates[1:], strict=False))
    most_in_a_step = 400 * 16 / prompt
    assert max(rates) < most_in_a_step / 0.01


@pytest.mark.parametrize("batching", BATCHING)
def test_a_larger_pool_is_no_worse(batching):
    """More memory would serve less, or throw out more.

    Doubled each time: pools nearer to each other may differ by chance in who is thrown out.
    """
    requests = stream(2000, per_s=50.0, seed=8)
    found = [
        replay(requests, fleet(batching, pool_blocks=blocks), linear_tables())
        for blocks in (200, 400, 800, 1600)
    ]
    ends = [np.nanmax(result.finish_s) for result in found]
    thrown = [np.sum(result.totals.preemptions) for result in found]
    assert all(later < 1.01 * sooner for sooner, later in zip(ends, ends[1:], strict=False))
    assert all(later <= sooner for sooner, later in zip(thrown, thrown[1:], strict=False))


def one_by_one(lengths, load_frac, seed=11):
    """Poisson arrivals at a server that takes one request at a time, a millisecond a token."""
    rng = np.random.default_rng(seed)
    service_s = 1e-3 * lengths
    per_s = load_frac / np.mean(service_s)
    requests = Requests(
        np.cumsum(rng.exponential(1 / per_s, len(lengths))), lengths, np.ones(len(lengths), int)
    )
    tables = linear_tables(launch_s=0.0, token_s=1e-3, context_s=0.0)
    result = replay(requests, fleet(max_batch=1), tables)
    return np.mean(result.start_s - result.arrival_s), per_s, service_s


@pytest.mark.parametrize(("load_frac", "within"), [(0.5, 0.01), (0.8, 0.03)])
def test_against_md1(load_frac, within):
    """Waiting would not be what queueing theory proves: rho D / (2 (1 - rho)).

    400,000 requests: over seeds the mean scatters by about half of the tolerance.
    """
    waited_s, _, service_s = one_by_one(np.full(400_000, 100), load_frac)
    expected_s = load_frac * service_s[0] / (2 * (1 - load_frac))
    assert waited_s == pytest.approx(expected_s, rel=within)


def test_against_mg1():
    """Long requests would not hold up short ones: lambda E[S^2] / (2 (1 - rho))."""
    lengths = np.random.default_rng(5).choice([20, 1000], size=400_000, p=[0.9, 0.1])
    waited_s, per_s, service_s = one_by_one(lengths, 0.5)
    load_frac = per_s * np.mean(service_s)
    expected_s = per_s * np.mean(service_s**2) / (2 * (1 - load_frac))
    assert waited_s == pytest.approx(expected_s, rel=0.03)
