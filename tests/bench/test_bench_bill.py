"""Costing speed: a million plans at ten sites, everything a front can ask for."""

import numpy as np
import pytest

from costdata.bill import PlanRun, plan_costs
from costdata.hardware_bill import FabricShapes, Support, UnitShapes, hardware_bill
from costdata.hardware_cost import EmbodiedFactors, Prices
from costdata.terms import CostingTerms, refuse_bad_terms, yearly_shares

PLANS = 1_000_000
SITE = dict.fromkeys(CostingTerms.__dataclass_fields__, 0.0) | {
    "wacc_frac": 0.08,
    "it_life_years": 5.0,
    "network_life_years": 5.0,
    "storage_life_years": 5.0,
    "facility_life_years": 14.0,
    "embodied_life_years": 5.0,
    "pue": 1.2,
    "pue_proportional_frac": np.nan,
    "power_oversubscription": 1.0,
    "colo_usd_per_kw_month": 184.06,
    "utilisation_frac": 1.0,
    "headroom_frac": 0.1,
}


def sites(count):
    columns = {name: np.full(count, value) for name, value in SITE.items()}
    columns["usd_per_kwh"] = np.linspace(0.03, 0.2, count)
    columns["acquire_code"] = np.zeros(count, dtype=np.int64)
    return CostingTerms(**columns)


def wide(table, *values):
    return table(*(np.full(PLANS, value) for value in values))


@pytest.mark.bench
def test_a_million_plans_are_costed_in_a_second(benchmark):
    """Moving a price slider over a stored run would take longer than a breath."""
    rng = np.random.default_rng(0)
    devices = rng.integers(8, 20_000, PLANS).astype(float)
    bill = hardware_bill(
        devices,
        wide(UnitShapes, 8.0, 1.0, 8.0, 8.0),
        wide(FabricShapes, 64.0, 1.0),
        Support(0.03, 0.04, 50_677.0, 24.0),
    )
    watts = (devices * 1000.0, devices * 1200.0, devices * 200.0)
    run = PlanRun(*watts, np.full(PLANS, 1440.0), devices * 1e9)
    prices = Prices(
        *(np.full(PLANS, 255_237.0), np.zeros(PLANS, bool)),
        *(
            np.full(PLANS, usd)
            for usd in (36e3, 2560.0, 0.0, 1e4, 2e4, 6e4, 800.0, 150.0, 100.0, 2.5)
        ),
        np.ones(PLANS, bool),
    )
    embodied = wide(EmbodiedFactors, 164.0, 5700.0, 1000.0, 10.0, 0.0, 6.0, 1.1, 2.2)
    terms, code = sites(10), rng.integers(0, 10, PLANS)

    def recost():
        refuse_bad_terms(terms)
        shares = yearly_shares(terms).take(code)
        return plan_costs(bill, run, prices, embodied, terms.take(code), shares)

    costs = benchmark.pedantic(recost, rounds=3, warmup_rounds=1)
    assert (costs.columns["usd"] > 0).all()
    assert benchmark.stats["min"] < 1.0
