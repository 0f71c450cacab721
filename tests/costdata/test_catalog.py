"""The catalogue answers by name, joins chips with curves, and says what it does not know."""

import dataclasses
import json

import numpy as np
import pytest

from costdata.catalog import Catalog, add, load
from costdata.facts import parse_table, read_cells
from costdata.offers import PLANS
from costdata.overlay import lay_over, read_ours
from costdata.purchase import server_over_chips, server_over_tdp
from costdata.sites import site_of
from costdata.support import KERNELS
from simkernel.errors import BadFile, MissingFact, UnknownName
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


def write(folder, table, *rows):
    header = list(dict.fromkeys(column for row in rows for column in row))
    lines = [",".join(header)] + [",".join(row.get(c, "") for c in header) for row in rows]
    folder.mkdir(exist_ok=True)
    (folder / f"{table}.csv").write_text("\n".join(lines) + "\n")


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
    assert chips.host_link_bytes_per_s[1] == 64e9
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
        (lambda: load().show("HGX-H20"), "HGX-H200"),
    ):
        with pytest.raises(UnknownName, match=near):
            ask()


@pytest.mark.parametrize(
    ("name", "unit", "devices"),
    [
        ("H100-SXM", "HGX/DGX-H100", 8),
        ("GB200", "GB200-NVL72", 72),
        ("Ascend-910C", "CloudMatrix384", 384),
    ],
)
def test_what_is_bought_is_a_whole(name, unit, devices):
    """One GPU of an NVL72 rack was bought alone, at a seventy-second of its price."""
    bought = load().purchase_unit(name)
    assert (bought.name, bought.devices, bought.rent_only) == (unit, devices, False)
    assert bought.price_usd[0] <= bought.price_usd[1] <= bought.price_usd[2]


def test_a_rack_of_72_offers_smaller_domains():
    """The supernode axis had one value where the job asks for five."""
    assert load().accelerator("GB200").domain_options == (4, 8, 16, 36, 72)
    assert load().accelerator("Ascend-910C").domain_options[-1] == 384


def test_a_chip_that_is_not_sold_is_rent_only_and_says_so():
    """A model of what a TPU costs to make was taken for a price to buy it at."""
    bought = load().purchase_unit("TPU-v5p")
    assert bought.rent_only
    assert bought.price_usd is None
    assert bought.missing == ("price_usd", "max_power_w")
    assert "no price to buy at (model estimate)" in bought.basis
    assert load().is_obtainable("TPU-v5p")
    assert not load().is_obtainable("Trainium2")


def test_an_estimated_price_says_its_rule_and_has_a_wide_band():
    """A server price made up from chip prices looked like a quote."""
    bought = load().purchase_unit("H20")
    (low, typical, high), of = server_over_chips(load().tables)
    assert bought.is_estimate
    assert not bought.rent_only
    assert bought.price_usd == pytest.approx(
        (8 * 9000 * low, 8 * 10392 * typical, 8 * 15000 * high)
    )
    assert f"server over chips in {of} servers" in bought.basis
    assert not load().purchase_unit("H100-SXM").is_estimate
    assert load().purchase_unit("GB300").is_estimate


def test_a_baseboard_without_a_host_is_not_a_server():
    """A kit of eight Gaudi cards was bought without processors to run them."""
    assert load().purchase_unit("Gaudi3-OAM").is_estimate
    assert load().purchase_unit("Gaudi3-OAM").price_usd[1] > 125000


def test_power_of_eight_h100_is_between_2_and_10_2_kilowatts():
    """codecarbon#286: watts taken for kilowatts."""
    h100 = load().accelerator("H100-SXM")
    assert 8 * h100.tdp_w < load().purchase_unit("H100-SXM").max_power_w <= 10200
    assert 8 * h100.idle_w > 300
    (low, _, high), _ = server_over_tdp(load().tables)
    assert 1 < low < high < 3


def test_no_chip_is_without_a_purchase_unit():
    """A chip ended the listing because it has no server."""
    for name in load().accelerators:
        bought = load().purchase_unit(name)
        assert bought.devices >= 1
        assert (bought.price_usd is None) == bought.rent_only == ("price_usd" in bought.missing)
        assert (bought.max_power_w is None) == ("max_power_w" in bought.missing)


@pytest.mark.parametrize(
    ("name", "precision", "kernel", "reason"),
    [
        ("A100-80G-SXM", "fp8", "gqa", "Ampere has no FP8"),
        ("H100-SXM", "nvfp4", "moe", "no FP4 tensor cores"),
        ("H100-SXM", "mxfp8", "gqa", "MXFP8 starts with Blackwell"),
        ("MI300X", "mxfp8", "gqa", "no block-scaled MX formats"),
        ("MI355X", "nvfp4", "gqa", "NVFP4 is an NVIDIA Blackwell format"),
        ("Trainium2", "bf16", "mla", "no MLA kernel is published"),
        ("V100-32G-SXM", "fp16", "mla", "FlashAttention 2"),
        ("V100-32G-SXM", "bf16", "gqa", "there is no BF16"),
        ("Ascend-910C", "fp8", "mla", "FP8 starts with Ascend 950"),
        ("TPU-v5p", "fp16", "gqa", "there is no FP16"),
        ("TPU-v4", "fp8", "gqa", "gives no dense fp8 peak"),
        ("TPU-v3", "bf16", "state", "no row of support.csv speaks of"),
    ],
)
def test_what_does_not_run_is_refused_with_its_reason(name, precision, kernel, reason):
    """A plan in FP8 on A100 was offered, and nobody could say why it was wrong."""
    answer = load().supports(name, precision, kernel)
    assert not answer
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("name", "precision", "kernel"),
    [
        ("H100-SXM", "fp8", "mla"),
        ("A100-80G-SXM", "bf16", "mla"),
        ("GB200", "nvfp4", "moe"),
        ("B200-SXM", "mxfp8", "mla"),
        ("MI355X", "mxfp8", "moe"),
        ("H100-SXM", "fp8_block", "moe"),
        ("TPU-v5p", "bf16", "mla"),
        ("Ascend-910B", "bf16", "mla"),
        ("V100-32G-SXM", "fp16", "gqa"),
        ("H100-96G-500W", "fp8", "gqa"),
    ],
)
def test_what_was_measured_runs(name, precision, kernel):
    """A configuration with a published measurement was called impossible."""
    answer = load().supports(name, precision, kernel)
    assert answer, answer.reason
    assert answer.source


def test_the_support_mask_is_the_support_of_each():
    """The sweep masked by another matrix than the one that explains."""
    names = ["A100-80G-SXM", "GB200", "Trainium2"]
    mask = load().support_mask(names)
    for i, name in enumerate(names):
        for j, precision in enumerate(PRECISIONS):
            for k, kernel in enumerate(KERNELS):
                assert mask[i, j, k] == bool(load().supports(name, precision, kernel))


def test_no_peak_is_left_without_a_word_in_the_matrix():
    """A chip with a peak in a precision ran nothing in it: a hole, not a finding."""
    for name in load().accelerators:
        for precision in PRECISIONS:
            answer = load().supports(name, precision, "gqa")
            has_peak = f"{precision}_flop_per_s" in load().accelerator(name).facts
            assert has_peak or not answer, f"{name}/{precision}"
            assert answer.source or not has_peak, f"{name}/{precision}"


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


def test_the_zone_beats_the_nation_and_side_files_can_be_left_out():
    """Texas was given the mean of its own grid and the national one."""
    site = load().site("us-tx")
    assert site.grid_average_kgco2e_per_kwh == 0.363
    without = {k: v for k, v in read_ours().items() if k != "regions_electricity_maps"}
    national = site_of(without, "us-tx")
    assert national.grid_average_kgco2e_per_kwh == 0.38355
    assert any("ember" in words for words in national.basis)


def test_a_stand_in_is_said():
    """France had the PUE of somewhere else, and no one was told."""
    site = load().site("fr")
    assert site.pue == (1.07, 1.14, 1.46)
    assert any(words.startswith("pue: none known for fr") for words in site.basis)
    assert not any(words.startswith("pue") for words in load().site("us-tx").basis)
    assert load().site("fr").usd_per_kwh[1] == 0.1175


def test_embodied_carbon_by_three_methods():
    """cloud-carbon-footprint#919: two tools 2.6 times apart, neither saying by which method."""
    published = load().embodied("H100-SXM", "pcf")
    assert published.kgco2e == (29.5, 164.0, 575.0)
    assert not published.is_estimate
    act = load().embodied("H100-SXM", "act")
    # 8.14 cm2 x 2.778 kg + 80 GB x 65 g / 0.875 + 6 packages x 150 g
    assert act.kgco2e[1] == pytest.approx(22.61292 + 5.942857 + 0.9, rel=1e-6)
    assert load().embodied("H100-SXM", "boavizta").kgco2e[1] == pytest.approx(575.18, rel=1e-3)
    assert sum(act.terms.values()) == pytest.approx(act.kgco2e[1])
    assert load().embodied("A100-80G-SXM").has_host_share
    assert load().embodied_factor("boavizta/server-8gpu").value == 5700


def test_embodied_carbon_of_an_unknown_card_is_an_explicit_default():
    """cloud-carbon-footprint#1375: an instance not in the table had a blank footprint."""
    for name in load().accelerators:
        for method in ("pcf", "act", "boavizta"):
            made = load().embodied(name, method)
            assert made.kgco2e[0] <= made.kgco2e[1] <= made.kgco2e[2]
            assert made.kgco2e[1] > 0
    made = load().embodied("Ascend-910C", "act")
    assert made.is_estimate
    assert "act needs the die area of Ascend-910C, which is not known" in made.basis


def test_every_chip_is_named_by_one_footprint_only():
    """Two rows gave two footprints for one card; which one won was chance."""
    rows = read_ours()["embodied"].values()
    named = [name for row in rows for name in row.values.get("accelerators", ())]
    assert sorted(named) == sorted(load().accelerators)


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


def test_a_users_row_replaces_ours_whole_and_keeps_its_own_source(tmp_path):
    """A user's price was shown with our source, or kept our idle power beside it."""
    ours = read_ours()["accelerators"][("H100-SXM",)].cells
    cells = {c: t for c, t in ours.items() if "," not in t and not c.startswith("idle_w")}
    mine = {**cells, "price_usd": "21000", "source": "our quote", "as_of": "2026-11-02"}
    mine |= {"licence": "ours", "unverified": "", "price_usd_high": "22000"}
    write(tmp_path, "accelerators", mine)
    h100 = load(tmp_path).accelerator("H100-SXM")
    assert h100.prices_usd == (20000.0, 21000.0, 22000.0)
    price = h100.facts["price_usd"]
    assert (price.source, price.as_of, price.licence) == ("our quote", "2026-11-02", "ours")
    assert h100.idle_w is None
    assert "idle_w" in h100.missing
    assert load(tmp_path).show("H100-SXM")["is_user"]
    assert load(tmp_path).accelerator("H200-SXM") == load().accelerator("H200-SXM")
    assert load().accelerator("H100-SXM").prices_usd == (20000.0, 23238.0, 31250.0)


def test_a_users_own_server_is_what_is_bought(tmp_path):
    """A user's quote for a server stood beside ours and was not used."""
    write(
        tmp_path,
        "servers",
        {"name": "ours-h20", "accelerator": "H20", "devices": "8", "price_usd": "99000"}
        | {"max_power_w": "6000", "is_purchase_unit": "yes", "has_host": "yes", **ORIGIN}
        | {"grade": "vendor"},
    )
    bought = load(tmp_path).purchase_unit("H20")
    assert (bought.name, bought.price_usd) == ("ours-h20", (99000.0, 99000.0, 99000.0))
    assert not bought.is_estimate


def test_an_overlay_with_a_strange_file_or_without_a_folder_is_told(tmp_path):
    """A table called accelerator.csv was ignored because ours is accelerators.csv."""
    write(tmp_path, "accelerator", {"name": "x"})
    with pytest.raises(BadFile, match="accelerator.csv is none of our tables"):
        load(tmp_path)
    with pytest.raises(BadFile, match="is not a folder"):
        load(tmp_path / "none")


def test_a_changed_overlay_is_read_again(tmp_path):
    """An edited price had no effect until the program was started again."""
    row = {"name": "here", "title": "here", "kind": "site", "country": "DEU", **ORIGIN}
    row |= {"grid_average_kgco2e_per_kwh": "0.3"}
    write(tmp_path, "regions", row | {"usd_per_kwh": "0.10"})
    assert load(tmp_path).site("here").usd_per_kwh[1] == 0.1
    write(tmp_path, "regions", row | {"usd_per_kwh": "0.123"})
    assert load(tmp_path).site("here").usd_per_kwh[1] == 0.123
    assert load(tmp_path) is load(tmp_path)


def test_add_writes_a_checked_row_and_nothing_else(tmp_path):
    """A faulty row was written and broke every later run."""
    folder = tmp_path / "mine"
    row = {"name": "here", "title": "our hall", "kind": "site", "country": "DEU"}
    row |= {"usd_per_kwh": "0.14", "grid_average_kgco2e_per_kwh": "0.3", "pue": "1.2", **ORIGIN}
    with pytest.raises(BadFile) as caught:
        add(folder, "site", row | {"usd_per_kwh": "140", "colour": "red", "source": ""})
    text = "\n".join(caught.value.faults)
    for part in ("USD/kWh", "no column 'colour'", "source is empty"):
        assert part in text
    assert not folder.exists()
    path = add(folder, "site", row)
    assert path == folder / "regions.csv"
    assert load(folder).site("here").pue == (1.2, 1.2, 1.2)
    with pytest.raises(BadFile, match="has a row here already"):
        add(folder, "regions", row)
    add(folder, "regions", row | {"name": "there", "cfe_frac": "0.5"})
    assert load(folder).site("there").cfe_frac == 0.5
    assert [r["name"] for r in read_cells(path)[1]] == ["here", "there"]
    with pytest.raises(UnknownName, match="table"):
        add(folder, "nonsense", row)


def test_add_to_a_place_that_cannot_be_written_is_told(tmp_path):
    """A full disk or a read-only folder ended in a traceback."""
    (tmp_path / "mine").write_text("a file where the folder should be")
    row = {"name": "here", "title": "here", "kind": "site", "country": "DEU", **ORIGIN}
    row |= {"usd_per_kwh": "0.14", "grid_average_kgco2e_per_kwh": "0.3"}
    with pytest.raises(BadFile, match="cannot be written"):
        add(tmp_path / "mine", "regions", row)


def test_show_is_json_and_holds_the_source_of_every_fact():
    """The catalogue showed numbers that could not be traced, or could not be printed."""
    for name in ("H100", "GB200-NVL72", "us-tx", "optic-400g", "colo/global", "pcf/h100"):
        shown = load().show(name)
        assert json.loads(json.dumps(shown)) == shown
        for fact in shown["facts"].values():
            assert {"value", "unit", "source", "as_of", "grade", "low", "high"} <= set(fact)
            assert {"verified", "licence"} <= set(fact)
    assert load().show("H100")["bought_as"] == "HGX/DGX-H100"
    assert load().show("TPU-v6e")["rent_only"]


def test_the_listing_names_everything_that_can_be_shown():
    """A name was listed that could not be shown."""
    lines = load().listing()
    assert {"accelerator", "server", "site", "part"} <= {line["kind"] for line in lines}
    assert json.dumps(lines)
    for line in lines[::7]:
        assert load().show(str(line["name"]))["name"]


def test_nothing_in_the_catalogue_can_be_changed():
    """One study's what-if changed the facts of the next."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        load().accelerator("H100-SXM").tdp_w = 1
    assert lay_over(read_ours(), {})["servers"] is not read_ours()["servers"]
