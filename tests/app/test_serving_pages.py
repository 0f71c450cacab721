"""The pages of the app on a serving run: none of them knows training alone."""

from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from planner.archive.store import Archive
from planner.costing.recost import stored_study
from planner.explain.serving_roofline import serving_roofline
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.space.plan_keys import plan_key
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
trace = { arrivals = 40, prompt_tokens = { from = 100, to = 900 }, output_tokens = 100, duration_s = 60 }

[axes]
accelerator = "H100-SXM"
supernode_devices = 8
tensor_parallel = [1, 2]
max_batch = [64, 256]

[costing]
site = ["us-tx", "se"]
"""  # noqa: E501 (an inline table of TOML 1.0 stands on one line)


@pytest.fixture(scope="module")
def serving_db(tmp_path_factory):
    """A database with one serving run."""
    db = tmp_path_factory.mktemp("serving") / "planner.duckdb"
    study = study_from_text(CHAT, "chat.toml", Path.cwd(), catalogue_names())
    run_study(prepare(study), Archive(db), workers=1, replays=0)
    return db


@pytest.mark.long
@pytest.mark.parametrize("page", [None, "why", "what_if", "removed", "assumptions"])
def test_every_page_draws_a_serving_run(serving_db, monkeypatch, page):
    """A person who plans a service would meet a traceback."""
    monkeypatch.setenv("PLANNER_DB", str(serving_db))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    if page:
        app = app.switch_page(f"planner/pages/{page}.py").run()
    assert not app.exception
    assert app.title


def test_a_serving_plan_stands_under_its_roof_and_sends_what_a_hand_counts(serving_db):
    """The roof would be of another plan, or the reductions be counted once instead of twice."""
    archive = Archive(serving_db)
    (record,) = archive.runs()
    front, engine = archive.front(record.run), prepare(stored_study(record))
    row = int(np.argmax(front["tensor_parallel"]))
    found = serving_roofline(engine, plan_key(str(front["plan"][row])))
    model, ranks = engine.model, int(front["tensor_parallel"][row])
    assert ranks > 1
    reduced = found.tokens_per_step * model.hidden * 2 * 2 * model.layers
    assert found.inside_bytes_per_step == pytest.approx(reduced * 2 * (ranks - 1) / ranks)
    assert found.outside_bytes_per_step == 0
    napkin = float(front["floor_devices"][row] / front["devices"][row])
    # The napkin runs prompts through the head, which is 7% of this model, and has no attention.
    assert found.roof.compute_frac == pytest.approx(napkin, rel=0.1)
    assert found.roof.flop_per_s < found.roof.roof_flop_per_s


@pytest.mark.long
def test_why_shows_roof_and_bytes_of_a_serving_plan(serving_db, monkeypatch):
    """A planner of services would be told less than one of training."""
    monkeypatch.setenv("PLANNER_DB", str(serving_db))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    app = app.switch_page("planner/pages/why.py").run()
    assert {"Under its roof", "Bytes by tier"} <= {head.value for head in app.subheader}
