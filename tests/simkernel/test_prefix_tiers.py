"""Tiers below the device, swapping, and routers that look at caches: laws of the replay."""

from dataclasses import replace

import numpy as np
import pytest
from serving_cases import families, fleet, linear_tables, same, stream
from test_prefix_cache import LONG, TABLES, mooncake

from simkernel import plugins
from simkernel.errors import BadStudy
from simkernel.replay.fleet import Tier
from simkernel.replay.opening import Run
from simkernel.replay.serve import replay
from simkernel.replay.serve_pools import Between, replay_pools

pytestmark = pytest.mark.long  # its loop takes a minute or two to compile

BATCHING = plugins.names("batching")
HOST = Tier(blocks=100_000, block_s=1e-5)
SWAP = {"swap_blocks": 10_000, "swap_block_s": 1e-6}


def test_a_larger_tier_brings_the_first_token_sooner_and_is_paid_for():
    """Memory below the device would be of no use, or would cost no time."""
    requests, means, loads = mooncake(400), [], []
    for blocks in (0, 20_000, 60_000, 400_000):
        tiers = (Tier(blocks, 1e-5),) if blocks else ()
        house = fleet(pool_blocks=9_000, tiers=tiers, **LONG)
        result = replay(requests, house, linear_tables(token_s=2e-5))
        totals = result.totals
        means.append(result.ttft_s.mean())
        loads.append(totals.loaded_tokens[0])
        assert totals.loading_s[0] == pytest.approx(1e-5 * totals.read_blocks.sum(), rel=1e-9)
        assert totals.loaded_tokens[0] == 16 * totals.read_blocks.sum()
        assert totals.holders_left.tolist() == [0]
    assert np.all(np.diff(means) < 0)
    assert np.all(np.diff(loads) > 0)


def test_a_tier_that_holds_all_finds_what_an_endless_device_finds():
    """Something would fall between the device and the tier, or be found that never was there."""
    requests, one_by_one = mooncake(300), Run(concurrency=1)
    small = fleet(pool_blocks=8_000, tiers=(Tier(10**6, 0.0),), **LONG)
    found = [replay(requests, fleet(pool_blocks=10**6, **LONG), TABLES, one_by_one)]
    found += [
        replay(requests, replace(small, tiers=tiers), TABLES, one_by_one)
        for tiers in (
            small.tiers,
            (Tier(5_000, 0.0), Tier(10**6, 0.0, is_shared=True)),
            (Tier(500, 0.0), Tier(5_000, 0.0), Tier(10**6, 0.0)),
        )
    ]
    hits = [one.hit_tokens.tolist() for one in found]
    assert hits[1:] == hits[:1] * 3
    assert found[0].totals.loaded_tokens[0] == 0 < found[1].totals.loaded_tokens[0]
    assert found[1].finish_s == pytest.approx(found[0].finish_s, rel=1e-9)


def test_a_slow_tier_is_charged():
    """Reading from a disk would be as quick as memory."""
    requests = mooncake(200)
    ends = [
        replay(requests, fleet(pool_blocks=9_000, tiers=(Tier(10**6, *cost),), **LONG), TABLES)
        for cost in ((1e-6, 0.0), (1e-3, 0.0), (1e-6, 0.5))
    ]
    means = [one.ttft_s.mean() for one in ends]
    assert means[0] < min(means[1:])
    assert ends[0].totals.loading_s[0] < min(one.totals.loading_s[0] for one in ends[1:])


def test_what_one_replica_put_into_a_shared_pool_another_finds():
    """A pool of memory would be as many pools as there are replicas."""
    requests = mooncake(300)
    loads = {}
    for is_shared in (False, True):
        tier = Tier(10**6, 1e-6, is_shared=is_shared)
        house = fleet(pool_blocks=9_000, replicas=4, tiers=(tier,), **LONG)
        result = replay(requests, house, TABLES)
        loads[is_shared] = result.totals.loaded_tokens.sum()
        assert result.totals.written_blocks.shape == (1, 4)
    assert loads[True] > loads[False] > 0


@pytest.mark.parametrize("batching", BATCHING)
def test_without_shared_beginnings_tiers_and_routers_change_nothing(batching):
    """Writing back would hold up somebody, where nobody ever reads."""
    requests = stream(per_s=60.0)
    plain = fleet(batching, replicas=3, routing="least_loaded")
    tiered = replace(plain, has_prefix_cache=True, tiers=(HOST,))
    found = replay(requests, plain, TABLES)
    totals = replay(requests, tiered, TABLES).totals
    assert totals.loaded_tokens.sum() == totals.hit_tokens.sum() == 0
    for house in (tiered, replace(tiered, routing="cache_aware"),
                  replace(plain, routing="cache_aware")):  # fmt: skip
        other = replay(requests, house, TABLES)
        for name in ("first_token_s", "finish_s", "replica"):
            assert np.array_equal(getattr(found, name), getattr(other, name), equal_nan=True)


@pytest.mark.parametrize("batching", [name for name in BATCHING if name != "static"])
def test_swapping_computes_nothing_again_and_is_charged(batching):
    """A request that comes back from the host would be computed again, or come for nothing."""
    requests = stream(per_s=50.0)
    again = replay(requests, fleet(batching, pool_blocks=150), TABLES)
    house = fleet(batching, pool_blocks=150, **SWAP)
    swapped = replay(requests, house, TABLES, Run(has_token_times=True))
    totals, served = swapped.totals, swapped.is_served
    asked = (swapped.prompt_tokens + swapped.output_tokens - 1)[served].sum()
    assert again.totals.recomputed_tokens[0] > 0 == totals.recomputed_tokens[0]
    assert totals.prefill_tokens[0] + totals.decode_tokens[0] == asked
    assert totals.swapped_blocks[0] > 0
    assert totals.loading_s[0] == pytest.approx(1e-6 * totals.swapped_blocks[0], rel=1e-9)
    assert totals.blocks_left[0] == totals.holders_left[0] == 0
    assert np.all(np.isfinite(swapped.finish_s[served]))
    slow = replay(requests, replace(house, swap_block_s=0.01), TABLES)
    assert slow.totals.loading_s[0] > 100 * totals.loading_s[0]
    assert slow.totals.end_s[0] > again.totals.end_s[0]


def test_who_finds_no_room_in_the_host_is_computed_again():
    """More would be swapped than the host holds."""
    requests = stream(per_s=50.0)
    result = replay(requests, fleet(pool_blocks=150, **SWAP | {"swap_blocks": 20}), TABLES)
    assert result.totals.recomputed_tokens[0] > 0 < result.totals.swapped_blocks[0]


@pytest.mark.parametrize("routing", ["round_robin", "least_loaded", "random"])
def test_a_router_that_looks_at_caches_finds_more(routing):
    """Conversations would be torn apart: each replica would compute their beginnings again."""
    requests = mooncake(600)
    house = fleet(pool_blocks=20_000, replicas=4, **LONG)
    hits = {
        name: replay(requests, replace(house, routing=name), TABLES).hit_tokens.sum()
        for name in (routing, "cache_aware")
    }
    assert hits["cache_aware"] > 1.05 * hits[routing]


@pytest.mark.parametrize("changed", [{"tiers": (Tier(3000, 1e-5), HOST)}, SWAP, {"replicas": 2}])
def test_the_compiled_tiers_are_the_interpreted_ones_and_skipping_changes_nothing(changed):
    """Machine code, or the way it is run, would be another memory."""
    house = fleet(
        pool_blocks=150, **{"has_prefix_cache": True, "routing": "cache_aware"} | changed
    )
    tables = linear_tables(has_joules=True)
    found = [
        replay(families(120), house, tables, run)
        for run in (Run(), Run(is_compiled=False), Run(can_skip=False))
    ]
    assert same(found[0], found[1])
    for name in ("finish_s", "hit_tokens", "preemptions"):
        one, other = getattr(found[0], name), getattr(found[2], name)
        assert np.array_equal(one, other, equal_nan=True)


def test_two_pools_with_shared_beginnings_serve_everybody():
    """A hand-over would end a simulator, or leave blocks behind, where prompts share theirs."""
    requests = families(150)
    prefill = fleet(pool_blocks=400, replicas=2, has_prefix_cache=True, routing="cache_aware")
    decode = fleet(pool_blocks=300, replicas=2)
    between = Between(np.asarray(requests.prompt_tokens) * 1e5, 25e9, 25e9, 1e-3)
    run = Run(is_compiled=False)
    found = replay_pools(requests, (prefill, decode), (TABLES, TABLES), between, run)
    assert np.all(np.isfinite(found.decode.finish_s))
    assert found.prefill.hit_tokens.sum() > 0
    for pool in (found.prefill, found.decode):
        assert pool.totals.holders_left.tolist() == pool.totals.blocks_left.tolist() == [0, 0]


def test_tiers_without_a_prefix_cache_are_refused():
    """They would hold nothing, and a study would believe in them."""
    with pytest.raises(BadStudy, match="tiers keep what a prefix cache gives up"):
        fleet(tiers=(HOST,))
    with pytest.raises(BadStudy, match="swap_blocks is -1"):
        fleet(swap_blocks=-1)
    with pytest.raises(BadStudy, match="is no tier"):
        Tier(blocks=-1, block_s=1.0)
