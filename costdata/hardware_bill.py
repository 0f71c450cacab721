"""What a plan makes one buy, in whole units, and what all of it draws: counts and watts, no price.

Servers and racks come whole: devices beyond the plan's own are stranded or stand by as spares, and
every host bought is wired. Sizes and watts of parts are given from outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costdata.domain_network import OPTICS_PER_FIBRE, DomainNetworks
from costdata.network_build import counted
from simkernel.columns import Codes, Column, Floats
from simkernel.hardware import Columns
from simkernel.ledger import Ledger
from simkernel.reliability import covering_spares, spares


@dataclass(frozen=True)
class UnitShapes(Columns):
    """What is sold as one piece, a server or a rack; (m,).

    `rails` are scale-out ports of a host, one switch plane each. `usable_per_unit` devices of a
    unit can work for the plan: fewer than it holds where groups do not fill a scale-up domain.
    """

    devices_per_unit: Floats
    hosts_per_unit: Floats
    rails: Floats
    usable_per_unit: Floats


@dataclass(frozen=True)
class FabricShapes(Columns):
    """Scale-out fabric; (m,).

    `radix`: switch ports at the rate of a host port; `fabric_code`: index in SCALEOUT_FABRICS;
    `slice_devices`: of a scale-up domain, what a data-centre network joins.
    """

    radix: Floats
    oversubscription: Floats
    fabric_code: Codes
    slice_devices: Floats


@dataclass(frozen=True)
class Support:
    """What stands beside the devices; one figure for a study.

    Parameters
    ----------
    storage_pb_per_device, head_nodes_per_host : size of storage and management
    device_mtbf_hours : device-hours per failure that takes a host out of work; (m,) or one
    repair_hours : until the host is back; 0 buys no spares
    spare_coverage_frac : share of the time in which enough hosts stand by; None for as many as
        are under repair on average
    is_domain_replaced : the whole scale-up domain of a failed host is, unless it has one to spare
    """

    storage_pb_per_device: float
    head_nodes_per_host: float
    device_mtbf_hours: Column
    repair_hours: float
    spare_coverage_frac: float | None = None
    is_domain_replaced: bool = False


@dataclass(frozen=True)
class HardwareBill(Columns):
    """Counts of everything bought; (m,), whole numbers except storage.

    `purchase_units` hold the working devices, `spare_units` come on top. `tiers` are switch
    layers, `ports` host ports wired into them, `links` cables. `domain_switches`, `domain_optics`
    and `domain_cables` join units to scale-up domains.
    """

    devices_working: Floats
    devices_per_unit: Floats
    hosts_per_unit: Floats
    purchase_units: Floats
    spare_units: Floats
    tiers: Floats
    switches: Floats
    ports: Floats
    links: Floats
    storage_pb: Floats
    head_nodes: Floats
    domain_switches: Floats
    domain_optics: Floats
    domain_cables: Floats

    @property
    def stranded_devices(self) -> Floats:
        """Bought because units come whole, used by nobody."""
        return self.purchase_units * self.devices_per_unit - self.devices_working

    @property
    def domain_fibres(self) -> Floats:
        """Fibre cables between the modules of domains."""
        return np.ceil(self.domain_optics / OPTICS_PER_FIBRE)

    @property
    def devices_bought(self) -> Floats:
        """Bought or leased, in all units: at work, stranded and spare."""
        return (self.purchase_units + self.spare_units) * self.devices_per_unit

    @property
    def spare_devices(self) -> Floats:
        """In the units that stand by."""
        return self.spare_units * self.devices_per_unit

    @property
    def hosts(self) -> Floats:
        """All hosts bought, spares included."""
        return (self.purchase_units + self.spare_units) * self.hosts_per_unit


NO_NETWORKS = DomainNetworks(*(np.zeros(1),) * 3)
"""Of domains that are inside one unit."""


def hardware_bill(
    devices_working: Codes | Floats,
    units: UnitShapes,
    fabric: FabricShapes,
    support: Support,
    replaced_hosts: Column = 1.0,
    joined: DomainNetworks = NO_NETWORKS,
) -> HardwareBill:
    """Everything that a number of working devices makes one buy.

    Parameters
    ----------
    devices_working : (m,) devices the plan computes on
    units, fabric : (m,) or one row
    replaced_hosts : (m,) hosts that have to be replaced when one fails: one, or all of a scale-up
        domain that works as a whole and has no host to spare
    joined : (m,) what joins the units of one domain

    Notes
    -----
    More hosts than three switch layers reach have 4 tiers, which nobody sells: a limit for the
    caller, see network_build.TIERS_MOST.
    """
    working = np.asarray(devices_working, float)
    per_unit = units.devices_per_unit
    bought = np.ceil(working / units.usable_per_unit)
    spare = _spare_units(working, bought, units, support, replaced_hosts)
    hosts = (bought + spare) * units.hosts_per_unit
    host_devices = per_unit / units.hosts_per_unit
    net = counted(
        fabric.fabric_code,
        hosts,
        units.rails,
        fabric.radix,
        fabric.oversubscription,
        np.maximum(fabric.slice_devices / host_devices, 1.0),
    )
    return HardwareBill(
        devices_working=working,
        devices_per_unit=np.broadcast_to(per_unit, working.shape),
        hosts_per_unit=np.broadcast_to(units.hosts_per_unit, working.shape),
        purchase_units=bought,
        spare_units=spare,
        tiers=net.tiers,
        switches=net.switches,
        ports=net.ports,
        links=net.links,
        storage_pb=support.storage_pb_per_device * working,
        head_nodes=np.ceil(hosts * support.head_nodes_per_host),
        **_joining(joined, (bought + spare) * per_unit / fabric.slice_devices),
    )


def _joining(joined: DomainNetworks, domains: Floats) -> dict[str, Floats]:
    """Parts of all scale-up domains; a part of one has its share of cables and whole switches."""
    each = {name: getattr(joined, name) + 0.0 * domains for name in ("switches", "optics")}
    return {
        "domain_switches": np.ceil(each["switches"] * domains),
        "domain_optics": np.ceil(each["optics"] * domains),
        "domain_cables": np.ceil(joined.cables * domains),
    }


def _spare_units(
    working: Floats, bought: Floats, units: UnitShapes, support: Support, replaced_hosts: Column
) -> Floats:
    """Units on top: hosts under repair, less the whole hosts that are stranded anyway."""
    host_devices = units.devices_per_unit / units.hosts_per_unit
    down = _hosts_ready(working, support) * replaced_hosts
    idle_hosts = np.floor((bought * units.devices_per_unit - working) / host_devices)
    short: Floats = np.ceil(np.maximum(down - idle_hosts, 0.0) / units.hosts_per_unit)
    return short


def _hosts_ready(working: Floats, support: Support) -> Floats:
    """Whole hosts to hold ready."""
    rate = (working, support.device_mtbf_hours, support.repair_hours)
    if support.spare_coverage_frac is None:
        return np.asarray(spares(*rate))
    hours = support.device_mtbf_hours + 0.0 * working
    counts, code = np.unique(np.stack([working, hours]), axis=1, return_inverse=True)
    held = (*counts, support.repair_hours, support.spare_coverage_frac)
    return covering_spares(*held)[np.ravel(code)].reshape(working.shape)


@dataclass(frozen=True)
class Watts(Columns):
    """What one of each draws; (m,) or one row [W].

    Parameters
    ----------
    rest_w : a device that is on and idle, with its shares of host and fans
    is_air : 1 where fans cool the servers
    nic_w : a card at a host port, which draws the same at rest
    switch_w, link_w : a switch; a cable with the optics at both ends
    domain_switch_w, domain_optic_w, domain_cable_w : what joins units to scale-up domains
    storage_w_per_pb, head_node_w : the rest of the room
    """

    rest_w: Floats
    is_air: Floats
    nic_w: Floats
    switch_w: Floats
    link_w: Floats
    storage_w_per_pb: Floats
    head_node_w: Floats
    domain_switch_w: Floats
    domain_optic_w: Floats
    domain_cable_w: Floats


@dataclass(frozen=True)
class Working:
    """A device at work with its shares of its host, and of fans where air cools it; (m,) [W]."""

    device_w: Column
    host_w: Column
    fan_w: Column

    def boxed_w(self, watts: Watts) -> Column:
        """All that is in its server but network cards."""
        return self.device_w + self.host_w + watts.is_air * self.fan_w


def it_w(bill: HardwareBill, watts: Watts, working: Working) -> Ledger:
    """IT power of a plan, term by term; PUE is not in it.

    Parameters
    ----------
    working : what one device at work draws, its mean for the bill, its peak for the reserve

    References
    ----------
    Sum of devices, hosts, fans, cards, switches, optics and storage; only devices with their
    shares of host and fans move with the work.
    """
    terms = {
        "devices": bill.devices_working * working.device_w,
        "hosts": bill.devices_working * working.host_w,
        "fans": bill.devices_working * watts.is_air * working.fan_w,
        "network_cards": bill.ports * watts.nic_w,
        "stranded": bill.stranded_devices * watts.rest_w,
        "spares": bill.spare_devices * watts.rest_w,
        "switches": bill.switches * watts.switch_w,
        "links": bill.links * watts.link_w,
        "storage": bill.storage_pb * watts.storage_w_per_pb,
        "head_nodes": bill.head_nodes * watts.head_node_w,
        "domain_network": domain_network_w(bill, watts),
    }
    return Ledger("it_w", "W", terms)


def domain_network_w(bill: HardwareBill, watts: Watts) -> Floats:
    """What joins units to scale-up domains, of all of them; (m,) [W]."""
    return (
        bill.domain_switches * watts.domain_switch_w
        + bill.domain_optics * watts.domain_optic_w
        + bill.domain_cables * watts.domain_cable_w
    )


def provisioned_w(it_peak_w: Column, headroom_frac: Column) -> Column:
    """IT power to reserve: the busiest seconds and some headroom, never the name plates.

    References
    ----------
    MLPerf Training power logs against 10.2 kW name plates: reserve the 95th percentile and 10 %.
    """
    return it_peak_w * (1.0 + headroom_frac)
