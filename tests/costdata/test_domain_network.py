"""Networks of scale-up domains above what is sold as one piece, counted by hand."""

import numpy as np
import pytest
from small_bill import BARE, column, cost, embodied, fabric, prices, servers

from costdata.catalog import load
from costdata.domain_network import DomainNetworks, Domains, domain_networks, ports_sold
from costdata.ends import HIGH, LOW
from costdata.hardware_bill import FabricShapes, Watts, Working, hardware_bill, it_w
from costdata.making import embodied_factors
from simkernel.hardware import TOPOLOGIES


def network(devices, shape="switched", rate=400e9, unit=8):
    """Switches, optics and copper of one domain of devices with four ports of 100 GB/s each."""
    rows = Domains(*(np.array([v]) for v in (TOPOLOGIES.index(shape), devices, rate, unit)))
    found = domain_networks(rows, ports_sold(load().parts))
    return found.switches[0], found.optics[0], found.cables[0]


def test_a_domain_inside_one_unit_is_joined_for_nothing():
    """A server would be charged for switches that it is sold with."""
    assert network(8) == (0, 0, 0)
    assert network(72, unit=72) == (0, 0, 0)
    assert network(8, "full_mesh") == (0, 0, 0)


def test_one_level_of_switches_takes_a_port_and_two_modules_for_each_port():
    """64 devices x 4 ports fill four switches of 64."""
    assert network(64) == (4, 64 * 4 * 2, 0)


def test_two_levels_take_three_ports_and_four_modules_for_each_port():
    """256 devices x 4 ports: 32 leaves of 32 down and 16 spines; twice the cables."""
    assert network(256) == (32 + 16, 256 * 4 * 4, 0)


def test_a_torus_is_copper_in_its_racks_and_optical_between_them():
    """TPU v4: 4 x 4 x 4 chips have 96 optical links on their faces."""
    assert network(64, "torus3d", rate=300e9) == (0, 0, 64 * 3)
    assert network(4096, "torus3d", rate=300e9) == (0, 96 * 64, 4096 * 3 - 96 * 64 / 2)
    assert network(256, "torus2d", rate=200e9) == (0, 256 / 2, 256 * 2 - 256 / 4)


def test_a_mesh_has_a_lane_of_a_module_to_every_peer_outside_its_unit():
    """A mesh of 128 would be as cheap as one of 16: eight peers for each module of a device."""
    assert network(16, "full_mesh") == (0, 16 * 4, 0)
    assert network(128, "full_mesh") == (0, 128 * 15, 0)


def test_two_rows_of_a_kind_and_others_between_keep_their_order():
    """A domain would be charged for its neighbour's network."""
    sizes = np.array([64, 8, 256, 64])
    one = np.ones(4, dtype=np.int64)
    rows = Domains(0 * one, sizes, 400e9 * one, 8 * one)
    assert domain_networks(rows, ports_sold(load().parts)).switches.tolist() == [4, 0, 48, 4]


def joined_bill(joined):
    """1,024 devices in domains of 64, in servers of eight."""
    shape = FabricShapes(*(column(v) for v in (64.0, 1.0)), np.zeros(1, np.int64), column(64.0))
    return hardware_bill(column(1024), servers(), shape, BARE, 1.0, joined)


def test_switches_and_optics_of_domains_are_in_capital_watts_and_carbon():
    """A supernode would be no dearer than the servers it is made of."""
    parts = DomainNetworks(column(4.0), column(512.0), column(10.0))
    bill, plain = joined_bill(parts), joined_bill(DomainNetworks(*(column(0.0),) * 3))
    assert (bill.domain_switches[0], bill.domain_optics[0]) == (16 * 4, 16 * 512)
    dear, cheap = cost(bill), cost(plain)
    network_usd = 64 * 60_000 + 8192 * 800 + 4096 * 100 + 160 * 150
    assert dear.capex.total[0] - cheap.capex.total[0] == pytest.approx(network_usd)
    assert dear.year.terms["network"][0] > cheap.year.terms["network"][0]
    assert (
        dear.embodied.terms["domain_network"][0] > cheap.embodied.terms["domain_network"][0] == 0
    )
    watts = Watts(*(column(x) for x in (100, 1, 25, 900, 24, 650, 500, 1500, 8.5, 0.1)))
    one = Working(700.0, 200.0, 100.0)
    added = it_w(bill, watts, one).total - it_w(plain, watts, one).total
    assert added[0] == pytest.approx(64 * 1500 + 8192 * 8.5 + 160 * 0.1)


def test_optics_fibres_and_networks_inside_units_weigh_what_they_took_to_make():
    """Carbon of modules, cables and the switches inside a rack would be nobody's."""
    parts = DomainNetworks(column(4.0), column(512.0), column(10.0))
    bill = joined_bill(parts)
    plain = cost(bill).embodied.terms["domain_network"][0]
    share = cost(bill).embodied.terms["devices"][0] / (1024 * 164)
    made = 64 * 1000 + 8192 * 6 + 4096 * 2.2 + 160 * 1.1
    assert plain == pytest.approx(made * share)
    with_links = cost(bill, e=embodied(link=10, unit_network=300)).embodied
    assert with_links.terms["links"][0] == pytest.approx(bill.links[0] * 10 * share)
    inside = with_links.terms["domain_network"][0] - plain
    assert inside == pytest.approx(128 * 300 * share)


def test_a_rack_has_its_trays_and_a_supernode_its_switches_and_modules():
    """The carbon of in-rack networks was counted for a comparison only, and in no plan."""
    catalog = load()
    rack = embodied_factors(catalog, "GB200").table
    assert rack.unit_network_kgco2e[0] == pytest.approx(9 * 232)
    supernode = embodied_factors(catalog, "Ascend-910C").table
    made = 448 * 75 + 5376 * 3.5 + 2688 * 2.2
    assert supernode.unit_network_kgco2e[0] == pytest.approx(made)
    board = embodied_factors(catalog, "H100-SXM").table
    assert board.unit_network_kgco2e[0] == 0  # the maker's figure is of the board of eight
    assert board.link_kgco2e[0] == pytest.approx(2 * 3.5 + 2.2)
    low, high = (embodied_factors(catalog, "GB200", end=e).table for e in (LOW, HIGH))
    assert low.unit_network_kgco2e[0] < rack.unit_network_kgco2e[0] < high.unit_network_kgco2e[0]


def test_half_a_domain_has_half_of_its_parts_in_whole_switches():
    """Four devices of a domain of eight would pay for all of it, or for a fraction of a switch."""
    parts = DomainNetworks(column(3.0), column(512.0), column(0.0))
    shape = FabricShapes(*(column(v) for v in (64.0, 1.0)), np.zeros(1, np.int64), column(64.0))
    half = hardware_bill(column(32), servers(), shape, BARE, 1.0, parts)
    assert (half.domain_switches[0], half.domain_optics[0]) == (2, 256)


def test_a_fabric_of_servers_alone_has_none():
    """Every bill of eight-GPU servers would change."""
    bill = hardware_bill(column(1024), servers(), fabric(), BARE)
    assert bill.domain_switches[0] == bill.domain_optics[0] == 0
    assert cost(bill, p=prices()).capex.terms["domain_network"][0] == 0
