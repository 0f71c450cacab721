"""Laws of two pools replayed: every block comes back, nobody is lost, wires are obeyed."""

from dataclasses import replace

import numpy as np
import pytest
from serving_cases import fleet, linear_tables, stream

from simkernel.kv_transfer import exposed_s
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.serve import replay
from simkernel.replay.serve_pools import Between, replay_pools

pytestmark = pytest.mark.long  # its loop takes a minute or two to compile

TABLES = (linear_tables(), linear_tables())
TOKEN_BYTES = 300_000
BETWEEN = {"source_bytes_per_s": 10e9, "destination_bytes_per_s": 20e9, "base_s": 1e-4}


def pools(requests, prefill=None, decode=None, **between):
    """A replay of two small pools, as it is compiled."""
    fleets = (fleet(**{"replicas": 2, **(prefill or {})}),
              fleet(**{"replicas": 2, "routing": "least_loaded", **(decode or {})}))  # fmt: skip
    wires = Between(requests.prompt_tokens * TOKEN_BYTES, **{**BETWEEN, **between})
    return replay_pools(requests, fleets, TABLES, wires)


def alone(prompt=800, output=5, **between):
    """One request through empty pools."""
    return pools(Requests(np.zeros(1), np.array([prompt]), np.array([output])), **between)


@pytest.mark.parametrize("decode_blocks", [150, 300, 4096])
@pytest.mark.parametrize("layers", [0, 80])
def test_every_block_comes_back_and_everybody_ends(decode_blocks, layers):
    """A reference to keys and values would be kept for ever, or a request wait for ever."""
    requests = stream(per_s=30.0)
    found = pools(requests, {"pool_blocks": 200}, {"pool_blocks": decode_blocks}, layers=layers)
    for pool in (found.prefill, found.decode):
        assert pool.totals.blocks_left.tolist() == [0, 0]
    assert np.all(np.isfinite(found.decode.finish_s))
    is_moved = requests.output_tokens > 1
    assert np.array_equal(found.is_moved, is_moved)
    order = (found.prefill.arrival_s, found.computed_s, found.reserved_s, found.done_s,
             found.decode.finish_s)  # fmt: skip
    for sooner, later in zip(order, order[1:], strict=False):
        assert np.all(later[is_moved] >= sooner[is_moved])
    assert max(found.decode.totals.most_blocks) <= decode_blocks


def test_littles_law_holds_in_each_pool():
    """Time in a pool, counted at its doors, would not be what its requests spent there."""
    found = pools(stream(per_s=30.0))
    spent = {
        "prefill": found.prefill.finish_s - found.prefill.arrival_s,
        "decode": (found.decode.finish_s - found.done_s)[found.is_moved],
    }
    for name, pool in (("prefill", found.prefill), ("decode", found.decode)):
        assert pool.totals.request_s.sum() == pytest.approx(spent[name].sum(), rel=1e-9)


def test_a_transfer_alone_is_the_formula():
    """The replay would move keys and values by another rule than the closed form."""
    found = alone()
    assert found.moving_s[0] == pytest.approx(1e-4 + 800 * TOKEN_BYTES / 10e9, rel=1e-12)
    beside = alone(layers=80)
    prefill_s = beside.prefill.finish_s - beside.prefill.start_s
    assert beside.moving_s[0] == pytest.approx(exposed_s(found.moving_s, prefill_s, 80)[0])
    assert beside.moving_s[0] < found.moving_s[0]


def test_doubling_the_wires_halves_their_term():
    """A transfer that bandwidth does not shorten is made of something else (LLMServingSim#42)."""
    double = {"source_bytes_per_s": 20e9, "destination_bytes_per_s": 40e9}
    one, other = (pools(stream(per_s=2.0, count=40), **rates) for rates in ({}, double))
    is_moved = one.is_moved
    assert np.median((one.moving_s - 1e-4)[is_moved]) == pytest.approx(
        2 * np.median((other.moving_s - 1e-4)[is_moved]), rel=1e-9
    )


@pytest.mark.parametrize("layers", [0, 32])
def test_no_transfer_beats_its_bytes_over_the_wire(layers):
    """Shared wires would carry more than they can."""
    requests = stream(per_s=60.0)
    found = pools(requests, {"replicas": 4}, layers=layers, source_bytes_per_s=2e9)
    at = found.is_moved
    bytes_s = requests.prompt_tokens[at] * TOKEN_BYTES / 2e9
    began_s = found.prefill.start_s if layers else found.computed_s
    assert np.all(found.done_s[at] - began_s[at] >= bytes_s * (1 - 1e-9))
    for source in range(4):
        own = at & (found.prefill.replica == source)
        span_s = np.max(found.done_s[own]) - np.min(began_s[own])
        assert span_s >= np.sum(requests.prompt_tokens[own]) * TOKEN_BYTES / 2e9 * (1 - 1e-9)


def test_wires_without_end_leave_two_queues():
    """Prompts in the first pool would be served otherwise than by that pool alone."""
    requests = stream(per_s=20.0)
    found = pools(requests, source_bytes_per_s=1e18, destination_bytes_per_s=1e18, base_s=0.0)
    prompts = replace(requests, output_tokens=np.ones_like(requests.output_tokens))
    own = replay(prompts, fleet(replicas=2), TABLES[0])
    assert np.array_equal(own.finish_s, found.prefill.finish_s)
    assert found.moving_s[found.is_moved] == pytest.approx(0.0, abs=1e-8)


def test_the_compiled_loop_is_the_interpreted_one():
    """Machine code would serve another stream."""
    requests = stream(count=40, per_s=40.0)
    wires = Between(requests.prompt_tokens * TOKEN_BYTES, **BETWEEN, layers=80)
    fleets = fleet(replicas=2, pool_blocks=200), fleet(pool_blocks=200)
    one, other = (
        replay_pools(requests, fleets, TABLES, wires, Run(is_compiled=is_compiled))
        for is_compiled in (True, False)
    )
    for name in ("computed_s", "reserved_s", "done_s"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
    assert np.array_equal(one.decode.finish_s, other.decode.finish_s, equal_nan=True)
