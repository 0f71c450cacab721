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

from costdata.bill import PlanCosts, PlanRun, plan_costs
from costdata.hardware_bill import HardwareBill
from costdata.hardware_cost import EmbodiedFactors, Hardware, Prices
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

OF_HARDWARE = ("prices", "made")
"""Tables that hardware of another pool has of its own."""


@dataclass(frozen=True)
class Inputs:
    """What rows of plans at sites are costed from; (m,).

    Parameters
    ----------
    carbon : the accounting
    fleet : multiple of what is bought and drawn, where an error of speed is one of the fleet [1]
    beside : hardware bought beside `bill`, of a pool of its own
    """

    bill: HardwareBill
    run: PlanRun
    prices: Prices
    made: EmbodiedFactors
    terms: CostingTerms
    carbon: str
    supply: Supply | None = None
    fleet: Column = 1.0
    beside: tuple[Hardware, ...] = ()

    def costs(self) -> PlanCosts:
        """Cost, carbon and water of the rows."""
        bill, run = self._at_size()
        beside = tuple(replace(one, bill=self._sized(one.bill)) for one in self.beside)
        return plan_costs(
            bill, run, self.prices, self.made, self.terms, yearly_shares(self.terms), self.carbon,
            self.supply, beside,
        )  # fmt: skip

    def take(self, rows: Any) -> Inputs:
        """Some rows, or rows again and again."""
        parts = ("bill", "run", "prices", "made", "terms")
        fleet = np.broadcast_to(self.fleet, len(self.bill))[rows]
        beside = tuple(one.take(rows) for one in self.beside)
        taken = {n: getattr(self, n).take(rows) for n in parts}
        return replace(self, fleet=fleet, beside=beside, **taken)

    @property
    def bills(self) -> tuple[HardwareBill, ...]:
        """What is bought, pool by pool."""
        return (self.bill, *(one.bill for one in self.beside))

    def of_part(self, part: int) -> Inputs:
        """The same with some hardware beside in the place of the first."""
        one = self.beside[part]
        return replace(self, bill=one.bill, prices=one.prices, made=one.embodied)

    def having_part(self, part: int, moved: Moved, cells: dict[str, Any]) -> Inputs:
        """The same with other figures of some hardware beside."""
        other = self.of_part(part).having(moved, cells)
        one = replace(self.beside[part], prices=other.prices, embodied=other.made)
        return replace(self, beside=(*self.beside[:part], one, *self.beside[part + 1 :]))

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
        watts = {
            name: getattr(self.run, name) * self.fleet
            for name in ("it_mean_w", "it_peak_w", "it_idle_w")
        }
        return self._sized(self.bill), replace(self.run, **watts)

    def _sized(self, bill: HardwareBill) -> HardwareBill:
        """Counts of a fleet so many times as large."""
        if np.all(np.asarray(self.fleet) == 1.0):
            return bill
        shape = ("devices_per_unit", "hosts_per_unit", "tiers")
        names = [f.name for f in fields(bill) if f.name not in shape]
        return replace(bill, **{n: getattr(bill, n) * self.fleet for n in names})


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
            if any(not part.is_given(moved) for part in (self, *self.parts_of(moved))):
                yield name

    def is_given(self, moved: Moved) -> bool:
        """Both ends of an input are its middle."""
        return all(
            np.array_equal(end.cell(moved, n), self.middle.cell(moved, n), equal_nan=True)
            for end in (self.low, self.high)
            for n in moved.names
        )

    def parts_of(self, moved: Moved) -> tuple[Ends, ...]:
        """Hardware beside the first whose own figures an input moves too."""
        if moved.table not in OF_HARDWARE:
            return ()
        each = range(len(self.middle.beside))
        ends = (self.low, self.middle, self.high)
        return tuple(Ends(*(end.of_part(i) for end in ends)) for i in each)

    def at_scores(self, inputs: Inputs, name: str, scores: Floats) -> Inputs:
        """Some inputs with one of them where standard normal scores put it.

        Parameters
        ----------
        inputs : these rows again and again; (c * m,)
        scores : (c, m) or (c, 1)
        """
        moved = MOVED[name]
        found = inputs.having(moved, self._cells(moved, scores))
        for i, part in enumerate(self.parts_of(moved)):
            found = found.having_part(i, moved, part._cells(moved, scores))
        return found

    def _cells(self, moved: Moved, scores: Floats) -> dict[str, Any]:
        cells = {}
        for n in moved.names:
            low, middle, high = (end.cell(moved, n) for end in (self.low, self.middle, self.high))
            found = at_quantile(Band(low, middle, high), scores)
            cells[n] = np.broadcast_to(found, (len(scores), len(self))).ravel()
        return cells

    def moved(self, name: str) -> tuple[Inputs, Inputs]:
        """The middle with one input at its low end, and at its high end."""
        low, high = (self._at_end(MOVED[name], end) for end in (self.low, self.high))
        return low, high

    def _at_end(self, moved: Moved, end: Inputs) -> Inputs:
        found = self.middle.having(moved, {n: end.cell(moved, n) for n in moved.names})
        for i in range(len(self.parts_of(moved))):
            own = end.of_part(i)
            found = found.having_part(i, moved, {n: own.cell(moved, n) for n in moved.names})
        return found


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
