"""Keys of [costing] that say where electricity comes from: hours, tiers, contracts, own plant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from costdata.energy_bill import climate_frac
from costdata.supply import Supply
from costdata.tariff import HOURS_PER_DAY, SHAPES, Period, Source, Tier, hours_in, shape_of
from simkernel.columns import Floats
from simkernel.errors import BadStudy, MissingFact

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False)

Usd = Annotated[
    float, Field(strict=True, ge=-1, le=10, allow_inf_nan=False,
                 description="dollars (not cents) per kWh, from -1 to 10"),
]  # fmt: skip
Hour = Annotated[int, Field(strict=True, ge=0, le=24, description="an hour of the day, 0 to 24")]
Month = Annotated[int, Field(strict=True, ge=1, le=12)]
Above = Annotated[float, Field(strict=True, gt=0, le=1e12, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]

W_PER_MW = 1e6


@dataclass(frozen=True, config=_CONFIG)
class TimeOfUse:
    """Hours with a price of their own; a later entry goes before an earlier one."""

    usd_per_kwh: Usd
    months: Annotated[
        tuple[Month, ...], Field(description="months 1 to 12, e.g. [6, 7, 8, 9]")
    ] = tuple(range(1, 13))
    days: Annotated[
        Literal["all", "weekdays", "weekends"], Field(description='"all", "weekdays", "weekends"')
    ] = "all"
    from_hour: Hour = 0
    to_hour: Hour = 24


@dataclass(frozen=True, config=_CONFIG)
class EnergyTier:
    """A price up to so much energy of a month; the last entry has no end."""

    usd_per_kwh: Usd
    up_to_kwh_per_month: Annotated[
        Above | None, Field(description="kWh of a month, above 0; left out in the last tier")
    ] = None


@dataclass(frozen=True, config=_CONFIG)
class EnergySource:
    """A power purchase agreement, or plant behind the meter, the same at every site."""

    name: Annotated[str, Field(strict=True, min_length=1, description="a name")]
    mw: Annotated[Above, Field(le=1e5, description="MW at most, at the meter, above 0")]
    usd_per_kwh: Usd
    shape: Annotated[
        Literal["flat", "solar", "wind"] | tuple[Share, ...],
        Field(description='"flat", "solar", "wind", or 24 shares of the peak, one an hour'),
    ]
    pay: Annotated[
        Literal["as_produced", "as_used"], Field(description='"as_produced" or "as_used"')
    ] = "as_produced"
    excess_usd_per_kwh: Usd = 0.0
    kgco2e_per_kwh: Annotated[
        float, Field(strict=True, ge=0, le=3, description="kgCO2e per kWh, from 0 to 3")
    ] = 0.0
    behind_the_meter: Annotated[
        bool, Field(strict=True, description="true for plant of your own on the site")
    ] = False


@dataclass(frozen=True, config=_CONFIG)
class PueCurve:
    """PUE from load and weather: 1 + proportional + fixed / load + what warm hours add.

    `fixed_frac` is over the IT power provided. `wet_bulb_c` are means of the months.
    """

    fixed_frac: Annotated[Share, Field(description="overhead at any load over provided IT power")]
    proportional_frac: Annotated[Share, Field(description="overhead that follows the IT load")]
    frac_per_k: Annotated[
        float, Field(strict=True, ge=0, le=0.1, description="added per kelvin, 0 to 0.1")
    ] = 0.0
    from_wet_bulb_c: Annotated[
        float, Field(strict=True, ge=-20, le=40, description="where compressors start, in C")
    ] = 18.0
    wet_bulb_c: Annotated[
        tuple[Annotated[float, Field(strict=True, ge=-60, le=45)], ...],
        Field(description="twelve monthly means of the wet bulb, in C"),
    ] = ()


def pue_terms(curve: PueCurve) -> dict[str, float]:
    """Terms that a curve comes to.

    Raises
    ------
    BadStudy : warm hours without a climate, or a climate without effect
    """
    if bool(curve.frac_per_k) != bool(curve.wet_bulb_c) or len(curve.wet_bulb_c) not in (0, 12):
        raise BadStudy(
            "costing.pue_curve: frac_per_k needs wet_bulb_c, twelve monthly means, and they need "
            "it; give both or none"
        )
    climate = np.array(curve.wet_bulb_c or (0.0,))
    added = climate_frac(climate, curve.frac_per_k, curve.from_wet_bulb_c)
    return {
        "pue_fixed_frac": curve.fixed_frac,
        "pue_proportional_frac": curve.proportional_frac,
        "pue_climate_frac": float(added),
    }


BillYear = Annotated[
    int, Field(strict=True, ge=2000, le=2100, description="a calendar year, e.g. 2027")
]


def supply_of(
    year: int | None,
    periods: Sequence[TimeOfUse],
    tiers: Sequence[EnergyTier],
    sources: Sequence[EnergySource],
    clean_by_hour: tuple[float, ...] = (),
) -> Supply | None:
    """What the keys come to; None where there are none.

    Raises
    ------
    MissingFact : no calendar year
    BadStudy : every entry that cannot mean anything, at once
    """
    if not (periods or tiers or sources):
        if clean_by_hour:
            raise BadStudy(
                "costing.grid_cfe_by_hour is what sources are laid over, and there are none; give "
                "costing.sources, or its mean as grid_cfe_frac"
            )
        if year is not None:
            raise BadStudy(
                "costing.bill_year changes nothing without time_of_use, energy_tiers, sources or "
                "prices of your own (usd_per_kwh, demand_usd_per_kw_month), whose money it dates; "
                "remove it or give one of them"
            )
        return None
    faults = [*_period_faults(periods), *_tier_faults(tiers, periods), *_source_faults(sources)]
    if clean_by_hour and len(clean_by_hour) != HOURS_PER_DAY:
        faults.append(
            f"costing.grid_cfe_by_hour has {len(clean_by_hour)} shares; give 24, one an hour"
        )
    if faults:
        raise BadStudy(*faults)
    if year is None:
        raise MissingFact(
            "hours of a year fall on weekdays and leap days; give costing.bill_year, e.g. 2027"
        )
    return Supply(
        year,
        tuple(Period(p.usd_per_kwh, p.months, p.days, p.from_hour, p.to_hour) for p in periods),
        tuple(Tier(t.usd_per_kwh, t.up_to_kwh_per_month or math.inf) for t in tiers),
        tuple(_source(s, year) for s in sources),
        _shape(clean_by_hour, year) if clean_by_hour else None,
    )


def _source(given: EnergySource, year: int) -> Source:
    return Source(
        name=given.name,
        peak_w=given.mw * W_PER_MW,
        shape_frac=_shape(given.shape, year),
        usd_per_kwh=given.usd_per_kwh,
        is_paid_as_produced=given.pay == "as_produced",
        excess_usd_per_kwh=given.excess_usd_per_kwh,
        kgco2e_per_kwh=given.kgco2e_per_kwh,
        is_behind_meter=given.behind_the_meter,
    )


def _shape(given: str | tuple[float, ...], year: int) -> Floats:
    if isinstance(given, str):
        return shape_of(given, year)
    return np.tile(np.array(given), hours_in(year) // HOURS_PER_DAY)


def _period_faults(periods: Sequence[TimeOfUse]) -> list[str]:
    return [
        f"costing.time_of_use from {p.from_hour} to {p.to_hour} has no hours; give two hours that "
        "differ"
        for p in periods
        if p.from_hour % HOURS_PER_DAY == p.to_hour % HOURS_PER_DAY
        and (p.from_hour, p.to_hour) != (0, HOURS_PER_DAY)
    ]


def _tier_faults(tiers: Sequence[EnergyTier], periods: Sequence[TimeOfUse]) -> list[str]:
    if not tiers:
        return []
    faults = []
    if periods:
        faults.append("costing.energy_tiers and time_of_use both set the price; give one of them")
    ends = [tier.up_to_kwh_per_month or math.inf for tier in tiers]
    if sorted(set(ends)) != ends or ends[-1] != math.inf:
        faults.append(
            "costing.energy_tiers has to rise, with no up_to_kwh_per_month in the last entry only"
        )
    return faults


def _source_faults(sources: Sequence[EnergySource]) -> list[str]:
    faults = [
        f"costing.sources {s.name}: shape has {len(s.shape)} shares; give 24, or one of "
        f"{', '.join(SHAPES)}"
        for s in sources
        if not isinstance(s.shape, str) and len(s.shape) != HOURS_PER_DAY
    ]
    names = [s.name for s in sources]
    repeated = sorted({name for name in names if names.count(name) > 1})
    faults += [f"costing.sources has {name} twice; give each a name" for name in repeated]
    return faults + [
        f"costing.sources {s.name} is paid as used and sells nothing; drop excess_usd_per_kwh"
        for s in sources
        if s.pay == "as_used" and s.excess_usd_per_kwh
    ]
