"""Settings on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.study.names import Names
from planner.study.read import study_from_text
from planner.study.settings import parse_set, with_settings
from simkernel.errors import BadStudy

STUDY = study_from_text(
    """
    [study]
    name = "small"
    kind = "train"
    [workload.main]
    model = "m"
    tokens = 1e12
    tokens_per_sequence = 4096
    [axes]
    accelerator = ["H100-SXM", "GB200"]
    devices = [64, 128]
    global_batch_sequences = 512
    """,
    "x.toml",
    Path("/"),
)


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("tp=8", ("axes", "tensor_parallel"), 8),
        ("pp=2", ("axes", "pipeline_parallel"), 2),
        ("vp=2", ("axes", "virtual_stages"), 2),
        ("cp=2", ("axes", "context_parallel"), 2),
        ("ep=2", ("axes", "expert_parallel"), 2),
        ("etp=2", ("axes", "expert_tensor_parallel"), 2),
        ("dp=2", ("axes", "data_parallel"), 2),
        ("mbs=2", ("axes", "micro_batch_sequences"), 2),
        ("gbs=2", ("axes", "global_batch_sequences"), 2),
        ("axes.tensor_parallel=[1, 2]", ("axes", "tensor_parallel"), [1, 2]),
        ("tp=1,2", ("axes", "tensor_parallel"), [1, 2]),
        ("accelerator=H100-SXM", ("axes", "accelerator"), "H100-SXM"),
        ("accelerator=H100-SXM,GB200", ("axes", "accelerator"), ["H100-SXM", "GB200"]),
        ("decode.tp=8", ("axes", "decode", "tensor_parallel"), 8),
        ("costing.site=se", ("costing", "site"), "se"),
        ("costing.price_usd.H100-SXM=25000", ("costing", "price_usd", "H100-SXM"), 25000),
        ("pin.goodput_frac=0.9", ("pin", "goodput_frac"), 0.9),
        ("limits.days=60", ("limits", "days"), 60),
        ("workload.main.tokens=2e12", ("workload", "main", "tokens"), 2e12),
    ],
)
def test_a_setting_names_a_key_and_a_value(setting, path, value):
    """The command line would set another key than the one it names."""
    assert parse_set(setting) == (path, value)


@pytest.mark.parametrize("setting", ["tp", "tp=", "tpp=8", "costing=3", "=3", "x.tp=3"])
def test_a_setting_that_means_nothing_is_told(setting):
    """A misspelt setting would be ignored."""
    with pytest.raises(BadStudy, match="--set"):
        parse_set(setting)


def test_settings_replace_what_the_study_says():
    """What-if questions would be answered for the old study."""
    study = with_settings(STUDY, ["tp=8", "costing.site=se", "costing.price_usd.GB200=60000"])
    assert study.axes["tensor_parallel"] == (8,)
    assert study.costing.site == ("se",)
    assert study.costing.price_usd == {"GB200": 60000}
    assert STUDY.axes["tensor_parallel"] == (1,)


def test_another_way_to_count_chips_replaces_the_first():
    """--set nodes=16 would clash with the devices of the study."""
    study = with_settings(STUDY, ["nodes=16"])
    assert study.axes["nodes"] == (16,)
    assert "devices" not in study.axes


def test_every_bad_setting_is_told_at_once_by_its_own_text():
    """A user would be told a line of a file that is right."""
    with pytest.raises(BadStudy) as caught:
        with_settings(STUDY, ["tp=0", "costing.pue=0.5", "limits.dayz=3"])
    assert len(caught.value.faults) == 3
    assert caught.value.faults[0].startswith("--set tp=0: axes.tensor_parallel")


@pytest.mark.parametrize(
    ("held", "setting"),
    [
        ("all_in_usd_per_device", "costing.price_usd.GB200=60000"),
        ("all_in_usd_per_unit", "costing.price_usd.GB200=60000"),
        ("all_in_usd_per_unit", "costing.all_in_usd_per_device.GB200=60000"),
        ("all_in_usd_per_unit", "costing.price_usd={GB200 = 60000}"),
        ("all_in_usd_per_unit", "costing.price_usd.gb200=60000"),
    ],
)
def test_a_price_that_another_stands_before_is_refused(held, setting):
    """A price would be set and nothing would move."""
    study = with_settings(STUDY, [f"costing.{held}.GB200=3.9e6", "costing.price_usd.H100-SXM=9"])
    with pytest.raises(BadStudy) as caught:
        with_settings(study, [setting], Names(accelerator=str.upper))
    name = parse_set(setting)[0][1]
    assert caught.value.faults == (
        f"--set {setting}: costing.{name}.GB200 has no effect: the study gives {held}.GB200, "
        f"which holds it; set costing.{held}.GB200",
    )


def test_a_price_in_force_may_be_set_and_an_all_in_price_taken_away():
    """The way out of a refusal would be refused too."""
    study = with_settings(STUDY, ["costing.price_usd.GB200=1"])
    study = with_settings(study, ["costing.all_in_usd_per_unit.GB200=2"])
    assert with_settings(study, ["costing.all_in_usd_per_unit.GB200=3"]).costing.price_usd
    servers = ["costing.all_in_usd_per_unit={}", "costing.price_usd.GB200=4"]
    assert with_settings(study, servers).costing.price_usd == {"GB200": 4}
    with_settings(study, ["costing.price_usd.GB200=4", "costing.price_usd={}"])
