"""What `planner validate` does not predict: each faulty row with its line and its faults."""

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from small import planner

from costdata import catalog
from planner.validation.models import model_of_row
from planner.validation.plans import plans_of_row
from planner.validation.request_logs import read_log
from planner.validation.rows import chosen, read_truth, sound
from planner.validation.serving_truth import case_of
from simkernel.errors import BadFile, MissingFact, PlanError

TRAIN = Path(__file__).parents[1] / "truth" / "train.csv"


@cache
def cells_of(case_id):
    with TRAIN.open(newline="", encoding="utf-8") as file:
        return next(row for row in csv.DictReader(file) if row["case_id"] == case_id)


def written(path, *changes, case_id="sc21-007", encoding="utf-8"):
    """A file of one row per change of a real one, each a case of its own."""
    rows = [
        {**cells_of(case_id), "case_id": f"case-{i}", **change} for i, change in enumerate(changes)
    ]
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def faults_of(*paths):
    """Reasons of rows that are not predicted."""
    return [why for _, why in sound(read_truth(paths)).faulty]


@pytest.mark.parametrize("name", ["train.csv", "serve.csv", "serve_sweeps.csv"])
def test_no_row_that_is_kept_is_refused(name):
    """A check would refuse what was published, or not read its words."""
    told = sound(chosen(read_truth([TRAIN.parent / name]), []))
    assert told.rows
    assert (told.faulty, told.notes) == ((), ())


def test_faulty_rows_are_told_at_once_with_their_lines_and_the_others_scored(tmp_path):
    """A blank value or half a sequence would end as a fault of ours."""
    path = written(tmp_path / "bad.csv", {"value": ""}, {}, {"micro_batch": "0.5"})
    answer = planner("validate", path, "--json")
    assert answer.code == 0
    assert (answer.document["rows"], answer.document["predicted"]) == (3, 1)
    first, second = (item["why"] for item in answer.document["unsupported"])
    assert f"{path}:2 value: blank; wanted" in first
    assert f"{path}:4 micro_batch: '0.5' is not a whole number; give" in second


def test_a_line_is_where_a_row_starts_though_a_cell_before_it_has_several(tmp_path):
    """A user would look at the wrong row."""
    path = written(tmp_path / "bad.csv", {"notes": "one\ntwo"}, {"seq_len": "2048.5"})
    assert faults_of(path)[0].startswith(f"{path}:4 seq_len: '2048.5'")


def test_a_mark_of_byte_order_is_no_part_of_a_column(tmp_path):
    """A file saved by a spreadsheet would lack case_id."""
    assert len(read_truth([written(tmp_path / "bom.csv", {}, encoding="utf-8-sig")])) == 1


def test_rows_are_written_to_a_folder_that_is_there(tmp_path):
    """All rows would be predicted, and then lost to a fault of ours."""
    answer = planner("validate", written(tmp_path / "x.csv", {}), "--rows", "/nonexist/x.csv")
    assert answer.code == 2
    assert "--rows /nonexist/x.csv: wanted a file in a folder" in answer.err
    answer = planner("validate", tmp_path / "x.csv", "--rows", tmp_path)
    assert answer.code == 2


def test_a_case_and_metric_is_counted_once(tmp_path):
    """A figure given twice would weigh twice."""
    path = written(tmp_path / "x.csv", {"case_id": "a"}, {"case_id": "b"}, {"case_id": "a"})
    (fault,) = faults_of(path)
    assert fault == f"{path}:4 case_id: the same case and metric stand at {path}:2; keep one"
    assert len(faults_of(TRAIN, TRAIN)) == len(read_truth([TRAIN]))


def test_a_log_that_is_not_there_is_told(tmp_path):
    """Its settings alone would end as a fault of ours."""
    with pytest.raises(BadFile, match="cannot be read"):
        read_log(tmp_path / "RTXPRO6000_x_requests.jsonl")


@pytest.mark.parametrize(
    ("metric", "unit", "wanted"),
    [
        ("hw_tflops_per_gpu", "furlongs", "TFLOP/s/GPU"),
        ("hw_tflops_per_gpu", "GFLOP/s/GPU", "TFLOP/s/GPU"),
        ("step_time_s", "ms", "s/step"),
        ("step_time_s", "tokens/s", "s/step"),
        ("tokens_per_s_per_gpu", "tokens/s", "tokens/s/GPU"),
        ("tokens_per_s_per_gpu", "samples/s/GPU", "tokens/s/GPU"),
        ("tokens_per_s_total", "tokens/s/GPU", "tokens/s"),
        ("mfu_percent", "fraction", "%"),
        ("peak_mem_gib_per_gpu", "GB/GPU", "GiB/GPU"),
        ("gpu_hours_per_Ttok", "GPU-hours", "GPU-hours per 1T tokens"),
        ("tpot_ms_mean", "s", "ms"),
        ("throughput_tok_s", "tok/s/GPU", "output tok/s"),
    ],
)
def test_a_figure_in_another_unit_than_its_metric_is_refused(tmp_path, metric, unit, wanted):
    """A step of 1,420 ms would be scored as one of 1,420 s."""
    (fault,) = faults_of(written(tmp_path / "x.csv", {"metric": metric, "unit": unit}))
    assert f":2 unit: '{unit}' is no unit of {metric}; wanted {wanted};" in fault


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("step_time_s", "s"),
        ("step_time_s", ""),
        ("tokens_per_s_per_gpu", "tok/s/gpu"),
        ("model_tflops_per_gpu", "TFLOPS/GPU"),
        ("hw_tflops_per_gpu", "TFLOP/s/GPU (counts recompute)"),
        ("throughput_tok_s", "input tok/s per 8-GPU node incl. cache hits"),
        ("a_metric_that_is_not_predicted", "furlongs"),
    ],
)
def test_a_unit_may_be_spelled_as_sources_do(tmp_path, metric, unit):
    """A file would be refused for its spelling."""
    assert read_truth([written(tmp_path / "x.csv", {"metric": metric, "unit": unit})])


@pytest.mark.parametrize("unit", ["input tok/s", "output tok/s per 8-GPU node"])
def test_a_rate_of_prompts_or_of_one_node_is_not_scored_as_that_of_all_output(unit):
    """A figure of eight devices would be held to what all of them make."""
    rows = read_truth([TRAIN.parent / "serve.csv"])
    row = next(r for r in rows if r.text("metric") == "throughput_tok_s")
    with pytest.raises(MissingFact, match=unit):
        case_of(replace(row, cells={**row.cells, "unit": unit}), catalog.load())


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"zero_stage": "9"}, "zero_stage: '9' is not known; wanted one of 0, 1, 2, 3, or"),
        ({"seq_len": "2048.5"}, "seq_len: '2048.5' is not a whole number; give a count"),
        ({"vpp": "7", "pp": "1"}, "vpp: 7 virtual stages with pp 1; wanted pp above 1"),
        ({"vpp": "7", "pp": ""}, "vpp: 7 virtual stages with pp 1; wanted pp above 1"),
        ({"vpp": "99", "pp": "2"}, "vpp: 99 x pp 2 is more than the 80 layers; give fewer"),
        ({"mtp": "abc"}, "mtp: 'abc' is not known; wanted one of 0, 1, or a blank"),
        ({"ep": "4096"}, "ep: 4096 on 512 devices; wanted at most n_accel"),
        ({"ep": "7", "n_experts": "8"}, "ep: 7 does not divide n_experts 8; give a divisor"),
    ],
)
def test_a_setting_that_no_run_can_have_is_refused_with_what_is_known(tmp_path, cells, told):
    """It would be scored as another setting, without a word."""
    base = {"n_accel": "512", "pp": "2"}
    (fault,) = faults_of(written(tmp_path / "x.csv", base | cells))
    assert f"{tmp_path}/x.csv:2 " in fault
    assert told in fault


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("sp", "maybe"), ("recompute", "maybe"), ("flop_convention", "zzz"), ("stack", "foo"),
        ("software_release", "abc"), ("software_release", "9999"), ("software_release", "-3"),
        ("software_release", "25.13"), ("software_release", "99.12"),
    ],
)  # fmt: skip
def test_a_word_that_is_not_ours_counts_as_blank_and_is_told(tmp_path, name, word):
    """A mistyped release would move a prediction without a word."""
    told = sound(read_truth([written(tmp_path / "x.csv", {name: word})]))
    assert told.rows[0].text(name) == ""
    (note,) = told.notes
    assert note.startswith(f"{tmp_path}/x.csv:2 {name}: {word!r} is not known and taken as blank")


def test_sequence_parallelism_may_be_denied_in_any_word_of_the_set(tmp_path):
    """A denial in another spelling would be read as consent."""
    words = ("0", "0.0", "no", "off", "1", "1.0", "yes", "on", "unknown", "")
    rows = read_truth([written(tmp_path / "x.csv", *({"sp": word} for word in words))])
    cut = [plans_of_row(r, model_of_row(r), (8,))[0]["sequence_parallel"] for r in rows]
    assert cut == [0.0] * 4 + [1.0] * 6


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"tp": "3", "cp": "3", "dp": "999"}, "tp x pp x cp x dp makes 8991 devices, not the"),
        ({"tp": "3", "dp": ""}, "makes groups of 3, not the"),
        ({"micro_batch": "7"}, "micro_batch 7 does not divide the 16 of a replica"),
        ({"global_batch_seqs": "510"}, "the batch is not shared out evenly by 32 replicas"),
        ({"tp": "", "global_batch_seqs": "5"}, "no tp of 1, 2, 4, 8 shares out"),
        ({"ep": "8"}, "ep 8, but gpt-1.7B has 0 experts"),
        ({"schedule": "foo"}, "a schedule of ours ('foo')"),
    ],
)
def test_degrees_that_do_not_fit_are_told_by_what_does_not_fit(tmp_path, cells, told):
    """A user would look for a micro-batch where the devices do not multiply."""
    (row,) = read_truth([written(tmp_path / "x.csv", cells, case_id="sc21-001")])
    with pytest.raises(MissingFact, match=re.escape(told)):
        plans_of_row(row, model_of_row(row), (8,))


@pytest.mark.parametrize("asked", [(), ("--json",)])
def test_rows_of_which_none_is_predicted_leave_with_1_and_say_why(tmp_path, asked):
    """A check that looks at the code would take an empty answer for a good one."""
    path = written(tmp_path / "x.csv", {"tp": "3", "cp": "3", "dp": "999"})
    answer = planner("validate", path, *asked)
    assert answer.code == 1
    assert "makes 71928 devices, not the 1536 of n_accel" in answer.out
    assert "no row could be predicted" in answer.err
    if asked:
        assert answer.document["predicted"] == 0


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"n_layers": "1000000000000000000"}, "does not make params_b"),
        ({"hidden": "7"}, "does not make params_b"),
        ({"vocab": "99999999"}, "does not make params_b"),
    ],
)
def test_a_shape_of_another_size_than_the_row_states_is_not_predicted(tmp_path, cells, told):
    """A mistyped width would be scored as a model that nobody trained."""
    (row,) = read_truth([written(tmp_path / "x.csv", cells, case_id="sc21-001")])
    with pytest.raises(MissingFact, match=told):
        model_of_row(row)


SINGLE = "trt-v10-llama-3-3-70b-b200-n1-fp4-128-128"
SWEEP = "dsr1_h200_sglang_fp8_agg_1024x1024_c4_cfg81"


@pytest.mark.parametrize(
    ("name", "case", "cells", "told"),
    [
        ("serve", SINGLE, {"precision": "abc"}, "precision 'abc' is not one of ours: bf16"),
        ("serve", SINGLE, {"batch_or_concurrency": ""}, "neither a number of requests"),
        ("serve", SINGLE, {"batch_or_concurrency": "nan"}, "nor max"),
        ("serve", SINGLE, {"batch_or_concurrency": "0.0"}, "nor max"),
        ("serve", SINGLE, {"tp": "7"}, "tp 7 x pp 1 does not divide the 1 of n_accel"),
        ("serve_sweeps", SWEEP, {"system": "abc"}, "accelerator 'abc' is not known"),
        ("serve_sweeps", SWEEP, {"backend": "abc"}, "engine 'abc' has no profile"),
        ("serve_sweeps", SWEEP, {"gemm_quant_mode": "abc"}, "precision 'abc' is not one of ours"),
        ("serve_sweeps", SWEEP, {"attention_dp_size": "9999"}, "9999 copies of attention x pp 1"),
        ("serve_sweeps", SWEEP, {"pp_size": "7"}, "do not divide the"),
        ("serve_sweeps", SWEEP, {"moe_ep_size": "7"}, "ep 7 does not divide the"),
    ],
)
def test_a_serving_row_that_cannot_be_read_is_told_and_the_others_are_scored(
    name, case, cells, told
):
    """One cell would end a whole validation as a fault of ours."""
    row = next(r for r in read_truth([TRAIN.parent / f"{name}.csv"]) if r.case_id == case)
    assert case_of(row, catalog.load())
    with pytest.raises(PlanError, match=re.escape(told)):
        case_of(replace(row, cells={**row.cells, **cells}), catalog.load())


def test_a_mean_of_requests_in_flight_need_not_be_whole():
    """Metered runs state the mean of what was in flight."""
    row = next(r for r in read_truth([TRAIN.parent / "serve.csv"]) if r.case_id == SINGLE)
    load = {"batch_or_concurrency": "15.948"}
    assert case_of(replace(row, cells={**row.cells, **load}), catalog.load()).concurrency == 15.948


def test_a_first_token_that_is_scored_was_measured(tmp_path):
    """It would be divided by."""
    path = tmp_path / "x.csv"
    with (TRAIN.parent / "serve_sweeps.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow({**row, "silicon_ttft_ms": ""})
    assert faults_of(path) == [
        f"{path}:2 silicon_ttft_ms: blank, but use_ttft is yes; give it, or set use_ttft to no"
    ]
