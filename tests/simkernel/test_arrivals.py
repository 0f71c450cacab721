"""Arrivals against the laws of the processes they are drawn from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkernel.arrivals import (
    burst_arrivals_s,
    diurnal_arrivals_s,
    gamma_arrivals_s,
    index_of_dispersion,
    poisson_arrivals_s,
    profiled_arrivals_s,
    quiet_requests_per_s,
)
from simkernel.lengths import even_tokens, seen_rows, seen_tokens

RATE, SPAN_S = 20.0, 20_000.0


def rng(seed=1):
    return np.random.default_rng(seed)


PROCESSES = {
    "poisson": lambda r: poisson_arrivals_s(RATE, SPAN_S, r),
    "gamma": lambda r: gamma_arrivals_s(RATE, 2.0, SPAN_S, r),
    "diurnal": lambda r: diurnal_arrivals_s(RATE, 1.8, 300.0, 1000.0, SPAN_S, r),
    "profile": lambda r: profiled_arrivals_s(RATE, np.array([1.0, 4.0]), 100.0, SPAN_S, r),
    "bursts": lambda r: burst_arrivals_s(RATE, 3.0, 10.0, 40.0, SPAN_S, r),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_has_the_rate_it_was_given(name):
    """A fleet would be sized on another load than the one asked for."""
    counts = [len(PROCESSES[name](rng(seed))) for seed in range(8)]
    error = np.mean(counts) - RATE * SPAN_S
    assert abs(error) < 5 * np.std(counts, ddof=1) / np.sqrt(len(counts)) + RATE


@pytest.mark.parametrize("name", PROCESSES)
def test_arrivals_never_fall_and_stay_in_the_span(name):
    """A request would arrive before the one before it."""
    found = PROCESSES[name](rng())
    assert (np.diff(found) >= 0).all()
    assert 0 <= found[0] <= found[-1] < SPAN_S


@pytest.mark.parametrize("name", PROCESSES)
def test_a_seed_gives_the_same_arrivals_and_another_seed_others(name):
    """A plan could not be looked at twice, or five seeds would be one."""
    one, same, other = (PROCESSES[name](rng(seed)) for seed in (1, 1, 2))
    assert one.tolist() == same.tolist()
    assert one[:9].tolist() != other[:9].tolist()


def test_poisson_counts_have_the_variance_of_their_mean():
    """Queues would be computed for arrivals that come in clumps or in step."""
    found = poisson_arrivals_s(RATE, SPAN_S, rng())
    assert index_of_dispersion(found, 1.0, SPAN_S) == pytest.approx(1.0, abs=5 * np.sqrt(2 / 2e4))


@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0])
def test_gamma_gaps_have_the_cv_that_was_asked_for(cv):
    """A bursty load would be drawn as an even one."""
    gaps = np.diff(gamma_arrivals_s(RATE, cv, SPAN_S, rng()))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


@pytest.mark.parametrize("cv", [0.5, 2.0])
def test_gamma_counts_disperse_as_the_square_of_their_cv(cv):
    """Renewal theory: variance over mean of counts tends to cv squared in long windows."""
    found = gamma_arrivals_s(RATE, cv, 200_000.0, rng())
    assert index_of_dispersion(found, 50.0, 200_000.0) == pytest.approx(cv**2, rel=0.15)


@pytest.mark.long
def test_the_diurnal_rate_follows_its_cosine():
    """The peak of the day would stand at another hour, or be lower."""
    found = diurnal_arrivals_s(RATE, 1.8, 300.0, 1000.0, SPAN_S * 10, rng())
    counts = np.histogram(found % 1000.0, bins=20, range=(0, 1000))[0]
    middles = np.arange(20) * 50 + 25.0
    expected = RATE * 10_000 * (1 + 0.8 * np.cos(2 * np.pi * (middles - 300) / 1000))
    assert counts == pytest.approx(expected, rel=0.03, abs=5 * np.sqrt(expected.max()))


def test_a_profile_is_followed_step_by_step():
    """Hours of a day would be exchanged."""
    profile = np.array([1.0, 0.0, 5.0, 2.0])
    found = profiled_arrivals_s(RATE, profile, 40.0, SPAN_S, rng())
    counts = np.bincount((found % 40 // 10).astype(int), minlength=4)
    assert counts[1] == 0
    assert counts / len(found) == pytest.approx(profile / 8, abs=0.005)


@pytest.mark.long
def test_bursts_against_heffes_and_lucantoni():
    """The index of dispersion of a two-state process is known; bursts would be too mild."""
    burst_s, quiet_s, peak = 10.0, 40.0, 3.0
    found = burst_arrivals_s(RATE, peak, burst_s, quiet_s, 2_000_000.0, rng())
    low = quiet_requests_per_s(RATE, peak, burst_s, quiet_s)
    leave, enter = 1 / burst_s, 1 / quiet_s
    limit = 1 + 2 * (RATE * peak - low) ** 2 * leave * enter / (
        (leave + enter) ** 2 * (RATE * peak * enter + low * leave)
    )
    assert index_of_dispersion(found, 2000.0, 2_000_000.0) == pytest.approx(limit, rel=0.2)


def test_silence_between_bursts_is_possible():
    """The hardest on-off load could not be asked for."""
    assert quiet_requests_per_s(RATE, 5.0, 10.0, 40.0) == 0
    found = burst_arrivals_s(RATE, 5.0, 10.0, 40.0, SPAN_S, rng())
    assert len(found) / SPAN_S == pytest.approx(RATE, rel=0.25)


@settings(max_examples=50)
@given(st.floats(1e-3, 50), st.floats(0.05, 20), st.floats(1.0, 1000), st.integers(0, 9))
def test_no_rate_or_cv_breaks_the_draw(requests_per_s, cv, span_s, seed):
    """A quiet service would end in a traceback or never end."""
    found = gamma_arrivals_s(requests_per_s, cv, span_s, rng(seed))
    assert (found < span_s).all()
    assert (np.diff(found) >= 0).all()


def test_even_lengths_reach_both_ends():
    """The longest prompt of a range would never be tried."""
    drawn = even_tokens(3, 6, 40_000, rng())
    counts = np.bincount(drawn, minlength=7)
    assert counts[3:].sum() == 40_000
    assert counts[3:] == pytest.approx(10_000, abs=5 * np.sqrt(40_000 * 3 / 16))


def test_seen_lengths_come_as_often_as_they_were_seen():
    """A rare long prompt would be as common as a short one."""
    drawn = seen_tokens(np.array([10, 500]), np.array([9.0, 1.0]), 40_000, rng())
    assert (drawn == 500).mean() == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / 40_000))


def test_rows_are_drawn_with_replacement_from_all():
    """Some requests of a trace would never come."""
    drawn = seen_rows(7, 7_000, rng())
    assert np.bincount(drawn) == pytest.approx(1000, abs=5 * np.sqrt(1000))
