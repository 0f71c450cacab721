"""Batching and routing, each held to schedules worked out by hand; a step takes one second."""

import numpy as np
import pytest
from serving_cases import fleet, linear_tables, same, stream

from simkernel import plugins
from simkernel.batching import chunked_prefill
from simkernel.errors import ReplayStuck, UnknownName
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.serve import replay
from simkernel.replay.state import Asked, Seen
from simkernel.routing import least_loaded, random, round_robin

SECONDS = linear_tables(launch_s=1.0, token_s=0.0, context_s=0.0)
BATCHING = plugins.names("batching")


def at_once(prompts, outputs):
    return Requests(np.zeros(len(prompts)), np.array(prompts), np.array(outputs))


def by_hand(batching, prompts, outputs, **limits):
    return replay(at_once(prompts, outputs), fleet(batching, **limits), SECONDS)


def test_static_fills_a_batch_only_when_it_is_empty():
    """The third request would slip into the place of the first, as in continuous batching."""
    result = by_hand("static", [10, 10, 10], [1, 3, 2], max_batch=2)
    assert result.first_token_s.tolist() == [1, 1, 4]
    assert result.finish_s.tolist() == [1, 3, 5]


def test_continuous_fills_a_place_as_soon_as_it_is_free():
    """A finished sequence would hold its place until the batch ends."""
    result = by_hand("continuous", [10, 10, 10], [1, 3, 2], max_batch=2)
    assert result.start_s.tolist() == [0, 0, 1]
    assert result.first_token_s.tolist() == [1, 1, 2]
    assert result.finish_s.tolist() == [1, 3, 3]


def test_continuous_waits_until_a_whole_prompt_fits_the_budget():
    """A prompt would be split although chunked prefill is off."""
    result = by_hand("continuous", [10, 10], [2, 1], token_budget=12)
    assert result.first_token_s.tolist() == [1, 2]


def test_chunked_prefill_splits_prompts_to_fill_the_budget():
    """Decodes would wait for a prompt, or a prompt for the budget to hold it whole."""
    result = by_hand("chunked_prefill", [10, 10], [2, 1], token_budget=8)
    assert result.first_token_s.tolist() == [2, 3]
    assert result.finish_s.tolist() == [3, 3]


def test_prefill_first_stops_decoding_for_every_prompt():
    """Decodes would run along with prompts, which engines without mixed chunks do not do.

    Two prompts, cut to the budget of 8, take three steps alone; then the first decodes.
    """
    result = by_hand("prefill_first", [10, 10], [2, 1], token_budget=8)
    assert result.first_token_s.tolist() == [2, 3]
    assert result.finish_s.tolist() == [4, 3]


def test_prefill_first_takes_in_a_prompt_only_if_it_fits_whole():
    """A cut prompt would take the blocks that decodes need, and be thrown out half computed."""
    tight = {"block_tokens": 1, "pool_blocks": 12, "token_budget": 4}
    result = by_hand("prefill_first", [4, 10], [3, 1], **tight)
    assert result.first_token_s.tolist()[0] == 1
    assert result.finish_s.tolist()[0] == 3
    assert result.preemptions.tolist() == [0, 0]


@pytest.mark.parametrize("batching", ["continuous", "chunked_prefill"])
def test_the_last_is_thrown_out_and_computed_again(batching):
    """Blocks of one token, seven of them: both run until the third token, then one must go.

    It comes back, prompt and two tokens in one chunk, when the first has ended: nobody is
    admitted in the step of a preemption, and in the next its four tokens do not fit.
    """
    result = by_hand(batching, [2, 2], [4, 4], block_tokens=1, pool_blocks=7)
    assert result.preemptions.tolist() == [0, 1]
    assert result.finish_s.tolist() == [4, 6]
    assert result.totals.recomputed_tokens.tolist() == [3]
    assert result.totals.prefill_tokens.tolist() == [2 + 2 + 4]
    assert result.totals.most_blocks.tolist() == [7]


def test_sarathi_leaves_its_watermark_free():
    """Vidur's admission asks for free blocks beyond the prompt's own."""
    tight = {"block_tokens": 1, "pool_blocks": 20, "max_batch": 4}
    with_mark = by_hand("sarathi", [8, 8], [1, 1], watermark_frac=0.25, **tight)
    without = by_hand("sarathi", [8, 8], [1, 1], watermark_frac=0.0, **tight)
    assert without.first_token_s.tolist() == [1, 1]
    assert with_mark.first_token_s.tolist() == [1, 2]


def test_sarathi_serves_in_order_of_arrival_after_a_preemption():
    """Who came first and was thrown out would run behind those who came later."""
    pool = {"block_tokens": 1, "pool_blocks": 40, "watermark_frac": 0.0, "token_budget": 16}
    result = by_hand("sarathi", [12, 12, 12, 12], [12, 12, 12, 12], **pool)
    assert result.totals.preemptions[0] > 0
    assert np.all(np.diff(result.finish_s) >= 0)


@pytest.mark.parametrize("batching", BATCHING)
@pytest.mark.parametrize("pool_blocks", [150, 4096], ids=["tight pool", "ample pool"])
@pytest.mark.parametrize("concurrency", [0, 40], ids=["open", "closed loop"])
def test_running_like_steps_as_one_changes_no_bit(batching, pool_blocks, concurrency):
    """A policy would not form the same batch again, and skipping would hide it."""
    house = fleet(batching, pool_blocks=pool_blocks, replicas=3, routing="least_loaded")
    tables, requests = linear_tables(has_joules=True), stream(400, per_s=60.0)
    skipped = replay(requests, house, tables, Run(concurrency=concurrency))
    stepped = replay(requests, house, tables, Run(concurrency=concurrency, can_skip=False))
    assert same(skipped, stepped)


@pytest.mark.long
@pytest.mark.parametrize("batching", BATCHING)
def test_compiled_and_interpreted_agree_to_the_bit(batching):
    """The compiler would read a policy otherwise than Python does."""
    house = fleet(batching, pool_blocks=150, replicas=3, routing="random")
    tables, requests = linear_tables(has_joules=True), stream(150, per_s=60.0)
    compiled = replay(requests, house, tables, Run(seed=7))
    assert same(compiled, replay(requests, house, tables, Run(seed=7, is_compiled=False)))
    assert batching == "static" or np.sum(compiled.preemptions) > 0


def test_a_policy_that_serves_nobody_is_stopped(monkeypatch):
    """The replay would run for ever; another simulator did."""
    monkeypatch.setattr(chunked_prefill, "form", lambda *_: 0)
    with pytest.raises(ReplayStuck, match="'chunked_prefill' must serve one"):
        replay(stream(3), fleet(), SECONDS, Run(is_compiled=False))


@pytest.mark.long
def test_a_policy_that_makes_no_token_is_stopped(monkeypatch):
    """Steps would go by, evict and reset, and never a token."""

    def compute_and_forget(replica, jobs, lists, limits, seats, cache):
        count = form(replica, jobs, lists, limits, seats, cache)
        jobs.cached_tokens[seats.request[replica, :count]] = 0
        seats.tokens[replica, :count] = 1
        return count

    form = chunked_prefill.form
    monkeypatch.setattr(chunked_prefill, "form", compute_and_forget)
    with pytest.raises(ReplayStuck, match="has made no token"):
        replay(stream(30), fleet(), SECONDS, Run(is_compiled=False))


def test_an_unknown_policy_is_named():
    """A misspelt policy would run as another."""
    with pytest.raises(UnknownName, match="chunked_prefill"):
        replay(stream(3), fleet("chunked_prefil"), SECONDS)


def asked(serial=0, draw_frac=0.0):
    return Asked(serial, draw_frac, session=-1, rank=0, prompt_tokens=1)


def seen(waiting, running):
    none, places = np.zeros(len(waiting)), np.arange(len(waiting))
    return Seen(places, np.array(waiting), np.array(running), places, places, places, none)


def test_least_loaded_goes_to_the_fewest_in_the_house():
    """Requests would queue behind others while a replica is idle."""
    assert least_loaded.pick(asked(), seen([0, 1, 0, 0], [3, 1, 2, 2])) == 1
    assert least_loaded.pick(asked(), seen([0, 0, 0, 0], [3, 2, 2, 2])) == 1


def test_round_robin_takes_turns():
    """Some replica would be left out."""
    three = seen([0, 0, 0], [0, 0, 0])
    assert [round_robin.pick(asked(i), three) for i in range(5)] == [0, 1, 2, 0, 1]


def test_random_reaches_each_replica_alike():
    """The last replica would never be drawn, or one beyond it."""
    draws, four = (np.arange(1000) + 0.5) / 1000, seen([0] * 4, [0] * 4)
    picks = [random.pick(asked(draw_frac=draw), four) for draw in draws]
    assert np.bincount(picks).tolist() == [250] * 4


def test_a_router_that_looks_at_the_load_shortens_the_tail():
    """The load shown to routers would be stale or wrong."""
    requests, tables = stream(3000, per_s=85.0), linear_tables()
    tail_s = {
        routing: np.quantile(
            replay(requests, fleet(replicas=8, max_batch=8, routing=routing), tables).ttft_s, 0.99
        )
        for routing in plugins.names("routing")
    }
    assert tail_s["least_loaded"] < tail_s["round_robin"] < tail_s["random"]
