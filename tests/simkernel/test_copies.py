"""Copies of attention that share experts: one step for all, exchange hidden, hot experts twice."""

from dataclasses import replace

import numpy as np
import pytest
from serving_cases import fleet, linear_tables, same, stream
from test_serving_tables import rig

from simkernel.full_lane import held
from simkernel.kv_cache import weight_bytes
from simkernel.lane import Lane, carried_by
from simkernel.lane_pace import arrivals_at, most_arrivals, pace
from simkernel.passes import Pass
from simkernel.replay.opening import Run
from simkernel.replay.serve import replay
from simkernel.replay.tables import TogetherTables
from simkernel.serve_open import latencies
from simkernel.serving_mix import mix_of
from simkernel.share import spread_with_copies
from simkernel.step_curves import step_curves, taken_rig
from simkernel.step_parts import EXCHANGE, step_parts

rng = np.random.default_rng(2)
MIX = mix_of(
    np.rint(rng.lognormal(6.3, 0.6, 3000)).astype(np.int64) + 1,
    np.rint(rng.lognormal(5.0, 0.6, 3000)).astype(np.int64) + 1,
)


def lane(count=1, **decisions):
    """So many lanes of DeepSeek-V3 on 32 copies, other decisions laid over."""
    one = taken_rig(rig("deepseek-v3"), np.zeros(count, dtype=np.int64))
    changed = {n: np.full(count, v) for n, v in decisions.items()}
    one = replace(one, plans=replace(one.plans, **changed))
    curves = step_curves(one, 4096.0, MIX.context_tokens, MIX.prompt_tokens)
    ones = np.ones(count)
    places = 128.0 * ones
    return Lane(
        curves=curves,
        engine=one.engine,
        mix=MIX,
        stages=ones,
        places=places,
        held_sequences=held(MIX, 1e9 * ones, places),
        thrown_frac=0.0 * ones,
        budget_tokens=4096.0 * ones,
        copies=one.plans.attention_data_parallel * 1.0,
    )


def parts_at(tokens, micro_batches):
    one = taken_rig(rig("deepseek-v3"), np.zeros(len(tokens), dtype=np.int64))
    count = np.full(len(tokens), micro_batches)
    one = replace(one, plans=replace(one.plans, micro_batches=count))
    return step_parts(one, tokens, np.full(len(tokens), 1000.0))


def test_two_micro_batches_are_no_faster_than_exchange_or_the_rest():
    """Two things would be done by one wire, or by one processor, at the same time."""
    split = replace(lane(micro_batches=2), crowd_frac=0.0)  # all copies alike
    for arrivals in np.geomspace(0.03, 1.0, 9):
        at = pace(split, np.array([arrivals]) * most_arrivals(split))
        parts = parts_at(at.standing.tokens, 2)
        rest = sum((p for n, p in parts.items() if n not in (EXCHANGE, "attention")), Pass())
        assert at.plain_s >= parts[EXCHANGE].floor_s * (1 - 1e-2)
        assert at.plain_s >= np.asarray(rest.floor_s) * (1 - 1e-2)


def test_two_micro_batches_win_on_many_tokens_and_lose_on_few():
    """Weights are read twice and kernels launched twice: what is hidden has to be worth it."""
    one, two = lane(), lane(micro_batches=2)
    few = np.array([0.01]) * most_arrivals(one)
    many = np.array([0.8]) * most_arrivals(one)
    assert pace(two, few).plain_s > pace(one, few).plain_s
    assert pace(two, many).step_s < pace(one, many).step_s


def test_a_single_sequence_is_not_split():
    """Half a sequence is none."""
    one, two = parts_at(np.array([1.0]), 1), parts_at(np.array([1.0]), 2)
    assert {n: float(p.floor_s[0]) for n, p in one.items()} == {
        n: float(p.floor_s[0]) for n, p in two.items()
    }


@pytest.mark.parametrize("prompts", [2, 6, 12, 20])
def test_the_copy_with_most_prompts_has_what_dice_give_it(prompts):
    """Steps of many copies would be taken for shorter than what all of them wait for."""
    dice = np.random.default_rng(prompts)
    lengths = np.exp(dice.normal(6.3, 0.6, (2000, prompts)))
    tokens = np.zeros((2000, 32))
    rows = np.repeat(np.arange(2000), prompts).reshape(2000, prompts)
    np.add.at(tokens, (rows, dice.integers(32, size=lengths.shape)), lengths)
    one = lane(attention_data_parallel=32, expert_parallel=32)
    room = np.array([4000.0])
    thrown = np.minimum(tokens.max(axis=1), room).mean()
    found = carried_by(one, np.array([prompts / 32.0]), np.ones(1), room)
    assert found.tokens[0] == pytest.approx(thrown, rel=0.08)


@pytest.mark.parametrize("mixed_frac", [0.0, 1.0])
def test_more_copies_wait_longer_for_the_longest(mixed_frac):
    """A prompt in one copy would hold up nobody."""
    groups = lane(4)
    engine = replace(groups.engine, mixed_frac=mixed_frac)
    groups = replace(groups, engine=engine, copies=np.array([1.0, 4.0, 16.0, 64.0]))
    at = pace(groups, 0.05 * most_arrivals(groups))
    assert np.all(np.diff(at.step_s) > 0)
    assert np.all(np.diff(at.carrying_frac) > 0)
    assert np.all(np.diff(latencies(groups, at)["tpot_s"].at("p95")) > 0)


@pytest.mark.parametrize("mixed_frac", [0.0, 1.0])
@pytest.mark.parametrize("load", [0.02, 0.3, 0.7, 0.95])
def test_rates_of_lanes_in_step_are_found(load, mixed_frac):
    """Latencies would be those of another load."""
    groups = replace(lane(4), copies=np.array([1.0, 8.0, 32.0, 128.0]))
    groups = replace(groups, engine=replace(groups.engine, mixed_frac=mixed_frac))
    wanted = load * pace(groups, most_arrivals(groups)).requests_per_s
    found = pace(groups, arrivals_at(groups, wanted)).requests_per_s
    assert found == pytest.approx(wanted, rel=5e-3)


def test_second_copies_of_hot_experts_even_the_load_and_take_memory():
    """Redundant experts would be free, or useless."""
    spreads = [float(np.max(spread_with_copies(1.2, 256, np.array([n])))) for n in (0, 8, 32, 128)]
    assert np.all(np.diff(spreads) < 0)
    assert spreads[2] < 0.75 * spreads[0]
    plain, more = (rig("deepseek-v3") for _ in range(2))
    copied = replace(more.plans, copied_experts=np.array([32.0]))
    one = weight_bytes(plain.model, plain.plans).terms["expert_weights"]
    two = weight_bytes(more.model, copied).terms["expert_weights"]
    assert two / one == pytest.approx([1 + 32 / 256])


def together_tables(**changed):
    """Tables of copies that share experts and an exchange."""
    plain = linear_tables(has_joules=True)
    tokens = np.asarray(plain.tokens, dtype=float)
    shared = TogetherTables(
        experts_s=2e-3 + 4e-6 * tokens,
        exchange_s=1e-3 + 8e-6 * tokens,
        experts_j=1.0 + 0.0 * tokens,
        exchange_j=0.5 + 0.0 * tokens,
        covers_s=0.5 * plain.token_s,
        **changed,
    )
    return replace(plain, together=shared)


def test_copies_begin_and_end_their_steps_together():
    """One copy would run ahead of the experts it waits for."""
    house = fleet(replicas=4, copies=4, routing="least_loaded")
    result = replay(stream(200, per_s=12.0), house, together_tables(), Run(logged_steps=50_000))
    starts, groups = np.unique(result.log.start_s, return_inverse=True)
    longest, shortest = np.zeros(len(starts)), np.full(len(starts), np.inf)
    np.maximum.at(longest, groups, result.log.step_s)
    np.minimum.at(shortest, groups, result.log.step_s)
    assert np.array_equal(longest, shortest)
    assert np.all(starts[1:] >= starts[:-1] + longest[:-1] * (1 - 1e-9))
    assert len(np.unique(result.log.replica)) == 4
    assert np.all(result.totals.blocks_left == 0)
    assert np.all(result.is_served)


@pytest.mark.long
@pytest.mark.parametrize("concurrency", [0, 24])
def test_skipped_steps_of_copies_are_the_steps_one_by_one(concurrency):
    """A quick replay would be another one, by hand or by machine."""
    house = fleet(replicas=4, copies=2, routing="least_loaded", pool_blocks=150)
    tables = together_tables(hides_frac=0.9)
    requests = stream(60, per_s=8.0)
    fast = replay(requests, house, tables, Run(concurrency=concurrency))
    slow = replay(requests, house, tables, Run(concurrency=concurrency, can_skip=False))
    hand = replay(requests, house, tables, Run(concurrency=concurrency, is_compiled=False))
    assert same(fast, hand)
    assert np.allclose(fast.finish_s, slow.finish_s, rtol=1e-9)
    assert np.array_equal(fast.totals.steps, slow.totals.steps)
    assert np.allclose(fast.totals.step_j, slow.totals.step_j, rtol=1e-9)


def test_a_step_with_prompts_waits_for_its_launches_once():
    """Copies would wait for all launches, and then for those of their experts once more."""
    least_s = 0.9  # longer than any of these steps
    house = fleet(replicas=2, copies=2, batching="prefill_first")
    tables = replace(together_tables(), least_prefill_s=least_s)
    log = replay(stream(60, per_s=4.0), house, tables, Run(logged_steps=50_000)).log
    carrying = np.isin(log.start_s, log.start_s[log.prefills > 0])
    assert log.step_s[carrying] == pytest.approx(least_s)
    assert np.all(log.step_s[~carrying] < least_s)


def test_one_copy_that_shares_nothing_steps_as_if_alone():
    """The loop of groups would be another scheduler than that of single replicas."""
    none = np.zeros(3)
    shared = TogetherTables(none, none, none, none, none)
    tables = linear_tables()
    alone = replay(stream(150), fleet(), tables)
    pair = fleet(replicas=2, copies=2, routing="round_robin")
    requests = stream(150)
    both = replay(requests, pair, replace(tables, together=shared))
    assert np.nanmean(both.tpot_s) <= np.nanmean(alone.tpot_s) * (1 + 1e-9)
    assert np.all(np.isfinite(both.finish_s))
