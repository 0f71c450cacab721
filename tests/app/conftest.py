"""A database with a small run in it, as a person finds it when the app opens."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner.archive.store import Archive
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names

ROOT = Path(__file__).resolve().parents[2]

STUDY = """
[study]
name = "small"
kind = "train"

[workload.main]
model = "meta-llama--Meta-Llama-3.1-8B"
tokens = 1e12
tokens_per_sequence = 8192

[axes]
accelerator = ["H100-SXM", "A100-80GB-SXM"]
devices = [32, 64]
supernode_devices = 8
tensor_parallel = [1, 2]
micro_batch_sequences = [1, 2]
global_batch_sequences = 512
recompute = ["none", "selective"]
zero_stage = [1, 3]

[costing]
site = ["us-tx", "se"]

[limits]
days = 120

[objectives]
minimise = ["devices", "days", "usd", "kgco2e"]
"""
"""64 candidates; several chips, counts and sites are on the front."""


@pytest.fixture(autouse=True)
def own_main(monkeypatch):
    """The main module as it was: Streamlit puts the app there, and new processes would load it."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@dataclass(frozen=True)
class Stored:
    """A database, the id of its run, and the rows of its front as columns."""

    db: Path
    run: str
    front: dict


def ran(db, text):
    """A study run into a database; returns the run's id."""
    study = study_from_text(text, "small.toml", ROOT, catalogue_names())
    return run_study(prepare(study), Archive(db), workers=1).run


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """The small study, run once."""
    db = tmp_path_factory.mktemp("app") / "planner.duckdb"
    run = ran(db, STUDY)
    return Stored(db, run, Archive(db).front(run))


@pytest.fixture(scope="session")
def barren(tmp_path_factory):
    """A database whose one run found nothing feasible."""
    db = tmp_path_factory.mktemp("barren") / "planner.duckdb"
    ran(db, STUDY.replace("days = 120", "days = 0.1"))
    return db


GATES = """
[[fleet.branches]]
name = "boom"
period = 1
chance = 0.4
demand = { chat = 2.0 }

[[fleet.branches]]
name = "calm"
period = 1
chance = 0.6
"""


@pytest.fixture(scope="session")
def gated(tmp_path_factory):
    """A database whose one run is a purchase plan in two futures."""
    text = (ROOT / "tests" / "planner" / "grow.toml").read_text()
    text = text.replace("points = 2", "points = 1\nsite_mw = { us-tx = 1.0 }")
    db = tmp_path_factory.mktemp("gated") / "planner.duckdb"
    ran(db, text + GATES)
    return db
