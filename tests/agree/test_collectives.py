"""Every collective file: its closed form against its own flows, byte by byte."""

import csv
from pathlib import Path

import numpy as np
import pytest

from costdata.catalog import load
from simkernel import plugins
from simkernel.collectives._flows import SWITCH, Way
from simkernel.fabrics import any_pair_bytes_per_s, neighbour_bytes_per_s, spanned_axes
from simkernel.hardware import TOPOLOGIES
from simkernel.placement import Group
from simkernel.replay.play import Chain, played
from simkernel.traffic import Wires, network
from simkernel.wiring.description import Fabric, ScaleOut, ScaleUp
from simkernel.wiring.routing import Wiring

IN_RATE, PEER, OUT_RATE = 400e9, 50e9, 50e9
SHAPES = [(2, 2), (8, 8), (8, 4), (16, 4), (4, 1), (16, 8), (12, 6), (7, 1), (16, 1), (48, 4)]


def wires(**more):
    """Wires without latency, so that bytes are all that counts."""
    return Wires(IN_RATE, 1.0, 0.0, 0.0, OUT_RATE, 1.0, 0.0, 0.0, **more)


def wired(members, domain, shape="switched"):
    """Switched domains below a classic tree: any two devices meet at the rate of their ports."""
    up = ScaleUp(shape, domain, IN_RATE, PEER)
    out = ScaleOut("fat_tree", -(-members // domain), domain, domain, OUT_RATE, radix=512)
    return Wiring(Fabric(up, out))


def played_on(net, phases):
    """Seconds of the phases on the links, and the network with what they carried."""
    chain = [[(way_of(net, a, b), sent) for a, b, sent in phase] for phase in phases]
    routes = net.routes
    end_s, after = played(net.bytes_per_s, routes, [Chain(chain, [0.0] * len(chain))])
    return end_s[0], after


def way_of(net, source, target):
    """The route of a flow; one that a switch sums or multiplies uses one end's port only."""
    if target == SWITCH:
        return net.to_network(source)
    return net.from_network(target) if source == SWITCH else net.route(source, target)


def sent_bytes(phases, members, domain):
    """Of the busiest device, inside and outside its domain."""
    inside, outside = np.zeros(members), np.zeros(members)
    for phase in phases:
        for source, target, sent in phase:
            if source != SWITCH:
                is_near = target != SWITCH and source // domain == target // domain
                (inside if is_near else outside)[source] += sent
    return inside.max(), outside.max()


CASES = [
    (name, operation, shape)
    for name in plugins.names("collectives")
    for operation in plugins.find("collectives", name).OPERATIONS
    for shape in SHAPES
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "operation", "shape"), CASES)
def test_closed_bytes_and_seconds_equal_the_flows(name, operation, shape):
    """SimAI 292: closed form and events must move the same bytes, on the same links."""
    module, payload = plugins.find("collectives", name), 64e6
    members, domain = shape
    group = Group(np.array([members]), np.array([domain]))
    closed = module.traffic(operation, wires(), group, payload)
    phases = module.phases(operation, members, domain, payload)
    inside, outside = sent_bytes(phases, members, domain)
    assert closed.inside_bytes[0] == pytest.approx(inside, rel=1e-12)
    assert closed.outside_bytes[0] == pytest.approx(outside, rel=1e-12)
    seconds, after = played_on(wired(members, domain), phases)
    assert closed.elapsed_s[0] == pytest.approx(seconds, rel=1e-9)
    crossed = sum(sent * (1 + (SWITCH not in (a, b))) for phase in phases for a, b, sent in phase)
    assert after.links.carried_bytes.sum() == pytest.approx(crossed, rel=1e-9)


STEP_S = {"inside": 1e-6, "outside": 5e-6}
STEPWISE = [case for case in CASES if case[0] not in ("in_network", "pipelined")]


@pytest.mark.parametrize(("name", "operation", "shape"), STEPWISE)
def test_a_small_message_takes_one_latency_for_each_phase(name, operation, shape):
    """Steps of the closed form would be others than those that its flows wait for."""
    module, (members, domain) = plugins.find("collectives", name), shape
    link = Wires(IN_RATE, 1.0, 0.0, STEP_S["inside"], OUT_RATE, 1.0, 0.0, STEP_S["outside"])
    group = Group(np.array([members]), np.array([domain]))
    closed_s = module.traffic(operation, link, group, 1e-9).elapsed_s[0]
    waits = [
        STEP_S["outside" if any(a // domain != b // domain for a, b, _ in phase) else "inside"]
        for phase in module.phases(operation, members, domain, 1e-9, Way(chunks=1))
    ]
    if operation == "all_to_all" and name == "hierarchical":
        waits[0] = max((domain - 1) * 1e-6, (members // domain - 1) * 5e-6)
    assert closed_s == pytest.approx(sum(waits), rel=1e-6)


def ring_rate(spread, shape, members, domain):
    """Rate of a group on the links of a domain, as the closed form has it."""
    code, one = np.array([TOPOLOGIES.index(shape)]), np.array([members])
    return spread(code, 2 * IN_RATE, PEER, one, np.array([domain]))


MESHED = [
    ("all_pairs", "full_mesh", 8),
    ("torus_dimensions", "torus2d", 16),
    ("torus_dimensions", "torus2d", 4),
    ("torus_dimensions", "torus3d", 27),
    ("torus_dimensions", "torus3d", 8),
]


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("name", "shape", "domain"), MESHED)
def test_meshes_and_tori_give_a_domain_the_rate_of_the_closed_form(name, shape, domain, operation):
    """All links of a device would be counted, where flows could not use them."""
    module, group = (
        plugins.find("collectives", name),
        Group(np.array([domain]), np.array([domain])),
    )
    code = np.array([TOPOLOGIES.index(shape)])
    rate = ring_rate(neighbour_bytes_per_s, shape, domain, domain)
    link = Wires(rate, 1.0, 0.0, 0.0, OUT_RATE, 1.0, 0.0, 0.0, spanned_axes(code, domain, domain))
    closed_s = module.traffic(operation, link, group, 64e6).elapsed_s[0]
    way = Way(axes=int(link.inside_axes[0]))
    phases = module.phases(operation, domain, domain, 64e6, way)
    seconds, _ = played_on(wired(domain, domain, shape), phases)
    assert closed_s == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "domain", "members"),
    [
        ("full_mesh", 8, 8),
        ("torus2d", 16, 16),
        ("torus2d", 64, 64),
        ("torus2d", 4, 4),
        ("torus2d", 32, 32),
        ("torus2d", 36, 3),
        ("torus2d", 16, 2),
        ("torus2d", 16, 8),
        ("torus2d", 64, 4),
        ("torus3d", 64, 64),
        ("torus3d", 27, 27),
        ("torus3d", 64, 16),
    ],
)
def test_all_to_all_takes_what_its_flows_take_on_the_links_of_a_domain(shape, domain, members):
    """What a device keeps would be counted as sent, or part of an axis as a whole ring."""
    direct, group = plugins.find("collectives", "direct"), Group(*np.array([[members], [members]]))
    rate = ring_rate(any_pair_bytes_per_s, shape, members, domain)
    link = Wires(rate, 1.0, 0.0, 0.0, OUT_RATE, 1.0, 0.0, 0.0)
    closed_s = direct.traffic("all_to_all", link, group, 64e6).elapsed_s[0]
    seconds, _ = played_on(wired(domain, domain, shape), everywhere(direct, domain, members))
    assert closed_s == pytest.approx(seconds, rel=1e-9)


def everywhere(module, domain, members, operation="all_to_all"):
    """A collective of every group of neighbours of a domain at once, in phases."""
    phases = module.phases(operation, members, members, 64e6)
    return [
        [(a + first, b + first, sent) for first in range(0, domain, members) for a, b, sent in one]
        for one in phases
    ]


@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("shape", "domain"), [("torus2d", 16), ("torus3d", 64)])
def test_pairs_on_a_long_axis_of_a_torus_have_one_link(shape, domain, operation):
    """Part of an axis would close to a ring: a pair twice as fast as its only link."""
    pair, module = np.array([2]), plugins.find("collectives", "ring")
    rate = ring_rate(neighbour_bytes_per_s, shape, 2, domain)
    link = Wires(rate, 1.0, 0.0, 0.0, OUT_RATE, 1.0, 0.0, 0.0)
    closed_s = module.traffic(operation, link, Group(pair, pair), 64e6).elapsed_s[0]
    seconds, _ = played_on(wired(domain, domain, shape), everywhere(module, domain, 2, operation))
    assert closed_s == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize("members", [4, 8, 16, 32])
def test_no_group_on_part_of_a_torus_is_faster_than_its_links_could_be(members):
    """The end of a row takes all it lacks over the links it has, however many axes there are."""
    rate = ring_rate(neighbour_bytes_per_s, "torus3d", members, 512)
    links = {4: 1, 8: 2, 16: 3, 32: 3}[members]
    assert PEER <= rate[0] <= links * PEER


def test_a_token_sent_once_to_a_domain_crosses_once():
    """Deduplicated dispatch: a quarter of the copies leave, and the port is a quarter as long."""
    module, group = plugins.find("collectives", "hierarchical"), Group(*np.array([[32], [8]]))
    closed = module.traffic("all_to_all", wires(), group, 64e6, 0.25)
    phases = module.phases("all_to_all", 32, 8, 64e6, Way(remote_frac=0.25))
    seconds, _ = played_on(wired(32, 8), phases)
    assert closed.elapsed_s[0] == pytest.approx(seconds, rel=1e-9)
    assert closed.outside_bytes[0] == pytest.approx(sent_bytes(phases, 32, 8)[1])


def test_neighbours_on_rails_never_climb():
    """A ring or two levels over four hosts would load spines, and slow on thin ones."""
    up, out = (
        ScaleUp("switched", 8, IN_RATE, PEER),
        ScaleOut("rail_fat_tree", 8, 8, 8, OUT_RATE, radix=10, oversubscription=4.0),
    )
    for name in ("ring", "hierarchical", "double_binary_tree"):
        net = Wiring(Fabric(up, out))
        phases = plugins.find("collectives", name).phases("all_reduce", 64, 8, 64e6)
        seconds, _ = played_on(net, phases)
        assert not [link for link in net.links.name if "leaf" in link], name
        best, _ = played_on(wired(64, 8), phases)
        assert seconds == pytest.approx(best, rel=1e-9)


def test_astra_sim_296_ring_and_two_level_agree_on_a_switch():
    """8 devices, 100 MB, 50 GB/s: 2 (n-1)/n S/B whatever the algorithm; only steps differ."""
    group = Group(np.array([8]), np.array([8]))
    slow = Wires(50e9, 1.0, 0.0, 1e-6, 50e9, 1.0, 0.0, 1e-6)
    for name in ("ring", "hierarchical"):
        traffic = plugins.find("collectives", name).traffic("all_reduce", slow, group, 100e6)
        assert traffic.inside_s[0] == pytest.approx(2 * 7 / 8 * 100e6 / 50e9)
        assert traffic.elapsed_s[0] == pytest.approx(2 * 7 / 8 * 100e6 / 50e9 + 14e-6)


def test_llm_analysis_27_seconds_of_a_gradient_on_each_tier():
    """2 GB all-reduced over 8 ranks: 70 ms at 50 GB/s between nodes, 7.8 ms at 450 inside."""
    link = Wires(450e9, 1.0, 0.0, 0.0, 50e9, 1.0, 0.0, 0.0)
    ring = plugins.find("collectives", "ring")
    apart = ring.traffic("all_reduce", link, Group(np.array([8]), np.array([1])), 2e9)
    inside = ring.traffic("all_reduce", link, Group(np.array([8]), np.array([8])), 2e9)
    assert apart.elapsed_s[0] == pytest.approx(70e-3, rel=0.01)
    assert inside.elapsed_s[0] == pytest.approx(7.8e-3, rel=0.01)


@pytest.mark.parametrize("name", plugins.names("collectives"))
def test_doubling_the_ring_never_halves_the_time(name):
    """Bandwidth term tends to a constant, so a ring cannot scale away its message."""
    module = plugins.find("collectives", name)
    for operation in module.OPERATIONS:
        if operation != "send":
            sizes = np.array([8, 16, 32, 64])
            group = Group(sizes, np.ones(4, dtype=np.int64))
            elapsed = module.traffic(operation, wires(), group, 64e6).elapsed_s
            assert np.all(elapsed[1:] >= elapsed[:-1])


def switch_reduced():
    """All-reduces of 512 MiB on eight devices that the switch reduced: chip and seconds."""
    truth = Path(__file__).parents[1] / "truth" / "microbench.csv"
    with truth.open() as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "collective"]
    found = {
        row["accelerator"]: float(row["value"]) / 1e3
        for row in rows
        if row["params"].startswith("all_reduce n=8 268435456 elements")
    }
    names = (("h100_sxm", "H100-SXM"), ("h200_sxm", "H200-SXM"), ("b200_sxm", "B200-SXM"))
    return [(ours, found[theirs]) for theirs, ours in names]


@pytest.mark.parametrize(("name", "measured_s"), switch_reduced())
def test_reduction_in_the_switch_is_not_counted_beyond_what_was_measured(name, measured_s):
    """Curves come from NCCL with NVLS on: a faster collective beside them would count it twice."""
    chips = load().chips([name])
    group, payload = Group(np.array([8]), np.array([8])), 268435456 * 2.0
    wires = network(chips, np.array([8]), np.ones(1)).wires("all_reduce", group)
    for option in plugins.names("collectives"):
        module = plugins.find("collectives", option)
        if "all_reduce" in module.OPERATIONS:
            closed_s = module.traffic("all_reduce", wires, group, payload).elapsed_s[0]
            most = 1.45 if module.IN_BEST else 2.0
            assert 0.97 * measured_s < closed_s < most * measured_s, option
