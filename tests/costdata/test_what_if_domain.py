"""Scale-up networks of domains that nobody sells, counted by hand."""

import pytest

from costdata.catalog import load
from costdata.what_if_domain import what_if_domain_usd
from simkernel.wiring.description import ScaleUp

SWITCH_USD, PORTS, OPTIC_USD = 60_000.0, 64, 800.0
"""Typical prices of network.csv: a switch of 64 ports of 100 GB/s, and a module."""


def usd(devices, shape="switched", rate=400e9):
    """One domain of devices with four ports each, in hosts of eight."""
    return what_if_domain_usd(load(), ScaleUp(shape, devices, rate, rate / 4), 8)


def test_a_host_joins_its_own_devices_for_nothing():
    """A node would be charged for switches that it does not have."""
    assert usd(8) == 0.0


def test_one_level_of_switches_takes_a_port_and_two_modules_for_each_port():
    """64 devices x 4 ports fill four switches of 64."""
    assert usd(64) == pytest.approx(4 * SWITCH_USD + 64 * 4 * 2 * OPTIC_USD)


def test_two_levels_take_three_ports_and_four_modules_for_each_port():
    """256 devices x 4 ports: 32 leaves of 32 down and 16 spines; twice the cables."""
    assert usd(256) == pytest.approx((32 + 16) * SWITCH_USD + 256 * 4 * 4 * OPTIC_USD)


def test_shapes_without_switches_are_cheaper_and_faster_ports_dearer():
    """A torus would cost what a switched domain does, or rate would be free."""
    assert usd(64, "torus3d") == pytest.approx(64 * 4 * OPTIC_USD)
    assert usd(64, "torus3d") < usd(64) < usd(64, rate=800e9)
