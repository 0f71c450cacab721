"""What some replicas make one buy: whole units, hosts, fabric, and what one of each draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costdata.hardware_bill import HardwareBill, Watts
from planner.costing.purchase import Rows, bill_of, rest_watts
from planner.serving.engine import ServeEngine
from simkernel.columns import Floats
from simkernel.serving_rig import Rig


@dataclass(frozen=True)
class Bought:
    """What the rows buy: as rows, the hardware bill, what one of each draws, counts as metrics."""

    rows: Rows
    bill: HardwareBill
    watts: Watts
    metrics: dict[str, Floats]


def bought_by(engine: ServeEngine, rig: Rig, replicas: Floats, accelerator: str) -> Bought:
    """Whole units, hosts and fabric; a replica never straddles the edge of a domain unevenly.

    Parameters
    ----------
    replicas : (n,) of every plan
    accelerator : that all rows are on
    """
    plans, shelf = rig.plans, engine.shelf(accelerator)
    domain = plans.supernode_devices
    packed = domain // np.minimum(plans.devices, domain) * np.minimum(plans.devices, domain)
    used = np.where(plans.devices <= domain, packed, rig.placement.used_per_domain)
    devices = np.rint(replicas * plans.devices).astype(np.int64)
    rows = Rows(
        accelerator=np.zeros(len(plans), dtype=np.int64),
        devices=devices,
        supernode_devices=domain,
        used_per_domain=used,
        oversubscription=plans.oversubscription,
        fabric_code=plans.scaleout_fabric_code,
        scaleup_code=np.broadcast_to(rig.chips.scaleup_topology_code, len(plans)),
        scaleup_bytes_per_s=np.broadcast_to(rig.chips.scaleup_bytes_per_s, len(plans)),
        chassis_devices=np.broadcast_to(rig.chips.devices_per_host * 1.0, len(plans)),
    )
    bill = bill_of(shelf, rows)
    metrics = {
        "devices": devices * 1.0,
        "stranded_devices": bill.stranded_devices,
        "nodes": bill.hosts,
        "supernodes": np.ceil(bill.hosts * rows.chassis_devices / domain),
        "purchase_units": bill.purchase_units + bill.spare_units,
        "fabric_tiers": bill.tiers,
        "used_per_domain": used * 1.0,
    }
    rest_w = np.full(len(plans), float(shelf.rest_w[0]))
    return Bought(rows, bill, rest_watts(shelf, rows, rest_w), metrics)
