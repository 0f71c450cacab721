"""A purchase plan as a problem: what can be had, what must be done, and what is allowed.

Periods are of equal length. A unit is a server or a rack as sold. What a unit can do for a
workload is an option: a row of that workload's front. Nothing here knows how it is solved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np

from planner.fleet.materials import Item
from planner.fleet.tree import Tree
from simkernel.columns import Floats
from simkernel.errors import BadStudy

WEEKS_PER_YEAR = 365.25 / 7.0
MONTHS_PER_YEAR, LAST_OF_ALL = 12, 28
"""Months of a year, and the last day that every one of them has."""


@dataclass(frozen=True)
class Horizon:
    """The years that are planned.

    Parameters
    ----------
    periods : how many
    years : length of one [year]
    wacc_frac : discount rate per year [1]
    first_day : on which period 0 begins; None where nobody says
    """

    periods: int
    years: float
    wacc_frac: float
    first_day: date | None = None

    @property
    def weeks(self) -> float:
        """Length of one period [week]."""
        return self.years * WEEKS_PER_YEAR

    def day(self, period: int, weeks_before: float = 0.0) -> str | None:
        """The day on which a period begins, or one before it, as year-month-day; None if unknown.

        Periods of whole months begin on the day of the month on which the first one does, where
        every month has it; others after so many days.
        """
        first, months = self.first_day, self.years * MONTHS_PER_YEAR * period
        if first is None:
            return None
        if first.day <= LAST_OF_ALL and abs(months - round(months)) < 1e-6:
            years, month = divmod(first.month - 1 + round(months), MONTHS_PER_YEAR)
            begins = first.replace(year=first.year + years, month=month + 1)
        else:
            begins = first + timedelta(days=math.floor(period * self.weeks * 7.0 + 1e-6))
        return (begins - timedelta(days=math.ceil(weeks_before * 7.0 - 1e-6))).isoformat()

    def worth(self, period: float) -> float:
        """Worth today of a dollar paid as a period begins."""
        return float((1.0 + self.wacc_frac) ** (-self.years * period))

    @property
    def start_frac(self) -> Floats:
        """Worth today of a dollar paid as a period begins; (t,)."""
        return np.array([self.worth(t) for t in range(self.periods)])

    @property
    def during_frac(self) -> Floats:
        """Worth today of a dollar spent evenly over a period; (t,).

        References
        ----------
        Continuous discounting within the period: (1 - v) / ln(1 + r) / L with v = (1 + r)^-L.
        """
        if self.wacc_frac == 0:
            return np.ones(self.periods)
        rate = np.log1p(self.wacc_frac) * self.years
        return np.asarray(self.start_frac * -np.expm1(-rate) / rate)

    @property
    def periods_per_year(self) -> int:
        """Whole periods in a year, at least one: over which a yearly limit is summed."""
        return max(round(1.0 / self.years), 1)


@dataclass(frozen=True)
class Deal:
    """One way to have units of an asset.

    Parameters
    ----------
    name : "buy", "lease", "reserved", "on_demand" or "spot"
    asset : its place among the assets
    usd : paid for a unit due in a period, everything beside it included; NaN: not to be had; (t,)
    usd_per_year : of a unit due in a period, for as long as it is there; (t,) [$/year]
    lead : periods from order to delivery
    lead_weeks : the same to the week; NaN where only periods are known
    items : what a unit is bought with
    first : first period in which it is sold: none arrives before it
    term : periods that it stays
    residual_frac : of the price, left at the end of the term [1]
    least : units taken at once, if any are
    step : units sold together: it is had in whole multiples, as by the rack or the supernode
    """

    name: str
    asset: int
    usd: Floats
    usd_per_year: Floats
    lead: int = 0
    first: int = 0
    term: int = 1
    residual_frac: float = 0.0
    least: int = 1
    step: int = 1
    lead_weeks: float = float("nan")
    items: Sequence[Item] = ()

    @property
    def soonest(self) -> int:
        """First period in which a unit can be there."""
        return max(self.lead, self.first)

    def is_had(self, due: int, periods: int) -> bool:
        """Whether a unit may be due in a period."""
        return self.soonest <= due < periods and bool(np.isfinite(self.usd[due]))


@dataclass(frozen=True)
class Asset:
    """Units of one kind in one place: owned ones at a site, or those of a lessor beside it.

    Parameters
    ----------
    name, site : the chip and where
    hold_usd : a year of a unit that is there, energy apart [$/year]
    peak_w, idle_w : of a unit at the site's meter, all of it at work, and where no workload of the
        study puts it to work [W]
    it_w, racks : IT power to provide for a unit [W], and rack positions; 0 on another's floor
    usd_per_kwh : paid for what it draws; 0 where rent holds it
    kgco2e_per_kwh, clean_frac : of the site's grid
    embodied_kgco2e : of making a unit
    life_periods : over which the carbon of making is spread
    held : units there already, by the periods that are left to them; {periods left: units}
    devices, flop_per_s : of a unit
    spare_frac : units that stand by for each at work [1]
    kept_frac : of the straight-line worth of a unit, had for it when sold early [1]
    move_usd : of a unit to another site; NaN where it stays
    is_own : it stands on the buyer's floor
    may_serve : requests may be served on it
    """

    name: str
    site: str
    hold_usd: float = 0.0
    peak_w: float = 0.0
    idle_w: float = 0.0
    it_w: float = 0.0
    racks: float = 0.0
    usd_per_kwh: float = 0.0
    kgco2e_per_kwh: float = 0.0
    clean_frac: float = 0.0
    embodied_kgco2e: float = 0.0
    life_periods: int = 1
    held: Mapping[int, float] = field(default_factory=dict)
    devices: float = 1.0
    flop_per_s: float = 0.0
    spare_frac: float = 0.0
    kept_frac: float = float("nan")
    move_usd: float = float("nan")
    is_own: bool = True
    may_serve: bool = True

    @property
    def label(self) -> str:
        """As a person names it."""
        return f"{self.name} @ {self.site}"


@dataclass(frozen=True)
class Option:
    """One way to do a workload on one asset.

    Parameters
    ----------
    plan : name of the row of the front
    asset : its place among the assets
    units : of one replica of a stream, or of a run
    mean_w, peak_w : of a unit at work, at the meter [W]; a peak above the asset's counts as that
    serves : of a stream, multiples of its demand that one replica serves
    serves_full : the same while others are out of work
    lost : replicas that may be out of work
    periods : of a run, how long it takes
    block_units : of one block of a run that works in the troughs of streams, in parts of a day;
        0 where it holds its units day and night
    """

    plan: str
    asset: int
    units: float
    mean_w: float = 0.0
    peak_w: float = float("inf")
    serves: float = 1.0
    serves_full: float = float("inf")
    lost: int = 0
    periods: float = 1.0
    block_units: float = 0.0


@dataclass(frozen=True)
class Stream:
    """Requests to serve.

    Parameters
    ----------
    demand : at its peak, in multiples of what the options were sized for; (n,) by node
    options : ways to serve it
    by_hour : share of the peak in each part of a day; (h,)
    headroom_frac : capacity kept above the demand [1]
    """

    name: str
    demand: Floats
    options: Sequence[Option]
    by_hour: Floats = field(default_factory=lambda: np.ones(1))
    headroom_frac: float = 0.0


@dataclass(frozen=True)
class Run:
    """A training run: begun no sooner than `start`, done by the end of period `due`.

    Parameters
    ----------
    may_pause : it may stop between periods, and go on on other units
    stop_hours : of a block's work lost when it is stopped [h]
    """

    name: str
    start: int
    due: int
    options: Sequence[Option]
    may_pause: bool = False
    stop_hours: float = 0.0

    @property
    def in_blocks(self) -> bool:
        """It works in the troughs of streams."""
        return any(option.block_units > 0 for option in self.options)


@dataclass(frozen=True)
class Limits:
    """What must not be passed; NaN for no limit.

    Parameters
    ----------
    site_w : site to facility power [W]; a site that is not there has no limit
    budget_usd : capital in a period; (t,)
    capex_usd, kgco2e : of all periods
    kgco2e_per_year : of a year, electricity and the share of making
    site_it_w, site_racks : site to the IT power and the rack positions that it has
    clean_frac : least carbon-free share of the energy of a year [1]
    survive_units : of each asset at work, out of work without a stream or a run suffering
    survive_site_frac : least share of each stream's demand served without any one site [1]
    """

    site_w: Mapping[str, float]
    budget_usd: Floats
    capex_usd: float = float("nan")
    kgco2e: float = float("nan")
    kgco2e_per_year: float = float("nan")
    site_it_w: Mapping[str, float] = field(default_factory=dict)
    site_racks: Mapping[str, float] = field(default_factory=dict)
    clean_frac: float = float("nan")
    survive_units: int = 0
    survive_site_frac: float = 0.0


@dataclass(frozen=True)
class Risk:
    """How much the worst futures count: `weight` of the mean of the worst `tail_frac` [1]."""

    weight: float = 0.0
    tail_frac: float = 0.1


@dataclass(frozen=True)
class Problem:
    """All of it.

    Parameters
    ----------
    fixed_usd : spent a year whatever is bought, such as on staff [$/year]
    move_periods : that a unit is on its way to another site
    review_periods : units are retired and moved only every so many periods
    """

    horizon: Horizon
    tree: Tree
    assets: Sequence[Asset]
    deals: Sequence[Deal]
    streams: Sequence[Stream]
    runs: Sequence[Run]
    limits: Limits
    fixed_usd: float = 0.0
    risk: Risk = Risk()
    move_periods: int = 1
    review_periods: int = 1

    @property
    def works(self) -> list[Stream | Run]:
        """All workloads."""
        return [*self.streams, *self.runs]

    @property
    def sites(self) -> list[str]:
        """Every site once."""
        return list(dict.fromkeys(asset.site for asset in self.assets))

    def refuse(self) -> None:
        """Everything that cannot be meant, in one error.

        Raises
        ------
        BadStudy : a workload without an option, a run that cannot end in time, a demand below 0
        """
        faults = [
            f"workload {work.name} has no plan on any asset; see its own study for why"
            for work in self.works
            if not work.options
        ]
        faults += [*self._of_streams(), *self._of_runs()]
        if faults:
            raise BadStudy(*faults)

    def _of_streams(self) -> Iterator[str]:
        for stream in self.streams:
            if (stream.demand < 0).any() or len(stream.demand) != len(self.tree):
                yield (
                    f"demand of {stream.name} is {stream.demand.tolist()}; wanted "
                    f"{len(self.tree)} numbers of at least 0"
                )

    def _of_runs(self) -> Iterator[str]:
        for run in self.runs:
            least = min((option.periods for option in run.options), default=0.0)
            if run.start + least - 1 > run.due + 1e-9:
                yield (
                    f"run {run.name} takes at least {least:.3g} periods and may use {run.start} "
                    f"to {run.due}; give it more time, or more devices"
                )
