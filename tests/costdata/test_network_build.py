"""Switches and links of a fat tree: known sizes, part-filled layers, monotony."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata import network_build as net

hosts = st.integers(2, 60_000)
rails = st.sampled_from([1, 2, 4, 8, 9])
radixes = st.sampled_from([32, 64, 128])


def test_a_part_filled_layer_still_has_a_leaf_per_rail():
    """Four hosts with eight rails would share one switch and lose the rails."""
    assert net.fabric_switches(4.0, 8.0, 64.0) == 8
    assert net.fabric_switches(64.0, 8.0, 64.0) == 8


def test_one_host_alone_needs_no_fabric():
    """A single server would be sold with eight empty switches."""
    assert net.fabric_switches(1.0, 8.0, 64.0) == 0
    assert net.fabric_links(1.0, 8.0, 64.0) == 0


def test_one_host_more_than_a_layer_adds_a_layer():
    """65 hosts would hang on 64-port leaves."""
    assert net.fabric_tiers(64.0, 64.0) == 1
    assert net.fabric_tiers(65.0, 64.0) == 2
    assert net.fabric_switches(65.0, 8.0, 64.0) == 8 * 3 + np.ceil(65 * 8 / 64)


def test_each_layer_reaches_what_a_folded_clos_reaches():
    """R, R^2/2, R^3/4 hosts per rail."""
    at = np.array([64, 65, 2048, 2049, 65536, 65537.0])
    np.testing.assert_array_equal(net.fabric_tiers(at, 64.0), [1, 2, 2, 3, 3, 4])
    assert np.isinf(net.fabric_switches(65537.0, 8.0, 64.0))


@given(hosts, rails, radixes)
def test_ports_are_enough_for_every_link(n, rail, radix):
    """The bill would list fewer switch ports than cable ends."""
    tiers = net.fabric_tiers(n, radix)
    switches = net.fabric_switches(n, rail, radix)
    ends_at_switches = 2 * net.fabric_links(n, rail, radix) - n * rail
    if tiers <= 3:
        assert switches * radix >= ends_at_switches


@given(hosts, rails, radixes)
def test_one_host_more_never_needs_fewer_switches(n, rail, radix):
    """A bigger cluster would get a cheaper network."""
    assert net.fabric_switches(n + 1, rail, radix) >= net.fabric_switches(n, rail, radix)


@given(st.integers(65, 2000), rails)
def test_oversubscription_never_needs_more_switches(n, rail):
    """Fewer uplinks would cost more."""
    full = net.fabric_switches(n, rail, 64)
    thin = net.fabric_switches(n, rail, 64, 3.0)
    assert thin <= full
    assert net.fabric_links(n, rail, 64, 3.0) < net.fabric_links(n, rail, 64)


def test_columns_are_single_builds_side_by_side():
    """A batch would differ from one at a time."""
    n = np.array([1.0, 4, 65, 300, 3000])
    batch = net.fabric_switches(n, 8.0, 64.0)
    np.testing.assert_array_equal(batch, [net.fabric_switches(x, 8.0, 64.0) for x in n])


def test_link_sets_cost_what_the_sheet_says():
    """128 servers in two layers: $2,621,440."""
    prices = np.array([0.0, 10560, 20480, 30400])
    assert net.link_set_usd(128.0, 2.0, prices) == 2_621_440
    rows = net.link_set_usd(np.array([64.0, 4096]), np.array([1.0, 3]), np.stack([prices, prices]))
    np.testing.assert_array_equal(rows, [675_840, 124_518_400])


def test_an_unknown_number_of_hosts_stays_unknown():
    """A missing size would be built as no network."""
    assert np.isnan(net.fabric_switches(np.nan, 8.0, 64.0))


@pytest.mark.parametrize("rail", [1.0, 4.0, 8.0])
def test_links_are_one_per_port_and_layer(rail):
    """Two layers at full bisection have as many cables above the leaves as below."""
    assert net.fabric_links(64.0, rail, 64.0) == 64 * rail
    assert net.fabric_links(128.0, rail, 64.0) == 2 * 128 * rail
