"""What a scale-up topology gives a group of its members, in bytes per second and device.

A switch gives any pair the full rate; a mesh gives a group only the links between its members; a
torus gives neighbours. Congestion between groups that share links is not known here.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.hardware import TOPOLOGIES
from simkernel.wiring.description import TORUS_AXES, torus_sides

TORI = {TOPOLOGIES.index(name): axes for name, axes in TORUS_AXES.items()}
"""Axes of each torus by its code."""

COUNT_BITS = 24
"""Of a number of devices, where several share one integer."""


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
    Full mesh: a ring per direct link between members, (members - 1) links in use. Torus: two
    links along each axis that the group spans, one where it ends before the axis closes to a ring:
    the last of a row has one neighbour. Members are taken as neighbours; a group that ends inside
    one axis is given one link along all of its axes, which is too slow rather than too fast.
    """
    mesh = peer_bytes_per_s * np.maximum(members - 1, 1)
    is_mesh = topology_codes == TOPOLOGIES.index("full_mesh")
    rate = np.where(is_mesh, mesh, device_bytes_per_s)
    is_torus = _is_torus(topology_codes)
    if np.any(is_torus):
        spanned, links, _ = _on_tori(topology_codes, members, domain_devices)
        rate = np.where(is_torus, peer_bytes_per_s * links * spanned, rate)
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
    Torus: the links of the axis that carries most decide. Along a ring of side s uniform traffic
    takes floor(s s / 4) / s hops on average, of what stays at home none, and has two links a
    device; along a row of k that does not close, floor(k k / 4) / k of a device's bytes cross the
    middle (Dally and Towles, Principles and Practices of Interconnection Networks, ch. 5: channel
    load of uniform traffic). Other topologies: as `neighbour_bytes_per_s`.
    """
    ring = neighbour_bytes_per_s(
        topology_codes, device_bytes_per_s, peer_bytes_per_s, members, domain_devices
    )
    is_torus = _is_torus(topology_codes)
    if not np.any(is_torus):
        return ring
    _, _, load = _on_tori(topology_codes, members, domain_devices)
    leaves_frac = 1.0 - 1.0 / np.maximum(members, 2)
    spread = np.minimum(peer_bytes_per_s * leaves_frac / load, device_bytes_per_s)
    return np.where(is_torus, spread, ring)


def direct_links(topology_codes: Codes, domain_devices: Codes) -> Floats:
    """Direct links among which a device shares out its rate; (n,): 1 to a switch."""
    is_mesh = topology_codes == TOPOLOGIES.index("full_mesh")
    flat = np.where(topology_codes == TOPOLOGIES.index("torus2d"), 4.0, 1.0)
    torus = np.where(topology_codes == TOPOLOGIES.index("torus3d"), 6.0, flat)
    return np.where(is_mesh, np.maximum(domain_devices - 1.0, 1.0), torus)


def spanned_axes(topology_codes: Codes, members: Codes, domain_devices: Codes) -> Floats:
    """Axes of a torus that a group of members spans, (n,); 1 of any other shape, (1,) if all."""
    is_torus = _is_torus(topology_codes)
    if not np.any(is_torus):
        return np.ones(1)
    spanned, _, _ = _on_tori(topology_codes, members, domain_devices)
    return np.where(is_torus, spanned, 1.0)


def _on_tori(
    topology_codes: Codes, members: Codes, domain_devices: Codes
) -> tuple[Floats, Floats, Floats]:
    """Of every row: axes spanned, links along each, load of the busiest link; (n,) each.

    The load is of one direction, for a byte that every member has to spread over all of them.
    """
    axes: Codes = np.zeros(np.shape(topology_codes), dtype=np.int64)
    for code, count in TORI.items():
        axes = np.where(topology_codes == code, count, axes)
    keys = (axes << 2 * COUNT_BITS) + (np.asarray(members) << COUNT_BITS) + domain_devices
    distinct, places = np.unique(keys, return_inverse=True)
    found = np.array([_on_torus(int(key)) for key in distinct])
    spread = found[places.reshape(-1)].reshape(*np.shape(keys), 3)
    return spread[..., 0], spread[..., 1], spread[..., 2]


def _is_torus(topology_codes: Codes) -> Masks:
    """Rows whose shape is one of TORI; (n,)."""
    return np.logical_or.reduce([topology_codes == code for code in TORI])


@cache
def _on_torus(key: int) -> tuple[float, float, float]:
    """The same of one group, axes, members and devices in one number.

    It fills the shortest axis first, then the next. A domain of one device has no link inside: who
    lies beyond it is reached another way.
    """
    mask = (1 << COUNT_BITS) - 1
    axes, members, domain_devices = (key >> 2 * COUNT_BITS), key >> COUNT_BITS & mask, key & mask
    if axes == 0 or members < 2 or domain_devices < 2:
        return 1.0, 2.0, 0.25
    left, extents = members, []
    for side in reversed(torus_sides(domain_devices, axes)):
        extents.append((min(left, side), side))
        left = -(-left // side)
    spanned = [(extent, side) for extent, side in extents if extent > 1]
    loads = [extent**2 // 4 / extent / (2 if extent == side else 1) for extent, side in spanned]
    is_closed = all(extent == side for extent, side in spanned)
    return float(len(spanned)), 2.0 if is_closed else 1.0, max(loads)
