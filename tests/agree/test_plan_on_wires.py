"""A plan's collectives: the closed form of its chip against its flows on its own wires."""

from dataclasses import replace

import numpy as np
import pytest

from costdata.catalog import load
from simkernel import plugins
from simkernel.collectives._flows import Way
from simkernel.hardware import OPERATIONS, TOPOLOGIES
from simkernel.placement import Group
from simkernel.replay.play import Chain, played
from simkernel.traffic import network
from simkernel.wiring.of_plan import Wired, fabric_of
from simkernel.wiring.routing import Wiring

CASES = [
    ("H100-SXM", 8, 32, "hierarchical", "all_reduce"),
    ("H100-SXM", 8, 32, "hierarchical", "all_to_all"),
    ("H100-SXM", 8, 32, "halving_doubling", "all_gather"),
    ("GB200", 72, 144, "hierarchical", "reduce_scatter"),
    ("H200-SXM", 8, 16, "ring", "all_reduce"),
    ("MI300X", 8, 16, "all_pairs", "all_reduce"),
    ("TPU-v5e", 16, 16, "torus_dimensions", "all_reduce"),
    ("TPU-v5p", 64, 64, "torus_dimensions", "all_gather"),
    ("Ascend-910C", 32, 64, "hierarchical", "all_gather"),
]


@pytest.mark.parametrize(("chip", "domain", "members", "name", "operation"), CASES)
def test_a_plan_takes_on_its_wires_what_its_closed_form_says(
    chip, domain, members, name, operation
):
    """The replay would confirm survivors of another machine."""
    chips, module, payload = load().chips([chip]), plugins.find("collectives", name), 256e6
    group = Group(np.array([members]), np.array([domain]))
    wires = network(chips, np.array([domain]), np.ones(1)).wires(operation, group)
    closed_s = module.traffic(operation, wires, group, payload).elapsed_s[0]
    net = Wiring(fabric_of(chips, Wired(members, domain), operation))
    way = Way(axes=int(wires.inside_axes[0]))
    phases = module.phases(operation, members, domain, payload, way)
    chain = [[(net.route(a, b), sent) for a, b, sent in phase] for phase in phases]
    at_once = replace(wires, inside_chunk_s=0.0, outside_chunk_s=0.0)
    chunks = closed_s - module.traffic(operation, at_once, group, payload).elapsed_s[0]
    fixed = chunks + module.traffic(operation, wires, group, 1e-12).elapsed_s[0]
    wait = [fixed] + [0.0] * (len(chain) - 1)
    end_s, _ = played(net.bytes_per_s, net.routes, [Chain(chain, wait)])
    assert end_s[0] == pytest.approx(closed_s, rel=2e-3)


def test_a_supernode_of_two_tiers_is_as_fast_as_one_switch_while_it_is_not_thinned():
    """CloudMatrix's second level would slow what it was built for."""
    chips = load().chips(["Ascend-910C"])
    module, ends = plugins.find("collectives", "direct"), []
    for shape in ("switched", "two_tier"):
        shaped = chips.__class__(
            **{**vars(chips), "scaleup_topology_code": np.array([TOPOLOGIES.index(shape)])}
        )
        net = Wiring(fabric_of(shaped, Wired(32, 32), "all_to_all"))
        phases = module.phases("all_to_all", 32, 32, 64e6)
        chain = [[(net.route(a, b), sent) for a, b, sent in phase] for phase in phases]
        ends.append(played(net.bytes_per_s, net.routes, [Chain(chain, [0.0])])[0][0])
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def test_every_chip_of_the_catalogue_can_be_wired():
    """A study would end in the middle, for want of a port."""
    catalog = load()
    names = [row.name for row in catalog.tables["accelerators"].values()]
    for name in names:
        chips, facts = catalog.chips([name]), catalog.accelerator(name)
        domain = max(d for d in facts.domain_options if d <= 64)
        for code in range(4):
            devices = max(2 * domain, 2 * facts.devices_per_host)
            wired = Wired(devices, domain, code, rails=facts.nics_per_host)
            net = Wiring(fabric_of(chips, wired, OPERATIONS[0]))
            assert len(net.made) == net.route(0, devices - 1)
            assert np.all(net.bytes_per_s > 0)
