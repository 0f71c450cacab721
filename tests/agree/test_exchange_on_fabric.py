"""An exchange of experts, pair of domains by pair on a whole fabric, against one rank's share.

The replay of a step knows one rank of every stage: a flow of all it sends to other domains, on its
own port and on its part of the uplinks. Here every device is on the fabric.
"""

import numpy as np
import pytest

from simkernel.replay.play import Chain, played
from simkernel.wiring.description import Fabric, ScaleOut, ScaleUp
from simkernel.wiring.links import routes_of
from simkernel.wiring.routing import Wiring

DEVICES, PORT, UP = 4, 50e9, 400e9
SENT = 1e9
"""Bytes of one device to other domains."""


def whole(scarce, apart_s):
    """Ends of two stages' exchanges, each between a domain below either leaf, on every link."""
    down = 2 * DEVICES
    radix = int(round(down * (1.0 + scarce) / scarce))
    out = ScaleOut("fat_tree", 4, DEVICES, DEVICES, PORT, radix=radix, oversubscription=scarce)
    net = Wiring(Fabric(ScaleUp("switched", DEVICES, UP, UP), out))
    chains = []
    for stage, (near, far) in enumerate(((0, 2), (1, 3))):
        flows = [(pair(net, a, b), SENT) for a, b in ((near, far), (far, near))]
        chains.append(Chain([flows], [0.0], stage * apart_s))
    routes = net.routes
    return played(net.bytes_per_s, routes, chains)[0]


def pair(net, source, target):
    """One aggregate flow between two domains: every device to its peer there."""
    ends = [(source * DEVICES + i, target * DEVICES + i) for i in range(DEVICES)]
    return net.bundle(ends)


def folded(scarce, apart_s):
    """The same of one rank of each stage: two ports, and two ports' part of the uplink."""
    routes = routes_of([([0, 2], [1.0, 1.0], 0.0), ([1, 2], [1.0, 1.0], 0.0)])
    links = np.array([PORT, PORT, 2.0 * PORT / scarce])
    chains = [Chain([[(i, SENT)]], [0.0], i * apart_s) for i in range(2)]
    return played(links, routes, chains)[0]


@pytest.mark.parametrize("scarce", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("apart_s", [0.0, 0.004, 1.0])
def test_an_exchange_of_whole_domains_is_that_of_one_rank(scarce, apart_s):
    """A replay of one rank would share links otherwise than 1,024 do."""
    assert folded(scarce, apart_s) == pytest.approx(whole(scarce, apart_s), rel=1e-9)


def test_two_stages_that_exchange_at_once_wait_for_each_other_on_a_thin_spine():
    """The same end would come out whatever the spine."""
    assert whole(4.0, 0.0).max() == pytest.approx(4.0 * SENT / PORT)
    assert whole(4.0, 1.0).max() == pytest.approx(1.0 + 2.0 * SENT / PORT)
    assert whole(1.0, 0.0).max() == pytest.approx(SENT / PORT)
