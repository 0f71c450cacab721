"""The table [costing] of a study read: its sites and chips in the catalogue's spelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.study.faults import Faults, part
from planner.study.lines import Path
from planner.study.parts import Costing

BY_CHIP = ("price_usd", "all_in_usd_per_device", "all_in_usd_per_unit")
"""Prices whose keys are names of chips."""


def read_costing(
    table: Mapping[str, Any],
    faults: Faults,
    site_name: Callable[[str], str],
    accelerator_name: Callable[[str], str],
) -> Costing:
    """The table as its dataclass; names that the catalogue does not have are faults.

    Parameters
    ----------
    site_name, accelerator_name : from a name to the catalogue's own spelling
    """
    listed = dict(table)
    if isinstance(listed.get("site"), str):
        listed["site"] = [listed["site"]]
    sites = listed.get("site")
    if isinstance(sites, list | tuple) and all(isinstance(site, str) for site in sites):
        path: Path = ("costing", "site")
        listed["site"] = [faults.looked_up(site_name, site, path) for site in sites]
        if len(set(listed["site"])) < len(sites) or not sites:
            faults.add(path, sites, "is empty or repeats", 'wanted each site once, e.g. ["se"]')
    for key in BY_CHIP:
        prices = listed.get(key)
        if isinstance(prices, Mapping):
            listed[key] = {
                faults.looked_up(accelerator_name, chip, ("costing", key, chip)): price
                for chip, price in prices.items()
            }
    return part(Costing, listed, ("costing",), faults) or Costing()
