"""What a scale-up topology gives a group of its members, in bytes per second and device.

A switch gives any pair the full rate; a mesh gives a group only the links between its members; a
torus gives neighbours. Congestion between groups that share links is not known here.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Column, Floats
from simkernel.hardware import TOPOLOGIES

TORI = (TOPOLOGIES.index("torus2d"), TOPOLOGIES.index("torus3d"))


def neighbour_bytes_per_s(
    topology_codes: Codes,
    device_bytes_per_s: Column,
    peer_bytes_per_s: Column,
    members: Codes,
    domain_devices: Codes,
) -> Floats:
    """Rate per device and direction for rings over `members` of a domain.

    Parameters
    ----------
    topology_codes : (n,) index in TOPOLOGIES
    device_bytes_per_s : (n,) all links of a device together, one direction
    peer_bytes_per_s : (n,) one direct link, one direction
    members : (n,) group members in the domain
    domain_devices : (n,) devices of the domain

    Notes
    -----
    Full mesh: a ring per direct link between members, (members - 1) links in use. Torus: a
    device has two links along each axis the group spans, the domain taken as a square or cube.
    """
    mesh = peer_bytes_per_s * np.maximum(members - 1, 1)
    dimensions = np.where(topology_codes == TOPOLOGIES.index("torus3d"), 3, 2)
    spanned = _axes_spanned(members, domain_devices, dimensions)
    torus = peer_bytes_per_s * 2 * spanned
    is_mesh = topology_codes == TOPOLOGIES.index("full_mesh")
    is_torus = (topology_codes == TOPOLOGIES.index("torus2d")) | (
        topology_codes == TOPOLOGIES.index("torus3d")
    )
    rate = np.where(is_mesh, mesh, np.where(is_torus, torus, device_bytes_per_s))
    return np.minimum(rate, device_bytes_per_s)


def any_pair_bytes_per_s(
    topology_codes: Codes,
    device_bytes_per_s: Column,
    peer_bytes_per_s: Column,
    members: Codes,
    domain_devices: Codes,
) -> Floats:
    """Rate per device and direction when every member sends to every other (all-to-all).

    Notes
    -----
    Torus: each byte takes side/4 hops along every spanned axis on average, so 2 links per axis
    carry the traffic of side/4 (Dally and Towles, Principles and Practices of Interconnection
    Networks, ch. 5: channel load of uniform traffic on a k-ary n-cube). Other topologies: as
    `neighbour_bytes_per_s`.
    """
    ring = neighbour_bytes_per_s(
        topology_codes, device_bytes_per_s, peer_bytes_per_s, members, domain_devices
    )
    dimensions = np.where(topology_codes == TOPOLOGIES.index("torus3d"), 3, 2)
    spanned = _axes_spanned(members, domain_devices, dimensions)
    hops = np.maximum(members ** (1.0 / spanned) / 4.0, 1.0)
    is_torus = (topology_codes == TOPOLOGIES.index("torus2d")) | (
        topology_codes == TOPOLOGIES.index("torus3d")
    )
    return np.where(is_torus, ring / (hops * spanned), ring)


def direct_links(topology_codes: Codes, domain_devices: Codes) -> Floats:
    """Direct links among which a device shares out its rate; (n,): 1 to a switch."""
    is_mesh = topology_codes == TOPOLOGIES.index("full_mesh")
    flat = np.where(topology_codes == TOPOLOGIES.index("torus2d"), 4.0, 1.0)
    torus = np.where(topology_codes == TOPOLOGIES.index("torus3d"), 6.0, flat)
    return np.where(is_mesh, np.maximum(domain_devices - 1.0, 1.0), torus)


def spanned_axes(topology_codes: Codes, members: Codes, domain_devices: Codes) -> Floats:
    """Axes of a torus that a group of members spans, (n,); 1 of any other shape, (1,) if all."""
    is_torus = np.isin(topology_codes, TORI)
    if not np.any(is_torus):
        return np.ones(1)
    dimensions = np.where(topology_codes == TOPOLOGIES.index("torus3d"), 3, 2)
    return np.where(is_torus, _axes_spanned(members, domain_devices, dimensions), 1.0)


def _axes_spanned(members: Codes, domain_devices: Codes, dimensions: Codes) -> Floats:
    """Axes of a square or cubic torus that a contiguous group of members covers; at least one."""
    side_log = np.log(np.maximum(domain_devices, 2)) / dimensions
    return np.clip(np.ceil(np.log(np.maximum(members, 2)) / side_log - 1e-9), 1, dimensions)
