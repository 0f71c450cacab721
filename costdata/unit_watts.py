"""Watts of one host, rack and scale-up domain as a whole, each in three kinds kept apart.

Mean is what energy rests on, peak the 95th percentile of seconds under load, provisioned the peak
with headroom: what is built and reserved. All devices of the whole are at work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costdata.energy_bill import W_PER_KW
from costdata.hardware_bill import HardwareBill, Watts, domain_network_w, provisioned_w
from simkernel.columns import Column, Floats


@dataclass(frozen=True)
class Wholes:
    """How many devices stand together; (m,) each.

    `rack_devices` of a full rack, `cards_per_device` network cards.
    """

    host_devices: Floats
    rack_devices: Floats
    domain_devices: Floats
    cards_per_device: Floats


def totals(
    bill: HardwareBill,
    watts: Watts,
    wholes: Wholes,
    mean_w: Column,
    peak_w: Column,
    headroom_frac: float,
) -> dict[str, Floats]:
    """Metrics of wholes by name.

    Parameters
    ----------
    bill, watts : of the plans, (m,)
    mean_w, peak_w : (m,) a device at work with its shares of host and fans [W]
    headroom_frac : on top of the peak where power is provisioned

    Notes
    -----
    A domain has the switches, optics and cables that join its units; scale-out switches belong to
    nobody's rack and are in the plan's own figures alone.
    """
    domains = bill.devices_bought / wholes.domain_devices
    joining_w = domain_network_w(bill, watts) / np.maximum(domains, 1.0)
    cards_w = wholes.cards_per_device * watts.nic_w
    found: dict[str, Floats] = {}
    for kind, device_w in (("mean", mean_w), ("peak", peak_w)):
        boxed_w = device_w + cards_w
        found[f"node_{kind}_w"] = wholes.host_devices * boxed_w
        found[f"rack_{kind}_kw"] = wholes.rack_devices * boxed_w / W_PER_KW
        domain_w = wholes.domain_devices * boxed_w + joining_w
        found[f"supernode_{kind}_kw"] = domain_w / W_PER_KW
    for whole, unit in (("node", "w"), ("supernode", "kw")):
        reserved = provisioned_w(found[f"{whole}_peak_{unit}"], headroom_frac)
        found[f"{whole}_provisioned_{unit}"] = np.asarray(reserved)
    return found
