"""Parts of scale-up domains: known racks counted, shapes by hand, what is not known said."""

from dataclasses import replace

import pytest

from costdata.catalog import load
from costdata.domain_cost import domain_cost
from simkernel.errors import UnknownName
from simkernel.wiring.description import ScaleUp
from simkernel.wiring.parts import DomainPorts, domain_parts

RACK = ScaleUp("switched", 72, 900e9, 900e9)
SUPERNODE = ScaleUp("two_tier", 384, 392e9, 392e9, group_devices=8)
PLAIN = DomainPorts(ports_per_device=4, switch_ports=16)


def test_a_rack_of_72_has_nine_trays_and_no_optics():
    """1,296 links of a rack on trays of 144 ports; 3.6 kW of trays by the rack's maker."""
    found = domain_cost(load(), "nvl72", RACK)
    assert (found.parts.first_switches, found.parts.cables, found.parts.optics) == (9, 1296, 0)
    assert found.w["switches"] == pytest.approx(3600)
    assert found.usd["switches"] == pytest.approx(270_000)
    assert found.missing == ()


def test_the_supernode_of_384_has_its_448_switches_and_5376_modules():
    """CloudMatrix384: 336 first-level and 112 second-level switches, fourteen modules each."""
    found = domain_cost(load(), "cloudmatrix384", SUPERNODE)
    parts = found.parts
    assert (parts.first_switches, parts.second_switches, parts.optics) == (336, 112, 5376)
    assert found.missing == ("448 switches",)
    assert found.w["optics"] > 60e3
    assert found.kgco2e["switches"] > 0


def test_half_a_supernode_has_half_the_boards_and_no_more_planes():
    """Size would come for free, or cost more than twice."""
    small = domain_cost(load(), "cloudmatrix384", replace(SUPERNODE, devices=192)).parts
    assert (small.first_switches, small.second_switches, small.optics) == (168, 56, 2688)
    board = domain_cost(load(), "cloudmatrix384", replace(SUPERNODE, devices=8)).parts
    assert (board.first_switches, board.second_switches) == (7, 0)


@pytest.mark.parametrize(
    ("shape", "devices", "cables"),
    [("full_mesh", 8, 28), ("torus2d", 16, 32), ("torus3d", 64, 192), ("torus2d", 7, 7)],
)
def test_meshes_and_tori_have_cables_and_no_switch(shape, devices, cables):
    """A mesh of eight has 28 pairs; a torus a cable for each device and axis."""
    parts = domain_parts(ScaleUp(shape, devices, 4e11, 1e11), PLAIN)
    assert (parts.first_switches, parts.second_switches, parts.cables) == (0, 0, cables)


def test_a_domain_that_was_never_built_is_refused():
    """Somebody's guess would be priced as if it were sold."""
    with pytest.raises(UnknownName):
        domain_cost(load(), "nvl9000", RACK)
