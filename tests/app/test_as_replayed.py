"""The app on a run with replays: plans as replayed and of the closed form, never on one front."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import planner.search.replays as replays_room
from planner.archive.store import Archive
from planner.evaluated import CLOSED_FORM, Replay
from planner.runs.kinds import prepare
from planner.runs.physics import PHYSICS
from planner.runs.run import run_study
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names

ROOT = Path(__file__).resolve().parents[2]

CHAT = """
[study]
name = "small-chat"
kind = "serve"

[workload.chat]
model = "meta-llama--Meta-Llama-3.1-8B"
slo = { ttft_s_p95 = 1.0, tpot_s_p95 = 0.03 }
peak_window_s = 10

[workload.chat.trace]
arrivals = { process = "poisson", requests_per_s = 60 }
prompt_tokens = { from = 100, to = 1500 }
output_tokens = { from = 50, to = 250 }
duration_s = 30

[axes]
accelerator = "H100-SXM"
supernode_devices = "offered"
tensor_parallel = [1, 2]
precision = "bf16"
max_batch = [64, 256]

[costing]
site = ["us-tx", "se"]

[search]
replay = 3
"""


def larger(engine, columns, accelerator):
    """A replay of a millisecond that needs two replicas more."""
    closed = PHYSICS["serve"].evaluate(engine, columns, accelerator)
    fleet = closed.metrics["replicas"] + 2.0
    found = PHYSICS["serve"].evaluate(engine, columns, accelerator, fleet)
    told = {"replicas": fleet[0] - 2.0, "needed_replicas": float(fleet[0]), "broken": ""}
    return Replay(found, told)


@pytest.fixture
def app(tmp_path, monkeypatch):
    """The app over a run with three plans replayed."""
    quick = replace(PHYSICS["serve"], replay=larger)
    monkeypatch.setattr(replays_room, "physics_of", lambda study: quick)
    study = study_from_text(CHAT, "chat.toml", ROOT, catalogue_names())
    db = tmp_path / "planner.duckdb"
    run_study(prepare(study), Archive(db), workers=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLANNER_DB", str(db))
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=120), Archive(db)


def test_the_side_bar_says_which_figures_and_the_report_sells_them(app):
    """Somebody would weigh a fleet that failed its replay against one that holds."""
    page, archive = app
    page.run()
    assert not page.exception
    box = page.sidebar.selectbox(key="fidelity")
    held = archive.replayed("last")
    plans = {f"{p} @ {s}" for p, s in zip(held["plan"], held["site"], strict=True)}
    assert set(page.sidebar.selectbox(key="chosen").options) <= plans
    page.switch_page("planner/pages/report.py").run()
    assert not page.exception
    fleet = {int(n) for n in np.ma.getdata(held["devices"])}
    assert any(f"with {n} H100-SXM at work" in page.info[0].value for n in fleet)
    page.switch_page("planner/pages/why.py").run()
    assert "closed form" in page.info[0].value
    box = page.sidebar.selectbox(key="fidelity")
    box.set_value(CLOSED_FORM).run()
    assert not page.exception
    assert len(page.sidebar.selectbox(key="chosen").options) == len(archive.front("last")["plan"])
