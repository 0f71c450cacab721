"""Published serving runs through the closed form: what is predicted, what not, and how well."""

import csv
from pathlib import Path

import numpy as np
import pytest

from costdata import catalog
from planner.calibration.serving_fit import (
    left_out_residuals,
    problem_of,
    read_cases,
    read_priors,
    tables,
)
from planner.documents import validate as commands_validate
from planner.validation.launches import launch_of
from planner.validation.protocols import predict
from planner.validation.rows import TruthRow, chosen, read_truth
from planner.validation.serving_truth import _years
from simkernel.errors import BadStudy

TRUTH = Path(__file__).parents[1] / "truth"
FILES = [TRUTH / "serve_sweeps.csv", TRUTH / "serve.csv"]


@pytest.fixture(scope="module")
def document():
    return commands_validate.validate(FILES, "shipped", [])


def test_nearly_all_rows_are_predicted_and_none_that_ran_is_called_impossible(document):
    """A planner that refuses what runs is no use, and one that skips rows hides its errors."""
    assert document["predicted"] >= 0.95 * document["rows"]
    assert document["infeasible"] == []


def test_every_row_left_out_says_why(document):
    """Pools apart and arrivals at their own times are left to the replay, nothing else."""
    reasons = {item["why"] for item in document["unsupported"]}
    assert all("pools apart" in why or "needs the replay" in why for why in reasons)


def test_shipped_errors_stay_where_the_fit_left_them(document):
    """A change of physics that makes serving worse must be seen."""
    found = document["metrics"]
    assert found["tpot_s"]["mape"] < 0.066
    assert found["tpot_s"]["median_ape"] < 0.046
    assert found["tpot_s"]["p90_ape"] < 0.14
    assert found["tpot_s"]["rank_tau"] > 0.9
    assert found["ttft_s"]["median_ape"] < 0.135
    assert found["ttft_s"]["mape"] < 0.20
    assert found["output_tokens_per_s"]["mape"] < 0.11
    assert found["output_tokens_per_s"]["rank_tau"] > 0.8


@pytest.mark.long
def test_kernels_alone_come_near_without_any_run_that_was_fitted():
    """What a user's operator timings are worth could not be told from what was fitted to runs."""
    found = commands_validate.validate(FILES[:1], "kernels", [])["metrics"]
    assert 0.066 < found["tpot_s"]["mape"] < 0.13
    assert found["ttft_s"]["bias"] < -0.5


def test_kernels_alone_are_of_serving_rows():
    """Training rows would be called predicted by kernels although profiles were fitted to runs."""
    with pytest.raises(BadStudy, match="of serving rows alone"):
        predict(read_truth([TRUTH / "train.csv"])[:5], catalog.load(), "kernels")


def test_models_left_out_stay_within_their_figures_and_bands():
    """The error on a model that nobody measured is what a buyer of another one has to expect."""
    with (TRUTH / "serve_left_out.csv").open() as file:
        rows = {(r["metric"], r["group"], r["value"]): r for r in csv.DictReader(file)}
    for metric in ("tpot_s", "ttft_s", "output_tokens_per_s"):
        every = rows[metric, "all", ""]
        assert 0.70 <= float(every["coverage_80"]) <= 0.90
        assert 0.85 <= float(every["coverage_90"]) <= 0.95
    assert float(rows["tpot_s", "all", ""]["mape"]) < 0.15
    assert float(rows["ttft_s", "all", ""]["median_ape"]) < 0.26
    far = {
        value
        for (metric, group, value), row in rows.items()
        if (metric, group) == ("tpot_s", "model") and float(row["mape"]) > 0.25
    }
    assert far == {"nvidia/DeepSeek-V3.1-NVFP4"}  # two rows; drafts or kept prefixes unstated


@pytest.mark.parametrize(
    ("settings", "held_steps", "poll_steps"),
    [
        ({"backend": "trtllm", "osl": "1024", "concurrency": "4"}, 20.0, 1.0),
        ({"backend": "trtllm", "osl": "8192", "concurrency": "4"}, 0.0, 1.0),
        ({"backend": "vllm", "osl": "1024", "concurrency": "4"}, 0.0, 1.0),
    ],
)
def test_start_up_options_are_those_of_the_script_of_the_run(settings, held_steps, poll_steps):
    """Twenty steps that an option holds a prompt back would be put down to its kernels."""
    cells = {"gemm_quant_mode": "fp8", "isl": "1024", "measured": "2025-10-29", **settings}
    row = TruthRow(cells, "sweeps.csv line 2")
    found = launch_of(row, "llama-3.1-70b", "H200-SXM", 2)
    assert (found.held_steps, found.poll_steps) == (held_steps, poll_steps)
    assert launch_of(row, "llama-3.1-70b", "H200-SXM", 8).held_steps == 0.0


def test_one_factor_per_chip_takes_the_level_of_each_chip_away():
    """A user's own measurement must correct what it measured."""
    rows = chosen(read_truth(FILES[1:]), ["metric=throughput_tok_s"])
    found = predict(rows, catalog.load(), "one_factor:accelerator_id").predictions
    chips = np.array([p.row.text("accelerator_id") for p in found])
    ratios = np.array([p.ratio for p in found])
    for chip in np.unique(chips):
        assert np.median(np.log(ratios[chips == chip])) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.long
def test_a_left_out_model_has_no_say_in_its_prediction():
    """Doubling the measured figures of the model left out must not move its prediction."""
    where = ["backend=vllm", "precision=fp8"]
    cases, _ = read_cases(chosen(read_truth(FILES[:1]), where)[:60], catalog.load())
    more, _ = read_cases(chosen(read_truth(FILES[:1]), ["precision=bf16"])[:60], catalog.load())
    problem = problem_of(cases + more, catalog.load())
    groups = [problem.cases[i].model.name for i in problem.at]
    is_out = np.array(groups) == groups[0]
    once = left_out_residuals(problem, groups)
    from dataclasses import replace

    doubled = replace(problem, measured=np.where(is_out, 2.0, 1.0) * problem.measured)
    twice = left_out_residuals(doubled, groups)
    assert twice[is_out] == pytest.approx(once[is_out] - np.log(2.0), abs=1e-9)


def test_shipped_engines_are_those_of_the_shipped_parameters():
    """The two tables would drift apart: a report would explain figures that are not used."""
    priors = read_priors()
    made = tables(priors.shipped, priors)["engines.csv"]
    facts = catalog.load()
    for row in made:
        if row["architecture"] == "*":
            engine = facts.engine(str(row["engine"]), "hopper")
            assert engine.step_s == pytest.approx(row["step_s"], rel=2e-3)
            assert engine.gemm_frac == pytest.approx(row["gemm_frac"], rel=2e-3)


@pytest.mark.parametrize(
    ("release", "measured", "years"),
    [
        ("1.1.0rc2.post2", "2025-12-15", -0.33),
        ("TensorRT-LLM v1.0 PyTorch backend", "", -0.27),
        ("1.1.0", "2026-03-01", 59 / 365.25),
        ("9.9", "spring", 0.0),
    ],
)
def test_a_release_is_dated_by_its_own_number_else_by_the_run(release, measured, years):
    """1.1.0 holds the letters of 1.0 and is another release."""
    assert _years("trtllm", release, measured) == pytest.approx(years, abs=1e-6)
