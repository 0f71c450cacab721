"""Switches and links of a fat tree: known sizes, part-filled layers, monotony."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata import network_build as net
from simkernel.hardware import SCALEOUT_FABRICS
from simkernel.wiring.description import ScaleOut

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


def test_a_fourth_layer_is_a_finite_count():
    """Infinite switches turned watts, failures and dollars of a forbidden plan into warnings."""
    four, three = (net.fabric_switches(n, 1.0, 64.0) for n in (131072.0, 65536.0))
    assert (three, four) == (5 * 65536 / 64, 7 * 131072 / 64)  # N/R each layer, both sides


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


SHAPED = [
    ("rail_fat_tree", 64), ("rail_fat_tree", 65), ("rail_fat_tree", 2048), ("rail_fat_tree", 3000),
    ("fat_tree", 8), ("fat_tree", 9), ("fat_tree", 256), ("fat_tree", 300),
    ("dcn", 8), ("dcn", 64),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "size"), SHAPED)
def test_counts_are_those_of_the_fabric_that_is_wired(shape, size):
    """The bill and the replay would describe two different networks."""
    out = ScaleOut(shape, size, 8, 8, 50e9, radix=64, slice_hosts=4, oversubscription=3.0)
    code = np.array([SCALEOUT_FABRICS.index(shape)])
    count = net.counted(code, size * 1.0, 8.0, 64.0, 3.0, 4.0)
    assert count.tiers[0] == out.tiers
    per_leaf = 1 if shape == "rail_fat_tree" else 8
    leaves = np.ceil(size / out.leaf_hosts) * (8 / per_leaf)
    if out.tiers >= 2:
        assert count.switches[0] > leaves
        assert count.switches[0] < 3 * leaves + 64
    else:
        assert count.switches[0] == (8 if shape == "rail_fat_tree" else 1)
    assert count.ports[0] == size * 8


def test_a_classic_tree_needs_layers_earlier_and_no_leaf_for_each_rail():
    """Nine hosts of eight ports: 72 ends on 64-port switches are two layers, on rails one."""
    code = np.array([SCALEOUT_FABRICS.index(n) for n in ("rail_fat_tree", "fat_tree")])
    count = net.counted(code, np.array([9.0, 9.0]), 8.0, 64.0, 1.0, 1.0)
    assert count.tiers.tolist() == [1, 2]
    assert count.switches.tolist() == [8, 3 + 2]


def test_slices_are_joined_by_their_leaves_and_one_layer_of_spines():
    """Ten slices of 32 hosts with 2 ports, one to three: 10 x 2 leaves, 10 x 22 uplinks."""
    code = np.array([SCALEOUT_FABRICS.index("dcn")])
    count = net.counted(code, np.array([320.0]), 2.0, 64.0, 3.0, 32.0)
    assert (count.tiers[0], count.switches[0]) == (2, 20 + np.ceil(220 / 64))
    assert count.links[0] == 640 + 220
    alone = net.counted(code, np.array([32.0]), 2.0, 64.0, 3.0, 32.0)
    assert (alone.tiers[0], alone.switches[0], alone.ports[0]) == (0, 0, 0)


def test_slices_beyond_three_layers_show_as_a_fourth():
    """A network that cannot be wired would pass for one of three layers."""
    code = np.array([SCALEOUT_FABRICS.index("dcn")])
    count = net.counted(code, np.array([1e6]), 8.0, 64.0, 1.0, 4.0)
    assert count.tiers[0] == 4
    assert count.links[0] == 4 * 8e6
