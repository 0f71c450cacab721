"""What plans make one buy and plug in, whatever accelerators they are on, as columns.

Used twice with the same rows: for watts while plans are swept, for money when they are costed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.domain_network import Domains, PortsSold, domain_networks, ports_sold
from costdata.ends import TYPICAL
from costdata.hardware_bill import (
    FabricShapes,
    HardwareBill,
    Support,
    UnitShapes,
    Watts,
    Working,
    hardware_bill,
    it_w,
)
from costdata.network_build import counted
from costdata.quotes import RoomParts, room_parts, stacked
from planner.study.parts import Reliability
from simkernel.columns import Codes, Floats
from simkernel.hardware import SCALEOUT_FABRICS, TOPOLOGIES
from simkernel.power import fan_w

BYTES_PER_GBYTE = 1e9

CATALOGUES = Reliability()
"""Failures and spares as the catalogue has them."""


@dataclass(frozen=True)
class Shelf:
    """What is sold around each chip; (k,) in the order of `names`.

    `parts` are switches, cables and storage for host ports of the chip's rate, `support` what
    stands beside the devices: storage, head nodes, spares. `rest_w` is a device that is on and
    idle, with its shares of host and fans. `scaleup_code` and `scaleup_bytes_per_s` are shape and
    rate of a device's scale-up links, `ports` what domains of several units are joined with.
    `rack_units` is the height of a unit, one for each device where none is listed (8 for eight,
    servers.csv); `is_liquid` 1 where coolant comes to it, NaN where not known; `is_air` 1 where
    fans cool it, as where nobody says.
    """

    names: tuple[str, ...]
    devices_per_unit: Floats
    devices_per_host: Floats
    rails: Floats
    parts: RoomParts
    support: Support
    rest_w: Floats
    scaleup_code: Codes
    scaleup_bytes_per_s: Floats
    ports: PortsSold
    rack_units: Floats
    is_liquid: Floats
    is_air: Floats
    headroom_frac: float
    storage_w_per_pb: float
    head_node_w: float


@dataclass(frozen=True)
class Rows:
    """Plans as far as buying is concerned; (n,) each.

    `accelerator` indexes the shelf; `used_per_domain` devices of a domain can work for the plan;
    `fabric_code` indexes SCALEOUT_FABRICS, `scaleup_code` TOPOLOGIES; `scaleup_bytes_per_s` is
    a device's rate in its domain; `chassis_devices` those of a server.
    """

    accelerator: Codes
    devices: Codes
    supernode_devices: Codes
    used_per_domain: Codes
    oversubscription: Floats
    fabric_code: Codes
    scaleup_code: Codes
    scaleup_bytes_per_s: Floats
    chassis_devices: Floats


def unit_devices(shelf: Shelf, rows: Rows) -> Floats:
    """Devices of what every row buys as one piece: a rack as sold, else a server of its size."""
    sold, host = (x[rows.accelerator] for x in (shelf.devices_per_unit, shelf.devices_per_host))
    return np.where(sold > host, sold, rows.chassis_devices * sold / host)


def shelf_of(
    catalog: Catalog,
    names: Sequence[str],
    end: int = TYPICAL,
    reliability: Reliability = CATALOGUES,
) -> Shelf:
    """Units, hosts, ports and parts of some chips; `end` of the bands of parts.

    Parameters
    ----------
    reliability : the study's own failures and spares

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
    has_cards = np.array([float(bool(f.nics_per_host)) for f in facts])
    units = [catalog.purchase_unit(name) for name in names]
    is_air = np.array([float(unit.is_liquid is not True) for unit in units])
    ports = chips.scaleout_bytes_per_s * per_host / rails
    parts = stacked(room_parts(catalog, float(port), end).table for port in ports)
    return Shelf(
        names=tuple(names),
        devices_per_unit=np.array([float(unit.devices) for unit in units]),
        devices_per_host=per_host,
        rails=rails,
        parts=replace(parts, nic_w=parts.nic_w * has_cards),
        support=_support(catalog, reliability, names),
        rest_w=chips.power.idle_w + chips.power.host_idle_w + fan_w(chips.power, 0.0, is_air),
        is_air=is_air,
        scaleup_code=chips.scaleup_topology_code,
        scaleup_bytes_per_s=chips.scaleup_bytes_per_s,
        ports=ports_sold(catalog.parts),
        rack_units=np.array([unit.rack_units or unit.devices * 1.0 for unit in units]),
        is_liquid=_or_nan(unit.is_liquid for unit in units),
        headroom_frac=catalog.planning("provision_headroom_frac"),
        storage_w_per_pb=catalog.planning("storage_w_per_pb"),
        head_node_w=catalog.planning("head_node_w"),
    )


def _support(catalog: Catalog, reliability: Reliability, names: Sequence[str]) -> Support:
    """What stands beside devices; where nobody knows the rate of failures, spares by ours."""
    mtbf_h, repair_h = reliability.device_mtbf_h, reliability.repair_h
    known_h = np.array(
        [mtbf_h if isinstance(mtbf_h, float) else catalog.device_mtbf_h(name) for name in names]
    )
    return Support(
        storage_pb_per_device=catalog.planning("storage_pb_per_device"),
        head_nodes_per_host=catalog.planning("head_nodes_per_host"),
        device_mtbf_hours=known_h,
        repair_hours=catalog.planning("repair_h") if repair_h is None else repair_h,
        spare_coverage_frac=reliability.spare_coverage_frac,
        is_domain_replaced=reliability.replaced == "supernode",
    )


def _or_nan(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else float(value) for value in values])


def rows_of(shelf: Shelf, plans: Mapping[str, Any]) -> Rows:
    """Plans by column name as rows to buy."""
    names, code = coded(plans["accelerator"])
    shelved = np.array([shelf.names.index(name) for name in names], dtype=np.int64)[code]
    return Rows(
        accelerator=shelved,
        devices=plans["devices"],
        supernode_devices=plans["supernode_devices"],
        used_per_domain=plans["used_per_domain"],
        oversubscription=np.asarray(plans["oversubscription"], float),
        fabric_code=fabric_codes(plans.get("scaleout_fabric"), len(shelved)),
        scaleup_code=_shapes(shelf, plans.get("scaleup_topology"), shelved),
        scaleup_bytes_per_s=_rates(shelf, plans.get("scaleup_gbytes_per_s"), shelved),
        chassis_devices=_chassis(shelf, plans.get("chassis_devices"), shelved),
    )


def _chassis(shelf: Shelf, given: Any, shelved: Codes) -> Floats:
    """Devices of a server; as the chip is sold where a plan does not say."""
    own = shelf.devices_per_host[shelved]
    return own if given is None else np.asarray(given, float)


def _shapes(shelf: Shelf, names: Any, shelved: Codes) -> Codes:
    """Codes of scale-up shapes by name; as the chip is sold where a plan does not say."""
    own = shelf.scaleup_code[shelved]
    if names is None:
        return own
    words, code = coded(names)
    known = [TOPOLOGIES.index(word) if word in TOPOLOGIES else -1 for word in words]
    given = np.array(known, dtype=np.int64)[code]
    return np.where(given < 0, own, given)


def _rates(shelf: Shelf, gbytes_per_s: Any, shelved: Codes) -> Floats:
    """Rates of devices in their domains; as the chip is sold where a plan does not say."""
    own = shelf.scaleup_bytes_per_s[shelved]
    if gbytes_per_s is None:
        return own
    given = np.ma.filled(np.ma.asarray(gbytes_per_s, dtype=float), np.nan) * BYTES_PER_GBYTE
    return np.where(np.isnan(given), own, given)


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
    unit as fit; a domain of several units takes them all. In a server larger than the one that is
    sold, what joins more devices than that one is counted as above units.
    """
    code, domain = rows.accelerator, rows.supernode_devices * 1.0
    per_unit, used = unit_devices(shelf, rows), rows.used_per_domain
    host, sold = rows.chassis_devices, shelf.devices_per_host[code]
    part, whole = np.floor(per_unit / domain) * used, used * per_unit / domain
    shapes = UnitShapes(
        devices_per_unit=per_unit,
        hosts_per_unit=np.maximum(per_unit / host, 1.0),
        rails=shelf.rails[code] * host / sold,
        usable_per_unit=np.where(domain <= per_unit, part, whole),
    )
    fabric = FabricShapes(shelf.parts.radix[code], rows.oversubscription, rows.fabric_code, domain)
    replaced_hosts = _replaced_hosts(shelf, rows) if shelf.support.is_domain_replaced else 1.0
    support = replace(
        shelf.support, device_mtbf_hours=np.asarray(shelf.support.device_mtbf_hours)[code]
    )
    joined = domain_networks(
        Domains(
            rows.scaleup_code,
            rows.supernode_devices,
            rows.scaleup_bytes_per_s,
            np.minimum(per_unit, shelf.devices_per_unit[code]).astype(np.int64),
        ),
        shelf.ports,
    )
    return hardware_bill(rows.devices, shapes, fabric, support, replaced_hosts, joined)


def on_one_fabric(shelf: Shelf, rows: Rows, bill: HardwareBill, hosts: Floats) -> HardwareBill:
    """The bill with its share, by hosts, of a fabric that joins more hosts than its own.

    Parameters
    ----------
    bill : of these rows alone
    hosts : (n,) that the fabric joins in all, its own included
    """
    code = rows.accelerator
    host_devices = rows.chassis_devices
    net = counted(
        rows.fabric_code,
        hosts,
        shelf.rails[code] * host_devices / shelf.devices_per_host[code],
        shelf.parts.radix[code],
        rows.oversubscription,
        np.maximum(rows.supernode_devices / host_devices, 1.0),
    )
    share = bill.hosts / hosts
    return replace(
        bill,
        tiers=net.tiers,
        switches=np.ceil(net.switches * share),
        ports=net.ports * share,
        links=np.ceil(net.links * share),
    )


def _replaced_hosts(shelf: Shelf, rows: Rows) -> Floats:
    """Hosts that one failed host takes out of work; none where its domain has one to spare."""
    each = rows.chassis_devices
    hosts = np.maximum(rows.supernode_devices / each, 1.0)
    idle = np.floor((rows.supernode_devices - rows.used_per_domain) / each)
    return np.where(hosts <= 1.0, 1.0, np.where(idle >= 1.0, 0.0, hosts))


def idle_it_w(shelf: Shelf, rows: Rows, bill: HardwareBill) -> Floats:
    """IT power with everything on and no work; (n,) [W].

    Notes
    -----
    Idle watts are the catalogue's, of the chip with its share of the host; switches, optics,
    storage and head nodes draw what they draw at work.
    """
    rest_w = shelf.rest_w[rows.accelerator]
    resting = Working(rest_w, 0.0, 0.0)
    return np.asarray(it_w(bill, rest_watts(shelf, rows, rest_w), resting).total)


def rest_watts(shelf: Shelf, rows: Rows, rest_w: Floats) -> Watts:
    """Draw of everything that does not depend on the work; devices at rest draw `rest_w` (n,)."""
    ones, parts = np.ones(len(rest_w)), shelf.parts.take(rows.accelerator)
    return Watts(
        rest_w=rest_w,
        is_air=shelf.is_air[rows.accelerator],
        nic_w=parts.nic_w,
        switch_w=parts.switch_w,
        link_w=parts.link_w,
        storage_w_per_pb=ones * shelf.storage_w_per_pb,
        head_node_w=ones * shelf.head_node_w,
        domain_switch_w=parts.domain_switch_w,
        domain_optic_w=parts.domain_optic_w,
        domain_cable_w=parts.domain_cable_w,
    )
