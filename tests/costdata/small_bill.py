"""A cluster of 1,024 H100 on plain terms: rows that tests of the bill change one figure of."""

import tomllib
from pathlib import Path

import numpy as np

from costdata.bill import PlanRun, plan_costs
from costdata.hardware_bill import FabricShapes, Support, UnitShapes, hardware_bill
from costdata.hardware_cost import EmbodiedFactors, Prices
from costdata.terms import CostingTerms, yearly_shares

ANCHORS = tomllib.loads(
    (Path(__file__).parents[1] / "anchors" / "cost_carbon.toml").read_text("utf-8")
)
BARE = Support(0.0, 0.0, np.inf, 0.0)


def column(value, rows=1):
    return np.full(rows, float(value))


def servers(rows=1):
    return UnitShapes(column(8, rows), column(1, rows), column(8, rows), column(8, rows))


def racks(rows=1):
    return UnitShapes(column(72, rows), column(18, rows), column(4, rows), column(72, rows))


def fabric(rows=1, oversubscription=1.0):
    shape = np.zeros(rows, dtype=np.int64)
    return FabricShapes(column(64, rows), column(oversubscription, rows), shape, column(8, rows))


def terms(**changed):
    plain = {
        "wacc_frac": 0.08,
        "it_life_years": 4,
        "network_life_years": 4,
        "storage_life_years": 4,
        "facility_life_years": 14,
        "residual_frac": 0.2,
        "maintenance_frac": 0.05,
        "insurance_frac": 0,
        "software_usd_per_device_year": 0,
        "tax_frac": 0,
        "credit_frac": 0,
        "bonus_frac": 0,
        "depreciation_code": 2,
        "facility_depreciation_code": 4,
        "usd_per_kwh": 0.08,
        "grid_clean_frac": 0.3,
        "demand_usd_per_kw_month": 0,
        "minimum_billing_frac": 0,
        "contract_w": 0,
        "past_peak_w": 0,
        "ratchet_frac": 0,
        "minimum_take_frac": 0,
        "colo_usd_per_kw_month": 184.06,
        "facility_usd_per_w": 0,
        "staff_usd_per_year": 0,
        "pue": 1.25,
        "pue_fixed_frac": 0,
        "pue_proportional_frac": np.nan,
        "pue_climate_frac": 0,
        "power_oversubscription": 1,
        "grid_average_kgco2e_per_kwh": 0.4,
        "grid_marginal_kgco2e_per_kwh": 0.6,
        "market_kgco2e_per_kwh": np.nan,
        "carbon_usd_per_t": 0,
        "utilisation_frac": 1,
        "embodied_life_years": 4,
        "facility_kgco2e_per_w": 0,
        "wue_onsite_l_per_kwh": 0.2,
        "wue_offsite_l_per_kwh": 3.0,
        "headroom_frac": 0.1,
        "acquire_code": 0,
    }
    merged = plain | changed
    rows = max(np.size(v) for v in merged.values())
    full = {k: np.broadcast_to(np.asarray(v, float), (rows,)).copy() for k, v in merged.items()}
    for name in ("acquire_code", "depreciation_code", "facility_depreciation_code"):
        full[name] = full[name].astype(int)
    return CostingTerms(**full)


def prices(rows=1, **changed):
    plain = {
        "unit_usd": 255237.04,
        "switch_usd": 36000,
        "port_links_usd": 2560,
        "nic_usd": 0,
        "storage_usd_per_pb": 10000,
        "head_node_usd": 20000,
        "domain_switch_usd": 60000,
        "domain_optic_usd": 800,
        "domain_cable_usd": 150,
        "domain_fibre_usd": 100,
        "rent_usd_per_device_hour": 2.5,
    }
    full = {k: column(v, rows) for k, v in (plain | changed).items()}
    is_by_hour = np.full(rows, bool(full.pop("rent_is_by_hour", column(1))[0]))
    return Prices(unit_is_estimate=np.zeros(rows, bool), rent_is_by_hour=is_by_hour, **full)


def embodied(rows=1, link=0, unit_network=0):
    each = (164, 5700, 1000, link, unit_network, 6, 1.1, 2.2)
    return EmbodiedFactors(*(column(kgco2e, rows) for kgco2e in each))


def run(rows=1, mean_w=1e6, peak_w=1.1e6, idle_w=0.25e6, hours=1440.0, tokens=1e12):
    return PlanRun(*(column(x, rows) for x in (mean_w, peak_w, idle_w, hours, tokens)))


def cost(plan, t=None, p=None, r=None, accounting="location_average", e=None):
    t = terms() if t is None else t
    rows = len(plan)
    return plan_costs(
        plan,
        run(rows) if r is None else r,
        prices(rows) if p is None else p,
        embodied(rows) if e is None else e,
        t,
        yearly_shares(t),
        accounting,
    )


H100_128 = hardware_bill(column(1024), servers(), fabric(), BARE)
