"""Counting fabrics between hosts: tiers, switches and links that some hosts need.

In a rail-optimised fat tree every host has one port in each rail and a leaf switch serves one rail
only; a classic one is a single rail of all ports; a data-centre network has the leaves of each
slice to itself. The same shapes as links: simkernel.wiring. Prices and watts are given from
outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Column, Floats
from simkernel.hardware import SCALEOUT_FABRICS, Columns

TIERS_MOST = 3  # the layers the latent.space cluster sheet prices


@dataclass(frozen=True)
class FabricCount(Columns):
    """Switch layers, switches, cables and host ports wired, of some hosts; (n,)."""

    tiers: Floats
    switches: Floats
    links: Floats
    ports: Floats


def counted(
    fabric_codes: Codes,
    hosts: Column,
    rails: Column,
    radix: Column,
    oversubscription: Column,
    slice_hosts: Column,
) -> FabricCount:
    """What a fabric of each shape is made of.

    Parameters
    ----------
    fabric_codes : (n,) index in hardware.SCALEOUT_FABRICS
    hosts, rails : (n,) whole hosts, and ports of each
    radix : (n,) ports of a switch
    oversubscription : (n,) leaf ports down over leaf ports up
    slice_hosts : (n,) hosts of a scale-up domain, at least 1; a data-centre network joins those

    Notes
    -----
    Where three layers do not reach, tiers are 4 and the rest is what a folded Clos of four layers
    has: a count, and no network that is sold. Callers forbid it by its tiers.
    """
    ends = np.asarray(hosts) * rails
    trees = (
        _tree(hosts, hosts, rails, radix, oversubscription),
        _tree(hosts, ends, 1.0, radix, oversubscription),
        _slices(ends, rails, radix, oversubscription, slice_hosts),
    )
    is_classic = fabric_codes == SCALEOUT_FABRICS.index("fat_tree")
    is_sliced = fabric_codes == SCALEOUT_FABRICS.index("dcn")
    tiers, switches, links = (
        np.where(is_sliced, sliced, np.where(is_classic, classic, railed))
        for railed, classic, sliced in zip(*trees, strict=True)
    )
    return FabricCount(tiers, switches, links, ends * np.minimum(tiers, 1.0))


def _tree(
    hosts: Column, ends: Column, rails: Column, radix: Column, oversubscription: Column
) -> tuple[Column, Column, Column]:
    """Tiers, switches and links of a fat tree of some rails; none for one host alone."""
    needed = np.where(np.asarray(hosts) > 1, ends, np.minimum(ends, 1.0))
    return (
        fabric_tiers(needed, radix),
        fabric_switches(needed, rails, radix, oversubscription),
        fabric_links(needed, rails, radix, oversubscription),
    )


def _slices(
    ends: Column, rails: Column, radix: Column, oversubscription: Column, slice_hosts: Column
) -> tuple[Column, Column, Column]:
    """Leaves of every slice, one layer of spines between slices, or two where it does not reach.

    A slice alone needs no network: its hosts meet on its scale-up links.
    """
    held = np.asarray(slice_hosts) * rails
    slices, down = np.ceil(ends / held), _down_ports(radix, oversubscription)
    up_links = slices * np.ceil(held / np.asarray(oversubscription))
    leaves = slices * np.ceil(held / down)
    half = np.asarray(radix) / 2.0
    is_wide, is_known = leaves > radix, ends + 0.0
    middle = np.where(is_wide, np.ceil(up_links / half), 0.0)
    is_apart, is_reached = slices > 1, leaves <= 2.0 * half * half
    middle = middle * (1.0 + ~is_reached)
    switches = leaves + middle + np.ceil(up_links / radix)
    tiers = 2.0 + is_wide + ~is_reached + 0.0 * is_known
    links = slices * held + up_links * (1.0 + is_wide + ~is_reached)
    tiers, switches, links = (
        np.where(is_apart, n, 0.0 * is_known) for n in (tiers, switches, links)
    )
    return tiers, switches, links


def _down_ports(radix: Column, oversubscription: Column) -> Floats:
    """Ports of a leaf that go to hosts."""
    return np.floor(radix * oversubscription / (1.0 + np.asarray(oversubscription)))


def fabric_tiers(hosts: Column, radix: Column) -> Column:
    """Switch layers needed: 0 for one host alone, 4 when three layers do not reach.

    Parameters
    ----------
    hosts : (n,) each with one port per rail
    radix : (n,) ports of a switch

    References
    ----------
    A folded Clos of t layers reaches 2 (R/2)^t ends: R, R^2/2, R^3/4 (Al-Fares, SIGCOMM 2008).
    """
    half = np.asarray(radix) / 2.0
    reach = [2.0 * half**t for t in range(1, TIERS_MOST + 1)]
    known = 0.0 * np.asarray(hosts)  # an unknown size stays unknown
    return known + (np.asarray(hosts) > 1) + sum(1.0 * (np.asarray(hosts) > r) for r in reach)


def fabric_switches(
    hosts: Column, rails: Column, radix: Column, oversubscription: Column = 1.0
) -> Column:
    """Switches of a rail-optimised fat tree; a partly filled layer still has a leaf per rail.

    Parameters
    ----------
    hosts : (n,) whole hosts
    rails : (n,) ports per host, one in each rail
    radix : (n,) ports of a switch
    oversubscription : (n,) leaf ports down over leaf ports up, 1 = full bisection

    Returns
    -------
    (n,) whole switches; of four layers when three do not reach

    Notes
    -----
    Rails share spines while one spine layer reaches all leaves, else each rail is its own tree.
    Uplinks are counted, not spread evenly: a site that wants equal uplinks to every spine buys
    up to one power of two more.

    References
    ----------
    latent.space cluster sheet, rows 3-12: N/R, 3N/R and 5N/R for one to three full layers.
    """
    tiers = fabric_tiers(hosts, radix)
    down = _down_ports(radix, oversubscription)
    leaves = np.ceil(hosts / down)
    up_links = np.ceil(hosts / np.asarray(oversubscription))
    shared = np.ceil(rails * up_links / radix)
    apart = rails * np.ceil(up_links / radix)
    top = np.where(rails * leaves <= radix, shared, apart)
    middle = rails * np.ceil(up_links / (np.asarray(radix) / 2.0))
    two = rails * leaves + top
    three = rails * leaves + middle + apart
    deep = np.where(tiers > TIERS_MOST, three + middle, three)
    switches: Floats = np.where(tiers <= 1, rails * tiers, np.where(tiers == 2, two, deep))
    return switches


def fabric_links(
    hosts: Column, rails: Column, radix: Column, oversubscription: Column = 1.0
) -> Column:
    """Cables of the tree, hosts to leaves and layer to layer; each has two ends.

    References
    ----------
    One link per port and layer at full bisection; above the leaves divided by oversubscription.
    """
    tiers = fabric_tiers(hosts, radix)
    ports = np.asarray(hosts) * rails
    above = np.maximum(tiers - 1.0, 0.0) * np.ceil(ports / np.asarray(oversubscription))
    links: Column = ports * np.minimum(tiers, 1.0) + above
    return links


def laid_above_frac(ports: Column, links: Column, tiers: Column) -> Floats:
    """Cables laid above the leaves over those of full bisection; (n,), 1 where none is spared.

    Parameters
    ----------
    ports, links : (n,) of hosts, and cables of the whole tree
    tiers : (n,) layers of it
    """
    layers = np.maximum(np.asarray(tiers) - 1.0, 0.0)
    full = np.asarray(ports) * layers
    laid = (np.asarray(links) - ports) / np.where(full > 0, full, 1.0)
    return np.where(full > 0, np.clip(laid, 0.0, 1.0), 1.0)


def link_set_usd(hosts: Column, tiers: Column, usd_per_host: Floats) -> Column:
    """Connectors and cables of all hosts when they are sold per host and number of layers.

    Parameters
    ----------
    tiers : (n,) 0 to 3
    usd_per_host : (4,) or (n, 4) price for 0, 1, 2, 3 layers [$]

    References
    ----------
    latent.space cluster sheet: $10,560, $20,480, $30,400 per 8-port host.
    """
    code = np.minimum(np.asarray(tiers), TIERS_MOST).astype(np.int64)
    priced = np.broadcast_to(usd_per_host, (*code.shape, TIERS_MOST + 1))
    picked: Floats = np.take_along_axis(priced, code[..., None], axis=-1)[..., 0]
    return hosts * picked
