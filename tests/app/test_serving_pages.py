"""The pages of the app on a serving run: none of them knows training alone."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.archive.store import Archive
from planner.runs.kinds import prepare
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


@pytest.mark.parametrize("page", [None, "why", "what_if", "removed", "assumptions"])
def test_every_page_draws_a_serving_run(serving_db, monkeypatch, page):
    """A person who plans a service would meet a traceback."""
    monkeypatch.setenv("PLANNER_DB", str(serving_db))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    if page:
        app = app.switch_page(f"planner/pages/{page}.py").run()
    assert not app.exception
    assert app.title
