"""Carbon and water: what a site's electricity and the making of the hardware emit.

Operational carbon takes facility energy (PUE already in it, once), embodied carbon is shared by
devices and time. Which intensity a report may use is the study's choice; the accountings are
separate functions and are never mixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.ledger import Ledger

PACKAGE_KGCO2E = 0.150  # ACT act/core/common.py CARBON_PER_IC_PACKAGE
ACT_YIELD_FRAC = 0.875  # ACT act/core/logic_model.py, default fab yield


def operational_kgco2e(facility_kwh: Column, grid_kgco2e_per_kwh: Column) -> Column:
    """Carbon of the electricity at the meter, at one intensity.

    Notes
    -----
    With the grid's average it is the location-based figure, fit for reporting; with the marginal
    rate the effect of a decision; with a contract's or residual factor the market-based figure.

    References
    ----------
    GHG Protocol Scope 2 Guidance, ch. 6.
    """
    return facility_kwh * grid_kgco2e_per_kwh


def carbon_usd(kgco2e: Column, usd_per_tonne: Column) -> Column:
    """Cost of emissions at a price per tonne (REopt.jl financial.jl `CO2_cost_per_tonne`)."""
    return kgco2e / 1000.0 * usd_per_tonne


def sci_kgco2e_per_unit(operational: Column, embodied: Column, units: Column) -> Column:
    """Software carbon intensity: (O + M) / R, R the functional unit, e.g. a million tokens.

    References
    ----------
    Green Software Foundation SCI SPEC.md, ISO/IEC 21031.
    """
    return (operational + embodied) / units


def embodied_share_kgco2e(
    made_kgco2e: Column, used_hours: Column, life_hours: Column, resource_frac: Column = 1.0
) -> Column:
    """Part of the carbon of making that one use carries: M = TE x TS x RS.

    Parameters
    ----------
    made_kgco2e : (n,) of the whole equipment
    used_hours, life_hours : (n,) reserved, and expected in all [h]
    resource_frac : (n,) share of the equipment reserved, by devices

    References
    ----------
    Green Software Foundation SCI SPEC.md, "Embodied emissions".
    """
    return made_kgco2e * (used_hours / life_hours) * resource_frac


def resource_frac(devices_used: Column, devices_installed: Column) -> Column:
    """Share of a host that a tenant holds: by accelerators, slices as fractions, never by CPUs."""
    return devices_used / devices_installed


def act_logic_kgco2e_per_cm2(
    fab_kgco2e_per_kwh: Column,
    fab_kwh_per_cm2: Column,
    gas_kgco2e_per_cm2: Column,
    material_kgco2e_per_cm2: Column,
    yield_frac: Column = ACT_YIELD_FRAC,
) -> Column:
    """Carbon of a square centimetre of good logic die.

    References
    ----------
    ACT act/core/logic_model.py `get_cpa`: (CI EPA + GPA + MPA) / yield.
    """
    energy = fab_kgco2e_per_kwh * fab_kwh_per_cm2
    return (energy + gas_kgco2e_per_cm2 + material_kgco2e_per_cm2) / yield_frac


def act_package_kgco2e(
    die_cm2: Column,
    logic_kgco2e_per_cm2: Column,
    memory_bytes: Column,
    memory_kgco2e_per_byte: Column,
    packages: Column,
    memory_yield_frac: Column = ACT_YIELD_FRAC,
) -> Ledger:
    """Carbon of an accelerator package by the ACT method: die, DRAM, packaging.

    References
    ----------
    ACT act/models; 150 g per packaged IC, not divided by yield.
    """
    terms = {
        "die": die_cm2 * logic_kgco2e_per_cm2,
        "memory": memory_bytes * memory_kgco2e_per_byte / memory_yield_frac,
        "packaging": PACKAGE_KGCO2E * packages,
    }
    return Ledger("embodied_act", "kgCO2e", terms)


@dataclass(frozen=True)
class CardParts:
    """An accelerator card as Boavizta weighs it: masses [kg], board [cm2], silicon [mm2]."""

    casing_kg: Column
    heatsink_kg: Column
    board_cm2: Column
    die_effective_mm2: Column
    memory_effective_mm2: Column
    card_kg: Column


@dataclass(frozen=True)
class CardFactors:
    """Impact of each part of a card, kgCO2e per kg, cm2 or mm2."""

    casing_kgco2e_per_kg: float = 8.2542  # Boavizta/boaviztapi factors.yml gpu.casing
    heatsink_kgco2e_per_kg: float = 5.7412  # factors.yml gpu.heatsink
    board_kgco2e_per_cm2: float = 0.032549  # factors.yml gpu.pwb
    die_kgco2e_per_mm2: float = 0.042592  # factors.yml gpu.gpu_die
    memory_kgco2e_per_mm2: float = 0.18379  # factors.yml gpu.vram
    upstream_kgco2e_per_kg: float = 0.25955  # factors.yml gpu.upstream transport
    boat_kgco2e_per_kg: float = 0.2527  # factors.yml gpu.transport_boat
    truck_kgco2e_per_kg: float = 0.0504  # factors.yml gpu.transport_truck
    end_of_life_kgco2e_per_kg: float = 1.5062  # factors.yml gpu.end_of_life


def boavizta_card_kgco2e(parts: CardParts, factors: CardFactors) -> Ledger:
    """Carbon of an accelerator card from the bottom up.

    Notes
    -----
    Stacked memory is treated as monolithic dies: an upper bound for HBM.

    References
    ----------
    Boavizta boaviztapi models/component/gpu: the sum of factor x quantity.
    """
    terms = {
        "casing": parts.casing_kg * factors.casing_kgco2e_per_kg,
        "heatsink": parts.heatsink_kg * factors.heatsink_kgco2e_per_kg,
        "board": parts.board_cm2 * factors.board_kgco2e_per_cm2,
        "die": parts.die_effective_mm2 * factors.die_kgco2e_per_mm2,
        "memory": parts.memory_effective_mm2 * factors.memory_kgco2e_per_mm2,
        "upstream": parts.card_kg * factors.upstream_kgco2e_per_kg,
        "boat": parts.card_kg * factors.boat_kgco2e_per_kg,
        "truck": parts.card_kg * factors.truck_kgco2e_per_kg,
        "end_of_life": parts.card_kg * factors.end_of_life_kgco2e_per_kg,
    }
    return Ledger("embodied_boavizta", "kgCO2e", terms)


def effective_silicon_mm2(
    die_mm2: Column,
    dies: Column = 1.0,
    wafer_mm: float = 300.0,  # Boavizta models/component/gpu: wafer diameter
    kerf_mm: float = 0.2,  # Boavizta models/component/gpu: saw street
    defects_per_cm2: float = 0.1,  # Boavizta models/component/gpu: defect density
) -> Column:
    """Wafer area a good die costs, with the edge and the bad dies charged to it.

    Parameters
    ----------
    die_mm2 : (n,) one die; assumed square
    dies : (n,) how many on the card

    References
    ----------
    Dies per wafer pi (d/2)^2/S - pi d/sqrt(2 S): Hennessy and Patterson, Computer Architecture,
    ch. 1; yield exp(-sqrt(D S)) and the kerf in S as in Boavizta models/component/gpu.
    """
    cut_mm2 = (np.sqrt(die_mm2) + kerf_mm) ** 2
    wafer_mm2 = np.pi * wafer_mm**2 / 4.0
    dies_per_wafer = wafer_mm2 / cut_mm2 - np.pi * wafer_mm / np.sqrt(2.0 * cut_mm2)
    good_frac = np.exp(-np.sqrt(defects_per_cm2 * cut_mm2 / 100.0))
    return dies * wafer_mm2 / dies_per_wafer / good_frac


def annual_match_frac(load_kwh: Floats, clean_kwh: Floats) -> Column:
    """Contracted clean energy over load of the whole period, at most 1 (G15 annual)."""
    share: Column = np.minimum(clean_kwh.sum(axis=0) / load_kwh.sum(axis=0), 1.0)
    return share


def hourly_match_frac(
    load_kwh: Floats, clean_kwh: Floats, grid_clean_frac: Column = 0.0
) -> Column:
    """Share of the load met by clean energy in the same hour, the grid's own share included.

    Parameters
    ----------
    load_kwh, clean_kwh : (h,) or (h, n) facility load and contracted clean energy
    grid_clean_frac : (h,) or number, clean share of what the grid supplies

    References
    ----------
    Google, 24/7 CFE methodology: sum of min(load, CFE) over sum of load.
    """
    contracted = np.minimum(load_kwh, clean_kwh)
    from_grid_kwh = grid_clean_frac * (load_kwh - contracted)
    met_kwh, all_kwh = (kwh.sum(axis=0) for kwh in (contracted, load_kwh))
    return matched_frac(met_kwh, from_grid_kwh.sum(axis=0), all_kwh)


def matched_frac(matched_kwh: Column, grid_clean_kwh: Column, load_kwh: Column) -> Column:
    """Share of a load met by clean energy in the same hour, from energies of a period.

    Parameters
    ----------
    matched_kwh, grid_clean_kwh : from sources of one's own, and clean out of the grid [kWh]
    """
    return (matched_kwh + grid_clean_kwh) / load_kwh


def location_kgco2e(load_kwh: Floats, grid_kgco2e_per_kwh: Column) -> Column:
    """Location-based carbon of an hourly load; contracts do not count (Scope 2, ch. 6)."""
    emitted: Column = (load_kwh * grid_kgco2e_per_kwh).sum(axis=0)
    return emitted


def market_hourly_kgco2e(
    load_kwh: Floats, clean_kwh: Floats, residual_kgco2e_per_kwh: Column
) -> Column:
    """Market-based carbon with hourly matching: unmatched hours carry the residual factor.

    References
    ----------
    GHG Protocol Scope 2 public consultation, October 2025.
    """
    unmatched_kwh = np.maximum(load_kwh - clean_kwh, 0.0)
    by_hour = np.asarray(market_kgco2e(unmatched_kwh, residual_kgco2e_per_kwh))
    emitted: Column = by_hour.sum(axis=0)
    return emitted


def market_kgco2e(
    unmatched_kwh: Column, residual_kgco2e_per_kwh: Column, source_kgco2e: Column = 0.0
) -> Column:
    """Market-based carbon: what no source met in its hour carries the residual mix.

    Parameters
    ----------
    unmatched_kwh : from the grid [kWh]
    residual_kgco2e_per_kwh : NaN where none is given: the grid's average is no stand-in for it
    source_kgco2e : of the energy of sources that was used [kgCO2e]
    """
    return unmatched_kwh * residual_kgco2e_per_kwh + source_kgco2e


def abatement_usd_per_t(
    cost_usd: Column, kgco2e: Column, base_usd: Column, base_kgco2e: Column
) -> Floats:
    """What avoiding a tonne costs against a base; NaN where nothing is avoided.

    Below 0 the cleaner way is the cheaper one.

    References
    ----------
    Definition of marginal abatement cost; NREL/REopt.jl PR 94: undefined without abatement.
    """
    avoided_t = (np.asarray(base_kgco2e, float) - kgco2e) / 1000.0
    is_avoided = avoided_t > 0
    usd = np.asarray(cost_usd, float) - base_usd
    return np.where(is_avoided, usd / np.where(is_avoided, avoided_t, 1.0), np.nan)


def market_annual_kgco2e(
    load_kwh: Floats, clean_kwh: Floats, residual_kgco2e_per_kwh: Column
) -> Column:
    """Market-based carbon with yearly matching, at the load's mean residual factor."""
    unmatched_frac = 1.0 - annual_match_frac(load_kwh, clean_kwh)
    return location_kgco2e(load_kwh, residual_kgco2e_per_kwh) * unmatched_frac


def water_l(
    it_kwh: Column, onsite_l_per_kwh: Column, pue: Column, offsite_l_per_kwh: Column
) -> Column:
    """Water evaporated on site by cooling and off site by the power stations.

    References
    ----------
    EcoLogits methodology, after Li et al. 2025: E_IT (WUE_on + PUE x WUE_off).
    """
    return it_kwh * (onsite_l_per_kwh + pue * offsite_l_per_kwh)
