"""What the scale-up network of a domain that nobody sells would cost, in parts that are sold.

Hosts wire their own devices; above them ports of the rate of the switch below, in one or two
levels of it, or straight to neighbours where the shape has no switches. Counted by
`simkernel.wiring.parts`; an estimate, since what a chip is sold with may hold a part of it.
"""

from __future__ import annotations

from math import ceil

from costdata.catalog import Catalog
from simkernel.wiring.description import TORUS_AXES, ScaleUp
from simkernel.wiring.parts import DomainPorts, domain_parts

SWITCH, OPTIC = "ethernet-64x800g", "optic-800g-lpo"
"""Rows of network.csv that a domain is counted in."""


def what_if_domain_usd(catalog: Catalog, up: ScaleUp, devices_per_host: int) -> float:
    """Switches and optics of one domain at typical prices [$].

    Parameters
    ----------
    up : the domain
    devices_per_host : joined inside the host, at no further cost
    """
    if up.devices <= devices_per_host:
        return 0.0
    switch, optic = (catalog.tables["network"][(name,)].facts for name in (SWITCH, OPTIC))
    radix = int(switch["ports"].number)
    ports = ceil(up.device_bytes_per_s / switch["port_bytes_per_s_per_direction"].number)
    shape, plugged = _plugged(up, ports, radix)
    counted = domain_parts(
        ScaleUp(
            shape,
            up.devices,
            up.device_bytes_per_s,
            up.peer_bytes_per_s,
            group_devices=radix // 2,
        ),
        plugged,
    )
    switches = counted.first_switches + counted.second_switches
    return switches * switch["price_usd"].number + counted.optics * optic["price_usd"].number


def _plugged(up: ScaleUp, ports: int, radix: int) -> tuple[str, DomainPorts]:
    """One level of switches while it reaches all devices, two without oversubscription beyond."""
    if up.shape == "full_mesh" or up.shape in TORUS_AXES:
        return up.shape, DomainPorts(ports, radix, optics_per_device=ports)
    if up.devices <= radix:
        return "switched", DomainPorts(ports, radix, optics_per_device=2.0 * ports)
    half = radix // 2
    return "two_tier", DomainPorts(ports, half, half, radix, optics_per_device=4.0 * ports)
