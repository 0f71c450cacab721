"""What hardware draws and can do at full load, before any price: watts and peak flop/s of rows.

Without a workload every device is taken to run flat out under its cap. What a study pins of its
servers and racks takes the place of the catalogue's watts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.ends import HIGH, LOW, TYPICAL
from costdata.hardware_bill import HardwareBill, Working, it_w, provisioned_w
from costdata.hardware_cost import EmbodiedFactors, Prices
from costdata.network_build import TIERS_MOST
from planner.costing.purchase import Rows, rest_watts
from planner.costing.quoted import Quotes, quotes_of
from planner.costing.wholes import whole_metrics
from planner.study.read import Study
from simkernel.columns import Floats, Masks
from simkernel.hardware import PRECISIONS, Chips
from simkernel.ledger import Ledger
from simkernel.power import fan_w, host_w
from simkernel.power_cap import capped_clock_frac

FLOP_PER_S_PER_PFLOP_PER_S = 1e15  # SI brochure, table 7

OF_SERVERS = ("devices", "stranded", "hosts", "fans", "network_cards")
"""Terms of IT power of what is in the box of a server or rack."""

AROUND = ("switches", "links", "storage", "head_nodes", "domain_network")
"""Terms of IT power that stand beside the servers."""


@dataclass(frozen=True)
class Stock:
    """Chips of a study with everything sold around them, looked up once.

    No spares are bought: what stands by is for a workload to say. `low` and `high` are the quotes
    at the ends of their bands.
    """

    study: Study
    catalog: Catalog
    chips: Chips
    quotes: Quotes
    low: Quotes
    high: Quotes

    def pinned(self, name: str) -> Floats:
        """A pin of each chip: its own, else the one for all; (k,), NaN where there is none."""
        pin, names = self.study.pin, self.quotes.shelf.names
        general = pin.get(name, np.nan)
        return np.array([pin.get(f"{name}.{chip}", general) for chip in names])


@dataclass(frozen=True)
class Figures:
    """Rows of hardware before any price: metrics (m,), what is bought and what it draws.

    `it_idle_w` is with everything on and no work.
    """

    metrics: dict[str, Floats]
    it_peak: Ledger
    it_idle_w: Floats
    bill: HardwareBill
    prices: Prices
    made: EmbodiedFactors


def stock_of(study: Study, catalog: Catalog, names: list[str]) -> Stock:
    """Chips by catalogue name on the terms of a study."""
    low, quotes, high = (_quotes(study, catalog, names, end) for end in (LOW, TYPICAL, HIGH))
    return Stock(study, catalog, catalog.chips(names), quotes, low, high)


def _quotes(study: Study, catalog: Catalog, names: list[str], end: int) -> Quotes:
    quotes = quotes_of(study.costing, catalog, names, end)
    support = replace(quotes.shelf.support, repair_hours=0.0)
    return replace(quotes, shelf=replace(quotes.shelf, support=support))


def figures(stock: Stock, rows: Mapping[str, Any], devices: Floats) -> Figures:
    """Counts, watts and peak rate of every row with a number of devices.

    Parameters
    ----------
    rows : columns of a `HardwareSpace`, (m,)
    devices : (m,) at work
    """
    bought = _rows(stock, rows, devices)
    bill, prices, made = stock.quotes.of(bought)
    bill = _buildable(bill)
    device_w, performance = _capped(stock, rows, bought)
    it_peak = _it_w(stock, bought, bill, device_w)
    load_frac = stock.study.pin.get("it_load_frac", 1.0)
    headroom_frac = stock.catalog.planning("provision_headroom_frac")
    codes = np.array([PRECISIONS.index(str(name)) for name in rows["precision"]], np.int64)
    peak = stock.chips.peak_flop_per_s[bought.accelerator, codes] * devices * performance
    it_peak_w = np.asarray(it_peak.total)
    it_mean_w = it_peak_w * load_frac
    metrics = {
        "devices": devices,
        "stranded_devices": bill.stranded_devices,
        "nodes": bill.hosts,
        "supernodes": np.ceil(devices / bought.supernode_devices),
        "purchase_units": bill.purchase_units,
        "fabric_tiers": bill.tiers,
        "peak_flop_per_s": peak,
        "device_mean_w": device_w * load_frac,
        "device_peak_w": device_w,
        "it_mean_w": it_mean_w,
        "it_peak_w": it_peak_w,
        "provisioned_w": np.asarray(provisioned_w(it_peak_w, headroom_frac)),
        **_wholes(stock, bought, bill, it_peak, load_frac),
        "it_peak_w_per_pflop_per_s": it_peak_w / peak * FLOP_PER_S_PER_PFLOP_PER_S,
    }
    it_idle_w = np.minimum(_it_idle_w(stock, bought, bill, it_peak), it_mean_w)
    return Figures(metrics, it_peak, it_idle_w, bill, prices, made)


def _wholes(
    stock: Stock, bought: Rows, bill: HardwareBill, it_peak: Ledger, load_frac: float
) -> dict[str, Floats]:
    """Nodes, racks and domains of each row under the study's limit on a rack."""
    boxed_w = sum((it_peak.terms[name] for name in OF_SERVERS), start=0.0)
    device_w = np.asarray(boxed_w / (bill.purchase_units * bill.devices_per_unit))
    shelf = stock.quotes.shelf
    joining = replace(rest_watts(shelf, bought, 0.0 * device_w), nic_w=0.0 * device_w)
    most_kw = stock.study.limits.get("rack_kw")
    return whole_metrics(shelf, bought, bill, joining, device_w * load_frac, device_w, most_kw)


def quoted_at(
    stock: Stock, quotes: Quotes, rows: Mapping[str, Any], devices: Floats
) -> tuple[Prices, EmbodiedFactors]:
    """Prices and carbon of making of rows on quotes of the stock; (m,)."""
    _, prices, made = quotes.of(_rows(stock, rows, devices))
    return prices, made


def is_given_w(stock: Stock, rows: Mapping[str, Any], bill: HardwareBill) -> Masks:
    """Rows whose IT power rests on what the study pins alone; (m,)."""
    pin = stock.study.pin
    names = stock.quotes.shelf.names
    code = np.array([names.index(str(n)) for n in rows["accelerator"]], np.int64)
    whole, other = (~np.isnan(stock.pinned(n)[code]) for n in ("unit_w", "unit_other_w"))
    is_uncapped = np.asarray(rows["power_cap_frac"], float) == 1.0
    is_server = (whole & ~other & is_uncapped) | ((whole | other) & ("device_peak_w" in pin))
    is_whole = bill.stranded_devices == 0  # what is stranded draws the catalogue's idle watts
    return np.asarray(is_server & is_whole & ("network_overhead_frac" in pin))


def _rows(stock: Stock, rows: Mapping[str, Any], devices: Floats) -> Rows:
    index = {name: i for i, name in enumerate(stock.quotes.shelf.names)}
    domain = np.asarray(rows["supernode_devices"], dtype=np.int64)
    code = np.array([index[str(name)] for name in rows["accelerator"]], dtype=np.int64)
    return Rows(
        accelerator=code,
        devices=np.asarray(devices, dtype=np.int64),
        supernode_devices=domain,
        used_per_domain=domain,
        oversubscription=np.asarray(rows["oversubscription"], float),
        fabric_code=np.zeros(len(domain), dtype=np.int64),
        scaleup_code=stock.quotes.shelf.scaleup_code[code],
        scaleup_bytes_per_s=stock.quotes.shelf.scaleup_bytes_per_s[code],
        chassis_devices=stock.quotes.shelf.devices_per_host[code],
    )


def _buildable(bill: HardwareBill) -> HardwareBill:
    """A fabric of more layers than can be built counts no switches; a limit forbids the row."""
    is_built = bill.tiers <= TIERS_MOST
    return replace(
        bill,
        tiers=np.minimum(bill.tiers, TIERS_MOST + 1.0),
        switches=np.where(is_built, bill.switches, 0.0),
        links=np.where(is_built, bill.links, 0.0),
    )


def _capped(stock: Stock, rows: Mapping[str, Any], bought: Rows) -> tuple[Floats, Floats]:
    """Watts of a device and its speed over full speed under the row's power cap.

    References
    ----------
    `power_cap.capped_clock_frac`: arithmetic follows the clock.
    """
    code, cap_frac = bought.accelerator, np.asarray(rows["power_cap_frac"], float)
    power = stock.chips.take(code).power
    full_w = np.full(len(code), stock.study.pin.get("device_peak_w", np.nan))
    full_w = np.where(np.isnan(full_w), power.cap_w, full_w)
    floor_w = np.minimum(power.context_w, full_w * cap_frac)
    clock = np.asarray(capped_clock_frac(full_w * cap_frac, floor_w, full_w))
    given = stock.pinned("capped_performance_frac")[code]
    capped = np.where(np.isnan(given), clock, given)
    return full_w * cap_frac, np.where(cap_frac < 1.0, capped, 1.0)


def _it_w(stock: Stock, bought: Rows, bill: HardwareBill, device_w: Floats) -> Ledger:
    """IT power at full load, term by term."""
    code = bought.accelerator
    power = stock.chips.take(code).power
    held = bill.purchase_units * bill.devices_per_unit
    shelf = stock.quotes.shelf
    watts = rest_watts(shelf, bought, power.idle_w)
    other_w = bill.purchase_units * _unit_other_w(stock, bought, bill)
    is_given = ~np.isnan(other_w)
    servers = {
        "devices": bill.devices_working * device_w,
        "stranded": bill.stranded_devices * power.idle_w,
        "hosts": np.where(is_given, other_w, host_w(power, 1.0) * held),
        "fans": np.where(is_given, 0.0, fan_w(power, 1.0, watts.is_air) * held),
        "network_cards": np.where(is_given, 0.0, bill.ports * watts.nic_w),
    }
    if "network_overhead_frac" in stock.study.pin:
        share = stock.study.pin["network_overhead_frac"]
        return Ledger("it_w", "W", {**servers, "network": sum(servers.values()) * share})
    around = it_w(bill, watts, Working(0.0, 0.0, 0.0)).terms
    parts = {name: around[name] for name in AROUND}
    return Ledger("it_w", "W", {**servers, **parts})


def _it_idle_w(stock: Stock, bought: Rows, bill: HardwareBill, it_peak: Ledger) -> Floats:
    """IT power with everything on and no work; (m,) [W].

    Notes
    -----
    Idle watts of chip, host and fans are the catalogue's, the host's never above what the study
    pins for a server without its devices; network and storage draw what they draw at full load.
    """
    power = stock.chips.take(bought.accelerator).power
    held = bill.purchase_units * bill.devices_per_unit
    moving = ("devices", "stranded", "hosts", "fans")
    still_w = sum(w for name, w in it_peak.terms.items() if name not in moving)
    own_w = np.minimum(power.host_idle_w * held, it_peak.terms["hosts"])
    air_w = fan_w(power, 0.0, stock.quotes.shelf.is_air[bought.accelerator]) * held
    air_w = np.minimum(air_w, it_peak.terms["fans"])
    return np.asarray(power.idle_w * held + own_w + air_w + still_w)


def _unit_other_w(stock: Stock, bought: Rows, bill: HardwareBill) -> Floats:
    """Pinned draw of a unit beside its devices; NaN where the catalogue's host is taken."""
    code = bought.accelerator
    full_w = stock.study.pin.get("device_peak_w", np.nan)
    cap_w = stock.chips.power.cap_w[code]
    whole_w = stock.pinned("unit_w")[code]
    rest_w = whole_w - bill.devices_per_unit * np.where(np.isnan(full_w), cap_w, full_w)
    other_w = stock.pinned("unit_other_w")[code]
    return np.where(np.isnan(other_w), rest_w, other_w)
