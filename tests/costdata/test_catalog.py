"""The catalogue answers by name, joins chips with curves, and says what it does not know."""

import dataclasses
import json

import numpy as np
import pytest

from costdata.catalog import Catalog, load
from costdata.entries import listing, show
from costdata.facts import parse_table
from costdata.offers import PLANS
from costdata.overlay import lay_over, read_ours
from simkernel.errors import MissingFact, UnknownName
from simkernel.hardware import OPERATIONS, PRECISIONS, TOPOLOGIES

ORIGIN = {"source": "fixture", "as_of": "2026", "grade": "guess", "licence": "own"}


def curves(*names):
    """Small tables of curves for some chips, one number for each field."""
    facts = load()
    gemm = [
        {"accelerator": name, "precision": p, "flop_frac_max": "0.8", "rows_half": "64"}
        | {"columns_half": "32", "inner_half": "16", "hbm_frac": "0.7", "floor_s": "1e-5"}
        for name in names
        for p in PRECISIONS
        if f"{p}_flop_per_s" in facts.accelerator(name).facts
    ]
    flat = [{"accelerator": name} for name in names]
    attention = {"flop_frac_max": "0.6", "tokens_half": "128", "hbm_frac": "0.8"}
    power = "idle_w context_w memory_w compute_w communication_w cap_w host_idle_w host_span_w"
    power += " fan_idle_w fan_span_w"
    rows = {
        "efficiency_gemm": gemm,
        "efficiency_attention": [
            row | attention | {"floor_s": "2e-5", "backward_frac": "0.7"} for row in flat
        ],
        "efficiency_stream": [row | {"hbm_frac": "0.85", "floor_s": "3e-6"} for row in flat],
        "links": [
            row
            | {"tier": tier, "operation": operation, "wire_frac": str(0.8 - i / 10)}
            | {"base_s": "1e-5", "step_s": "1e-6"}
            for row in flat
            for tier in ("scaleup", "scaleout")
            for i, operation in enumerate(OPERATIONS)
        ],
        "power_curves": [
            row
            | dict.fromkeys(power.split(), "100")
            | {"memory_exponent": "1", "compute_exponent": "0.7"}
            for row in flat
        ],
    }
    parsed = {
        name: parse_table(name, [r | ORIGIN for r in lines], {}) for name, lines in rows.items()
    }
    assert not [fault for _, faults in parsed.values() for fault in faults]
    return {name: table for name, (table, _) in parsed.items()}


@pytest.fixture(scope="module")
def catalog():
    names = ("H100-SXM", "A100-80G-SXM", "V100-32G-SXM", "MI300X", "GB200", "TPU-v5p")
    return Catalog({**read_ours(), **curves(*names)})


def test_there_are_45_chips_and_at_least_70_sites():
    """A chip or a region of the source tables was lost on the way."""
    assert len(load().accelerators) == 45
    assert len(load().sites) >= 70
    for name in load().sites:
        site = load().site(name)
        assert site.usd_per_kwh[0] <= site.usd_per_kwh[1] <= site.usd_per_kwh[2]
        assert 0 < site.grid_average_kgco2e_per_kwh < 1
        assert 1 <= site.pue[0] <= site.pue[1] <= site.pue[2]


def test_chips_come_in_the_order_asked_with_their_curves(catalog):
    """Rows of another chip's curve were joined, or the order was that of the table."""
    chips = catalog.chips(["MI300X", "h100_sxm", "A100-80G-SXM"])
    assert list(chips.name) == ["MI300X", "H100-SXM", "A100-80G-SXM"]
    assert chips.memory_bytes[1] == 80 * 2**30
    assert chips.hbm_bytes_per_s[1] == 3350e9
    assert chips.scaleup_bytes_per_s[1] == 450e9
    assert chips.scaleup_peer_bytes_per_s[0] == 64e9
    assert TOPOLOGIES[chips.scaleup_topology_code[0]] == "full_mesh"
    assert chips.scaleout_bytes_per_s[1] == 50e9
    assert chips.host_link_bytes_per_s[1] == pytest.approx(0.869 * 64e9)
    assert chips.gemm.flop_frac_max.shape == (3, len(PRECISIONS))
    assert chips.scaleup.wire_frac[0, OPERATIONS.index("all_gather")] == pytest.approx(0.7)
    assert chips.power.compute_exponent[2] == 0.7
    assert len(chips.take(np.array([2, 0]))) == 2


def test_a_precision_a_chip_lacks_has_neither_peak_nor_curve(catalog):
    """FP8 on A100 was priced at the BF16 rate."""
    chips = catalog.chips(["A100-80G-SXM", "V100-32G-SXM", "TPU-v5p"])
    fp8, bf16, fp16 = (PRECISIONS.index(name) for name in ("fp8", "bf16", "fp16"))
    assert np.isnan(chips.peak_flop_per_s[0, fp8])
    assert np.isnan(chips.gemm.flop_frac_max[0, fp8])
    assert np.isnan(chips.peak_flop_per_s[1, bf16])
    assert chips.peak_flop_per_s[1, fp16] == 125e12
    assert chips.peak_flop_per_s[0, fp16] == chips.peak_flop_per_s[0, bf16] == 312e12
    assert np.isnan(chips.peak_flop_per_s[2, fp16])


def test_every_missing_curve_is_named_at_once(catalog):
    """A chip without a curve took the curve of its neighbour, or the run ended at the first."""
    with pytest.raises(MissingFact) as caught:
        catalog.chips(["H100-SXM", "L4", "A10"])
    text = "\n".join(caught.value.faults)
    assert "L4: no row L4/bf16 in efficiency_gemm.csv" in text
    assert "A10: no row A10 in power_curves.csv" in text
    assert "L4: no row L4/scaleout/send in links.csv" in text
    assert "H100" not in text


def test_labels_of_published_measurements_are_aliases():
    """A row about "H100-80GB-SXM" was left out because the table says H100-SXM."""
    assert load().accelerator("H100-80GB-SXM").name == "H100-SXM"
    assert load().accelerator("gb200").name == "GB200"
    assert load().accelerator("GB300-NVL72").name == "GB300"
    assert load().resolve("model", "deepseek-ai/DeepSeek-R1") == "deepseek-v3"
    assert load().resolve("model", "no such model") is None


def test_an_unknown_name_is_told_with_its_neighbours():
    """A misspelt chip ended in a KeyError."""
    for ask, near in (
        (lambda: load().accelerator("H100-SMX"), "H100-SXM"),
        (lambda: load().site("us-tex"), "us-tx"),
        (lambda: load().supports("H100-SXM", "fp9", "gqa"), "fp8"),
        (lambda: load().supports("H100-SXM", "fp8", "gpa"), "gqa"),
        (lambda: load().rent("H100-SXM", "on-demand"), "on_demand"),
        (lambda: load().facility("pue", "hyperscaler"), "hyperscale"),
        (lambda: load().embodied("H100-SXM", "pfc"), "pcf"),
        (lambda: show(load(), "HGX-H20"), "HGX-H200"),
    ):
        with pytest.raises(UnknownName, match=near):
            ask()


def test_a_rack_of_72_offers_smaller_domains():
    """The supernode axis had one value where the job asks for five."""
    assert load().accelerator("GB200").domain_options == (4, 8, 16, 36, 72)
    assert load().accelerator("Ascend-910C").domain_options[-1] == 384


def test_rents_are_dated_and_newest_first():
    """A price from before the cut of 2025 was taken for today's."""
    rents = load().rent("H100-SXM", "on_demand")
    assert len(rents) > 5
    assert [r.as_of for r in rents] == sorted((r.as_of for r in rents), reverse=True)
    assert {r.plan for plan in PLANS for r in load().rent("H100-SXM", plan)} == set(PLANS)
    assert all(0.05 <= r.usd_per_device_hour <= 50 for r in rents)


def test_a_modelled_cost_of_owning_is_not_a_rent():
    """A modelled 1.30 USD per hour undercut every offer on the market."""
    for name in load().accelerators:
        for plan in PLANS:
            assert not [r for r in load().rent(name, plan) if "own" in r.instance]
    owned = load().facility("owned_tco", "neocloud/H100-SXM")
    assert (owned.value, owned.unit) == (1.69, "usd_per_device_hour")


def test_parts_have_prices_and_ports():
    """A switch without ports could not be counted."""
    switch = load().parts["quantum2-64x400g"]
    assert (switch.kind, switch.ports, switch.port_bytes_per_s) == ("switch", 64, 50e9)
    assert switch.price_usd == (35000.0, 36000.0, 50000.0)
    assert load().parts["cloudmatrix384-ub-plane"].price_usd is None


def test_a_range_without_a_value_is_a_missing_fact():
    """A failure rate of 2.34 to 6.5 was taken as 0."""
    with pytest.raises(MissingFact, match="rsc_node"):
        load().facility("reliability", "rsc_node")


def test_unverified_facts_of_a_plan_can_be_counted(catalog):
    """A plan did not say how much of it rests on figures nobody found."""
    facts = catalog.facts_for("H100-SXM")
    assert facts["accelerators.hbm_bytes_per_s"].verified
    assert not facts["accelerators.idle_w"].verified
    assert "servers.price_usd" in facts
    assert "embodied.pcf/h100" in facts
    assert "efficiency_gemm.bf16.flop_frac_max" in facts
    assert not facts["efficiency_gemm.bf16.flop_frac_max"].verified
    site = catalog.facts_for_site("is")
    assert not site["regions.usd_per_kwh"].verified
    assert site["regions.grid_average_kgco2e_per_kwh"].verified


def test_show_is_json_and_holds_the_source_of_every_fact():
    """The catalogue showed numbers that could not be traced, or could not be printed."""
    for name in ("H100", "GB200-NVL72", "us-tx", "optic-400g", "colo/global", "pcf/h100"):
        shown = show(load(), name)
        assert json.loads(json.dumps(shown)) == shown
        for fact in shown["facts"].values():
            assert {"value", "unit", "source", "as_of", "grade", "low", "high"} <= set(fact)
            assert {"verified", "licence"} <= set(fact)
    assert show(load(), "H100")["bought_as"] == "HGX/DGX-H100"
    assert show(load(), "TPU-v6e")["rent_only"]


def test_the_listing_names_everything_that_can_be_shown():
    """A name was listed that could not be shown."""
    lines = listing(load())
    assert {"accelerator", "server", "site", "part"} <= {line["kind"] for line in lines}
    assert json.dumps(lines)
    for line in lines[::7]:
        assert show(load(), str(line["name"]))["name"]


def test_nothing_in_the_catalogue_can_be_changed():
    """One study's what-if changed the facts of the next."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        load().accelerator("H100-SXM").tdp_w = 1
    assert lay_over(read_ours(), {})["servers"] is not read_ours()["servers"]


def test_a_chip_that_cannot_be_planned_says_what_it_lacks(catalog):
    """A chip was left out of a study and the count of missing facts did not name it."""
    assert catalog.lacks("H100-SXM") == ()
    text = "\n".join(catalog.lacks("Trainium2"))
    assert "no row Trainium2 in power_curves.csv" in text
    assert "Trainium2: neither a price to buy it at nor a rent is known" in text


def test_every_shipped_chip_joins_its_shipped_curves():
    """A chip of the table could not be planned with because one of its curves was forgotten."""
    chips = load().chips(load().accelerators)
    assert np.array_equal(np.isfinite(chips.peak_flop_per_s), np.isfinite(chips.gemm.hbm_frac))
    for curve in (chips.attention, chips.stream, chips.scaleup, chips.scaleout, chips.power):
        for spec in dataclasses.fields(curve):
            assert np.all(np.isfinite(getattr(curve, spec.name))), spec.name
    assert np.all(chips.scaleup_peer_bytes_per_s <= chips.scaleup_bytes_per_s)
    assert np.all(chips.power.cap_w > chips.power.idle_w)


def test_a_tpu_reserves_what_its_compiler_says_and_a_gpu_the_planning_figure():
    """3.5 GB off a chip of 16 GiB would refuse runs that were made on it."""
    shelf = load()
    assert shelf.reserve("TPU-v5e").framework_bytes == 0.25 * 2**30
    assert shelf.reserve("TPU-v7-Ironwood").framework_bytes == 2.5 * 2**30
    assert shelf.reserve("H100-SXM").framework_bytes == shelf.planning("framework_bytes")


def test_every_profile_says_in_which_form_it_keeps_what_is_trained():
    """A stack without a row would be booked another's bytes."""
    shelf = load()
    assert set(shelf.tables["keeping"]) == set(shelf.tables["profiles"])
    assert shelf.keeping("shipped", "TPU-v6e") == shelf.keeping("xla", "TPU-v6e")
    assert shelf.keeping("shipped", "B200-SXM").gradient_bytes == 2
    assert shelf.keeping("compiled_2023", "B200-SXM").gradient_bytes == 4
