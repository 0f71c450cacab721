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


# 419 interruptions of 16,384 devices in 54 days, a minute to write, five to recover: anchor G10.
LLAMA = {"job_mtbf_s": 54 * 86400 / 419, "checkpoint_s": 60.0, "recovery_s": 300.0}


def played(useful_s, interval_s, runs, seed=1, *, job_mtbf_s, checkpoint_s, recovery_s):
    """Wall times of runs played failure by failure; work is lost back to the last checkpoint."""
    rng = np.random.default_rng(seed)
    ends = []
    for _ in range(runs):
        saved_s, wall_s = 0.0, 0.0
        next_s = rng.exponential(job_mtbf_s)
        while saved_s < useful_s:
            needed_s = min(interval_s, useful_s - saved_s) + checkpoint_s
            if next_s >= needed_s:
                saved_s, wall_s, next_s = (
                    saved_s + interval_s,
                    wall_s + needed_s,
                    next_s - needed_s,
                )
            else:
                wall_s, next_s = wall_s + next_s + recovery_s, rng.exponential(job_mtbf_s)
        ends.append(wall_s)
    return np.array(ends)


@pytest.mark.long
def test_goodput_and_finish_are_those_of_runs_played_failure_by_failure():
    """The closed form would promise a date that runs with these failures do not keep: to 1%.

    Failures while work is done again are played; goodput, to first order, is 0.9% too good.
    """
    useful_s = 40 * 86400.0
    interval_s = rel.young_interval_s(LLAMA["job_mtbf_s"], LLAMA["checkpoint_s"])
    ends = played(useful_s, interval_s, 400, **LLAMA)
    lost = rel.lost_frac(LLAMA["job_mtbf_s"], interval_s, LLAMA["checkpoint_s"], 300.0)
    assert useful_s / ends.mean() == pytest.approx(rel.goodput_frac(lost), rel=0.01)
    for share, deviate in ((10, -1.2815515655), (50, 0.0), (90, 1.2815515655)):
        ours = rel.finish_s(useful_s, interval_s=interval_s, deviates=deviate, **LLAMA)
        assert ours == pytest.approx(np.percentile(ends, share), rel=0.01), share


def test_a_run_of_few_failures_has_a_long_tail():
    """Three failures in a run: a normal curve would end it too early, and hide the late tail."""
    few = {"job_mtbf_s": 10 * 3600.0, "checkpoint_s": 60.0, "recovery_s": 1800.0}
    ends = played(30 * 3600.0, 1 * 3600.0, 4000, **few)
    p10, p50, p90 = (
        rel.finish_s(30 * 3600.0, interval_s=3600.0, deviates=z, **few)
        for z in (-1.2815515655, 0.0, 1.2815515655)
    )
    assert [p10, p50, p90] == pytest.approx(np.percentile(ends, (10, 50, 90)), rel=0.01)
    assert p90 - p50 > p50 - p10
    assert p10 >= 30 * 3660.0


@given(st.floats(0.005, 2.0), st.floats(1, 600), st.floats(0, 3600))
def test_at_the_least_mtbf_no_more_than_may_be_is_lost(most, checkpoint, recovery):
    """The break-even surface would stand beside the limit it belongs to."""
    least_s = float(rel.least_mtbf_s(most, checkpoint, recovery))
    lost = []
    for mtbf_s in (least_s * (1 + 1e-9), least_s * (1 - 1e-9)):
        interval_s = rel.available_interval_s(mtbf_s, checkpoint, recovery)
        lost.append(1 / rel.told_goodput_frac(mtbf_s, interval_s, checkpoint, recovery) - 1)
    assert lost[0] <= most * (1 + 1e-6)
    assert lost[1] >= most * (1 - 1e-6)


def test_no_mtbf_keeps_a_limit_below_the_work_itself():
    """A deadline before the last useful hour would look like a matter of better machines."""
    assert np.isnan(rel.least_mtbf_s(0.0, 60.0, 300.0))
    assert np.isnan(rel.least_mtbf_s(-0.1, 60.0, 300.0))


def test_spares_cover_the_share_of_time_they_are_for():
    """Poisson with mean 7.76 (16,384 devices, a day of repair): 8 for the mean, 13 for 97%."""
    case = (16384.0, 50677.0 * 3600, 24 * 3600.0)
    rng = np.random.default_rng(3)
    down = rng.poisson(case[0] / case[1] * case[2], 200_000)
    for coverage in (0.5, 0.9, 0.97, 0.999):
        held = rel.covering_spares(*case, coverage)
        assert (down <= held).mean() >= coverage - 0.003
        assert (down <= held - 1).mean() < coverage
    assert rel.covering_spares(case[0], np.inf, 86400.0, 0.99) == 0
    many = rel.covering_spares(np.array([1e6, 8.0]), 50677.0 * 3600, 86400.0, 0.95)
    assert many[0] == pytest.approx(473.6 + 1.645 * 473.6**0.5, abs=2)
    assert many[1] == 0


def test_a_checkpoint_in_the_background_waits_for_the_copy_alone():
    """405B parameters at 14 bytes over 2 TB/s are 2.8 s, waited for or not."""
    args = (405e9 * 14, 2e12, 6.3)
    assert rel.checkpoint_s(*args, True) == pytest.approx(6.3 + 2.835)
    assert rel.checkpoint_s(*args, False) == 6.3


@given(st.floats(0.4, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_cap_costs_arithmetic_much_and_memory_little(clock, compute, follow):
    """Decode under a cap would lose what prefill loses, and caps would look as dear as chips."""
    shares = {"compute": compute, "memory": 1.0 - compute}
    follows = {"compute": 1.0, "memory": follow}
    slower = power_cap.capped_slowdown_frac(clock, power_cap.following_frac(shares, follows))
    most = power_cap.capped_slowdown_frac(clock, 1.0)
    assert follow * most - 1e-12 <= slower <= most + 1e-12
    measured = follows | {"memory": 0.0024}  # clock_following.csv
    prefill, decode = (
        power_cap.capped_slowdown_frac(clock, power_cap.following_frac(one, measured))
        for one in ({"compute": 0.95, "memory": 0.05}, {"compute": 0.02, "memory": 0.98})
    )
    assert decode <= 0.03 * prefill


def test_the_mean_share_of_useful_time_is_that_of_the_finish():
    """Days would be told that half of all runs, and more, miss by a fifth."""
    times = (12.35 * 3600.0, 27_660.0, 4_945.0, 5_245.0)
    mean = float(rel.mean_goodput_frac(*times))
    first = float(rel.goodput_frac(rel.lost_frac(*times)))
    assert mean < 0.85 * first
    assert 1e7 / mean == pytest.approx(float(rel.finish_s(1e7, *times, 0.0)), rel=0.01)
    calm = (1e6, 3000.0, 10.0, 60.0)
    assert float(rel.mean_goodput_frac(*calm)) == pytest.approx(
        float(rel.goodput_frac(rel.lost_frac(*calm))), rel=1e-3
    )
