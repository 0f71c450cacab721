"""Chips with the links that candidates ask for, not the catalogue's: rates, shape, fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.network_build import counted
from planner.costing.purchase import Shelf
from simkernel.columns import Codes, Floats
from simkernel.fabrics import direct_links
from simkernel.hardware import SCALEOUT_FABRICS, TOPOLOGIES, Chips, LinkCurve

BYTES_PER_GBYTE = 1e9


def is_as_sold(
    columns: Mapping[str, Any], levels: Mapping[str, Sequence[Any]], devices_per_host: float
) -> bool:
    """No candidate asks for other links, or servers of another size, than the catalogue's."""
    shapes, fabrics = _codes(columns, levels)
    given = (columns["scaleup_gbytes_per_s"], columns["scaleout_gbytes_per_s"])
    has_rates = any(not np.all(np.isnan(rate)) for rate in given)
    has_boxes = bool(np.any(columns["chassis_devices"] != devices_per_host))
    return not (has_rates or has_boxes) and bool(np.all(shapes < 0) and np.all(fabrics == 0))


def as_given(
    chips: Chips,
    columns: Mapping[str, Any],
    levels: Mapping[str, Sequence[Any]],
    catalog: Catalog,
    shelf: Shelf,
    devices: Floats,
) -> Chips:
    """The chips of candidates, one row each, with the links that each asks for.

    Parameters
    ----------
    columns, levels : of a space; (n,) places of names among the levels, rates or NaN
    shelf : of the one chip
    devices : (n,) that one network joins

    Notes
    -----
    Another shape than the catalogue's shares the device's rate out over its direct links: one to
    each other device of a mesh, two along each axis of a torus. Boards below a second level of
    switches add two switches to every message, within a board too.
    """
    shapes, fabrics = _codes(columns, levels)
    up, out = columns["scaleup_gbytes_per_s"], columns["scaleout_gbytes_per_s"]
    rate = np.where(np.isnan(up), chips.scaleup_bytes_per_s, up * BYTES_PER_GBYTE)
    sold_peer = chips.scaleup_peer_bytes_per_s * rate / chips.scaleup_bytes_per_s
    is_sold = (shapes < 0) | (shapes == chips.scaleup_topology_code)
    links = direct_links(np.maximum(shapes, 0), columns["supernode_devices"])
    out_rate = np.where(np.isnan(out), chips.scaleout_bytes_per_s, out * BYTES_PER_GBYTE)
    given = replace(
        chips,
        scaleup_bytes_per_s=rate,
        scaleup_peer_bytes_per_s=np.where(is_sold, sold_peer, rate / links),
        scaleup_topology_code=np.where(shapes < 0, chips.scaleup_topology_code, shapes),
        scaleout_bytes_per_s=out_rate,
        devices_per_host=columns["chassis_devices"],
    )
    has_boards = ~is_sold & (shapes == TOPOLOGIES.index("two_tier"))
    board_s = 2.0 * catalog.fabric("two_tier")["hop_s"].number * has_boards
    hops_s = _hops_s(catalog, shelf, columns, fabrics, devices)
    return replace(
        given,
        scaleup=_further_apart(given.scaleup, board_s),
        scaleout=_further_apart(given.scaleout, hops_s),
    )


def _codes(columns: Mapping[str, Any], levels: Mapping[str, Sequence[Any]]) -> tuple[Codes, Codes]:
    """Shapes, -1 as sold, and fabrics of every row."""
    shapes = np.array(
        [
            TOPOLOGIES.index(str(name)) if name in TOPOLOGIES else -1
            for name in levels["scaleup_topology"]
        ]
    )
    fabrics = np.array([SCALEOUT_FABRICS.index(str(name)) for name in levels["scaleout_fabric"]])
    return shapes[columns["scaleup_topology"]], fabrics[columns["scaleout_fabric"]]


def _hops_s(
    catalog: Catalog, shelf: Shelf, columns: Mapping[str, Any], fabrics: Codes, devices: Floats
) -> Floats:
    """Latency that a named fabric adds to a message: switches above the leaves, a trunk."""
    each = columns["chassis_devices"] * 1.0
    hosts = np.ceil(np.asarray(devices) / each)
    slice_hosts = np.maximum(columns["supernode_devices"] / each, 1.0)
    over = np.asarray(columns["oversubscription"], float)
    rails = shelf.rails[0] * each / shelf.devices_per_host[0]
    tiers = counted(fabrics, hosts, rails, shelf.parts.radix[0], over, slice_hosts).tiers
    facts = [catalog.fabric(name) for name in SCALEOUT_FABRICS[1:]]
    hop_s = np.array([0.0, *(fact["hop_s"].number for fact in facts)])[fabrics]
    trunk_s = np.array([0.0, *(fact["trunk_s"].number for fact in facts)])[fabrics]
    return np.asarray(2.0 * np.maximum(tiers - 1.0, 0.0) * hop_s + trunk_s)


def _further_apart(curve: LinkCurve, added_s: Floats) -> LinkCurve:
    """Links whose messages take longer, (n,): each step, or each call where there are none."""
    has_steps = curve.step_s > 0
    added = added_s[:, None]
    return replace(
        curve,
        step_s=curve.step_s + np.where(has_steps, added, 0.0),
        base_s=curve.base_s + np.where(has_steps, 0.0, added),
    )
