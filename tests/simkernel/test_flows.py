"""Flows on links: hand-solved shares, bytes that stay, ends that come, ties that are decided."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkernel.errors import BadStudy, ReplayStuck
from simkernel.replay import flows
from simkernel.replay.net import ENDED, MOVING, SEATED, SERIAL, opened_net
from simkernel.replay.play import Chain, played
from simkernel.wiring.links import plain_routes, routes_of

NOTHING = 0.0


def ends(capacity, paths, sent, starts=None, latency=None, changes=()):
    """When each flow ends; `changes` are (time, link, capacity)."""
    latency = np.zeros(len(capacity)) if latency is None else latency
    net = opened_net(np.array(capacity, float), plain_routes(paths, latency), len(paths))
    for i, payload in enumerate(sent):
        flows.start(net, 0.0, i, payload, starts[i] if starts else 0.0, i)
    found, changes = np.full(len(paths), np.inf), sorted(changes)
    while True:
        now = flows.next_s(net)
        while changes and changes[0][0] <= now:
            flows.set_capacity(net, *changes.pop(0))
            now = flows.next_s(net)
        if now == np.inf:
            return found, net
        for i in range(flows.advance(net, now)):
            found[net.ended[i]] = now


def test_three_flows_on_two_links_share_as_solved_by_hand():
    """Link of 10 with flows A and B, link of 4 with B and C: B and C get 2, A gets 8."""
    found, _ = ends([10, 4], [[0], [0, 1], [1]], [10, 10, 10])
    assert found.tolist() == [1.25, 5.0, 5.0]


def test_what_a_flow_leaves_is_shared_by_the_others():
    """Capacity 6, sent 2, 4 and 9: all at 2 to 1 s, two at 3 to 1 2/3 s, the last alone to 2.5."""
    found, _ = ends([6], [[0], [0], [0]], [2, 4, 9])
    assert found == pytest.approx([1.0, 5 / 3, 2.5], rel=1e-15)


def test_the_parking_lot_gives_the_long_flow_the_least_share():
    """Bertsekas and Gallager, fig. 6.12: one flow over n links, one more on each, half each."""
    paths = [[0, 1, 2], [0], [1], [2], [2]]
    found, _ = ends([1, 1, 1], paths, [1 / 3, 2 / 3, 2 / 3, 1 / 3, 1 / 3])
    assert found == pytest.approx([1.0] * 5, rel=1e-15)


def test_an_incast_of_many_takes_as_long_as_all_of_it_through_one_port():
    """Seven senders at 10 each into one port of 10: 7 times as long, and not 7 at full rate."""
    paths = [[i, 7] for i in range(7)]
    found, _ = ends([10] * 8, paths, [5.0] * 7)
    assert found == pytest.approx([3.5] * 7, rel=1e-15)


def test_latency_and_start_come_before_the_bytes():
    """One flow of 4 bytes at 2 per second, 0.5 and 0.25 s of latency, begun at 1: ends at 3.75."""
    found, _ = ends([2, 2], [[0, 1]], [4.0], [1.0], np.array([0.5, 0.25]))
    assert found[0] == 3.75


def test_a_failed_link_stops_its_flows_until_it_is_mended():
    """Half sent at 1 s, two seconds dark, the rest at half the rate: 1 + 2 + 2."""
    found, _ = ends([1], [[0]], [2.0], changes=[(1.0, 0, 0.0), (3.0, 0, 0.5)])
    assert found[0] == 5.0


def test_a_failed_link_that_is_never_mended_is_said():
    """A replay would wait for ever, or report the time of what had not arrived."""
    routes = plain_routes([[0], [1]], np.zeros(2))
    with pytest.raises(ReplayStuck, match=r"links \[1\] have no capacity"):
        played(np.array([1.0, 0.0]), routes, [Chain([[(0, 1.0)], [(1, 1.0)]], [0.0, 0.0])])


def test_a_flow_that_stands_for_four_leaves_a_fifth_its_share():
    """Four like flows and one of another pair on a link of 10: 2 each, folded or not."""
    folded = routes_of([([0, 1], [1.0, 4.0], 0.0), ([1], [1.0], 0.0)])
    net = opened_net(np.array([100.0, 10.0]), folded, 2)
    for route in (0, 1):
        flows.start(net, 0.0, route, 4.0, 0.0, route)
    flows.advance(net, flows.next_s(net))
    assert flows.next_s(net) == 2.0
    assert flows.advance(net, 2.0) == 2
    assert net.links.carried_bytes.tolist() == [4.0, 20.0]


def test_nothing_to_send_and_nowhere_to_go_end_at_once():
    """A rank's message to itself, or an empty one, would hang or divide by zero."""
    found, net = ends([1], [[], [0]], [5.0, 0.0], [1.0, 2.0])
    assert found.tolist() == [1.0, 2.0]
    assert net.counters[SEATED] == net.counters[MOVING] == 0


def test_flows_due_at_one_moment_end_in_the_order_they_began():
    """Which of two equal ends comes first would hang on the layout of a heap."""
    net = opened_net(np.array([6.0]), plain_routes([[0]], np.zeros(1)), 6)
    for owner in (4, 2, 5, 0, 1, 3):
        flows.start(net, 0.0, 0, 1.0, 0.0, owner)
    flows.advance(net, flows.next_s(net))
    assert flows.advance(net, flows.next_s(net)) == 6
    assert net.ended[: net.counters[ENDED]].tolist() == [4, 2, 5, 0, 1, 3]


def test_a_route_over_a_link_that_is_not_there_is_refused():
    """Bytes would cross another link, or memory that is not ours."""
    with pytest.raises(BadStudy, match="routes use links 0 to 3, and there are 2"):
        opened_net(np.ones(2), plain_routes([[0, 3]], np.zeros(4)), 1)
    with pytest.raises(BadStudy, match="negative capacity"):
        opened_net(np.array([-1.0]), plain_routes([[0]], np.zeros(1)), 1)


@st.composite
def worlds(draw):
    """Links, flows over some of them, what they send and when they begin."""
    links = draw(st.integers(1, 5))
    capacity = draw(st.lists(st.floats(0.5, 8.0), min_size=links, max_size=links))
    path = st.lists(st.integers(0, links - 1), min_size=1, max_size=links, unique=True)
    paths = draw(st.lists(path, min_size=1, max_size=8))
    some = {"min_size": len(paths), "max_size": len(paths)}
    sent = draw(st.lists(st.floats(0.1, 9.0), **some))
    return capacity, paths, sent, draw(st.lists(st.floats(0.0, 3.0), **some))


@settings(max_examples=60)
@given(worlds())
def test_bytes_are_kept_and_every_flow_ends_after_two_events(world):
    """A replay would lose traffic, or go round for ever."""
    found, net = ends(*world)
    capacity, paths, sent, _ = world
    wanted = np.zeros(len(capacity))
    for path, payload in zip(paths, sent, strict=True):
        wanted[path] += payload
    assert net.links.carried_bytes == pytest.approx(wanted, rel=1e-12)
    assert np.all(np.isfinite(found))
    assert net.counters[SERIAL] == len(paths)
    assert net.counters[MOVING] == net.counters[SEATED] == 0


@pytest.mark.long
@settings(max_examples=40)
@given(worlds(), st.randoms(use_true_random=False))
def test_names_of_links_and_flows_change_nothing(world, chance):
    """ASTRA-sim 150: (2, 8) and (8, 2) would be two different machines."""
    capacity, paths, sent, starts = world
    links, order = list(range(len(capacity))), list(range(len(paths)))
    chance.shuffle(links)
    chance.shuffle(order)
    renamed = [0.0] * len(capacity)
    for link, name in enumerate(links):
        renamed[name] = capacity[link]
    moved = [[links[one] for one in reversed(paths[i])] for i in order]
    found, _ = ends(capacity, paths, sent, starts)
    again, _ = ends(renamed, moved, [sent[i] for i in order], [starts[i] for i in order])
    assert again == pytest.approx(found[order], rel=1e-11)


@settings(max_examples=40)
@given(worlds(), st.sampled_from([2.0, 8.0, 3.7]))
def test_time_grows_as_bytes_do(world, factor):
    """Twice the message would not take twice as long, with no latency to say why."""
    capacity, paths, sent, starts = world
    found, _ = ends(capacity, paths, sent, starts)
    more, _ = ends(
        capacity, paths, [factor * one for one in sent], [factor * one for one in starts]
    )
    assert more == pytest.approx(factor * found, rel=1e-12 if factor != 3.7 else 1e-11)


@settings(max_examples=40)
@given(worlds())
def test_rates_are_max_min_fair(world):
    """Some flow could be faster without making a slower one wait."""
    capacity, paths, _, _ = world
    net = opened_net(np.array(capacity), plain_routes(paths, np.zeros(len(capacity))), len(paths))
    slots = [flows.start(net, 0.0, i, 1.0, 0.0, i) for i in range(len(paths))]
    flows.advance(net, 0.0)
    flows.next_s(net)
    rate = net.flows.rate_bytes_per_s[slots]
    used = np.zeros(len(capacity))
    for path, one in zip(paths, rate, strict=True):
        used[path] += one
    assert np.all(used <= np.array(capacity) * (1 + 1e-9))
    for i, path in enumerate(paths):
        on = [
            link
            for link in path
            if used[link] >= capacity[link] * (1 - 1e-9)
            and rate[i] >= max(rate[j] for j, p in enumerate(paths) if link in p) * (1 - 1e-9)
        ]
        assert on, "no full link on which it is among the fastest"


def test_machine_code_gives_the_times_of_the_written_loop():
    """The replay in use would be another than the one that was tested."""
    rng = np.random.default_rng(5)
    paths = [list(rng.choice(9, rng.integers(1, 5), replace=False)) for _ in range(30)]
    routes, capacity = plain_routes(paths, rng.uniform(0, 0.1, 9)), rng.uniform(1, 5, 9)
    chains = [
        Chain(
            [
                [(int(rng.integers(30)), float(rng.uniform(0, 3))) for _ in range(size)]
                for size in rng.integers(0, 6, 4)
            ],
            rng.uniform(0, 0.2, 4).tolist(),
            float(rng.uniform(0, 2)),
        )
        for _ in range(5)
    ]
    fast, here = played(capacity, routes, chains)
    slow, there = played(capacity, routes, chains, is_compiled=False)
    assert fast.tolist() == slow.tolist()
    assert here.links.carried_bytes.tolist() == there.links.carried_bytes.tolist()
