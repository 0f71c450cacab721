"""Watts from utilisation, and nodes against metered training runs."""

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkernel.hardware import PowerCurve
from simkernel.power import device_w, duty_watts, fan_w, host_w, mean_device_w, server_w

ROOT = Path(__file__).parents[2]
SHARE = st.floats(0, 1)
PLAIN = PowerCurve(
    idle_w=np.array([70.0]),
    context_w=np.array([100.0]),
    memory_w=np.array([200.0]),
    memory_exponent=np.array([0.5]),
    compute_w=np.array([500.0]),
    compute_exponent=np.array([0.5]),
    communication_w=np.array([50.0]),
    cap_w=np.array([700.0]),
    host_idle_w=np.array([200.0]),
    host_span_w=np.array([100.0]),
    fan_idle_w=np.array([50.0]),
    fan_span_w=np.array([50.0]),
)
BUSY = {"memory_frac": 0.3, "compute_frac": 0.5}
"""Kernels of a large training job: 50 % of peak while they run, memory a third in use."""


def shipped(accelerator):
    """The power curve of one accelerator as the tables hold it."""
    with (ROOT / "costdata/tables/power_curves.csv").open() as file:
        row = next(r for r in csv.DictReader(file) if r["accelerator"] == accelerator)
    names = PowerCurve.__dataclass_fields__
    return PowerCurve(**{name: np.array([float(row[name])]) for name in names})


def nodes():
    """Metered nodes of the anchors."""
    return tomllib.loads((ROOT / "tests/anchors/training_power.toml").read_text())["node"]


CARD_W = 25.0  # ConnectX-7 at 400 Gb/s, network.csv


def is_air(node):
    """1 where air cools a metered node."""
    return 1.0 * ("-air-" in node["name"])


def test_fans_are_of_air_and_rise_with_the_work():
    """A node in water would pay for fans, or one in air for none."""
    assert fan_w(PLAIN, 0.5, 1.0) == 75
    assert fan_w(PLAIN, 0.5, 0.0) == 0
    air, water = (server_w(PLAIN, 1.0, 0.2, 0.2, is_air) for is_air in (1.0, 0.0))
    assert air - water == pytest.approx(100)


def test_the_planner_draws_for_a_host_what_metered_nodes_were_fitted_with():
    """Validation of nodes would speak of another host than the one that plans are billed for."""
    with (ROOT / "costdata/tables/rules/node_hosts.csv").open() as file:
        fitted = {row["parameter"]: float(row["fitted"]) for row in csv.DictReader(file)}
    curve = shipped("H100-SXM")
    assert host_w(curve, 1.0) + CARD_W == pytest.approx(fitted["liquid_host_w"], rel=0.02)
    assert fan_w(curve, 1.0, 1.0) == pytest.approx(fitted["fan_w"], rel=0.01)


def test_power_adds_context_memory_arithmetic_and_links():
    """The form of the curve would not be the documented one."""
    got = device_w(PLAIN, 0.25, 0.16, 0.5)
    assert got == pytest.approx(100 + 200 * 0.5 + 500 * 0.4 + 50 * 0.5)


@given(SHARE, SHARE, SHARE)
def test_no_device_draws_more_than_its_cap_or_less_than_its_context(memory, compute, link):
    """A prediction would trip the limit that the board enforces."""
    assert 100 <= device_w(PLAIN, memory, compute, link)[0] <= 700


@given(SHARE, SHARE, SHARE)
def test_more_work_never_draws_less(memory, compute, more):
    """A busier device would save power."""
    higher = device_w(PLAIN, max(memory, more), compute)
    assert higher >= device_w(PLAIN, memory, compute) - 1e-9
    assert device_w(PLAIN, memory, max(compute, more)) >= device_w(PLAIN, memory, compute) - 1e-9


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(100, 700))
def test_energy_is_the_same_however_a_step_is_cut(busy_s, waiting_s, busy_w):
    """Mean power times time would differ from the sum over phases."""
    step_s = busy_s + waiting_s
    mean_w = mean_device_w(PLAIN, busy_s / step_s, busy_w)
    assert mean_w * step_s == pytest.approx(busy_w * busy_s + 100.0 * waiting_s, rel=1e-12)


def test_a_host_draws_between_idle_and_full():
    """An idle cluster would cost no host power, or a busy one the same."""
    assert host_w(PLAIN, 0.0) == 200
    assert host_w(PLAIN, 1.0) == 300


def test_a_device_that_never_works_draws_its_context_and_idle_host():
    """Zero busy time would divide by zero or draw busy power."""
    assert server_w(PLAIN, 0.0, 0.0, 0.0) == pytest.approx(300)


def test_utilisation_over_the_step_is_power_over_busy_time():
    """Waiting would be charged as slow work instead of as waiting."""
    half = server_w(PLAIN, 0.5, 0.1, 0.2)
    busy_w = device_w(PLAIN, 0.2, 0.4)
    assert half == pytest.approx(100 + (busy_w - 100) / 2 + 250)


def test_eight_h100_under_load_draw_what_such_nodes_draw():
    """Watts would be kilowatts, or the reverse: a node draws 2 to 10.2 kW (codecarbon#286)."""
    node_w = 8 * server_w(shipped("H100-SXM"), 0.9, 0.27, 0.45)
    assert 2000 < node_w < 10200


@pytest.mark.parametrize("node", [n for n in nodes() if "steady_w" in n], ids=lambda n: n["name"])
def test_steady_node_power_is_near_the_meter(node):
    """Energy, cooling and carbon of a training job would be off by more than 12 %."""
    server = server_w(shipped(node["accelerator"]), 1.0, **BUSY, is_air=is_air(node))
    got = 8 * (server + CARD_W)
    assert got == pytest.approx(node["steady_w"], rel=node["tolerance_frac"])


@pytest.mark.parametrize("node", [n for n in nodes() if "floor_w" in n], ids=lambda n: n["name"])
def test_idle_node_power_is_near_the_meter(node):
    """Bubbles, restarts and stranded nodes would be billed wrong."""
    curve = shipped(node["accelerator"])
    around_w = host_w(curve, 0.0) + fan_w(curve, 0.0, is_air(node)) + CARD_W
    assert 8 * (curve.idle_w + around_w) == pytest.approx(node["floor_w"], rel=0.1)


def test_a_slower_job_on_more_nodes_draws_less_per_node():
    """Power would not follow duty: eight nodes at 0.73 of the rate drew 0.84 of the power."""
    curve = shipped("H100-SXM")
    one, eight = server_w(curve, 0.95, 0.28, 0.47), server_w(curve, 0.69, 0.21, 0.34)
    assert eight / one == pytest.approx(5815 / 6945, abs=0.05)


@given(SHARE, SHARE, st.floats(0.0, 0.9))
def test_waiting_for_messages_is_a_phase_of_its_own(memory, compute, waiting):
    """A device that waits a fifth of its time would draw as one that works slowly all along."""
    working = 1.0 - waiting
    mean_w = device_w(PLAIN, memory * working, compute * working, 0.0, waiting)
    while_working_w = 100 + 200 * memory**0.5 + 500 * compute**0.5
    assert mean_w[0] == pytest.approx(min(100 + working * (while_working_w - 100), 700))
    assert mean_w <= device_w(PLAIN, memory * working, compute * working) * (1 + 1e-12)


def test_watts_that_add_up_are_the_curve_at_the_mean():
    """Joules summed step by step came out a fifth below the curve, which bends."""
    power = PLAIN
    shares = (0.5, 0.3, 0.1)
    duty = duty_watts(power, *shares, 1e9)
    watts = duty.context_w + duty.memory_w * 0.5 + duty.compute_w * 0.3 + duty.link_w * 0.1
    assert watts[0] == pytest.approx(float(device_w(power, *shares)[0]), rel=1e-9)
    waiting = duty_watts(power, *shares, 1e9, 0.2)
    watts = waiting.context_w + waiting.memory_w * 0.5 + waiting.compute_w * 0.3
    assert watts[0] + waiting.link_w[0] * 0.1 == pytest.approx(
        float(device_w(power, *shares, 0.2)[0]), rel=1e-9
    )
    capped = duty_watts(power, *shares, 300.0)
    held = capped.context_w + capped.memory_w * 0.5 + capped.compute_w * 0.3 + capped.link_w * 0.1
    assert held[0] == pytest.approx(300.0)
