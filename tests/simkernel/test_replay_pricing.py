"""A step costs what its tables say, on grid points, between them and beyond them."""

from dataclasses import replace

import numpy as np
import pytest
from serving_cases import fleet, linear_tables, stream

from simkernel.replay.opening import Run, prices_of
from simkernel.replay.pricing import step_price
from simkernel.replay.requests import Requests
from simkernel.replay.serve import replay


def cost(tables, tokens=1, sampled=0, decodes=0, context=0, prefills=0, cached=0, squared=0.0):
    prices = prices_of(tables)
    return step_price(tokens, sampled, decodes, context, prefills, cached, squared, prices)


def test_between_the_points_of_uneven_grids_a_line_is_met_exactly():
    """A table would be read at the wrong place."""
    tables = linear_tables(launch_s=0.01, token_s=1e-5, sequence_s=2e-5, context_s=1e-8)
    step_s, _, is_beyond = cost(tables, 600, 40, 30, 30 * 7000, 3, 5000, 570.0**2)
    parts_s = (0.01 + 600e-5, 40 * 2e-5, 1e-8 * 30 * 7000, 1e-8 * (5000 + 570))
    assert step_s == pytest.approx(sum(parts_s), rel=1e-12)
    assert not is_beyond


def test_between_even_points_too():
    """The short cut for even grids would read another place than the search."""
    contexts = np.arange(0, 4097, 64)
    prefill_s = 1e-6 * contexts[:, None] + 0 * np.array([1, 8192])
    even = linear_tables(
        prefill_contexts=contexts, prefill_chunks=np.array([1, 8192]), prefill_s=prefill_s
    )
    for cached in (0, 1, 63, 64, 65, 4000, 4095, 4096):
        step_s, _, is_beyond = cost(even, 1, prefills=1, cached=cached, squared=1.0)
        assert step_s == pytest.approx(0.01 + 1e-5 + 1e-6 * cached, rel=1e-12)
        assert not is_beyond


def test_without_interpolation_the_next_point_up_is_read():
    """A profiled table is read at what was run: rounded up, as its maker does."""
    for points in (np.array([1, 8, 100]), np.array([1, 9, 17])):
        tables = replace(
            linear_tables(),
            tokens=points,
            token_s=np.array([1.0, 2.0, 3.0]),
            is_interpolated=False,
        )
        assert cost(tables, 1)[0] == 1.0
        assert cost(tables, 2)[0] == 2.0
        assert cost(tables, int(points[1]))[0] == 2.0
        assert cost(tables, int(points[1]) + 1)[0] == 3.0


def test_beyond_the_last_point_the_line_goes_on_and_says_so():
    """A table too small would end in a flat price that nobody sees."""
    step_s, _, is_beyond = cost(linear_tables(), 10_000)
    assert step_s == pytest.approx(0.01 + 10_000e-5, rel=1e-12)
    assert is_beyond
    requests = Requests(np.zeros(1), np.array([1500]), np.array([3]))
    short = linear_tables(
        decode_contexts=np.array([0, 1000]), decode_s=np.array([[0, 1e-3], [0, 2e-3], [0, 3e-3]])
    )
    assert replay(requests, fleet(), short).totals.extended_steps.tolist() == [2]


def test_several_prompts_cost_their_factor():
    """Attention of several chunks would be as cheap as of one."""
    tables = linear_tables(several_prefills_frac=1.5)
    one = cost(tables, 9, prefills=1, cached=1024, squared=256.0**2)[0]
    two = cost(tables, 9, prefills=2, cached=1024, squared=256.0**2)[0]
    assert two - one == pytest.approx(0.5 * 1e-8 * (1024 + 256), rel=1e-6)


def test_no_step_is_shorter_than_the_host_needs():
    """The device would be credited with steps the host cannot launch."""
    tables = linear_tables(least_step_s=0.25, has_joules=True)
    step_s, step_j, _ = cost(tables, 1)
    assert step_s == 0.25
    device_s = 0.01 + 1e-5
    assert step_j == pytest.approx(700 * device_s + 100 * (0.25 - device_s), rel=1e-12)


def test_energy_is_that_of_the_steps_and_of_the_time_between():
    """Watts would be charged for idle time as for work, or not at all."""
    tables = linear_tables(has_joules=True)
    totals = replay(stream(per_s=2.0), fleet(replicas=2), tables).totals
    horizon_s = np.max(totals.end_s)
    assert totals.step_j == pytest.approx(700.0 * totals.busy_s, rel=1e-12)
    assert totals.idle_j == pytest.approx(100.0 * (horizon_s - totals.busy_s), rel=1e-12)
    without = replay(stream(per_s=2.0), fleet(replicas=2), linear_tables()).totals
    assert np.array_equal(without.busy_s, totals.busy_s)
    assert not np.any(without.step_j)
    assert not np.any(without.idle_j)


def test_the_log_holds_the_first_steps_as_they_were():
    """A timeline drawn from it would show other steps than the ones that ran."""
    house, tables = fleet(replicas=2), linear_tables()
    whole = replay(stream(), house, tables, Run(logged_steps=10**6))
    first = replay(stream(), house, tables, Run(logged_steps=50))
    assert np.array_equal(first.log.start_s, whole.log.start_s[:50])
    for replica in range(2):
        is_here = whole.log.replica == replica
        start_s, step_s = whole.log.start_s[is_here], whole.log.step_s[is_here]
        assert np.all(start_s[1:] >= start_s[:-1] + step_s[:-1])
        assert np.sum(step_s) == pytest.approx(whole.totals.busy_s[replica], rel=1e-12)
    tokens = whole.totals.prefill_tokens + whole.totals.decode_tokens
    assert np.sum(whole.log.tokens) == np.sum(tokens)
