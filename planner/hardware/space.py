"""Every option of a hardware study: which chip, how many, in which domains, how far capped.

An option has a key, the number of its levels, as plans of other studies have. A count may be left
open ("most"): the option then stands for one step of it, and costing finds how many steps fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from costdata.catalog import Catalog
from planner.axes import ALL, AXES, CATALOGUE, COUNTS, MOST, OFFERED, Level
from planner.space.plan_keys import plan_name
from planner.study.read import Study
from simkernel.errors import BadStudy, MissingFact
from simkernel.hardware import PRECISIONS

USED = ("accelerator", *COUNTS, "supernode_devices", "oversubscription", "precision",
        "power_cap_frac")  # fmt: skip
"""Axes that change what hardware costs, draws or can do without a workload."""

RULES = {
    "domain_offered": "the chip is sold in scale-up domains of this size",
    "whole_domains": "the devices fill whole scale-up domains",
    "precision_known": "a dense peak of the chip is known in this precision",
    "cap_above_floor": "the power cap is above what the chip draws before it does any work",
}
"""Why an option cannot exist, by rule."""

MOST_OPTIONS = 1_000_000  # our choice: without a workload every option is one row of the front


@dataclass(frozen=True)
class Sizes:
    """What a chip is sold in: domains, devices of a host and of a unit, and its precisions.

    `floor_frac` of its power limit is drawn before it does any work, 0 where the study says how
    fast a capped chip is.
    """

    domain_options: tuple[int, ...]
    devices_per_host: int
    devices_per_unit: int
    precisions: tuple[str, ...]
    floor_frac: float


@dataclass(frozen=True)
class HardwareSpace:
    """All options of a study.

    Parameters
    ----------
    levels : axis to its values, in the order keys count them
    chips : sizes of the accelerators among the levels
    count : "devices", "nodes" or "supernodes"
    """

    levels: Mapping[str, tuple[Level, ...]]
    chips: Mapping[str, Sizes]
    count: str

    @property
    def axes(self) -> tuple[str, ...]:
        """Names, in the order of the digits of a key."""
        return tuple(self.levels)

    @property
    def enumerated(self) -> int:
        """Combinations of all levels."""
        return int(np.prod([len(values) for values in self.levels.values()]))

    @property
    def is_open(self) -> bool:
        """The count is as many as the limits allow."""
        return self.levels[self.count] == (MOST,)

    @property
    def bill_codes(self) -> npt.NDArray[np.int64]:
        """One hardware bill per chip, (chips, 1): what is swept at a time."""
        return np.arange(len(self.chips))[:, None]

    @cached_property
    def options(self) -> tuple[tuple[Level, ...], ...]:
        """Levels of every option; the place is its key."""
        return tuple(product(*self.levels.values()))

    def levels_of(self, key: int) -> dict[str, Level]:
        """The level of an option on each axis."""
        return dict(zip(self.levels, self.options[key], strict=True))

    def key_of(self, chosen: Mapping[str, Level]) -> int:
        """The key of the option with a level on each axis; undoes `levels_of`."""
        key = 0
        for name, levels in self.levels.items():
            key = key * len(levels) + levels.index(chosen[name])
        return key

    def rows(self, keys: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Options as columns of named values, with the devices of each; (n,)."""
        picked = [self.levels_of(int(key)) for key in keys]
        found: dict[str, Any] = {"key": keys}
        found["plan"] = np.array([plan_name(int(key)) for key in keys], dtype=object)
        for name in self.axes:
            if name not in COUNTS:
                found[name] = _column([one[name] for one in picked])
        found["devices"] = np.array([self._devices(one) for one in picked], dtype=np.int64)
        return found

    def broken(self, key: int) -> tuple[str, ...]:
        """Rules that an option breaks, none if it can exist."""
        one = self.levels_of(key)
        chip, domain = self.chips[str(one["accelerator"])], int(one["supernode_devices"])
        kept = {
            "domain_offered": domain in chip.domain_options,
            "whole_domains": self.count != "supernodes" or self._devices(one) % domain == 0,
            "precision_known": one["precision"] in chip.precisions,
            "cap_above_floor": float(one["power_cap_frac"]) > chip.floor_frac,
        }
        return tuple(name for name, is_kept in kept.items() if not is_kept)

    def _devices(self, one: Mapping[str, Level]) -> int:
        """Devices at work; of one step where the count is open."""
        chip, domain = self.chips[str(one["accelerator"])], int(one["supernode_devices"])
        if self.is_open:
            return step_devices(chip, domain, self.count)
        unit = {"devices": 1, "nodes": chip.devices_per_host, "supernodes": domain}[self.count]
        return int(one[self.count]) * unit


def step_devices(chip: Sizes, domain: int, count: str) -> int:
    """Devices that one more unit puts to work: one more supernode where those are counted.

    Domains that do not fill a unit leave the rest of it stranded.
    """
    usable = chip.devices_per_unit // domain * domain or chip.devices_per_unit
    return max(usable, domain) if count == "supernodes" else usable


def space_of(study: Study, sizes: Mapping[str, Sizes]) -> HardwareSpace:
    """The options of a hardware study.

    Raises
    ------
    BadStudy : axes without effect where there is no workload, or too many options
    """
    _refuse_idle_axes(study)
    (count,) = (name for name in COUNTS if name in study.axes)
    levels = {name: study.axes[name] for name in USED if name in study.axes}
    levels["accelerator"] = tuple(sizes)
    if levels["supernode_devices"] == (OFFERED,):
        sizes = {name: _as_sold(chip) for name, chip in sizes.items()}
        levels["supernode_devices"] = tuple(
            dict.fromkeys(chip.domain_options[0] for chip in sizes.values())
        )
    space = HardwareSpace(levels, sizes, count)
    if space.enumerated > MOST_OPTIONS:
        raise BadStudy(
            f"the axes have {space.enumerated:,} combinations; wanted at most {MOST_OPTIONS:,} "
            'in a hardware study; give fewer levels, or a count = "most"'
        )
    return space


def sizes_of(study: Study, catalog: Catalog) -> tuple[dict[str, Sizes], dict[str, str]]:
    """Sizes of the chips of a study, and what the others lack.

    Raises
    ------
    MissingFact : no chip has the facts that are needed
    """
    named = study.axes["accelerator"]
    names = catalog.accelerators if named == (ALL,) else tuple(str(n) for n in named)
    sizes: dict[str, Sizes] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            sizes[name] = _sizes(study, catalog, name)
        except MissingFact as error:
            missing[name] = str(error)
    if not sizes:
        raise MissingFact(*(f"{name}: {why}" for name, why in missing.items()))
    return sizes, missing


def _sizes(study: Study, catalog: Catalog, name: str) -> Sizes:
    facts, chip = catalog.accelerator(name), catalog.chips([name])
    if not facts.domain_options:
        raise MissingFact("no scale-up domain is known")
    if not np.isfinite(chip.power.cap_w[0]):
        raise MissingFact("its power limit is not known")
    pin, given = study.pin, "capped_performance_frac"
    is_given = given in pin or f"{given}.{name}" in pin
    floor_w = 0.0 if is_given else float(chip.power.context_w[0])
    full_w = pin.get("device_peak_w", float(chip.power.cap_w[0]))
    peaks = zip(PRECISIONS, chip.peak_flop_per_s[0], strict=True)
    return Sizes(
        facts.domain_options,
        facts.devices_per_host,
        catalog.purchase_unit(name).devices,
        tuple(precision for precision, peak in peaks if np.isfinite(peak)),
        min(floor_w / full_w, 1.0 - 1e-9),  # without a cap a chip always works
    )


def _as_sold(chip: Sizes) -> Sizes:
    """The chip in the largest domain that one unit holds: without a workload no other differs."""
    whole = [d for d in chip.domain_options if d <= chip.devices_per_unit]
    return replace(chip, domain_options=(max(whole) if whole else min(chip.domain_options),))


def _refuse_idle_axes(study: Study) -> None:
    idle = [
        name
        for name, levels in study.axes.items()
        if name not in USED and levels != AXES[name].default and levels != (CATALOGUE,)
    ]
    if idle:
        raise BadStudy(
            *(f"axes.{name} changes nothing without a workload; remove it" for name in idle)
        )


def _column(values: list[Level]) -> npt.NDArray[Any]:
    """Names as objects, counts and shares as numbers."""
    return np.array(values, dtype=object if isinstance(values[0], str) else None)
