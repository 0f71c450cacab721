"""Drawn arrivals have the rate and the spread they were asked for."""

import numpy as np
import pytest

from simkernel.errors import BadStudy
from simkernel.replay.arrivals import gamma_s, poisson_s, regular_s


def gaps_s(arrival_s):
    return np.diff(arrival_s, prepend=0.0)


def test_regular_arrivals_are_even_from_zero():
    """A rate would be off by one request."""
    assert regular_s(4, 2.0).tolist() == [0.0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize("spread", [0.5, 1.0, 3.0])
def test_gamma_gaps_have_their_mean_and_spread(spread):
    """Bursts would be milder or harder than the study says. 200,000 draws scatter below 2%."""
    gaps = gaps_s(gamma_s(np.random.default_rng(2), 200_000, 5.0, spread))
    assert np.mean(gaps) == pytest.approx(0.2, rel=0.02)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(spread, rel=0.02)


def test_poisson_gaps_are_exponential():
    """The memoryless stream that queueing theory is checked with would be another one."""
    gaps = gaps_s(poisson_s(np.random.default_rng(2), 200_000, 5.0))
    for quantile in (0.1, 0.5, 0.9, 0.99):
        expected_s = -np.log(1 - quantile) / 5.0
        assert np.quantile(gaps, quantile) == pytest.approx(expected_s, rel=0.02)


def test_the_seed_decides_the_stream():
    """Two runs of one study would serve different streams."""
    one, two, other = (gamma_s(np.random.default_rng(s), 50, 1.0, 2.0) for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    """A stream of no request, or all at once, would come out of a typing error."""
    with pytest.raises(BadStudy, match="requests_per_s"):
        poisson_s(np.random.default_rng(1), 5, rate)
    with pytest.raises(BadStudy, match="gap_spread_frac"):
        gamma_s(np.random.default_rng(1), 5, 1.0, rate)
