"""Shapes and fabrics that a study may ask for: signs, prices, facts, and links shared out."""

from pathlib import Path

import numpy as np
import pytest
from small import DENSE, MOE, planner, study_of, with_lines

import planner.space.wires_given as given
from costdata.catalog import load
from planner.costing.purchase import shelf_of
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, training_notes
from simkernel.hardware import SCALEOUT_FABRICS, TOPOLOGIES


def columns_of(shape="catalogue", fabric="catalogue", domain=64, rate=np.nan, chassis=8):
    """One candidate's columns and the levels they point to."""
    levels = {"scaleup_topology": (shape,), "scaleout_fabric": (fabric,)}
    columns = {
        "scaleup_topology": np.zeros(1, int), "scaleout_fabric": np.zeros(1, int),
        "scaleup_gbytes_per_s": np.array([rate]), "scaleout_gbytes_per_s": np.array([np.nan]),
        "supernode_devices": np.array([domain]), "oversubscription": np.ones(1),
        "chassis_devices": np.array([chassis]),
    }  # fmt: skip
    return columns, levels


def chips_with(shape="catalogue", fabric="catalogue", domain=64, rate=np.nan, devices=4096.0):
    columns, levels = columns_of(shape, fabric, domain, rate)
    catalog, chip = load(), load().chips(["H100-SXM"])
    shelf = shelf_of(catalog, ["H100-SXM"])
    return given.as_given(chip, columns, levels, catalog, shelf, np.array([devices]))


@pytest.mark.parametrize(
    ("shape", "links"), [("switched", 1), ("full_mesh", 63), ("torus2d", 4), ("torus3d", 6)]
)
def test_another_shape_shares_the_rate_out_over_its_links(shape, links):
    """A mesh or a torus made of a switched chip would be as fast as the switch."""
    chips = chips_with(shape)
    assert chips.scaleup_peer_bytes_per_s[0] == pytest.approx(450e9 / links)
    assert TOPOLOGIES[chips.scaleup_topology_code[0]] == shape
    half = chips_with(shape, rate=225.0)
    assert half.scaleup_peer_bytes_per_s[0] == pytest.approx(225e9 / links)


def test_a_second_level_of_switches_is_waited_for():
    """A supernode of boards would be a single switch of any size."""
    sold, boards = load().chips(["H100-SXM"]), chips_with("two_tier")
    added = (boards.scaleup.step_s + boards.scaleup.base_s) - (
        sold.scaleup.step_s + sold.scaleup.base_s
    )
    assert added[0] == pytest.approx([3e-7] * 5)
    assert boards.scaleup_peer_bytes_per_s[0] == 450e9


def test_nothing_asked_for_leaves_the_catalogue_alone():
    """Every study that names no shape would be priced anew."""
    assert given.is_as_sold(*columns_of(), 8.0)
    assert not given.is_as_sold(*columns_of("torus2d"), 8.0)
    assert not given.is_as_sold(*columns_of(fabric="fat_tree"), 8.0)
    assert not given.is_as_sold(*columns_of(rate=100.0), 8.0)
    assert not given.is_as_sold(*columns_of(chassis=16), 8.0)


@pytest.mark.parametrize("fabric", SCALEOUT_FABRICS[1:])
def test_a_bigger_network_adds_latency_to_every_step_and_never_bandwidth(fabric):
    """Layers would come for free, or make a wire faster."""
    sold = load().chips(["H100-SXM"])
    near, far = (chips_with(fabric=fabric, domain=8, devices=n) for n in (256.0, 65536.0))
    assert np.all(near.scaleout.step_s >= sold.scaleout.step_s)
    assert np.all(far.scaleout.step_s >= near.scaleout.step_s)
    assert far.scaleout.step_s.sum() + far.scaleout.base_s.sum() > (
        sold.scaleout.step_s.sum() + sold.scaleout.base_s.sum()
    )
    np.testing.assert_array_equal(far.scaleout.wire_frac, sold.scaleout.wire_frac)


def evaluated(study, fabric):
    settings = ("tp=2", "pp=1", "mbs=1", "zero_stage=1", f"scaleout_fabric={fabric}")
    words = [word for one in settings for word in ("--set", one)]
    return planner("evaluate", study, *words, "--json").document


def test_fabrics_are_counted_priced_and_told(tmp_path):
    """An axis would be taken, and the bill stay that of another network."""
    study = tmp_path / "one.toml"
    text = with_lines(DENSE, accelerator='accelerator = "H100-SXM"', devices="devices = 1024")
    study.write_text(text.replace('site = ["us-tx", "se", "cn-west"]', 'site = "us-tx"'))
    found = {name: evaluated(study, name) for name in SCALEOUT_FABRICS}
    metrics = {name: one["metrics"] for name, one in found.items()}
    sold, railed = metrics["catalogue"], metrics["rail_fat_tree"]
    assert sold["capex_usd"] == railed["capex_usd"]
    assert sold["step_s"] <= railed["step_s"] < sold["step_s"] * 1.01
    for name in ("fat_tree", "dcn"):
        assert metrics[name]["step_s"] >= sold["step_s"]
        assert metrics[name]["capex_usd"] != sold["capex_usd"]
        assert metrics[name]["it_mean_w"] != sold["it_mean_w"]
        assert metrics[name]["embodied_kgco2e"] != sold["embodied_kgco2e"]
    assert metrics["dcn"]["unverified_facts"] == sold["unverified_facts"] + 2
    assert {"dcn.hop_s", "dcn.trunk_s"} <= set(found["dcn"]["facts_used"])


@pytest.mark.long
def test_a_cluster_that_three_layers_cannot_join_is_infeasible_and_warns_of_nothing(tmp_path):
    """A million devices would print warnings of NumPy, and blame failures for it."""
    study = tmp_path / "huge.toml"
    text = with_lines(DENSE, accelerator='accelerator = "H100-SXM"', devices="devices = 1048576")
    text = with_lines(text, global_batch_sequences="global_batch_sequences = 1048576")
    text = text.replace("tokens_per_sequence = 8192", "tokens_per_sequence = 8192\n"
                        "max_global_batch_tokens = 1e12")  # fmt: skip
    study.write_text(text.replace('site = ["us-tx", "se", "cn-west"]', 'site = "us-tx"'))
    for fabric in SCALEOUT_FABRICS:
        found = evaluated(study, fabric)
        assert not found["feasible"]
        (told,) = [v for v in found["violations"] if v["limit"] == "fabric_tiers"]
        assert (told["have"], told["need"]) == (4, 3)
        assert np.isfinite(found["metrics"]["it_mean_w"])


def in_boxes(study, chassis, *settings):
    """The plan in servers of a size that nobody sells."""
    named = (f"chassis_devices={chassis}", "network.any_chassis=true", "supernode_devices=8")
    plan = ("tp=2", "pp=1", "mbs=1", "zero_stage=1")
    words = [word for one in (*plan, *named, *settings) for word in ("--set", one)]
    return planner("evaluate", study, *words, "--json")


def test_servers_of_another_size_change_hosts_spares_layers_and_what_joins_a_domain(tmp_path):
    """Chassis size would be no decision, or a larger box come with a switch for nothing."""
    study = tmp_path / "boxes.toml"
    text = with_lines(DENSE, accelerator='accelerator = "H100-SXM"', devices="devices = 512")
    study.write_text(text.replace('site = ["us-tx", "se", "cn-west"]', 'site = "us-tx"'))
    small, sold, large = (in_boxes(study, n).document for n in (4, 8, 16))
    at = {4: small, 8: sold, 16: large}
    for chassis, found in at.items():
        assert found["metrics"]["nodes"] * chassis >= 512
        assert found["metrics"]["nodes"] <= 512 / chassis + 1  # one spare
        assert found["metrics"]["step_s"] == sold["metrics"]["step_s"]
    assert [at[n]["metrics"]["fabric_tiers"] for n in (4, 8, 16)] == [2, 2, 1]
    usd = {n: one["ledgers"]["capex_usd"]["terms"] for n, one in at.items()}
    assert usd[4]["servers"] == usd[8]["servers"] == usd[16]["servers"]
    assert usd[4]["spares"] < usd[8]["spares"] < usd[16]["spares"]
    assert usd[8]["domain_network"] == usd[16]["domain_network"] == 0 < usd[4]["domain_network"]
    made = {n: one["ledgers"]["embodied_kgco2e"]["terms"] for n, one in at.items()}
    each = {n: made[n]["hosts"] / at[n]["metrics"]["nodes"] / n / made[n]["devices"] for n in at}
    assert each[4] == pytest.approx(each[8]) == pytest.approx(each[16])
    wide = in_boxes(study, 16, "supernode_devices=16", "network.any_supernode=true").document
    assert wide["ledgers"]["capex_usd"]["terms"]["domain_network"] > 0


def test_servers_that_nobody_sells_or_that_cut_domains_cannot_exist(tmp_path):
    """A purchase would be of boxes that are in no shop."""
    study = tmp_path / "boxes.toml"
    text = with_lines(DENSE, accelerator='accelerator = "H100-SXM"', devices="devices = 512")
    study.write_text(text)
    settings = ("tp=2", "pp=1", "mbs=1", "zero_stage=1", "chassis_devices=16")
    words = [word for one in settings for word in ("--set", one)]
    unsold, cut = planner("evaluate", study, *words, "--json"), in_boxes(study, 12)
    assert (unsold.code, cut.code) == (2, 2)
    assert "chassis_not_offered" in unsold.document["faults"][0]
    assert "chassis_cuts_domains" in cut.document["faults"][0]


def test_a_ualink_pod_is_a_switched_domain_of_a_chip_that_is_sold_as_a_mesh(tmp_path):
    """A pod of 128 would keep the links of a board of eight, or be joined for nothing."""
    study = tmp_path / "pod.toml"
    text = with_lines(MOE, accelerator='accelerator = "MI355X"', devices="devices = 256")
    study.write_text(text)
    pod = ("supernode_devices=128", "network.any_supernode=true", "scaleup_topology=switched")
    plan = ("tp=1", "pp=1", "ep=64", "mbs=1", "recompute=full", "zero_stage=1")
    told = {}
    for name, own in {
        "board": ("supernode_devices=8",),
        "pod": (*pod, "scaleup_gbytes_per_s=400"),
    }.items():
        words = [word for one in (*plan, *own) for word in ("--set", one)]
        told[name] = planner("evaluate", study, *words, "--json").document
    assert told["pod"]["metrics"]["step_s"] < told["board"]["metrics"]["step_s"]
    networks = {
        n: one["ledgers"]["capex_usd"]["terms"]["domain_network"] for n, one in told.items()
    }
    assert networks["board"] == 0 < networks["pod"]


@pytest.mark.parametrize("axis", ["devices", "supernode_devices", "chassis_devices"])
def test_sizes_that_can_only_be_slips_are_refused(axis, tmp_path):
    """A thousand million chips ran for minutes, or gave any carbon."""
    study = tmp_path / "dense.toml"
    study.write_text(DENSE)
    wide = ("--set", "network.any_supernode=true", "--set", "network.any_chassis=true")
    found = planner("evaluate", study, *wide, "--set", f"{axis}=1000000000")
    assert found.code == 2
    assert "out of bounds" in found.err


def test_a_named_collective_says_what_it_is_used_for():
    """A name that can do one operation would be read as if it did all of them."""
    asked = with_settings(study_of(DENSE), ["collective=in_network"], catalogue_names())
    assert training_notes(asked, load())["collective"] == (
        "in_network for all_reduce, best for all_gather, reduce_scatter, all_to_all, send"
    )
    assert "collective" not in training_notes(study_of(DENSE), load())


def test_who_owns_a_domain_decides_whose_traffic_leaves_it():
    """A placement would be read, and every group be found in its domain all the same."""
    study = Path(__file__).parents[2] / "studies" / "supernode_size.toml"
    sizes = ("--set", "supernode_devices=256", "--set", "ep=256", "--set")
    tensor, experts = (
        planner("evaluate", study, *sizes, f"placement={order}", "--json").document
        for order in ("tp-cp-ep-dp-pp", "ep-dp-tp-cp-pp")
    )
    terms = [one["ledgers"]["step_s"]["terms"] for one in (tensor, experts)]
    assert terms[1]["expert_parallel"] == pytest.approx(terms[0]["expert_parallel"], rel=1e-9)
    assert terms[1]["tensor_parallel"] > 4.0 * terms[0]["tensor_parallel"]
    assert experts["metrics"]["step_s"] > 1.1 * tensor["metrics"]["step_s"]
