"""Laws of a serving lane in closed form."""

from dataclasses import replace

import numpy as np
import pytest
from test_serving_tables import rig

from simkernel.full_lane import held, thrown
from simkernel.lane import Lane, carried_by, lane_step_s, standing_of, with_variance
from simkernel.lane_pace import arrivals_at, is_roomy, most_arrivals, pace, saturated
from simkernel.serve_open import latencies
from simkernel.serving_mix import mix_of
from simkernel.step_curves import step_curves, taken_rig

rng = np.random.default_rng(1)
PROMPTS = np.rint(rng.lognormal(6.5, 0.8, 4000)).astype(np.int64) + 1
OUTPUTS = np.rint(rng.lognormal(5.0, 0.7, 4000)).astype(np.int64) + 1
MIX = mix_of(PROMPTS, OUTPUTS)
LOADS = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95])


def lane(count=1, places=256.0, budget=8192.0):
    """So many equal lanes of a 70B on four H100."""
    one = taken_rig(rig("llama-3.1-70b"), np.zeros(count, dtype=np.int64))
    curves = step_curves(one, budget, MIX.context_tokens, MIX.prompt_tokens)
    ones = np.ones(count)
    most = held(MIX, 1e9 * ones, places * ones)
    return Lane(curves, one.engine, MIX, ones, places * ones, most, 0.0 * ones, budget * ones)


def at_loads(one=None):
    one = one or lane(len(LOADS))
    full = pace(one, most_arrivals(one)).requests_per_s
    return one, pace(one, arrivals_at(one, LOADS * full)), LOADS * full


def test_a_lane_takes_in_as_many_as_it_is_asked():
    """The rate found would not be the rate asked for, and all latencies those of another load."""
    _, at, wanted = at_loads()
    assert at.requests_per_s == pytest.approx(wanted, rel=3e-4)


def test_littles_law_holds_of_those_who_decode():
    """Sequences in a batch are rate times their time in it (Little 1961)."""
    _, at, _ = at_loads()
    time_s = at.step_s * MIX.later_tokens
    assert at.decoding_sequences == pytest.approx(at.requests_per_s * time_s, rel=1e-9)


def test_prompt_tokens_carried_are_those_that_come():
    """Prompts would be computed twice, or never."""
    _, at, _ = at_loads()
    carried = at.carrying_frac * at.carried_tokens / at.step_s
    assert carried == pytest.approx(at.requests_per_s * MIX.prompt_tokens_mean, rel=1e-9)


def test_a_fuller_lane_is_slower_for_everybody():
    """More load on the same replicas would be a way to meet a bound."""
    one, at, _ = at_loads()
    for spread in latencies(one, at).values():
        for statistic in ("mean", "p50", "p95", "p99"):
            assert np.all(np.diff(spread.at(statistic)) > 0)


def test_percentiles_are_in_order():
    """A p99 below a p95 is no percentile."""
    one, at, _ = at_loads()
    for spread in latencies(one, at).values():
        p50, p95, p99 = (spread.at(s) for s in ("p50", "p95", "p99"))
        assert np.all(p50 < p95)
        assert np.all(p95 < p99)


@pytest.mark.parametrize("rate", [0.01, 0.9, 2.8])
@pytest.mark.parametrize("launches", [0.7, 1.0, 1.5])
def test_steps_wait_for_their_launches_as_often_as_dice_say(rate, launches):
    """The longer of launches and mean kernels is too short where most steps lie near both."""
    one, ones, prompts = lane(), np.ones(1), rate / (1.0 - np.exp(-rate))
    standing = standing_of(one, 20.0 * ones)
    carried = with_variance(one, carried_by(one, prompts * ones, ones, 8192.0 * ones))
    quick = replace(one, curves=replace(one.curves, launch_s=0.0 * ones))
    alone_s, whole_s = lane_step_s(quick, standing), lane_step_s(quick, standing, carried)
    launch_s = alone_s + launches * (whole_s - alone_s)
    host_s = alone_s - standing.kernels_s
    slow = replace(one, curves=replace(one.curves, launch_s=launch_s - host_s))
    dice = np.random.default_rng(3)
    counts = dice.poisson(rate, 500_000)
    counts = counts[counts > 0][:5000]
    tokens = np.array([dice.choice(PROMPTS, count).sum() for count in counts])
    kernels_s = alone_s + (whole_s - alone_s) * tokens / (prompts * PROMPTS.mean())
    found = lane_step_s(slow, standing, carried)
    assert found == pytest.approx(np.maximum(kernels_s, launch_s).mean(), rel=0.03)
    assert np.all(found > np.maximum(launch_s, whole_s))


def test_throughput_never_rises_past_saturation():
    """More than a full lane serves would be sold."""
    one = lane()
    full = pace(one, most_arrivals(one)).requests_per_s
    assert pace(one, arrivals_at(one, 3.0 * full)).requests_per_s == pytest.approx(full)
    before = pace(one, most_arrivals(one) * 0.99).requests_per_s
    assert before < full


def test_a_lane_that_memory_limits_holds_less_than_it_has_room_for():
    """Half a prompt is free on average; whom it cannot keep is put back and computed again."""
    room = np.array([40.0, 100.0, 1000.0])
    many, few, budget = np.full(3, 1e9), np.full(3, 30.0), np.full(3, 8192.0)
    assert np.all(held(MIX, room, many) < room)
    assert np.all(held(MIX, room, many) > room - 1.0)
    assert held(MIX, room, few) == pytest.approx(few)
    assert np.all(thrown(MIX, room, many, budget) > 0.0)
    assert not np.any(thrown(MIX, room, few, budget))


def test_a_full_lane_that_puts_requests_back_serves_fewer():
    """The fleet would be sized on a rate that prompts computed twice do not leave."""
    one = lane()
    limited = replace(one, thrown_frac=np.array([0.3]))
    assert saturated(limited).requests_per_s[0] < 0.99 * saturated(one).requests_per_s[0]


def test_an_engine_that_stops_for_prompts_answers_slower_and_serves_them_sooner():
    """Times between tokens of such an engine would be those of one that mixes prompts in."""
    mixing = lane()
    stopping = replace(mixing, engine=replace(mixing.engine, mixed_frac=0.0))
    at = 0.5 * saturated(stopping).requests_per_s
    found = [latencies(one, pace(one, arrivals_at(one, at))) for one in (mixing, stopping)]
    assert found[1]["tpot_s"].at("mean")[0] > found[0]["tpot_s"].at("mean")[0]


def test_a_crowd_that_does_not_fit_is_told():
    """One request in twenty would wait for a place on top of all."""
    few = lane(places=20.0)
    assert is_roomy(few, pace(few, 0.3 * most_arrivals(few)))[0]
    assert not is_roomy(few, pace(few, most_arrivals(few)))[0]


def test_an_answer_of_one_token_never_decodes():
    """Classifiers ask for one token: no later token, no division by none."""
    one = lane()
    mix = mix_of(PROMPTS, np.ones(len(PROMPTS), dtype=np.int64))
    single = replace(one, mix=mix)
    at = pace(single, 0.5 * most_arrivals(single))
    assert at.decoding_sequences == pytest.approx([0.0])
    assert np.isfinite(latencies(single, at)["ttft_s"].at("p95")[0])
    assert latencies(single, at)["e2e_s"].at("mean") == pytest.approx(
        latencies(single, at)["ttft_s"].at("mean")
    )
