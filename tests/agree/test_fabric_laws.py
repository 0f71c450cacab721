"""Laws of collectives on wired fabrics: wider links, other names, more bytes, company."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkernel import plugins
from simkernel.replay.play import Chain, played
from simkernel.wiring.description import Fabric, ScaleOut, ScaleUp
from simkernel.wiring.routing import Wiring

UPS = [("switched", 4), ("full_mesh", 4), ("torus2d", 4), ("two_tier", 4)]
OUTS = [("rail_fat_tree", 1.0), ("rail_fat_tree", 3.0), ("fat_tree", 2.0), ("dcn", 4.0)]
KINDS = [
    ("ring", "all_reduce"), ("hierarchical", "all_to_all"), ("direct", "all_to_all"),
    ("double_binary_tree", "all_reduce"), ("halving_doubling", "all_gather"),
]  # fmt: skip


def fabric(up, out, hosts=8, spread="spray", hop_s=0.0):
    """Hosts of one domain each, below leaves that some share."""
    (shape, devices), (tree, over) = up, out
    scaleup = ScaleUp(shape, devices, 4e11, 1e11, hop_s, 2, 2.0)
    rails = devices
    radix = 8 if tree == "rail_fat_tree" else 4 * rails
    scaleout = ScaleOut(tree, hosts, devices, rails, 5e10, radix, over, hop_s)
    return Wiring(Fabric(scaleup, scaleout), spread)


def chain_of(net, kind, order, payload=8e6, wait_s=0.0):
    """The phases of a collective over all devices, member i on device order[i]."""
    name, operation = kind
    domain = net.fabric.scaleup.devices
    phases = plugins.find("collectives", name).phases(operation, len(order), domain, payload)
    flows = [[(net.route(order[a], order[b]), sent) for a, b, sent in phase] for phase in phases]
    return Chain(flows, [wait_s] * len(flows))


def seconds(net, chains, capacity=None):
    rates = net.bytes_per_s if capacity is None else capacity
    return played(rates, net.routes, chains)[0]


cases = st.tuples(st.sampled_from(UPS), st.sampled_from(OUTS), st.sampled_from(KINDS))


@settings(max_examples=12)
@given(cases, st.integers(0, 3), st.floats(1.1, 4.0))
def test_wider_links_are_never_slower_and_faster_where_they_are_full(case, part, factor):
    """Changing topology or bandwidth would change nothing (astra-sim 207), or the wrong way."""
    up, out, kind = case
    net = fabric(up, out, hop_s=1e-6)
    one = chain_of(net, kind, range(net.fabric.devices), wait_s=2e-6)
    base = seconds(net, [one])[0]
    names = net.links.name
    tier = np.array(
        [[n.startswith("domain"), "port" in n, "leaf" in n, True][part] for n in names]
    )
    wider = seconds(net, [one], np.where(tier, factor, 1.0) * net.bytes_per_s)[0]
    assert wider <= base * (1 + 1e-9)
    if part == 3:
        assert wider < base


@settings(max_examples=8)
@given(cases, st.permutations(range(8)))
def test_which_host_is_called_first_changes_nothing_below_one_leaf(case, order):
    """ASTRA-sim 150: the same machine, numbered otherwise, would be another."""
    up, _, kind = case
    held = up[1]
    net = fabric(up, ("dcn", 1.0))
    moved = [order[i // held] * held + i % held for i in range(8 * held)]
    plain = seconds(net, [chain_of(net, kind, range(8 * held))])[0]
    assert seconds(net, [chain_of(net, kind, moved)])[0] == pytest.approx(plain, rel=1e-9)


@settings(max_examples=8)
@given(cases)
def test_twice_the_bytes_take_twice_the_time_without_latency(case):
    """256 to 512 MiB would take as long, or longer than twice (astra-sim 207)."""
    up, out, kind = case
    net = fabric(up, out)
    both = [chain_of(net, kind, range(net.fabric.devices), payload) for payload in (8e6, 16e6)]
    one, two = (seconds(net, [chain])[0] for chain in both)
    assert two == pytest.approx(2 * one, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_collectives_side_by_side_share_and_none_gains(kind):
    """Contention would be free, or cost more than doing one after the other."""
    net = fabric(("switched", 4), ("rail_fat_tree", 3.0))
    one = chain_of(net, kind, range(net.fabric.devices))
    alone = seconds(net, [one])[0]
    together = seconds(net, [one, one])
    assert np.all(together <= 2 * alone * (1 + 1e-9))
    assert np.all(together > 1.5 * alone)


def test_a_degraded_port_holds_up_the_whole_ring():
    """One cable at half rate: a ring is as fast as its slowest link (fail-slow)."""
    net = fabric(("switched", 4), ("fat_tree", 1.0))
    one = chain_of(net, ("hierarchical", "all_reduce"), range(32))
    rates = net.bytes_per_s
    rates[net.link("host 3 port 2 out")] /= 2.0
    base, slow = seconds(net, [one])[0], seconds(net, [one], rates)[0]
    outside = 14 * 8e6 / 4 / 8 / 5e10
    assert slow - base == pytest.approx(outside, rel=1e-9)


def test_hashed_paths_are_never_faster_than_sprayed_ones():
    """Collisions of equal-cost paths would speed an exchange up."""
    kind, out = ("direct", "all_to_all"), ("fat_tree", 1.0)
    sprayed, hashed = (fabric(("switched", 4), out, spread=how) for how in ("spray", "ecmp"))
    best, real = (seconds(net, [chain_of(net, kind, range(32))])[0] for net in (sprayed, hashed))
    assert real >= best * (1 - 1e-9)
    assert real < 8 * best


def test_three_layers_carry_an_exchange_at_full_bisection():
    """Pods would be a bottleneck that a folded Clos does not have."""
    up = ScaleUp("none", 1, 4e11, 4e11)
    out = ScaleOut("rail_fat_tree", 16, 1, 1, 5e10, radix=4)
    net = Wiring(Fabric(up, out))
    assert out.tiers == 3
    one = chain_of(net, ("direct", "all_to_all"), range(16))
    assert seconds(net, [one])[0] == pytest.approx(15 / 16 * 8e6 / 5e10)
