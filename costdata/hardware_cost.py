"""What hardware costs to buy and what it took to make: one of each, and a bill of them by item.

Who pays for how long, and for which run, is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costdata.hardware_bill import HardwareBill
from costdata.terms import CostingTerms
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.hardware import Columns


@dataclass(frozen=True)
class Prices(Columns):
    """What one of each costs; (m,) [$].

    `unit_usd` a server or rack (NaN: not for sale), `port_links_usd` connectors and cables of one
    host port through all layers, `nic_usd` 0 where the unit comes with its NICs,
    `rent_usd_per_device_hour` NaN where nobody rents it out; `rent_is_by_hour` where that price,
    compared with a purchase, is of hours used and not of a reservation. `domain_*_usd` are of what
    joins units to scale-up domains.
    """

    unit_usd: Floats
    unit_is_estimate: Masks
    switch_usd: Floats
    port_links_usd: Floats
    nic_usd: Floats
    storage_usd_per_pb: Floats
    head_node_usd: Floats
    domain_switch_usd: Floats
    domain_optic_usd: Floats
    domain_cable_usd: Floats
    domain_fibre_usd: Floats
    rent_usd_per_device_hour: Floats
    rent_is_by_hour: Masks


@dataclass(frozen=True)
class EmbodiedFactors(Columns):
    """Carbon of making one of each, by one method; (m,) [kgCO2e].

    `host_kgco2e` is the host without its devices; a head node counts as a switch does, by
    `support_kgco2e`. `link_kgco2e` is a cable between hosts with the modules at both ends,
    `unit_network_kgco2e` the scale-up network sold inside a unit; `domain_*_kgco2e` are of what
    joins units to scale-up domains.
    """

    device_kgco2e: Floats
    host_kgco2e: Floats
    support_kgco2e: Floats
    link_kgco2e: Floats
    unit_network_kgco2e: Floats
    domain_optic_kgco2e: Floats
    domain_cable_kgco2e: Floats
    domain_fibre_kgco2e: Floats


@dataclass(frozen=True)
class Hardware(Columns):
    """Further hardware of a plan, of another chip or bought apart; (m,) as the first."""

    bill: HardwareBill
    prices: Prices
    embodied: EmbodiedFactors

    def take(self, rows: Codes | int) -> Hardware:
        """The same for some rows."""
        return Hardware(self.bill.take(rows), self.prices.take(rows), self.embodied.take(rows))


def missing_price(prices: Prices, terms: CostingTerms) -> dict[str, Masks]:
    """Rows that cannot be costed, by the fact that is missing: to be counted and left out."""
    is_rented = ~terms.is_bought
    return {
        "unit_usd": np.isnan(prices.unit_usd) & terms.is_bought,
        "rent_usd_per_device_hour": np.isnan(prices.rent_usd_per_device_hour) & is_rented,
    }


def price_questions(prices: Prices) -> tuple[str, ...]:
    """What a careful reader would ask about these prices; none of it is an error."""
    rent = prices.rent_usd_per_device_hour
    odd = (rent < 0.05) | (rent > 50.0)  # $/device-hour: outside, an hour and a month were mixed
    questions = []
    if np.any(odd):
        questions.append(
            f"rent of {rent[odd][0]:g} $ per device-hour: is the price per hour and per device?"
        )
    if np.any(prices.unit_is_estimate):
        questions.append("a server or rack price is an estimate from its chips")
    return tuple(questions)


def hardware_usd(bill: HardwareBill, prices: Prices, terms: CostingTerms) -> dict[str, Column]:
    """What some hardware costs up front, by what it is: nothing where it is rented.

    Parameters
    ----------
    bill, prices : (m,)
    terms : (m,) or one row, which say whether it is bought

    Returns
    -------
    (m,) each [$]
    """
    device_usd = np.where(terms.is_bought, prices.unit_usd, 0.0) / bill.devices_per_unit
    owned = 1.0 * terms.is_bought
    switch, link = owned * bill.switches, owned * bill.ports
    return {
        "servers": bill.devices_working * device_usd,
        "stranded": bill.stranded_devices * device_usd,
        "spares": bill.spare_devices * device_usd,
        "nics": link * prices.nic_usd,
        "switches": switch * prices.switch_usd,
        "links": link * prices.port_links_usd,
        "domain_network": owned * _domain_network_usd(bill, prices),
        "storage": owned * bill.storage_pb * prices.storage_usd_per_pb,
        "head_nodes": owned * bill.head_nodes * prices.head_node_usd,
    }


def hardware_kgco2e(
    bill: HardwareBill, made: EmbodiedFactors, share_frac: Floats
) -> dict[str, Column]:
    """A share of making some hardware, by what it is.

    Parameters
    ----------
    bill, made : (m,)
    share_frac : of its life, (m,) [1]

    Returns
    -------
    (m,) each [kgCO2e]
    """
    return {
        "devices": bill.devices_working * made.device_kgco2e * share_frac,
        "stranded": bill.stranded_devices * made.device_kgco2e * share_frac,
        "spares": bill.spare_devices * made.device_kgco2e * share_frac,
        "hosts": bill.hosts * made.host_kgco2e * share_frac,
        "support": (bill.switches + bill.head_nodes) * made.support_kgco2e * share_frac,
        "links": bill.links * made.link_kgco2e * share_frac,
        "domain_network": _domain_network_kgco2e(bill, made) * share_frac,
    }


def added(parts: Sequence[dict[str, Column]]) -> dict[str, Column]:
    """Terms of several lots of hardware, those of one name added up."""
    return {name: sum((part[name] for part in parts[1:]), parts[0][name]) for name in parts[0]}


def _domain_network_usd(bill: HardwareBill, prices: Prices) -> Floats:
    """Switches, optics, fibres and copper of scale-up domains above the units that are sold."""
    return (
        bill.domain_switches * prices.domain_switch_usd
        + bill.domain_optics * prices.domain_optic_usd
        + bill.domain_cables * prices.domain_cable_usd
        + bill.domain_fibres * prices.domain_fibre_usd
    )


def _domain_network_kgco2e(bill: HardwareBill, made: EmbodiedFactors) -> Floats:
    """Of scale-up networks: inside the units that are sold, and above them."""
    return (
        (bill.purchase_units + bill.spare_units) * made.unit_network_kgco2e
        + bill.domain_switches * made.support_kgco2e
        + bill.domain_optics * made.domain_optic_kgco2e
        + bill.domain_cables * made.domain_cable_kgco2e
        + bill.domain_fibres * made.domain_fibre_kgco2e
    )
