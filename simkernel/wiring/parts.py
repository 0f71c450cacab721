"""What a scale-up domain is built of: switches, cables and optics, counted from its description.

Fabrics between domains are counted by costdata.network_build. Prices and watts are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from simkernel.wiring.description import TORUS_AXES, ScaleUp


@dataclass(frozen=True)
class DomainPorts:
    """How the devices of a domain are plugged together.

    Parameters
    ----------
    ports_per_device : links of a device to switches of the first level
    switch_ports : of a switch of the first level that go to devices
    uplinks_per_switch : of it to the second level; 0 where there is one level
    second_ports : of a switch of the second level
    optics_per_device : modules at all ends of optical links, over the devices
    """

    ports_per_device: int
    switch_ports: int
    uplinks_per_switch: int = 0
    second_ports: int = 1
    optics_per_device: float = 0.0


@dataclass(frozen=True)
class DomainParts:
    """Parts of one whole domain."""

    first_switches: int
    second_switches: int
    cables: int
    optics: int


def domain_parts(up: ScaleUp, ports: DomainPorts) -> DomainParts:
    """Parts of a domain; a mesh has a cable for each pair, a torus one for each neighbour.

    Notes
    -----
    Of two levels, every first-level switch of a board belongs to one plane, and planes meet at the
    devices only.
    """
    optics = ceil(up.devices * ports.optics_per_device)
    if up.shape == "full_mesh":
        return DomainParts(0, 0, up.devices * (up.devices - 1) // 2, optics)
    if up.shape in TORUS_AXES:
        return DomainParts(0, 0, up.devices * sum(side > 1 for side in up.sides), optics)
    wired = up.devices * ports.ports_per_device
    if up.shape != "two_tier":
        return DomainParts(ceil(wired / ports.switch_ports), 0, wired, optics)
    groups = ceil(up.devices / up.group_devices)
    planes = ceil(up.group_devices * ports.ports_per_device / ports.switch_ports)
    uplinks = groups * ports.uplinks_per_switch
    second = planes * ceil(uplinks / ports.second_ports) if groups > 1 else 0
    return DomainParts(groups * planes, second, wired + planes * uplinks * (groups > 1), optics)
