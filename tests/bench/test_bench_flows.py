"""Speed of the network engine: rates solved anew per second, and memory that does not grow.

Processor time of one core, best of some rounds.
"""

import resource
import time

import numpy as np
import pytest

from simkernel.replay import compiled
from simkernel.replay.net import SOLVED, opened_net
from simkernel.replay.play import Chain, _score, played
from simkernel.wiring.description import Fabric, ScaleOut, ScaleUp
from simkernel.wiring.links import plain_routes
from simkernel.wiring.routing import Wiring

pytestmark = pytest.mark.bench

WANTED_PER_S = 50_000
FLOWS = 64
GROWTH_BYTES = 20e6


def one_component(rng, flows, links=48, hops=4):
    """Flows over random links and a wide one that all share: every change reaches all of them.

    The shared link is never full, so links fill one after another, in as many rounds.
    """
    paths = [[0, *(1 + rng.choice(links - 1, hops - 1, replace=False))] for _ in range(flows)]
    capacity = rng.uniform(1e9, 9e9, links)
    capacity[0] = 1e13
    return plain_routes(paths, np.zeros(links)), capacity


def chains(rng, flows, rounds):
    """As many chains as flows, each of single flows: about as many are always under way."""
    return [
        Chain([[(i, float(rng.uniform(1e6, 9e6)))] for _ in range(rounds)], [0.0] * rounds)
        for i in range(flows)
    ]


def solved_per_s(play, routes, capacity, score):
    net = opened_net(capacity, routes, FLOWS)
    began = time.process_time()
    play(net, score)
    return net.counters[SOLVED] / (time.process_time() - began)


@pytest.mark.parametrize("flows", [8, 32, FLOWS])
def test_rates_are_solved_anew_often_enough(tell, flows):
    """A step of a thousand devices would take minutes."""
    rng = np.random.default_rng(1)
    (routes, capacity), made = one_component(rng, flows), chains(rng, flows, 40_000 // flows)
    play = compiled.machine_code(compiled.play_lent)
    best = max(solved_per_s(play, routes, capacity, _score(made)) for _ in range(4))
    tell(f"rates solved anew, components of {flows} flows", f"{best:,.0f}/s", ">= 50,000/s")
    assert best >= WANTED_PER_S


def test_memory_stays_flat_over_a_hundred_thousand_phases():
    """A long replay would end for want of memory."""
    net = Wiring(Fabric(ScaleUp("switched", 8, 4e11, 4e11), ScaleOut("fat_tree", 2, 8, 8, 5e10)))
    routes = [net.route(i, (i + 1) % 8) for i in range(8)]
    one = Chain([[(route, 1e6) for route in routes]] * 100, [1e-6] * 100)
    played(net.bytes_per_s, net.routes, [one] * 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for _ in range(1000):
        played(net.bytes_per_s, net.routes, [one])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    assert grown < GROWTH_BYTES
