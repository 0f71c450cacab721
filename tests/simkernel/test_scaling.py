"""A stream made larger: the rate is as asked for, the burstiness as said."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkernel.arrivals import burst_arrivals_s, index_of_dispersion
from simkernel.scaling import compressed, superposed
from simkernel.workload import Prefixes, RequestStream, recorded_span_s

SPAN_S = 40_000.0


def rng(seed=1):
    return np.random.default_rng(seed)


def stream(arrival_s, span_s, **more):
    tokens = np.arange(1, len(arrival_s) + 1)
    return RequestStream(np.asarray(arrival_s, dtype=float), tokens, tokens + 7, span_s, **more)


@pytest.fixture(scope="module")
def bursty():
    return stream(burst_arrivals_s(2.0, 4.0, 2.0, 10.0, SPAN_S, rng(3)), SPAN_S)


@pytest.mark.parametrize("times", [1, 2, 8, 2.5, 0.25])
def test_both_ways_give_the_rate_that_was_asked_for(bursty, times):
    """A hundredfold load would not be a hundredfold one."""
    wanted = bursty.requests_per_s * times
    over = superposed(bursty, times, rng()).requests
    assert over.requests_per_s == pytest.approx(wanted, rel=0.02)
    assert compressed(bursty, times).requests.requests_per_s == pytest.approx(wanted, rel=1e-12)
    if times == int(times):
        assert len(over) == len(bursty) * times


def test_bursts_average_out_in_copies_and_stay_when_compressed(bursty):
    """A plan for a hundred users would be priced as one for one user a hundred times as fast.

    Copies keep variance over mean of each window, so eight of them have the spread over mean of
    one divided by the root of eight; compressed, a second holds what eight seconds held.
    """
    times, window_s = 8, 2.0
    over = superposed(bursty, times, rng(), shift_s=SPAN_S).requests
    fast = compressed(bursty, times).requests
    one = index_of_dispersion(bursty.arrival_s, window_s, SPAN_S)
    eight_windows = index_of_dispersion(bursty.arrival_s, window_s * times, SPAN_S)
    found_over = index_of_dispersion(over.arrival_s, window_s, SPAN_S)
    found_fast = index_of_dispersion(fast.arrival_s, window_s, SPAN_S / times)
    assert found_over == pytest.approx(one, rel=0.1)
    assert found_fast == pytest.approx(eight_windows, rel=1e-6)
    assert found_fast > 1.5 * found_over


@pytest.mark.long
def test_the_peak_over_the_mean_falls_in_copies_only(bursty):
    """The peak is what a fleet is bought for."""

    def peak_over_mean(requests, window_s):
        counts = np.bincount((requests.arrival_s / window_s).astype(int))
        return counts.max() / (requests.requests_per_s * window_s)

    one = peak_over_mean(bursty, 1.0)
    assert peak_over_mean(superposed(bursty, 50, rng()).requests, 1.0) < 0.5 * one
    assert peak_over_mean(compressed(bursty, 50).requests, 1.0 / 50) == pytest.approx(one)


@pytest.mark.long
def test_with_a_short_shift_the_spread_falls_to_that_of_averages_over_it(bursty):
    """Bursts would be thought gone, or thought to add up as if all users came at once."""
    over = superposed(bursty, 200, rng(), shift_s=20.0).requests
    together = compressed(bursty, 1).requests
    spread = np.sqrt(
        index_of_dispersion(over.arrival_s, 2.0, SPAN_S) / (over.requests_per_s * 2.0)
    )
    averages = np.sqrt(
        index_of_dispersion(together.arrival_s, 20.0, SPAN_S) / (together.requests_per_s * 20.0)
    )
    single = np.sqrt(
        index_of_dispersion(together.arrival_s, 2.0, SPAN_S) / (together.requests_per_s * 2.0)
    )
    assert spread == pytest.approx(averages, rel=0.1)
    assert spread < 0.7 * single


def test_a_slow_swing_is_common_to_all_copies():
    """Shifted around the clock, the evening peak of all users would vanish from a plan."""
    hours = np.repeat(np.arange(24), [1] * 12 + [9] * 12)
    day = stream(np.sort(hours * 3600.0 + rng().uniform(0, 3600, len(hours))), 86_400.0)
    kept = superposed(day, 100, rng()).requests.arrival_s
    lost = superposed(day, 100, rng(), shift_s=86_400.0).requests.arrival_s
    assert (kept >= 43_200).mean() == pytest.approx(0.9, abs=0.02)
    assert (lost >= 43_200).mean() == pytest.approx(0.5, abs=0.1)


def test_the_result_says_which_it_was(bursty):
    """Two plans of one rate would differ without a reason."""
    assert "8 copies, each moved by up to 30 s" in superposed(bursty, 8, rng()).words
    assert "8 independent copies" in superposed(bursty, 8, rng(), shift_s=SPAN_S).words
    assert "divided by 8" in compressed(bursty, 8).words


def test_copies_share_neither_prefixes_nor_sessions():
    """A cache would serve a hundred users the prompt of one, and look a hundred times as good."""
    prefixes = Prefixes(np.array([2**61, 5, 5]), np.array([0, 2, 3]), 512)
    one = stream(
        [0.0, 1.0], 2.0, prefixes=prefixes, session_codes=np.array([4, 4]), priorities=np.zeros(2)
    )
    larger = superposed(one, 3, rng()).requests
    assert len(np.unique(larger.prefixes.hashes)) == 2 * 3
    assert len(np.unique(larger.session_codes)) == 3
    for row in range(6):  # the second block of a long prompt is the first one of a short prompt
        blocks = larger.prefixes.hashes[slice(*larger.prefixes.starts[row : row + 2])]
        assert len(blocks) == 3 - larger.prompt_tokens[row]


def test_a_closed_loop_gets_more_users_at_once():
    """Ten times the users would wait behind the concurrency of one."""
    loop = stream(np.zeros(5), 0.0, concurrency=3)
    larger = superposed(loop, 2.5, rng(2)).requests
    assert larger.concurrency == 8
    hundred = stream(np.zeros(5), 0.0, concurrency=100)  # 1.1 x 100 is 110.00000000000001
    assert superposed(hundred, 1.1, rng()).requests.concurrency == 110
    assert larger.arrival_s.max() == 0


@settings(max_examples=80)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    st.floats(0.01, 6),
    st.floats(0, 1e7),
    st.integers(0, 99),
)
def test_copies_are_whole_sorted_and_inside_the_span(times_s, times, shift_s, seed):
    """A request would be lost, doubled, or arrive before time began."""
    arrival_s = np.sort(times_s) - min(times_s)
    one = stream(arrival_s, recorded_span_s(arrival_s))
    found = superposed(one, times, rng(seed), shift_s).requests
    assert int(times) * len(one) <= len(found) <= (int(times) + 1) * len(one)
    assert (np.diff(found.arrival_s) >= 0).all()
    assert (found.arrival_s >= 0).all()
    assert (found.arrival_s <= one.span_s).all()
    assert (found.output_tokens - found.prompt_tokens == 7).all()
    assert np.bincount(found.prompt_tokens, minlength=len(one) + 1)[1:].min() >= int(times)
