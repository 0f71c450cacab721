"""A recorded step at other shapes: on its own device, and on many of the catalogue's."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from small import planner
from test_import_steps import RECORDED, device_trace
from torch_steps import BASE, OTHERS, Shape, medians_s, record

from costdata.catalog import load
from costdata.configs import read_model
from planner.imports.found import Given
from planner.imports.kinds.kineto import read_timeline
from planner.imports.steps.own_device import own_device, step_on
from planner.imports.steps.recognised import Batch

MOST_ERROR = 0.2


def model_of(shape, folder):
    path = folder / f"model_{shape.hidden}_{shape.layers}.json"
    path.write_text(json.dumps(shape.config))
    return path


def predicted_s(trace, shapes, folder):
    """Steps of some shapes by the trace of the base."""
    line = read_timeline(trace, Given(load(), {}))
    chips = own_device(line.step, line.batch, read_model(str(model_of(BASE, folder))))
    steps = [
        step_on(
            chips,
            read_model(str(model_of(shape, folder))),
            Batch(1.0, shape.sequences, shape.tokens),
        )
        for shape in shapes
    ]
    return [float(step.time.total[0]) for step in steps]


def recorded_steps():
    """Shapes that were run where the trace was recorded, and how long each took."""
    with (Path(RECORDED).parent / "cpu_steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    seconds = [float(row.pop("step_s")) for row in rows]
    return [Shape(**{name: int(text) for name, text in row.items()}) for row in rows], seconds


@pytest.mark.long
def test_other_shapes_take_what_the_recorded_one_says(tmp_path):
    """Another batch, sequence, depth or width would be bought for by a guess."""
    shapes, seconds = recorded_steps()
    assert shapes == [BASE, *OTHERS]
    for shape, took_s, told_s in zip(
        shapes, seconds, predicted_s(RECORDED, shapes, tmp_path), strict=True
    ):
        assert told_s == pytest.approx(took_s, rel=MOST_ERROR), shape


@pytest.fixture
def small(tmp_path):
    return model_of(BASE, tmp_path)


@pytest.mark.long
def test_the_command_tells_the_recorded_and_the_asked_step(small):
    """A person could not ask without writing a program."""
    words = ("extrapolate", RECORDED, "--model", small)
    told = planner(*words, "--set", "mbs=8", "--set", "micro_batches=2", "--json").document
    assert told["asked"]["micro_batch_sequences"] == 8
    assert told["step_s"] == pytest.approx(sum(told["terms_s"].values()))
    plain = planner(*words, "--json").document
    assert plain["step_s"] == plain["same_step_s"]
    assert plain["step_s"] == pytest.approx(plain["recorded"]["step_s"], rel=0.1)
    assert told["step_s"] > 3.5 * (plain["step_s"] - plain["terms_s"]["optimiser"])
    text = planner(*words, "--set", "tokens_per_sequence=256").out
    assert "1 x 4 sequences of 256 tokens" in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("mbs=0", "wanted a whole number"),
        ("mbs=-4", "wanted a whole number"),
        ("mbs=1e3", "wanted a whole number"),
        ("mbs", "wanted a whole number"),
        ("tokens=8", "tokens_per_sequence"),
    ],
)
def test_a_shape_that_is_none_is_refused(small, setting, words):
    """A slip would be priced."""
    answer = planner("extrapolate", RECORDED, "--model", small, "--set", setting)
    assert answer.code == 2
    assert words in answer.err


def test_a_trace_of_another_model_or_a_broken_one_is_refused(tmp_path, small):
    """The step of one model would be told as that of another."""
    other = model_of(replace(BASE, layers=7), tmp_path)
    answer = planner("extrapolate", RECORDED, "--model", other)
    assert answer.code == 2
    assert "4 layers were found" in answer.err
    broken = tmp_path / "broken.json"
    broken.write_text('{"traceEvents": [')
    answer = planner("extrapolate", broken, "--model", small)
    assert answer.code == 2
    assert "truncated" in answer.err


STUDY = """
[study]
name = "many"
kind = "train"
tables = "own"

[workload.pretrain]
kind = "train"
model = "{model}"
tokens = 1e9
tokens_per_sequence = {tokens}

[axes]
accelerator = "H100-SXM"
compute = "measured"
devices = [1, 8, 32]
tensor_parallel = [1, 2, 4]
pipeline_parallel = [1, 2]
context_parallel = [1, 2]
micro_batch_sequences = [2, 4, 8]
global_batch_sequences = 256
recompute = "none"

[objectives]
minimise = ["days", "usd"]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study whose chip has the times of the recorded step, 200 times as fast."""
    folder = tmp_path_factory.mktemp("many")
    model = model_of(BASE, folder)
    path = folder / "study.toml"
    path.write_text(STUDY.format(model=model, tokens=BASE.tokens))
    trace = device_trace(folder / "step.json")
    words = ("import", "kineto", trace, "--to", folder / "own", "--set", f"model={model}")
    assert planner(*words).code == 0
    return path


def step_of(study, *settings, compute="measured"):
    words = [word for one in (*settings, f"compute={compute}") for word in ("--set", one)]
    return planner("evaluate", study, *words, "--json").document["ledgers"]["step_s"]["terms"]


WHOLE = ("devices=1", "tp=1", "pp=1", "cp=1", "mbs=4")
CUT = ("devices=8", "tp=2", "pp=2", "cp=1", "mbs=4")
MICRO_BATCHES = 64


def test_the_recorded_plan_gets_its_own_times_back(study):
    """A plan would not cost what its own step was measured to."""
    (table,) = study.parent.glob("own/imports/*/part_times.csv")
    with table.open(newline="") as file:
        timed = {row["part"]: float(row["seconds"]) for row in csv.DictReader(file)}
    terms = step_of(study, *WHOLE)
    for term in ("attention", "elementwise"):
        took_s = timed[f"{term}_forward"] + timed[f"{term}_backward"]
        assert terms[term] == pytest.approx(took_s * MICRO_BATCHES, rel=1e-4)
    assert terms["optimiser"] == pytest.approx(timed["optimiser"], rel=1e-4)


def test_a_cut_plan_takes_its_share_and_pays_for_the_wires(study):
    """One device's step would be told as that of many without what they send."""
    whole, cut = (step_of(study, *settings) for settings in (WHOLE, CUT))
    curves = [step_of(study, *settings, compute="roofline") for settings in (WHOLE, CUT)]
    for name in ("tensor_parallel", "pipeline_send"):
        assert cut[name] == pytest.approx(curves[1][name])
        assert cut[name] > 0
    assert cut["bubble"] > 0
    ratios = [
        mine["attention"] / curve["attention"]
        for mine, curve in zip((whole, cut), curves, strict=True)
    ]
    assert ratios[1] == pytest.approx(ratios[0], rel=0.01)
    assert ratios[0] != pytest.approx(1.0, rel=0.05)


def test_without_its_rows_a_study_has_the_curves_again(study):
    """What was tried could not be taken back."""
    own = study.parent / "own"
    before = step_of(study, *WHOLE, compute="roofline")
    (name,) = (
        one["name"]
        for one in planner("profiles", "list", "--to", own, "--json").document["imports"]
    )
    assert planner("profiles", "remove", name, "--to", own).code == 0
    assert step_of(study, *WHOLE, compute="roofline") == before


@pytest.mark.bench
def test_other_shapes_run_here_within_a_fifth(tmp_path, tell):
    """The line a step is judged by: shapes that run here against the trace of one."""
    pytest.importorskip("torch", reason="torch is not installed: no step can be run here")
    shapes, trace = (BASE, *OTHERS), tmp_path / "step.json"
    took = medians_s(shapes, midway=lambda: record(trace, BASE, steps=7))
    errors = {}
    for shape, took_s, told_s in zip(
        shapes, took, predicted_s(trace, shapes, tmp_path), strict=True
    ):
        errors[shape] = told_s / took_s - 1.0
        tell(f"step of {shape}", f"{told_s:.3f} s, ran in {took_s:.3f}", f"{MOST_ERROR:.0%}")
    assert max(abs(error) for error in errors.values()) <= MOST_ERROR, errors
