"""Watts of a large training step that waits, against what metered nodes draw."""

import csv
import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app

ROOT = Path(__file__).parents[2]
ANCHORS = tomllib.loads((Path(__file__).parent / "training_power.toml").read_text("utf-8"))
OPEN, HIDDEN = "1f1b", "dual_pipe"
"""Schedules of DeepSeek-V3 on 2,048 H100: experts exchange in the open, or beside other work."""


def evaluated(schedule):
    """Metrics and terms of the step of one plan."""
    settings = (
        "accelerator=H100-SXM", "devices=2048", "tp=1", "pp=16", "ep=64", "gbs=15360", "mbs=1",
        "zero_stage=1", "precision=fp8_block", f"schedule={schedule}",
    )  # fmt: skip
    words = [word for setting in settings for word in ("--set", setting)]
    study = str(ROOT / "studies" / "deepseek_v3_training.toml")
    answer = CliRunner().invoke(app, ["evaluate", study, *words, "--json"])
    return json.loads(answer.stdout)["metrics"]


@pytest.fixture(scope="module")
def plans():
    """Both plans by schedule."""
    return {schedule: evaluated(schedule) for schedule in (OPEN, HIDDEN)}


def curve(accelerator):
    """A row of the power curves."""
    with (ROOT / "costdata/tables/power_curves.csv").open(encoding="utf-8") as file:
        return next(row for row in csv.DictReader(file) if row["accelerator"] == accelerator)


@pytest.mark.parametrize("schedule", [OPEN, HIDDEN])
def test_nodes_of_a_large_job_draw_what_metered_ones_do(plans, schedule):
    """A step that waits for messages would be billed as if its nodes stood still, or as full."""
    rating = ANCHORS["rating"]
    share = plans[schedule]["node_mean_w"] / rating["rated_w"]
    assert rating["low_frac"] <= share <= rating["high_frac"]


def test_waiting_adds_seconds_at_rest_and_no_work(plans):
    """The joules of the work would depend on how long others keep it waiting."""
    rest_w = float(curve("H100-SXM")["context_w"])
    spent = [(plan["device_mean_w"] - rest_w) * plan["step_s"] for plan in plans.values()]
    assert spent[0] == pytest.approx(spent[1], rel=0.02)
    assert plans[OPEN]["step_s"] > 1.2 * plans[HIDDEN]["step_s"]
    assert plans[OPEN]["device_mean_w"] < plans[HIDDEN]["device_mean_w"]


def test_a_loaded_device_at_rest_draws_what_was_metered():
    """Gaps, bubbles and collectives would be charged too little, or as work."""
    waiting = ANCHORS["waiting"]
    row = curve(waiting["accelerator"])
    assert float(row["context_w"]) == pytest.approx(waiting["loaded_w"], rel=0.1)
    assert float(row["idle_w"]) == pytest.approx(waiting["idle_w"], rel=0.1)
