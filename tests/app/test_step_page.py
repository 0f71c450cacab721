"""The replay of a step on the page that says why a plan is what it is."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.archive.store import Archive
from planner.charts.gantt import gantt
from planner.charts.roofline import roof_chart
from planner.costing.recost import stored_study
from planner.documents.answers import explain
from planner.documents.step_bars import step_bars
from planner.explain.roofline import roofline
from planner.pages.roof import TIERS
from planner.space.plan_keys import plan_key
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names, prepare

ROOT = Path(__file__).resolve().parents[2]

PIPED = """
[study]
name = "piped"
kind = "train"

[workload.main]
model = "meta-llama--Meta-Llama-3.1-8B"
tokens = 1e12
tokens_per_sequence = 8192

[axes]
accelerator = "H100-SXM"
devices = 32
supernode_devices = 8
tensor_parallel = 2
pipeline_parallel = 4
micro_batch_sequences = 1
global_batch_sequences = 64

[costing]
site = "us-tx"
"""


@pytest.fixture(scope="module")
def bars():
    """Bars of the one plan of a small pipeline."""
    study = study_from_text(PIPED, "piped.toml", ROOT, catalogue_names())
    return step_bars(study, 0)


def test_bars_of_stages_never_overlap_and_the_critical_path_reaches_the_end(bars):
    """A person would see a device do two things at once, or a path that ends nowhere."""
    assert bars["is_whole"]
    rows = {bar["row"] for bar in bars["stages"]}
    assert rows == {f"stage {i}" for i in range(4)}
    for row in rows:
        own = [b for b in bars["stages"] if b["row"] == row and b["name"] != "optimiser"]
        ends = [bar["end_s"] for bar in own]
        assert all(b["start_s"] >= e - 1e-9 for b, e in zip(own[1:], ends[:-1], strict=True))
    critical = [bar for bar in bars["stages"] if bar["critical"]]
    last_s = max(b["end_s"] for b in bars["stages"] if b["name"] in ("forward", "backward"))
    assert max(bar["end_s"] for bar in critical) == pytest.approx(last_s)
    ports = {bar["row"] for bar in bars["links"]}
    words = [
        f"{p} port{lane}" for p in ("domain", "scale-out") for lane in ("", " gather", " reduce")
    ]
    assert ports <= {f"stage {i} {word}" for i in range(4) for word in words}
    assert {f"stage {i} domain port" for i in range(4)} <= ports


def test_the_chart_marks_what_is_critical(bars):
    """The chain that ends the step could not be told from the rest."""
    spec = gantt(bars["stages"]).to_dict()
    assert spec["encoding"]["stroke"]["condition"]["test"] == "datum.critical"
    assert len(spec["encoding"]["y"]["sort"]) == 4


@pytest.mark.long
def test_why_replays_the_step_of_a_plan(stored, monkeypatch):
    """The page would promise a replay and show none."""
    monkeypatch.setenv("PLANNER_DB", str(stored.db))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    app = app.switch_page("planner/pages/why.py").run()
    (switch,) = (t for t in app.toggle if "replay" in t.label)
    switch.set_value(True).run()
    assert not app.exception
    assert any("critical path" in caption.value for caption in app.caption)


def test_no_plan_stands_above_its_roof(stored):
    """A step would use more of the chip than there is."""
    archive = Archive(stored.db)
    study = stored_study(archive.run(stored.run))
    found = explain(stored.db, stored.run, "1")
    metrics = found["metrics"]
    peak = metrics["model_flop_per_s_per_device"] / metrics["mfu_frac"]
    one = roofline(prepare(study), plan_key(found["plan"]), peak)
    assert 0 < one.flop_per_s <= one.roof_flop_per_s <= peak * (1 + 1e-9)
    assert one.compute_frac >= metrics["mfu_frac"] * (1 - 1e-9)  # recomputing is counted too
    spec = roof_chart(one).to_dict()
    assert "Roofline" in spec["description"]


def test_bytes_of_both_tiers_are_those_of_the_plan(stored):
    """The picture would show other wires than the plan loads."""
    traffic = explain(stored.db, stored.run, "1")["traffic"]
    assert set(TIERS) == set(traffic)
    assert sum(traffic.values()) > 0
