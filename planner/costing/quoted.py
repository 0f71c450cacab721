"""What chips and everything around them are sold for on a study's terms, looked up once.

A price that is all-in stands for servers, network, storage and management together: those parts
are then bought, drawn and counted as before, at no price of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.ends import TYPICAL
from costdata.hardware_bill import HardwareBill
from costdata.hardware_cost import EmbodiedFactors, Prices
from costdata.making import embodied_factors
from costdata.network_build import laid_above_frac
from costdata.quotes import ChipPrices, chip_prices, prices, stacked
from planner.costing.purchase import CATALOGUES, Rows, Shelf, bill_of, coded, shelf_of
from planner.study.parts import Costing, Reliability
from planner.study.pools import POOLS, PREFILL
from simkernel.columns import Codes, Floats, Masks

PARTS_USD = (
    "switch_usd", "port_links_usd", "nic_usd", "storage_usd_per_pb", "head_node_usd",
    "domain_switch_usd", "domain_optic_usd", "domain_cable_usd", "domain_fibre_usd",
)  # fmt: skip
"""Prices that an all-in price holds already."""


@dataclass(frozen=True)
class Quotes:
    """Units, parts, prices and carbon of making of some chips; (k,) in the order of the shelf.

    `is_all_in` where the study gives one price for everything.
    """

    shelf: Shelf
    chips: ChipPrices
    made: EmbodiedFactors
    is_all_in: Masks

    def of(self, rows: Rows) -> tuple[HardwareBill, Prices, EmbodiedFactors]:
        """Counts, prices and carbon of making of every row."""
        bill = bill_of(self.shelf, rows)
        return bill, self.priced(bill, rows.accelerator), self.making(rows)

    def making(self, rows: Rows) -> EmbodiedFactors:
        """Carbon of making of every row; a server of another size has its share by devices."""
        made = self.made.take(rows.accelerator)
        host = rows.chassis_devices / self.shelf.devices_per_host[rows.accelerator]
        return replace(made, host_kgco2e=made.host_kgco2e * host)

    def priced(self, bill: HardwareBill, code: Codes) -> Prices:
        """Prices of every row of a bill, of chips by their place on the shelf.

        A unit of another size than the one that is sold costs by its devices.
        """
        chips, sold = self.chips.take(code), self.shelf.devices_per_unit[code]
        chips = replace(chips, unit_usd=chips.unit_usd * bill.devices_per_unit / sold)
        above_frac = laid_above_frac(bill.ports, bill.links, bill.tiers)
        found = prices(chips, self.shelf.parts.take(code), bill.tiers, above_frac)
        return self._all_in(found, self.is_all_in[code])

    def _all_in(self, found: Prices, is_all_in: Masks) -> Prices:
        if not is_all_in.any():
            return found
        return replace(
            found, **{n: np.where(is_all_in, 0.0, getattr(found, n)) for n in PARTS_USD}
        )


def quotes_of(
    costing: Costing,
    catalog: Catalog,
    names: Sequence[str],
    end: int = TYPICAL,
    reliability: Reliability = CATALOGUES,
) -> Quotes:
    """Quotes for chips by catalogue name.

    Parameters
    ----------
    end : of the bands of prices, rents and carbon of making; what the study gives has none
    reliability : the study's own failures and spares

    Raises
    ------
    UnknownName : no such chip
    """
    shelf = shelf_of(catalog, names, end, reliability)
    chips = stacked(
        chip_prices(
            catalog,
            name,
            costing.acquire,
            costing.price_usd,
            costing.rent_usd_per_device_hour,
            costing.rent_plan,
            end,
        ).table
        for name in names
    )
    made = stacked(embodied_factors(catalog, name, costing.embodied, end).table for name in names)
    own = _all_in_usd(costing, shelf)
    is_all_in = ~np.isnan(own)
    chips = replace(
        chips,
        unit_usd=np.where(is_all_in, own, chips.unit_usd),
        unit_is_estimate=chips.unit_is_estimate & ~is_all_in,
    )
    return Quotes(shelf, chips, made, is_all_in)


def names_in(plans: Mapping[str, Any]) -> list[str]:
    """Chips among some plans, those of all their pools, each once."""
    if not is_pooled(plans):
        return coded(plans["accelerator"])[0]
    names = [coded(plans[f"{pool}.accelerator"])[0] for pool in POOLS]
    return sorted({name for some in names for name in some})


def is_pooled(plans: Mapping[str, Any]) -> bool:
    """Plans whose hardware is bought pool by pool."""
    return f"{PREFILL}.accelerator" in plans


def of_pool(plans: Mapping[str, Any], pool: str) -> dict[str, Any]:
    """Columns of what one pool buys, under the names that they have where there is one."""
    whole = {name: column for name, column in plans.items() if "." not in name}
    own = {n.partition(".")[2]: c for n, c in plans.items() if n.startswith(f"{pool}.")}
    return {**whole, **own}


def _all_in_usd(costing: Costing, shelf: Shelf) -> Floats:
    """The study's price of a whole unit with everything; (k,), NaN where it gives none."""
    found = np.full(len(shelf.names), np.nan)
    for i, name in enumerate(shelf.names):
        if name in costing.all_in_usd_per_unit:
            found[i] = costing.all_in_usd_per_unit[name]
        elif name in costing.all_in_usd_per_device:
            found[i] = costing.all_in_usd_per_device[name] * shelf.devices_per_unit[i]
    return found
