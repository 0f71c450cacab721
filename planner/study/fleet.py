"""The calendar of a purchase plan as a study writes it: periods, demand, power, money, stock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from planner.study.parts import CONFIG, Amount, AtLeastZero, Count, Switch, Text

OF_THE_FLEET = ("capex_usd", "kgco2e", "peak_facility_mw")
"""Limits on all workloads together, which a purchase plan keeps."""

OF_A_SITE = ("site_mw", "site_it_mw", "site_racks")
"""Tables of what each site can take."""

OF_A_CHIP = ("available", "sold_together")
"""Tables of what is so of each chip."""

COUNTED = ("devices", "nodes", "supernodes", "stranded_devices", "purchase_units")
"""Counts of one workload's own plan, which a purchase plan shares out."""


Period = Annotated[int, Field(strict=True, ge=0, description="a period, from 0")]
Share = Annotated[float, Field(strict=True, ge=0, le=1, description="a share from 0 to 1")]
Change = Annotated[
    float, Field(strict=True, gt=-1, le=10, description="change a year, e.g. -0.15")
]


@dataclass(frozen=True, config=CONFIG)
class Ramp:
    """Demand that goes in a straight line to `to` times itself, and stays there."""

    from_period: Period
    until_period: Period
    to: Annotated[AtLeastZero, Field(description="a factor, e.g. 3")]


@dataclass(frozen=True, config=CONFIG)
class Spike:
    """One period in which demand is `times` what it would be."""

    period: Period
    times: Annotated[AtLeastZero, Field(description="a factor, e.g. 2")]


@dataclass(frozen=True, config=CONFIG)
class FanOut:
    """From a period on each request becomes `times` requests, as where agents call a model."""

    from_period: Period
    times: Annotated[AtLeastZero, Field(description="a factor, e.g. 4")]


@dataclass(frozen=True, config=CONFIG)
class Demand:
    """When a workload of a purchase plan is there: a table [fleet.demand.NAME].

    `level` and `growth_frac_per_year` give a stream in multiples of what its workload describes,
    `levels` period by period instead; `ramp`, `spikes` and `fan_out` multiply them. `by_hour` is
    the share of the peak in equal parts of a day, `headroom_frac` capacity kept above the demand.
    A training run begins in period `start` or later and is done by the end of period `due`;
    periods count from 0. It may stop between periods where `may_pause`; with `block_devices` it
    works in such blocks beside streams, by the hour, and a block that stops loses `stop_hours`.
    """

    level: Annotated[AtLeastZero, Field(description="multiples of the workload, e.g. 1")] = 1.0
    growth_frac_per_year: Annotated[
        float, Field(strict=True, gt=-1, le=100, description="growth a year, e.g. 0.5 for 50%")
    ] = 0.0
    levels: Annotated[
        tuple[AtLeastZero, ...] | None, Field(description="one multiple for each period")
    ] = None
    ramp: Annotated[Ramp | None, Field(description="{ from_period, until_period, to }")] = None
    spikes: Annotated[tuple[Spike, ...], Field(description="tables { period, times }")] = ()
    fan_out: Annotated[FanOut | None, Field(description="{ from_period, times }")] = None
    by_hour: Annotated[
        tuple[Share, ...], Field(description="shares of the peak in equal parts of a day")
    ] = ()
    headroom_frac: Annotated[
        float, Field(strict=True, ge=0, le=10, description="a share of the demand, e.g. 0.2")
    ] = 0.0
    start: Period = 0
    due: Period | None = None
    may_pause: Annotated[Switch, Field(description="true or false")] = False
    block_devices: Annotated[
        Count | None, Field(description="chips of a block, a whole number")
    ] = None
    stop_hours: Annotated[
        AtLeastZero, Field(le=24, description="hours of work that a stop loses, 0 to 24")
    ] = 0.0


@dataclass(frozen=True, config=CONFIG)
class Held:
    """Servers or racks that are there already: units of a chip, and the years left to them."""

    accelerator: Annotated[Text, Field(description="a chip of the study")]
    site: Annotated[Text, Field(description="a site of the study")]
    units: Annotated[Count, Field(description="servers or racks, a whole number")]
    years_left: Annotated[Amount, Field(description="years of life left")]


@dataclass(frozen=True, config=CONFIG)
class Contract:
    """A way to have units beside buying them: a table [[fleet.contracts]].

    A lease stands on one's own floor and is for its term; what is reserved, on demand or spot
    stands with a lessor. Without `usd_per_device_hour` the catalogue's rent counts. Spot trains
    and does not serve; `lost_frac` of its hours are lost when it is taken away.
    """

    kind: Annotated[
        Literal["lease", "reserved", "on_demand", "spot"],
        Field(description='"lease", "reserved", "on_demand" or "spot"'),
    ]
    accelerator: Annotated[Text | None, Field(description="a chip of the study; all of them")] = (
        None
    )
    site: Annotated[Text | None, Field(description="a site of the study; all of them")] = None
    usd_per_device_hour: Annotated[
        Amount | None, Field(le=50, description="a price per hour and device, from 0 to 50")
    ] = None
    term_years: Annotated[Amount | None, Field(le=20, description="years, e.g. 1")] = None
    least_units: Annotated[Count, Field(description="units taken at once, if any are")] = 1
    lead_weeks: Annotated[AtLeastZero, Field(le=520, description="weeks until it is there")] = 0.0
    lost_frac: Annotated[
        float, Field(strict=True, ge=0, lt=1, description="share of hours lost, e.g. 0.1")
    ] = 0.0


@dataclass(frozen=True, config=CONFIG)
class Branch:
    """Something that may happen: a table [[fleet.branches]].

    Branches of one period exclude each other, and their chances add up to 1. What shows in a
    period was not known to what is ordered before it.
    """

    name: Annotated[Text, Field(description="a word for it")]
    period: Annotated[int, Field(strict=True, ge=1, description="a period, from 1")]
    chance: Annotated[float, Field(strict=True, gt=0, le=1, description="from 0 to 1")]
    demand: Annotated[
        Mapping[str, AtLeastZero], Field(description="streams and factors, { chat = 1.5 }")
    ] = field(default_factory=dict)
    late_weeks: Annotated[
        AtLeastZero, Field(le=520, description="weeks by which deliveries are late")
    ] = 0.0


@dataclass(frozen=True, config=CONFIG)
class Risk:
    """How much the worst futures count: `weight` on the mean of the worst `tail_frac` of them.

    `tail_frac` also says which futures objective `tail_npv_usd` is of.
    """

    weight: Share = 0.0
    tail_frac: Annotated[
        float, Field(strict=True, gt=0, le=1, description="share of futures, e.g. 0.1")
    ] = 0.1


@dataclass(frozen=True, config=CONFIG)
class Fleet:
    """The table [fleet]: the calendar of a purchase plan, and what belongs to it alone.

    `first_day` is the date on which period 0 begins, so that orders have dates. `lead_weeks` is
    from order to delivery; `price_change_frac_per_year` of servers, below 0 where
    they become cheaper, `rent_change_frac_per_year` of rents; `available` the period in which a
    chip can first be had. `site_it_mw` and `site_racks` are what the halls of a site hold.
    `clean_frac` is the least carbon-free share of the energy of a year. `survive_units` of each
    chip at a site, or any one site to `survive_site_frac` of every stream, may be lost;
    `repair_days` is what a failed unit is away, for which spares stand by. Units are sold early
    for `resale_frac` of their straight-line worth and moved for `move_usd_per_unit`, at a review
    every `review_years`. `sold_together` is how many units of a chip are bought at once, such as
    the servers of a rack; a scale-up domain of several units is bought whole in any case.
    `points` are plans on the front of cost and carbon.
    """

    periods: Annotated[int, Field(strict=True, ge=1, le=80, description="how many, 1 to 80")] = 4
    period_years: Annotated[Amount, Field(le=10, description="years of a period, e.g. 0.25")] = 1.0
    first_day: Annotated[
        Text | None, Field(description='the first day of period 0, "2027-01-01"')
    ] = None
    demand: Annotated[
        Mapping[str, Demand], Field(description="a table for each workload, [fleet.demand.NAME]")
    ] = field(default_factory=dict)
    site_mw: Annotated[
        Mapping[str, Amount], Field(description='MW at the meter of each site, { "us-tx" = 20 }')
    ] = field(default_factory=dict)
    site_it_mw: Annotated[
        Mapping[str, Amount], Field(description='MW of the racks of each site, { "us-tx" = 15 }')
    ] = field(default_factory=dict)
    site_racks: Annotated[
        Mapping[str, Amount], Field(description='rack positions of each site, { "us-tx" = 90 }')
    ] = field(default_factory=dict)
    budget_usd_per_period: Annotated[
        tuple[AtLeastZero, ...], Field(description="dollars of capital, one for each period")
    ] = ()
    kgco2e_per_year: Annotated[
        Amount | None, Field(description="most kgCO2e of a year, making included")
    ] = None
    clean_frac: Share | None = None
    survive_units: Annotated[
        int, Field(strict=True, ge=0, le=1000, description="units, a whole number from 0")
    ] = 0
    survive_site_frac: Share = 0.0
    repair_days: Annotated[
        AtLeastZero, Field(le=365, description="days that a failed unit is away, e.g. 14")
    ] = 0.0
    lead_weeks: Annotated[
        AtLeastZero | None, Field(le=520, description="weeks from order to delivery")
    ] = None
    late_weeks: Annotated[
        AtLeastZero, Field(le=520, description="weeks by which every delivery is taken to be late")
    ] = 0.0
    price_change_frac_per_year: Change = 0.0
    rent_change_frac_per_year: Change = 0.0
    available: Annotated[
        Mapping[str, Period], Field(description="chips and the first period they are sold in")
    ] = field(default_factory=dict)
    held: Annotated[
        tuple[Held, ...], Field(description="tables [[fleet.held]] of units there already")
    ] = ()
    may_rent: Annotated[Switch, Field(description="true or false")] = True
    may_buy: Annotated[Switch, Field(description="true or false")] = True
    contracts: Annotated[
        tuple[Contract, ...], Field(description="tables [[fleet.contracts]] beside buying")
    ] = ()
    resale_frac: Share | None = None
    move_usd_per_unit: Annotated[
        AtLeastZero | None, Field(description="dollars to bring a unit to another site")
    ] = None
    review_years: Annotated[
        Amount, Field(le=10, description="years from one sale or move to the next, e.g. 0.25")
    ] = 1.0
    sold_together: Annotated[
        Mapping[str, Count],
        Field(description="chips and the units bought at once, a whole number"),
    ] = field(default_factory=dict)
    move_weeks: Annotated[
        AtLeastZero, Field(le=104, description="weeks that a moved unit is away")
    ] = 4.0
    branches: Annotated[
        tuple[Branch, ...], Field(description="tables [[fleet.branches]] of what may happen")
    ] = ()
    risk: Annotated[Risk | None, Field(description="{ weight = 0.5, tail_frac = 0.1 }")] = None
    points: Annotated[int, Field(strict=True, ge=1, le=50, description="plans, 1 to 50")] = 5
    gap_frac: Annotated[
        float, Field(strict=True, gt=0, le=0.5, description="gap at which to stop, e.g. 0.005")
    ] = 0.005
    limit_s: Annotated[Amount, Field(le=86_400, description="seconds for each plan, e.g. 60")] = (
        60.0
    )
