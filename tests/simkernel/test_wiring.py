"""Links and routes of every fabric: rates and hops counted by hand, loads against brute force."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from simkernel.errors import BadStudy, UnknownName
from simkernel.fabrics import spanned_axes
from simkernel.hardware import TOPOLOGIES
from simkernel.replay.play import Chain, played
from simkernel.wiring.description import Fabric, ScaleOut, ScaleUp, torus_sides
from simkernel.wiring.routing import Wiring

UP, PEER, PORT = 400e9, 50e9, 50e9


def scaleup(shape="switched", devices=8, **more):
    return ScaleUp(shape, devices, UP, PEER, 1e-6, **more)


def scaleout(shape="rail_fat_tree", hosts=4, **more):
    return ScaleOut(shape, hosts, 8, 8, PORT, **{"radix": 8, "hop_s": 2e-6, **more})


def wiring(up=None, out=None, spread="spray"):
    return Wiring(Fabric(up or scaleup(), out or scaleout()), spread)


def crossed(net, source, target, key=0):
    """Names of the links of a route."""
    links, _, _ = net.made[net.route(source, target, key)]
    return [net.links.name[link] for link in links]


def seconds(net, flows):
    """Of flows (source, target, bytes) that begin together, without their latency."""
    phase = [(net.route(a, b), sent) for a, b, sent in flows]
    routes = replace(net.routes, latency_s=np.zeros(len(net.routes)))
    return played(net.bytes_per_s, routes, [Chain([phase], [0.0])])[0][0]


def test_a_switch_gives_any_pair_the_full_rate_and_a_mesh_one_link():
    """A pair of MI300X would see 448 GB/s instead of 64."""
    assert seconds(wiring(), [(0, 5, 4e9)]) == pytest.approx(0.01)
    assert seconds(wiring(scaleup("full_mesh")), [(0, 5, 4e9)]) == pytest.approx(0.08)


def test_a_torus_goes_the_shorter_way_and_halves_what_has_two():
    """4 x 4: two hops across, one of each axis; opposite corners four hops on eight half links."""
    net = wiring(scaleup("torus2d", 16), scaleout(hosts=2))
    assert crossed(net, 0, 5) == ["domain 0: 0 x+", "domain 0: 4 y+"]
    assert crossed(net, 0, 3) == ["domain 0: 0 y-"]
    links, weights, latency_s = net.made[net.route(0, 10)]
    assert (len(links), set(weights), latency_s) == (8, {0.5}, 4e-6)


@pytest.mark.parametrize(
    ("devices", "axes", "sides"),
    [
        (16, 2, (4, 4)),
        (32, 2, (8, 4)),
        (128, 3, (8, 4, 4)),
        (4096, 3, (16, 16, 16)),
        (7, 2, (7, 1)),
    ],
)
def test_a_torus_is_as_square_as_its_devices_allow(devices, axes, sides):
    """A ring of 4,096 would stand for a cube."""
    assert torus_sides(devices, axes) == sides


def test_uniform_traffic_on_a_torus_loads_links_as_dally_and_towles_say():
    """Channel load k/8 per unit sent by each node on a k-ary n-cube, k even (eq. 5.9)."""
    net = wiring(scaleup("torus2d", 16), scaleout(hosts=2))
    load = Counter()
    for a in range(16):
        for b in range(16):
            links, weights, _ = net.made[net.route(a, b)]
            for link, weight in zip(links, weights, strict=True):
                load[link] += weight / 16
    assert set(np.round(list(load.values()), 12)) == {4 / 8}
    assert len(load) == 64


def test_two_tiers_climb_only_between_boards_and_share_an_oversubscribed_trunk():
    """Sixteen packages in two boards: eight flows across share 8 x 400 / 2."""
    net = wiring(scaleup("two_tier", 16, oversubscription=2.0), scaleout(hosts=2))
    assert len(crossed(net, 0, 7)) == 2
    assert crossed(net, 0, 8)[1:3] == ["domain 0: group 0 up", "domain 0: group 1 down"]
    across = [(i, 8 + i, 4e9) for i in range(8)]
    assert seconds(net, across) == pytest.approx(0.02)
    assert seconds(net, across[:4]) == pytest.approx(0.01)


def test_rails_keep_equal_ports_together_and_forward_the_others_inside():
    """An all-to-all would climb to the spine for each pair of unequal ranks."""
    net = wiring()
    assert crossed(net, 1, 9) == ["host 0 port 1 out", "host 1 port 1 in"]
    inside = ["domain 0: 1 up", "domain 0: 3 down"]
    assert crossed(net, 1, 11) == [*inside, "host 0 port 3 out", "host 1 port 3 in"]


def test_cards_without_a_domain_send_by_the_port_of_the_other_rail():
    """PCIe cards on rails that no switch joins could not talk at all."""
    net = wiring(ScaleUp("none", 1, UP, PEER))
    assert crossed(net, 0, 9) == ["host 0 port 1 out", "host 1 port 1 in"]


def test_a_classic_tree_climbs_between_hosts_of_two_leaves():
    """Radix 32 and eight ports a host: two hosts below a leaf of 16 down."""
    net = wiring(out=scaleout("fat_tree", hosts=8, radix=32))
    assert crossed(net, 0, 15) == ["host 0 port 0 out", "host 1 port 7 in"]
    assert crossed(net, 0, 16)[1:3] == ["rail 0 leaf 0 up", "rail 0 leaf 1 down"]


def test_three_layers_have_pods():
    """Radix 4: leaves of 2 hosts, pods of 2 leaves; 16 hosts on one rail are 4 pods."""
    out = ScaleOut("rail_fat_tree", 16, 1, 1, PORT, radix=4, hop_s=1e-6)
    net = wiring(ScaleUp("none", 1, UP, PEER), out)
    assert (out.tiers, out.leaf_hosts, out.pod_leaves) == (3, 2, 2)
    assert [len(crossed(net, 0, host)) for host in (1, 2, 4)] == [2, 4, 6]


def test_an_oversubscribed_leaf_slows_what_leaves_it_and_nothing_else():
    """Four to one: eight hosts below a leaf of ten ports send through two."""
    out = ScaleOut("rail_fat_tree", 16, 1, 1, PORT, radix=10, oversubscription=4.0)
    net = wiring(ScaleUp("none", 1, UP, PEER), out)
    assert out.leaf_hosts == 8
    assert seconds(net, [(i, (i + 1) % 8, 1e9) for i in range(8)]) == pytest.approx(0.02)
    assert seconds(net, [(i, i + 8, 1e9) for i in range(8)]) == pytest.approx(0.08)


def test_equal_cost_paths_collide_where_a_hash_picks_them():
    """32 flows on 32 uplinks would all be alone; by hash the fullest uplink has several."""
    out = ScaleOut("rail_fat_tree", 64, 1, 1, PORT, radix=64)
    out = replace(out, hosts=65)
    flows = [(i, i + 32, 1e9) for i in range(32)]
    up = ScaleUp("none", 1, UP, PEER)
    sprayed, hashed = wiring(up, out), wiring(up, out, "ecmp")
    assert seconds(sprayed, flows) == pytest.approx(0.02)
    slow = seconds(hashed, flows)
    assert slow in [pytest.approx(0.02 * n) for n in (2, 3, 4, 5)]
    assert slow == seconds(wiring(up, out, "ecmp"), flows)


def test_slices_share_one_trunk_each():
    """Two slices of two hosts: four devices' ports, half the rate between slices."""
    out = ScaleOut("dcn", 4, 4, 4, PORT, slice_hosts=2, oversubscription=2.0, trunk_s=1e-5)
    net = wiring(ScaleUp("torus2d", 8, UP, PEER), out)
    assert crossed(net, 0, 9)[1:3] == ["rail 0 leaf 0 up", "rail 0 leaf 1 down"]
    flows = [(i, 8 + i, 1e9) for i in range(8)]
    assert seconds(net, flows) == pytest.approx(0.04)
    assert net.made[0][2] == pytest.approx(2e-5)


def test_an_incast_is_as_slow_as_the_one_port_it_goes_through():
    """Three hosts to one device: a third of the port each, wherever they come from."""
    flows = [(8 * host + 2, 2, 1e9) for host in (1, 2, 3)]
    assert seconds(wiring(), flows) == pytest.approx(0.06)


def test_a_bundle_takes_as_long_as_its_flows():
    """An aggregate per pair of domains would be another exchange than the one it stands for."""
    pairs = [(a, 8 + b) for a in range(8) for b in range(8)]
    one = wiring()
    each = seconds(one, [(*pair, 1e9) for pair in pairs])
    both = wiring()
    number = both.bundle(pairs)
    routes = replace(both.routes, latency_s=np.zeros(len(both.routes)))
    end, net = played(both.bytes_per_s, routes, [Chain([[(number, 1e9)]], [0.0])])
    assert end[0] == pytest.approx(each, rel=1e-12)
    assert net.links.carried_bytes[both.link("host 0 port 3 out")] == pytest.approx(8e9)


@pytest.mark.parametrize("shape", TOPOLOGIES)
def test_every_route_stays_in_its_domain_and_ends_where_it_should(shape):
    """Bytes would leave by a link of another device."""
    net = wiring(scaleup(shape, 8))
    for a in range(8, 16):
        for b in range(8, 16):
            names = crossed(net, a, b)
            assert (a == b) == (names == [])
            assert all(name.startswith("domain 1: ") for name in names)


def test_fabrics_that_cannot_be_wired_are_refused():
    """A replay would route over a switch that is not there."""
    with pytest.raises(UnknownName):
        scaleup("ring")
    with pytest.raises(UnknownName):
        scaleout("clos")
    with pytest.raises(BadStudy, match="at least 1"):
        scaleup(devices=0)
    with pytest.raises(BadStudy, match="above 0"):
        ScaleUp("switched", 8, 0.0, PEER)
    with pytest.raises(BadStudy, match="as many ports as devices"):
        ScaleOut("fat_tree", 4, 8, 3, PORT)
    with pytest.raises(BadStudy, match="switches of more ports"):
        ScaleOut("fat_tree", 4, 8, 8, PORT, radix=8)
    with pytest.raises(BadStudy, match="4 layers"):
        wiring(out=scaleout(hosts=1000))
    with pytest.raises(BadStudy, match="spread by 'flow'"):
        wiring(spread="flow")


@pytest.mark.parametrize("topology", ["torus2d", "torus3d"])
def test_a_torus_of_one_device_spans_nothing_and_stops_nothing(topology):
    """A sweep over every chip would end in a crash at the first domain of one device."""
    code = np.array([TOPOLOGIES.index(topology)])
    for members in (2, 64):
        assert spanned_axes(code, np.array([members]), np.array([1])) == 1
