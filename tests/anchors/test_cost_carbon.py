"""Every equation of money, power and carbon against a worked example with its citation."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from costdata import carbon, energy_bill, network_build, tco
from simkernel import napkin, power_cap, reliability

CASES = tomllib.loads(Path(__file__).with_name("cost_carbon.toml").read_text("utf-8"))


def numbers(table):
    """The TOML table as names; lists become columns."""
    return SimpleNamespace(
        **{k: np.array(v, float) if isinstance(v, list) else v for k, v in table.items()}
    )


def crf(i):
    return {"capital_recovery_frac": tco.capital_recovery_frac(i.rate_frac, i.life_years)}


def h100_server(i):
    rate, life = i.wacc_frac, i.life_years
    gross = i.server_usd + i.network_usd
    energy = energy_bill.flat_energy_usd(
        energy_bill.energy_kwh(energy_bill.facility_w(i.it_w, i.pue), tco.HOURS_PER_YEAR),
        i.usd_per_kwh,
    )
    server = tco.annual_capital_usd(i.server_usd, 0.0, rate, life)
    with_network = tco.annual_capital_usd(gross, 0.0, rate, life)
    kept = tco.annual_capital_usd(gross, i.residual_frac * gross, rate, life)
    colo = energy_bill.demand_usd_per_year(i.contract_w, i.colo_usd_per_kw_month)
    all_in = kept + energy + i.maintenance_frac * gross + colo

    def per_hour(usd, sold=1.0):
        return tco.usd_per_device_hour(usd, i.devices, sold)

    return {
        "server_capital_usd_per_year": server,
        "energy_usd_per_year": energy,
        "server_only_usd_per_device_hour": per_hour(server + energy),
        "with_network_usd_per_device_hour": per_hour(with_network + energy),
        "less_residual_usd_per_device_hour": per_hour(kept + energy),
        "all_in_usd_per_device_hour": per_hour(all_in),
        "all_in_sold_usd_per_device_hour": per_hour(all_in, i.sold_frac),
    }


def llama_training(i):
    it_all = energy_bill.energy_kwh(i.tdp_w, i.device_hours_all)
    it_405b = energy_bill.energy_kwh(i.tdp_w, i.device_hours_405b)
    implied = i.reported_kgco2e_all / it_all
    node_w = energy_bill.facility_w(i.node_w_per_device, i.pue)
    facility = energy_bill.energy_kwh(node_w, i.device_hours_405b)
    return {
        "it_kwh_all": it_all,
        "it_kwh_405b": it_405b,
        "implied_kgco2e_per_kwh": implied,
        "kgco2e_405b": carbon.operational_kgco2e(it_405b, implied),
        "facility_kwh_405b": facility,
        "facility_kgco2e_405b": carbon.operational_kgco2e(facility, implied),
    }


def gpt3_training(i):
    flop = napkin.training_flop(i.parameters, i.tokens)
    seconds = napkin.run_s(flop, i.devices, i.peak_flop_per_s, i.mfu_frac)
    watts = energy_bill.facility_w(i.device_w * i.devices, i.pue)
    kwh = energy_bill.energy_kwh(watts, seconds / 3600)
    emitted = carbon.operational_kgco2e(kwh, i.grid_kgco2e_per_kwh)
    return {
        "flop": flop,
        "days": seconds / 86400,
        "facility_kwh": kwh,
        "kgco2e": emitted,
        "over_reported_frac": emitted / i.reported_kgco2e - 1,
    }


def act_package(i):
    logic = carbon.act_logic_kgco2e_per_cm2(
        i.fab_kgco2e_per_kwh,
        i.fab_kwh_per_cm2,
        i.gas_kgco2e_per_cm2,
        i.material_kgco2e_per_cm2,
        i.yield_frac,
    )
    made = carbon.act_package_kgco2e(
        i.die_cm2, logic, i.memory_bytes, i.memory_kgco2e_per_byte, i.packages, i.yield_frac
    )
    terms = {f"{name}_kgco2e": value for name, value in made.terms.items()}
    return terms | {"logic_kgco2e_per_cm2": logic, "total_kgco2e": made.total}


def boavizta_card(i):
    die_mm2 = i.memory_gbytes * i.memory_mm2_per_gbyte / i.memory_dies
    memory = carbon.effective_silicon_mm2(die_mm2, i.memory_dies)
    parts = carbon.CardParts(
        i.casing_kg, i.heatsink_kg, i.board_cm2, i.die_effective_mm2, memory, i.card_kg
    )
    made = carbon.boavizta_card_kgco2e(parts, carbon.CardFactors())
    terms = {f"{name}_kgco2e": value for name, value in made.terms.items()}
    return terms | {
        "die_effective_recomputed_mm2": carbon.effective_silicon_mm2(i.die_mm2),
        "memory_effective_mm2": memory,
        "total_kgco2e": made.total,
        "server_kgco2e": i.devices * made.total + i.host_kgco2e,
    }


def million_tokens(i):
    seconds = 1e6 / i.tokens_per_s
    share = carbon.resource_frac(i.devices, i.devices_installed)
    hours = seconds / 3600
    device_kwh = energy_bill.energy_kwh(i.j_per_token * i.tokens_per_s, hours)
    host_kwh = energy_bill.energy_kwh(i.host_w * share, hours)
    facility = energy_bill.facility_w(device_kwh + host_kwh, i.pue)
    operational = carbon.operational_kgco2e(facility, i.grid_kgco2e_per_kwh)
    made = i.card_kgco2e * i.devices_installed + i.host_kgco2e
    embodied = carbon.embodied_share_kgco2e(made, hours, i.life_hours, share)
    return {
        "seconds": seconds,
        "device_kwh": device_kwh,
        "host_kwh": host_kwh,
        "facility_kwh": facility,
        "operational_kgco2e": operational,
        "embodied_kgco2e": embodied,
        "sci_kgco2e_per_mtoken": carbon.sci_kgco2e_per_unit(operational, embodied, 1.0),
        "usd_per_mtoken": tco.usd_per_mtoken(i.usd_per_device_hour * i.devices, i.tokens_per_s),
    }


def one_hour(i):
    share = carbon.embodied_share_kgco2e(i.made_kgco2e, i.used_hours, i.life_hours)
    return {"embodied_kgco2e": share}


def demand_bill(i):
    peak = energy_bill.facility_w(i.it_w, i.pue)
    billed = energy_bill.billed_w(peak, i.contract_w, i.minimum_frac)
    demand = energy_bill.demand_usd_per_year(billed, i.usd_per_kw_month)
    kwh = energy_bill.energy_kwh(peak * i.load_frac, tco.HOURS_PER_YEAR)
    energy = energy_bill.flat_energy_usd(kwh, i.usd_per_kwh)
    return {
        "peak_w": peak,
        "billed_w": billed,
        "demand_usd": demand,
        "facility_kwh": kwh,
        "energy_usd": energy,
        "blended_usd_per_kwh": energy_bill.blended_usd_per_kwh(energy, demand, kwh),
    }


def fat_tree(i):
    hosts = i.devices / i.devices_per_host
    return {"switches": network_build.fabric_switches(hosts, i.rails, i.radix)}


def failures(i):
    device_s = i.devices * i.days * 86400 / i.failures
    job_s = reliability.mtbf_s(device_s, i.devices)
    young_s = reliability.young_interval_s(job_s, i.checkpoint_s)
    lost = reliability.lost_frac(job_s, young_s, i.checkpoint_s, i.recovery_s)
    available_s = reliability.available_interval_s(job_s, i.checkpoint_s, i.recovery_s)
    return {
        "mtbf_hours": job_s / 3600,
        "device_hours_per_failure": device_s / 3600,
        "mtbf_small_hours": reliability.mtbf_s(device_s, i.devices_small) / 3600,
        "young_hours": young_s / 3600,
        "available_hours": available_s / 3600,
        "goodput_frac": reliability.goodput_frac(lost),
    }


def breakeven(i):
    frac = tco.breakeven_utilisation_frac(i.own_usd_per_device_hour, i.rent_usd_per_device_hour)
    return {"breakeven_utilisation_frac": frac}


def present_worth(i):
    worth = tco.present_worth_frac(i.rate_frac, i.escalation_frac, i.life_years)
    return {
        "present_worth_frac": worth,
        "carbon_usd": carbon.carbon_usd(i.kgco2e_per_year, i.usd_per_tonne) * worth,
        "level_present_worth_frac": tco.present_worth_frac(i.rate_frac, 0.0, i.life_years),
    }


def part_load(i):
    pue = energy_bill.pue_at_load_frac(i.load_frac, i.fixed_frac, i.proportional_frac)
    return {"pue": pue}


def capped(i):
    clock = power_cap.capped_clock_frac(i.cap_w, i.floor_w, i.peak_w)
    slowdown = power_cap.capped_slowdown_frac(clock, i.compute_frac)
    return {
        "clock_frac": clock,
        "slowdown_frac": slowdown,
        "compute_bound_energy_frac": power_cap.capped_energy_frac(i.cap_w, i.peak_w, slowdown[0]),
    }


def matching(i):
    load, clean, grid = i.load_kwh, i.clean_kwh, i.grid_kgco2e_per_kwh
    return {
        "annual_match_frac": carbon.annual_match_frac(load, clean),
        "hourly_match_frac": carbon.hourly_match_frac(load, clean),
        "market_annual_kgco2e": carbon.market_annual_kgco2e(load, clean, grid),
        "market_hourly_kgco2e": carbon.market_hourly_kgco2e(load, clean, grid),
        "location_kgco2e": carbon.location_kgco2e(load, grid),
    }


def water(i):
    litres = carbon.water_l(i.it_kwh, i.onsite_l_per_kwh, i.pue, i.offsite_l_per_kwh)
    return {"water_l": litres}


def depreciation(i):
    left = tco.effective_capex_usd(
        i.capex_usd, i.tax_frac, i.rate_frac, i.credit_frac, i.bonus_frac
    )
    return {"tax_shield_usd": i.capex_usd - left, "effective_capex_usd": left}


def server_year(i):
    made = i.devices * i.card_kgco2e + i.host_kgco2e
    year = tco.HOURS_PER_YEAR
    embodied = carbon.embodied_share_kgco2e(made, year, i.life_years * year)
    watts = energy_bill.facility_w(i.it_w * i.utilisation_frac, i.pue)
    kwh = energy_bill.energy_kwh(watts, year)
    operational = carbon.operational_kgco2e(kwh, i.grid_kgco2e_per_kwh)
    return {
        "made_kgco2e": made,
        "embodied_kgco2e_per_year": embodied,
        "operational_kgco2e_per_year": operational[0],
        "embodied_share_frac": embodied / (embodied + operational),
    }


EQUATIONS = {
    "G1": crf,
    "G2": h100_server,
    "G3": llama_training,
    "G4": gpt3_training,
    "G5": act_package,
    "G6": boavizta_card,
    "G7": million_tokens,
    "G7b": one_hour,
    "G8": demand_bill,
    "G9": fat_tree,
    "G10": failures,
    "G11": breakeven,
    "G12": present_worth,
    "G13": part_load,
    "G14": capped,
    "G15": matching,
    "G16": water,
    "G17": depreciation,
    "G20": server_year,
}


@pytest.mark.parametrize("case", CASES)
def test_the_equations_give_every_value_of_a_worked_example(case):
    """A cost, watt or kilogram we print would differ from its published or hand-worked value."""
    anchor = CASES[case]
    got = EQUATIONS[case](numbers(anchor["inputs"]))
    assert set(got) == set(anchor["values"])
    for name, value in anchor["values"].items():
        np.testing.assert_allclose(got[name], value, rtol=anchor["tolerance_frac"], err_msg=name)


def test_all_nineteen_worked_examples_are_here():
    """A lost example would pass unseen."""
    assert len(CASES) == 19
    assert set(CASES) == set(EQUATIONS)
