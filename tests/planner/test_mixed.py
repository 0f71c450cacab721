"""One cluster that serves and trains: a day by hand, its laws, and a study of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import ROOT, planner

from planner.mixed.troughs import (
    lost_device_hours,
    rest_device_hours,
    sine_need,
    split,
    stops,
    unified,
    whole_nodes,
)
from planner.study.read import study_from_text
from simkernel.errors import BadStudy

WAVE = sine_need(800.0, 400.0)


def test_a_day_of_2048_devices_by_hand():
    """A plan would promise training hours that whole nodes and whole blocks do not leave."""
    day, apart = unified(2048, WAVE, 8, 256, 0.0), split(2048, WAVE, 8, 256, 0.0)
    assert rest_device_hours(2048, WAVE, 8) == 29_888
    assert day.training.sum() == 26_880
    assert round(day.training.sum() / 29_888, 3) == 0.899
    assert apart.training.sum() == 18_432  # three blocks beside 1,200 devices, all day
    assert stops(day.training, 256) == 3
    assert lost_device_hours(3, 256, 0.5) == 384


def test_float_noise_is_no_node():
    """800.0000001 devices would be 101 nodes."""
    assert whole_nodes(np.array([800.0000000001, 800.1, 0.0]), 8).tolist() == [800, 808, 0]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=24),
    st.sampled_from([8, 64, 256]),
    st.floats(0.0, 0.5),
)
def test_one_cluster_never_trains_less_than_two(need, block, reserve):
    """Sharing would cost training hours, or more devices would be at work than there are."""
    need = np.array(need, float)
    day, apart = (kind(1600, need, 8, block, reserve) for kind in (unified, split))
    assert (day.training >= apart.training).all()
    for one in (day, apart):
        assert (one.serving + one.reserve + one.training <= 1600).all() or reserve > 0
        assert (one.training % block == 0).all()
    assert (unified(1600, need, 8, 8, 0.0).training >= unified(1600, need, 8, block, 0.0).training
            ).all()  # fmt: skip
    assert (day.training <= unified(1600, need, 8, block, 0.0).training).all()


@pytest.mark.long
def test_the_shipped_study_compares_both_arrangements(tmp_path):
    """A person would not see what blocks, stops and the reserve cost, or what two clusters get."""
    done = planner("run", ROOT / "studies" / "mixed_cluster.toml", "--db", tmp_path / "p.duckdb",
                   "--json")  # fmt: skip
    assert done.code == 0, done.err
    rows = {(r["arrangement"], r["block_devices"], r["reserve_frac"]): r
            for r in done.document["options"]}  # fmt: skip
    one = rows["unified", 256, 0.0]
    assert one["train_device_hours_per_day"] == 26_880
    assert one["useful_device_hours_per_day"] == 26_880 - 384
    assert one["trained_frac"] == pytest.approx(0.899, abs=5e-4)
    assert rows["split", 256, 0.0]["train_device_hours_per_day"] == 18_432
    assert rows["split", 256, 0.0]["stops_per_day"] == 0
    assert rows["unified", 8, 0.0]["train_device_hours_per_day"] == 29_888
    assert rows["unified", 256, 0.1]["train_device_hours_per_day"] < 26_880
    _is_reported(tmp_path)
    told = planner("explain", "1", "1", "--db", tmp_path / "p.duckdb")
    assert told.code == 2
    assert "planner show" in told.err


def _is_reported(folder):
    """Every kind of study has a report: what to do, what else there is, in both languages."""
    words = ("report", "1", "--db", folder / "p.duckdb", "--json")
    found = planner(*words, "--to", folder / "a.pdf")
    assert found.code == 0, found.err
    assert found.document["rule"] == "knee"
    assert "27,776 useful device-hours of training a day, at 6 stops" in found.document["decision"]
    asked = planner(*words, "--to", folder / "b.html", "--plan", "p0", "--lang", "zh")
    assert "29,488" in asked.document["decision"]
    assert "如何共用集群" in (folder / "b.html").read_text(encoding="utf-8")
    assert (folder / "a.pdf").read_bytes().startswith(b"%PDF")
    assert planner(*words, "--to", folder / "c.xlsx").code == 2
    assert planner(*words, "--to", folder / "c.pdf", "--plan", "pzz").code == 2


def test_faults_of_the_table_are_told_together():
    """A person would mend one number, and meet the next fault."""
    text = """
[study]
name = "m"
kind = "mixed"
[mixed]
devices = 1000
serving = { mean = 800, swing = 900 }
block_devices = [12]
"""
    with pytest.raises(BadStudy) as caught:
        study_from_text(text, "m.toml", ROOT)
    told = "\n".join(caught.value.faults)
    for words in ("swing above the mean", "busiest hour", "no whole nodes"):
        assert words in told
