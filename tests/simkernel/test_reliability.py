"""Failures, checkpoints, spares and caps: limits and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkernel import napkin, power_cap
from simkernel import reliability as rel

seconds = st.floats(1, 1e6)


@given(seconds, seconds, st.floats(0.1, 1e3))
def test_no_interval_loses_less_than_youngs(mtbf, interval, checkpoint):
    """The advice would not be the best advice of its own formula."""
    best = rel.lost_frac(mtbf, rel.young_interval_s(mtbf, checkpoint), checkpoint, 60.0)
    assert best <= rel.lost_frac(mtbf, interval, checkpoint, 60.0) * (1 + 1e-12)


@given(st.floats(0, 1e9))
def test_goodput_is_a_share_however_bad_the_machines(lost):
    """1 - x would promise negative work on a cluster that fails every minute."""
    assert 0 < rel.goodput_frac(lost) <= 1


def test_twice_the_devices_fail_twice_as_often():
    """A large cluster would be as reliable as a small one."""
    assert rel.mtbf_s(1e8, 2048.0) == rel.mtbf_s(1e8, 1024.0) / 2


def test_spares_are_whole_and_none_when_nothing_fails():
    """A fraction of a server would be bought, or a spare for hardware that never fails."""
    day = 86400.0
    assert rel.spares(1000.0, 500 * day, day) == 2
    assert rel.spares(100.0, 500 * day, day) == 1
    assert rel.spares(1000.0, np.inf, day) == 0


def test_the_available_interval_is_a_little_longer_than_youngs():
    """The two published intervals would disagree where recovery is short."""
    young = rel.young_interval_s(1e5, 10.0)
    available = rel.available_interval_s(1e5, 10.0, 0.0)
    assert young < available < young + 11.0


def test_unknown_reliability_stays_unknown():
    """A missing failure rate would mean perfect hardware."""
    assert np.isnan(rel.spares(10.0, np.nan, 1.0))
    assert np.isnan(rel.goodput_frac(rel.lost_frac(np.nan, 1.0, 1.0, 1.0)))


@given(st.floats(100, 1500))
def test_a_cap_never_speeds_up_and_never_wastes(cap):
    """A cap above the peak would overclock; one below would cost energy on compute-bound work."""
    clock = power_cap.capped_clock_frac(cap, 99.0, 700.0)
    slowdown = power_cap.capped_slowdown_frac(clock, 1.0)
    assert 0 < clock <= 1
    assert slowdown >= 0
    assert power_cap.capped_slowdown_frac(clock, 0.0) == 0


def test_the_napkin_uses_active_parameters():
    """DeepSeek-V3 in 55 days on H800 at 35.2 %: 2,018 with active, 36,000 with all parameters."""
    flop = napkin.training_flop(37.55e9, 14.8e12)
    devices = napkin.run_s(flop, 1.0, 989e12, 0.352) / (55 * 86400)
    assert devices == pytest.approx(2018, rel=0.002)
    everything = napkin.training_flop(671e9, 14.8e12)
    assert napkin.run_s(everything, 1.0, 989e12, 0.352) / (55 * 86400) > 30_000
