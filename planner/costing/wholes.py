"""Hosts, racks and scale-up domains of plans as wholes: how many, and what each of them draws."""

from __future__ import annotations

import numpy as np

from costdata.energy_bill import W_PER_KW
from costdata.hardware_bill import HardwareBill, Watts, provisioned_w
from costdata.racks import racks
from costdata.unit_watts import Wholes, totals
from planner.costing.purchase import Rows, Shelf
from simkernel.columns import Column, Floats


def whole_metrics(
    shelf: Shelf,
    rows: Rows,
    bill: HardwareBill,
    watts: Watts,
    mean_w: Column,
    peak_w: Column,
    most_kw: float | None,
) -> dict[str, Floats]:
    """Racks, whether coolant has to come to them, and watts of a node, a rack and a domain.

    Parameters
    ----------
    rows, bill : (n,) plans and what they buy
    mean_w, peak_w : (n,) a device at work, and in its busiest second, with its shares of host and
        fans [W]
    most_kw : the study's limit on a rack
    """
    code = rows.accelerator
    cards = bill.ports / bill.devices_bought
    per_unit = bill.devices_per_unit
    rack_units = shelf.rack_units[code] * per_unit / shelf.devices_per_unit[code]
    whole_w = per_unit * (peak_w + cards * watts.nic_w)
    unit_w = np.asarray(provisioned_w(whole_w, shelf.headroom_frac))
    most_w = np.inf if most_kw is None else most_kw * W_PER_KW
    units = bill.purchase_units + bill.spare_units
    found = racks(units, rack_units, unit_w, most_w)
    wholes = Wholes(
        host_devices=per_unit / bill.hosts_per_unit,
        rack_devices=per_unit * found.rack_w / unit_w,
        domain_devices=rows.supernode_devices * 1.0,
        cards_per_device=cards,
    )
    return {
        "racks": found.racks,
        "rack_kw": found.rack_w / W_PER_KW,
        "liquid_cooled": shelf.is_liquid[code],
        **totals(bill, watts, wholes, mean_w, peak_w, shelf.headroom_frac),
    }
