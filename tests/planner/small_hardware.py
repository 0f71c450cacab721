"""Studies of hardware alone, shipped or of a few lines, and every row that they come to."""

from pathlib import Path

from planner.hardware.study import cost, prepare, sweep
from planner.runs.total import joined
from planner.study.read import read_study, study_from_text
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

STUDIES = Path(__file__).parents[2] / "studies"

OPEN = """
[study]
name = "open"
kind = "hardware"
[axes]
accelerator = ["H100-SXM", "GB200"]
supernodes = "most"
[costing]
site = "us-tx"
[limits]
capex_usd = 50e6
"""
"""Nothing pinned: prices, watts and fabric of the catalogue."""


def rows_of(study):
    """Every costed row of a study, one dictionary each, with "is_front"."""
    engine = prepare(study)
    plans = joined([r.front for r in sweep(engine, 1, lambda: False) if r.front])
    costed = cost(study, engine.catalog, plans)
    table = {**costed.columns, "is_front": costed.is_front}
    return [{n: column[i] for n, column in table.items()} for i in range(len(costed.is_front))]


def job(name, *settings):
    study = read_study(STUDIES / f"{name}.toml", catalogue_names())
    return rows_of(with_settings(study, settings, catalogue_names()) if settings else study)


def study_of(text):
    return study_from_text(text, "open.toml", STUDIES, catalogue_names())
