"""All that money, carbon and worth follow from, at the middle and at both ends of what is known.

An input that the study gives has no ends. What the buyer decides (interest, lives, use, how it is
had) is taken as decided. Inputs that move together have one name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata.bill import EmbodiedFactors, PlanCosts, PlanRun, Prices, plan_costs
from costdata.hardware_bill import HardwareBill
from costdata.supply import Supply
from costdata.terms import CostingTerms, yearly_shares
from planner.bands import bands as factors_of
from planner.costing.quoted import PARTS_USD
from planner.study.parts import Costing
from planner.uncertainty.quantile import Band, at_quantile
from simkernel.columns import Column, Floats

CHIP, SITE, ALL = "accelerator", "site", ""
"""Whose draw an input shares: of all plans on a chip, of all at a site, or of all there are."""


@dataclass(frozen=True)
class Moved:
    """An uncertain input: where its figures stand, and which rows share them.

    Parameters
    ----------
    table : attribute of `Inputs`, "" for the inputs themselves
    names : fields of it that move together
    of : CHIP, SITE or ALL
    """

    table: str
    names: tuple[str, ...]
    of: str


MADE_KGCO2E = tuple(field.name for field in fields(EmbodiedFactors))

MOVED = MappingProxyType(
    {
        "time of the run": Moved("run", ("hours",), CHIP),
        "size of the fleet": Moved("", ("fleet",), CHIP),
        "watts at work": Moved("run", ("it_mean_w", "it_peak_w"), CHIP),
        "watts at rest": Moved("run", ("it_idle_w",), CHIP),
        "price of servers": Moved("prices", ("unit_usd",), CHIP),
        "price of network and storage": Moved("prices", PARTS_USD, ALL),
        "rent": Moved("prices", ("rent_usd_per_device_hour",), CHIP),
        "carbon of making": Moved("made", MADE_KGCO2E, ALL),
        "price of electricity": Moved("terms", ("usd_per_kwh",), SITE),
        "PUE": Moved("terms", ("pue",), SITE),
        "colocation": Moved("terms", ("colo_usd_per_kw_month",), SITE),
        "maintenance": Moved("terms", ("maintenance_frac",), ALL),
        "residual value": Moved("terms", ("residual_frac",), ALL),
        "staff": Moved("terms", ("staff_usd_per_year",), ALL),
        "carbon of the grid": Moved(
            "terms",
            (
                "grid_average_kgco2e_per_kwh",
                "grid_marginal_kgco2e_per_kwh",
                "market_kgco2e_per_kwh",
            ),
            SITE,
        ),
        "water": Moved("terms", ("wue_onsite_l_per_kwh", "wue_offsite_l_per_kwh"), SITE),
    }
)
"""Every input that may be uncertain, by the name a reader knows it under."""


@dataclass(frozen=True)
class Inputs:
    """What rows of plans at sites are costed from; (m,).

    Parameters
    ----------
    carbon : the accounting
    fleet : multiple of what is bought and drawn, where an error of speed is one of the fleet [1]
    """

    bill: HardwareBill
    run: PlanRun
    prices: Prices
    made: EmbodiedFactors
    terms: CostingTerms
    carbon: str
    supply: Supply | None = None
    fleet: Column = 1.0

    def costs(self) -> PlanCosts:
        """Cost, carbon and water of the rows."""
        bill, run = self._at_size()
        return plan_costs(
            bill, run, self.prices, self.made, self.terms, yearly_shares(self.terms), self.carbon,
            self.supply,
        )  # fmt: skip

    def take(self, rows: Any) -> Inputs:
        """Some rows, or rows again and again."""
        parts = ("bill", "run", "prices", "made", "terms")
        fleet = np.broadcast_to(self.fleet, len(self.bill))[rows]
        return replace(self, fleet=fleet, **{n: getattr(self, n).take(rows) for n in parts})

    def cell(self, moved: Moved, name: str) -> Floats:
        """One figure of an uncertain input; (m,)."""
        owner = getattr(self, moved.table) if moved.table else self
        return np.broadcast_to(np.asarray(getattr(owner, name), float), len(self.bill))

    def having(self, moved: Moved, cells: dict[str, Any]) -> Inputs:
        """The same with other figures of an uncertain input."""
        if not moved.table:
            return replace(self, **cells)
        owner = replace(getattr(self, moved.table), **cells)
        return replace(self, **{moved.table: owner})

    def _at_size(self) -> tuple[HardwareBill, PlanRun]:
        """Counts and watts of the fleet; parts of a unit where it is larger by less than one."""
        if np.all(np.asarray(self.fleet) == 1.0):
            return self.bill, self.run
        shape = ("devices_per_unit", "hosts_per_unit", "tiers")
        counts = {
            f.name: getattr(self.bill, f.name) * self.fleet
            for f in fields(self.bill)
            if f.name not in shape
        }
        watts = {
            name: getattr(self.run, name) * self.fleet
            for name in ("it_mean_w", "it_peak_w", "it_idle_w")
        }
        return replace(self.bill, **counts), replace(self.run, **watts)


@dataclass(frozen=True)
class Ends:
    """The same rows with every uncertain input at its low end, in the middle, at its high end."""

    low: Inputs
    middle: Inputs
    high: Inputs

    def __len__(self) -> int:
        """Rows."""
        return len(self.middle.bill)

    def take(self, rows: Any) -> Ends:
        """Some rows, or rows again and again."""
        return Ends(self.low.take(rows), self.middle.take(rows), self.high.take(rows))

    def uncertain(self) -> Iterator[str]:
        """Names of the inputs whose ends differ in some row."""
        for name, moved in MOVED.items():
            if not all(
                np.array_equal(end.cell(moved, n), self.middle.cell(moved, n), equal_nan=True)
                for end in (self.low, self.high)
                for n in moved.names
            ):
                yield name

    def at_scores(self, inputs: Inputs, name: str, scores: Floats) -> Inputs:
        """Some inputs with one of them where standard normal scores put it.

        Parameters
        ----------
        inputs : these rows again and again; (c * m,)
        scores : (c, m) or (c, 1)
        """
        moved, cells = MOVED[name], {}
        for n in moved.names:
            low, middle, high = (end.cell(moved, n) for end in (self.low, self.middle, self.high))
            found = at_quantile(Band(low, middle, high), scores)
            cells[n] = np.broadcast_to(found, (len(scores), len(self))).ravel()
        return inputs.having(moved, cells)

    def moved(self, name: str) -> tuple[Inputs, Inputs]:
        """The middle with one input at its low end, and at its high end."""
        moved = MOVED[name]
        low, high = (
            self.middle.having(moved, {n: end.cell(moved, n) for n in moved.names})
            for end in (self.low, self.high)
        )
        return low, high


def terms_at_end(costing: Costing, terms: CostingTerms, place: int) -> CostingTerms:
    """Terms with grid and water, which have no bands of their own, at an end of their table's.

    Parameters
    ----------
    costing : a grid factor of its own has no ends
    place : 0 for the low end, 1 for the high one
    """
    is_marginal = costing.carbon == "location_marginal"
    is_given = costing.grid_kgco2e_per_kwh is not None
    given = {
        "grid_average_kgco2e_per_kwh": is_given and not is_marginal,
        "grid_marginal_kgco2e_per_kwh": is_given and is_marginal,
    }
    grid, water = (factors_of()[name][place] for name in ("grid_kgco2e_per_kwh", "wue_l_per_kwh"))
    moved = {n: getattr(terms, n) * (1.0 if is_own else grid) for n, is_own in given.items()}
    moved |= {
        n: getattr(terms, n) * water for n in ("wue_onsite_l_per_kwh", "wue_offsite_l_per_kwh")
    }
    return replace(terms, **moved)
