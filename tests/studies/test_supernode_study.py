"""The supernode study: physical links by default, and the two presets a published figure needs."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from planner.archive.store import Archive
from planner.documents.knee import knee_document
from planner.documents.training_replay import training_replay_document
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare
from planner.training.evaluate import UNPHYSICAL
from simkernel.errors import BadStudy

HERE = Path(__file__).parents[2]
STUDY = HERE / "studies" / "supernode_size.toml"
PUBLISHED = tomllib.loads((HERE / "tests/anchors/supernode_ratios.toml").read_text())
POINTS = {(r["expert_parallel"], r["supernode_devices"]): r for r in PUBLISHED["ratio"]}


def study(*settings):
    """The shipped study with some settings."""
    return with_settings(read_study(STUDY, catalogue_names()), settings, catalogue_names())


@pytest.fixture(scope="module")
def told():
    """Documents of the knee with every preset."""
    presets = {"": (), "group_size": ("study.preset=group_size",)}
    presets["domain_bandwidth"] = ("study.preset=domain_bandwidth",)
    return {
        name: knee_document(study(*settings), "supernode_devices", ["expert_parallel"])
        for name, settings in presets.items()
    }


def by_point(document):
    """Lines by expert parallelism and domain size."""
    return {(r["expert_parallel"], r["supernode_devices"]): r for r in document["rows"]}


@pytest.mark.parametrize("preset", ["group_size", "domain_bandwidth"])
def test_five_published_ratios_come_out_under_a_preset_that_says_what_it_assumes(told, preset):
    """Nobody could say what the published gains of supernodes rest on."""
    rows = by_point(told[preset])
    for point, ratio in POINTS.items():
        found = rows[point]["speed_over_first"]
        assert found == pytest.approx(ratio["published"], rel=PUBLISHED["tolerance_frac"]), point
    assert len(told[preset]["assumes"]) > 100


def test_the_physical_answer_stands_beside_them_and_is_another(told):
    """Defaults would have been tuned to a simulation, or its rule be ours."""
    rows = by_point(told[""])
    ratios = {point: rows[point]["speed_over_first"] for point in POINTS}
    assert not told[""]["assumes"]
    assert ratios[64, 64] < ratios[64, 256] < 1.1 * ratios[64, 64]  # fewer domains come late
    assert ratios[64, 64] < ratios[128, 128] < ratios[256, 256]
    off = [abs(ratios[point] / r["published"] - 1.0) for point, r in POINTS.items()]
    assert max(off) > PUBLISHED["tolerance_frac"]


def test_bytes_of_every_point_are_told_by_domain_tier(told):
    """Nobody could see which group owns the domain; larger domains send no more outside."""
    for document in told.values():
        for expert_parallel in (64, 128, 256):
            own = [r for (e, _), r in by_point(document).items() if e == expert_parallel]
            outside = [r["outside_bytes_per_step"] for r in own]
            assert all(r["inside_bytes_per_step"] > 0 for r in own)
            assert all(np.diff(outside) <= 1e-6 * max(outside))
            assert outside[-1] == 0.0


def test_unphysical_plans_are_marked_on_no_front_and_have_no_price(told, tmp_path):
    """A modelling fault would be bought."""
    assert all(row["marks"] == [UNPHYSICAL] for row in told["group_size"]["rows"])
    assert all(row["usd"] is None for row in told["group_size"]["rows"])
    assert all(UNPHYSICAL not in row["marks"] for row in told[""]["rows"])
    narrow = study("study.preset=group_size", "supernode_devices=64", "ep=64")
    done = run_study(prepare(narrow), Archive(tmp_path / "x.duckdb"), workers=1)
    assert not len(done.front.get("plan", ()))
    assert done.summary.rejected[UNPHYSICAL] == 1


def test_a_replay_under_an_unphysical_rule_draws_nothing_its_closed_form_lacks():
    """Late domains and contention were replayed that the rule's closed form leaves out."""
    ruled = study("study.preset=group_size", "supernode_devices=8", "ep=64")
    found = training_replay_document(ruled, seeds=2)["replay"]
    assert sum(found["gap_s"].values()) == pytest.approx(0.0, abs=1e-3 * found["closed_form_s"])
    assert found["gap_s"]["stragglers"] == 0.0
    assert found["gap_s"]["shared_ports"] == pytest.approx(0.0, abs=1e-9)
    assert UNPHYSICAL in found["marks"]


def test_every_curve_has_its_knee_and_domains_pay_up_to_their_experts(told):
    """A purchase would stop short of what pays, or go on beyond it."""
    knees = {r["expert_parallel"]: r["supernode_devices"] for r in told[""]["knees"]}
    assert set(knees) == {64, 128, 256}
    assert all(32 <= size <= 64 for size in knees.values())


def test_a_preset_that_is_not_there_is_refused_by_name():
    """A typing mistake would run the physical study under another name."""
    with pytest.raises(BadStudy, match="no .presets.group_sise."):
        study("study.preset=group_sise")
