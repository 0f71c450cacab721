"""A purchase plan as a problem: what can be had, what must be done, and what is allowed.

Periods are of equal length. A unit is a server or a rack as sold. What a unit can do for a
workload is an option: a row of that workload's front. Nothing here knows how it is solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simkernel.columns import Floats
from simkernel.errors import BadStudy

NEVER = 10**6
"""A period that does not come."""


@dataclass(frozen=True)
class Horizon:
    """The years that are planned.

    Parameters
    ----------
    periods : how many
    years : length of one [year]
    wacc_frac : discount rate per year [1]
    """

    periods: int
    years: float
    wacc_frac: float

    @property
    def start_frac(self) -> Floats:
        """Worth today of a dollar paid as a period begins; (t,)."""
        return np.asarray((1.0 + self.wacc_frac) ** (-self.years * np.arange(self.periods)))

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


@dataclass(frozen=True)
class Asset:
    """Units of one kind at one site.

    Parameters
    ----------
    name, site : the chip and where
    buy_usd : of a unit that arrives in a period, everything beside it included; (t,) [$]
    first : first period in which one can arrive: lead time and start of sale
    life_periods : it works, from the period in which it arrived
    residual_frac : of its price, left at the end of the life [1]
    hold_usd : a year of a unit that is there, energy apart [$/year]
    rent_usd : a year of a rented unit, energy included; NaN where nobody rents it [$/year]
    peak_w, idle_w : of a unit at the meter, all of it at work, and at rest [W]
    usd_per_kwh, kgco2e_per_kwh : of the site
    embodied_kgco2e : of making a unit
    held : units there already, by the periods that are left to them; {periods left: units}
    devices : chips in a unit
    """

    name: str
    site: str
    buy_usd: Floats
    first: int
    life_periods: int
    residual_frac: float
    hold_usd: float
    rent_usd: float
    peak_w: float
    idle_w: float
    usd_per_kwh: float
    kgco2e_per_kwh: float
    embodied_kgco2e: float
    held: dict[int, float] = field(default_factory=dict)
    devices: float = 1.0


@dataclass(frozen=True)
class Option:
    """One way to do a workload on one asset.

    Parameters
    ----------
    plan : name of the row of the front
    asset : its place among the assets
    units : for one whole demand, or one run at a time
    mean_w : of a unit at work, at the meter [W]
    periods : that a run takes, whole; 0 for a stream
    """

    plan: str
    asset: int
    units: float
    mean_w: float
    periods: int = 0


@dataclass(frozen=True)
class Stream:
    """Requests to serve: demand in multiples of what the options were sized for; (t,)."""

    name: str
    demand: Floats
    options: Sequence[Option]


@dataclass(frozen=True)
class Run:
    """A training run: once, begun no sooner than `start`, done by the end of period `due`."""

    name: str
    start: int
    due: int
    options: Sequence[Option]


@dataclass(frozen=True)
class Limits:
    """What must not be passed; NaN for no limit.

    Parameters
    ----------
    site_w : site to facility power [W]; a site that is not there has no limit
    budget_usd : capital in a period; (t,)
    capex_usd, kgco2e : of all periods
    kgco2e_per_year : of a year, electricity and the share of making
    """

    site_w: dict[str, float]
    budget_usd: Floats
    capex_usd: float = float("nan")
    kgco2e: float = float("nan")
    kgco2e_per_year: float = float("nan")


@dataclass(frozen=True)
class Problem:
    """All of it; `fixed_usd` is spent a year whatever is bought, such as on staff [$/year]."""

    horizon: Horizon
    assets: Sequence[Asset]
    streams: Sequence[Stream]
    runs: Sequence[Run]
    limits: Limits
    fixed_usd: float = 0.0

    @property
    def works(self) -> list[Stream | Run]:
        """All workloads."""
        return [*self.streams, *self.runs]

    @property
    def options(self) -> list[Option]:
        """Of all workloads."""
        return [option for work in self.works for option in work.options]

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
        faults += [
            f"demand of {stream.name} is {stream.demand.tolist()}; wanted "
            f"{self.horizon.periods} numbers of at least 0"
            for stream in self.streams
            if (stream.demand < 0).any() or len(stream.demand) != self.horizon.periods
        ]
        for run in self.runs:
            least = min((option.periods for option in run.options), default=0)
            if run.start + least - 1 > run.due:
                faults.append(
                    f"run {run.name} takes at least {least} periods and may use {run.start} to "
                    f"{run.due}; give it more time, or more devices"
                )
        if faults:
            raise BadStudy(*faults)
