"""Scale-up networks that plans make one buy, counted from the description of their links.

What joins the devices of one server or rack is sold with it. Above that a domain needs ports,
switches and optics of its own, counted here in parts that are sold, one domain at a time: an
estimate, since what a chip is sold with may hold a part of it already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from costdata.offers import Part
from simkernel.columns import Codes, Floats
from simkernel.hardware import TOPOLOGIES, Columns
from simkernel.wiring.description import TORUS_AXES, ScaleUp
from simkernel.wiring.parts import DomainPorts, domain_parts

SWITCH, OPTIC, COPPER, FIBRE = "ethernet-64x800g", "optic-800g-lpo", "dac-400g", "fibre-16"
"""Rows of network.csv that a domain is counted in."""

OPTICS_PER_FIBRE = 2.0
"""A fibre cable has a module at each end; where lanes of one module part, it stands for them."""

LANES = 8
"""Of a module: it can split to as many peers (an 800G port is eight lanes, IEEE 802.3df)."""

COPPER_DEVICES = 64
"""Of a torus: 4 x 4 x 4 chips are cabled electrically in a rack, links on their faces are optical
(Jouppi et al., TPU v4, ISCA 2023, arXiv 2304.01433, section 2.2)."""


@dataclass(frozen=True)
class DomainNetworks(Columns):
    """Parts of one scale-up domain of each row, above the units it is bought in; (m,).

    `cables` are of copper, from end to end; a fibre cable ends in two of `optics`.
    """

    switches: Floats
    optics: Floats
    cables: Floats


@dataclass(frozen=True)
class PortsSold:
    """What a domain is joined with: ports of a switch, rates of one and of a copper cable."""

    switch_ports: int
    bytes_per_s: float
    copper_bytes_per_s: float


@dataclass(frozen=True)
class Domains(Columns):
    """Scale-up domains as their links describe them; (m,).

    Parameters
    ----------
    topology_code : index in TOPOLOGIES
    devices : in a domain
    bytes_per_s : of a device, one direction, all links [bytes/s]
    unit_devices : joined inside what is sold as one piece, at no further cost
    """

    topology_code: Codes
    devices: Codes
    bytes_per_s: Floats
    unit_devices: Codes


def ports_sold(parts: Mapping[str, Part]) -> PortsSold:
    """Ports and cables that domains are counted in."""
    switch, copper = parts[SWITCH], parts[COPPER]
    return PortsSold(switch.ports, switch.port_bytes_per_s, copper.port_bytes_per_s)


def domain_networks(domains: Domains, ports: PortsSold) -> DomainNetworks:
    """What joins the units of every domain; nothing where a domain is inside one unit."""
    found = np.zeros((len(domains), 3))
    over = np.flatnonzero(domains.devices > domains.unit_devices)
    if len(over):
        some = domains.take(over)
        columns = (some.topology_code, some.devices, some.bytes_per_s, some.unit_devices)
        rows, places = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        counts = [
            _counts(int(code), int(devices), rate, int(unit), ports)
            for code, devices, rate, unit in rows.tolist()
        ]
        found[over] = np.array(counts)[places.reshape(-1)]
    return DomainNetworks(*found.T)


@lru_cache(maxsize=4096)
def _counts(
    code: int, devices: int, rate: float, unit: int, ports: PortsSold
) -> tuple[float, float, float]:
    """Switches, optics and copper of one domain above its units."""
    each = ceil(rate / ports.bytes_per_s)
    shape, plugged = _plugged(TOPOLOGIES[code], devices, unit, each, ports.switch_ports)
    half = ports.switch_ports // 2
    parts = domain_parts(ScaleUp(shape, devices, rate, rate, group_devices=half), plugged)
    is_direct = shape in TORUS_AXES
    links = parts.cables - parts.optics / 2 if is_direct else 0.0
    bundle = ceil(rate / (2 * TORUS_AXES[shape]) / ports.copper_bytes_per_s) if is_direct else 0
    return parts.first_switches + parts.second_switches, parts.optics, links * bundle


def _plugged(
    shape: str, devices: int, unit: int, each: int, radix: int
) -> tuple[str, DomainPorts]:
    """How its ports are plugged together; `each` of a device.

    Straight to others where the shape has no switches, else one level of switches while it reaches
    all devices, and two without oversubscription beyond.
    """
    if shape == "full_mesh":
        optics = max(each, ceil((devices - unit) / LANES))
        return shape, DomainPorts(each, radix, optics_per_device=optics)
    if shape in TORUS_AXES:
        return shape, DomainPorts(each, radix, optics_per_device=_on_faces(shape, devices))
    if devices <= radix:
        return "switched", DomainPorts(each, radix, optics_per_device=2.0 * each)
    half = radix // 2
    return "two_tier", DomainPorts(each, half, half, radix, optics_per_device=4.0 * each)


def _on_faces(shape: str, devices: int) -> float:
    """Modules of a device of a torus: one for each link on the face of a block."""
    axes = TORUS_AXES[shape]
    side = round(COPPER_DEVICES ** (1.0 / axes))
    return 2.0 * axes / side if devices > COPPER_DEVICES else 0.0
