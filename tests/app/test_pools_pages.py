"""The pages of the app on a run of two pools: none of them takes a pair for one chip."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.archive.store import Archive
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names

ROOT = Path(__file__).resolve().parents[2]

PAIR = """
[study]
name = "small-pair"
kind = "serve"

[workload.chat]
model = "meta-llama--Meta-Llama-3.1-8B"
slo = { ttft_s_p95 = 1.0, tpot_s_p95 = 0.03 }
trace = { arrivals = 40, prompt_tokens = { from = 100, to = 900 }, output_tokens = 100, duration_s = 60 }

[axes]
supernode_devices = 8

[axes.prefill]
accelerator = "H100-SXM"

[axes.decode]
accelerator = ["H100-SXM", "H20"]

[costing]
site = ["us-tx", "se"]
"""  # noqa: E501 (an inline table of TOML 1.0 stands on one line)


@pytest.fixture(scope="module")
def pair_db(tmp_path_factory):
    """A database with one run of two pools."""
    db = tmp_path_factory.mktemp("pair") / "planner.duckdb"
    study = study_from_text(PAIR, "pair.toml", Path.cwd(), catalogue_names())
    run_study(prepare(study), Archive(db), workers=1)
    return db


@pytest.mark.long
@pytest.mark.parametrize("page", [None, "why", "what_if", "decide", "compare", "removed"])
def test_every_page_draws_a_run_of_two_pools(pair_db, monkeypatch, page):
    """A person who plans two pools, of one plan each, would meet a traceback."""
    monkeypatch.setenv("PLANNER_DB", str(pair_db))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    if page:
        app.switch_page(f"planner/pages/{page}.py").run()
    assert not app.exception
