"""Counting a rail-optimised fat tree: tiers, switches and links that some hosts need.

Every host has one port in each rail; a leaf switch serves one rail only. Prices and watts are
given from outside.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Column, Floats

TIERS_MOST = 3  # the layers the latent.space cluster sheet prices


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
    (n,) whole switches; infinite when three layers do not reach

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
    down = np.floor(radix * oversubscription / (1.0 + np.asarray(oversubscription)))
    leaves = np.ceil(hosts / down)
    up_links = np.ceil(hosts / np.asarray(oversubscription))
    shared = np.ceil(rails * up_links / radix)
    apart = rails * np.ceil(up_links / radix)
    top = np.where(rails * leaves <= radix, shared, apart)
    middle = rails * np.ceil(up_links / (np.asarray(radix) / 2.0))
    two = rails * leaves + top
    three = rails * leaves + middle + apart
    chosen = np.where(tiers <= 1, rails * tiers, np.where(tiers == 2, two, three))
    switches: Floats = np.where(tiers > TIERS_MOST, np.inf, chosen)
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
