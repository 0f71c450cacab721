"""What plans make one buy and plug in, whatever accelerators they are on, as columns.

Used twice with the same rows: for watts while plans are swept, for money when they are costed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.hardware_bill import (
    FabricShapes,
    HardwareBill,
    Support,
    UnitShapes,
    Watts,
    hardware_bill,
    it_w,
)
from costdata.quotes import TYPICAL, RoomParts, room_parts, stacked
from simkernel.columns import Codes, Floats
from simkernel.hardware import SCALEOUT_FABRICS


@dataclass(frozen=True)
class Shelf:
    """What is sold around each chip; (k,) in the order of `names`.

    `parts` are switches, cables and storage for host ports of the chip's rate, `support` what
    stands beside the devices: storage, head nodes, spares. `rest_w` is a device that is on and
    idle, with its share of the host.
    """

    names: tuple[str, ...]
    devices_per_unit: Floats
    devices_per_host: Floats
    rails: Floats
    parts: RoomParts
    support: Support
    rest_w: Floats
    storage_w_per_pb: float
    head_node_w: float


@dataclass(frozen=True)
class Rows:
    """Plans as far as buying is concerned; (n,) each.

    `accelerator` indexes the shelf; `used_per_domain` devices of a domain can work for the plan;
    `fabric_code` indexes SCALEOUT_FABRICS.
    """

    accelerator: Codes
    devices: Codes
    supernode_devices: Codes
    used_per_domain: Codes
    oversubscription: Floats
    fabric_code: Codes


def shelf_of(catalog: Catalog, names: Sequence[str], end: int = TYPICAL) -> Shelf:
    """Units, hosts, ports and parts of some chips; `end` of the bands of parts.

    Raises
    ------
    UnknownName : no such chip

    Notes
    -----
    Chips with network ports of their own and no cards (Gaudi) have one rail per device.
    """
    facts = [catalog.accelerator(name) for name in names]
    chips = catalog.chips(names)
    per_host = np.array([float(f.devices_per_host) for f in facts])
    rails = np.array([float(f.nics_per_host or f.devices_per_host) for f in facts])
    ports = chips.scaleout_bytes_per_s * per_host / rails
    return Shelf(
        names=tuple(names),
        devices_per_unit=np.array([float(catalog.purchase_unit(n).devices) for n in names]),
        devices_per_host=per_host,
        rails=rails,
        parts=stacked(room_parts(catalog, float(port), end).table for port in ports),
        support=Support(
            storage_pb_per_device=catalog.planning("storage_pb_per_device"),
            head_nodes_per_host=catalog.planning("head_nodes_per_host"),
            device_mtbf_hours=catalog.planning("device_mtbf_h"),
            repair_hours=catalog.planning("repair_h"),
        ),
        rest_w=chips.power.idle_w + chips.power.host_idle_w,
        storage_w_per_pb=catalog.planning("storage_w_per_pb"),
        head_node_w=catalog.planning("head_node_w"),
    )


def rows_of(shelf: Shelf, plans: Mapping[str, Any]) -> Rows:
    """Plans by column name as rows to buy."""
    names, code = coded(plans["accelerator"])
    shelved = np.array([shelf.names.index(name) for name in names], dtype=np.int64)
    return Rows(
        accelerator=shelved[code],
        devices=plans["devices"],
        supernode_devices=plans["supernode_devices"],
        used_per_domain=plans["used_per_domain"],
        oversubscription=np.asarray(plans["oversubscription"], float),
        fabric_code=fabric_codes(plans.get("scaleout_fabric"), len(shelved[code])),
    )


def fabric_codes(names: Any, rows: int) -> Codes:
    """Codes of fabrics by name; the catalogue's where plans do not say, as before there were any.

    Parameters
    ----------
    names : (n,) words, or None
    """
    if names is None:
        return np.zeros(rows, dtype=np.int64)
    words, code = coded(names)
    return np.array([SCALEOUT_FABRICS.index(word) for word in words], dtype=np.int64)[code]


def coded(names: Any) -> tuple[list[str], Codes]:
    """A column of words as its distinct words and the place of each row's word among them.

    Fast where equal words stand together, as plans of one bill do.
    """
    column = np.asarray(names)
    if not len(column):
        return [], np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]))
    words, code = np.unique(column[starts].astype(str), return_inverse=True)
    return words.tolist(), np.repeat(code, np.diff(starts, append=len(column)))


def bill_of(shelf: Shelf, rows: Rows) -> HardwareBill:
    """Whole units, hosts, switches, links, storage and spares of every row.

    Notes
    -----
    A domain of part of a unit (8 devices of a 72-device rack) uses as many whole domains of the
    unit as fit; a domain of several units takes them all.
    """
    code, domain = rows.accelerator, rows.supernode_devices * 1.0
    per_unit, used = shelf.devices_per_unit[code], rows.used_per_domain
    part, whole = np.floor(per_unit / domain) * used, used * per_unit / domain
    shapes = UnitShapes(
        devices_per_unit=per_unit,
        hosts_per_unit=np.maximum(per_unit / shelf.devices_per_host[code], 1.0),
        rails=shelf.rails[code],
        usable_per_unit=np.where(domain <= per_unit, part, whole),
    )
    fabric = FabricShapes(shelf.parts.radix[code], rows.oversubscription, rows.fabric_code, domain)
    return hardware_bill(rows.devices, shapes, fabric, shelf.support)


def idle_it_w(shelf: Shelf, rows: Rows, bill: HardwareBill) -> Floats:
    """IT power with everything on and no work; (n,) [W].

    Notes
    -----
    Idle watts are the catalogue's, of the chip with its share of the host; switches, optics,
    storage and head nodes draw what they draw at work.
    """
    rest_w = shelf.rest_w[rows.accelerator]
    return np.asarray(it_w(bill, rest_watts(shelf, rows, rest_w), rest_w).total)


def rest_watts(shelf: Shelf, rows: Rows, rest_w: Floats) -> Watts:
    """Draw of everything that does not depend on the work; devices at rest draw `rest_w` (n,)."""
    ones, parts = np.ones(len(rest_w)), shelf.parts.take(rows.accelerator)
    return Watts(
        working_mean_w=0.0 * ones,
        working_peak_w=0.0 * ones,
        rest_w=rest_w,
        switch_w=parts.switch_w,
        link_w=parts.link_w,
        storage_w_per_pb=ones * shelf.storage_w_per_pb,
        head_node_w=ones * shelf.head_node_w,
    )
