"""Predicted against published: rows are read, filled by the stated rule, and scored honestly."""

import csv
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from costdata import catalog
from planner.bands import TABLE, joined
from planner.commands.validate import register
from planner.documents import validate as commands_validate
from planner.validation import accuracy_page, measured_bands
from planner.validation.models import model_of_row
from planner.validation.orders import order_scores, rank_tau, scalings
from planner.validation.plans import plans_of_row
from planner.validation.rows import TruthRow, chosen, read_truth, sound
from planner.validation.scatter import Point, scatter_svg
from planner.validation.scores import scores
from planner.validation.training import validate
from planner.validation.units import MEMORY, implied_tokens_per_s
from simkernel import plugins
from simkernel.candidates import RECOMPUTE
from simkernel.errors import BadFile, BadStudy, MissingFact
from simkernel.models import parameters

TRAIN = Path(__file__).parents[1] / "truth" / "train.csv"
LEFT_OUT = TRAIN.parent / "left_out.csv"
"""What planner validate missed of each source when it was left out of the fit."""


@cache
def rows():
    return chosen(read_truth([TRAIN]), [])


@cache
def everything():
    return validate(rows(), catalog.load())


def row(case_id, **changes):
    """A row of the file with other cells."""
    found = next(r for r in rows() if r.case_id == case_id)
    return TruthRow({**found.cells, **changes}, found.where)


@pytest.mark.long
def test_every_usable_row_is_predicted_or_told_why_not():
    """A row that fits badly could vanish without a word."""
    told = len(everything().predictions) + len(everything().unsupported)
    assert told == len(rows()) == 359
    assert all(why for _, why in everything().unsupported)
    assert len(everything().predictions) >= 350


@pytest.mark.long
def test_a_row_alone_is_predicted_as_in_the_whole_file():
    """If false, an error would depend on which other rows were looked at."""
    whole = {(p.row.case_id, p.row.text("metric")): p.predicted for p in everything().predictions}
    for case in ("sc21-005", "tpu-recipes-003", "nemo-bridge-031"):
        alone = validate([row(case)], catalog.load()).predictions[0]
        assert alone.predicted == pytest.approx(whole[case, alone.row.text("metric")], rel=1e-9)


def test_the_published_number_never_reaches_the_prediction():
    """A setting picked after seeing the answer would make the error table worthless."""
    for case in ("sc21-001", "tpu-recipes-003", "megascale-001", "pythia-008"):
        one, other = (
            validate([row(case, value=value)], catalog.load()).predictions[0]
            for value in ("1", "1000")
        )
        assert one.plan == other.plan
        assert one.predicted == other.predicted


def test_speeds_in_any_unit_imply_the_same_tokens():
    """A step of 2 s for 1,024 sequences of 2,048 tokens is 1,048,576 tokens/s on 8 devices."""
    base = {"n_accel": "8", "seq_len": "2048", "global_batch_seqs": "1024"}
    first = row("sc21-001", **base, metric="step_time_s", value="2")
    model = model_of_row(first)
    tokens = implied_tokens_per_s(first, model, 312e12)
    assert tokens == 1024 * 2048 / 2
    hours = 1e12 / (tokens / 8 * 3600)
    for metric, value in (
        ("tokens_per_s_per_gpu", tokens / 8),
        ("tokens_per_s_total", tokens),
        ("gpu_hours_per_Ttok", hours),
    ):
        other = row("sc21-001", **base, metric=metric, value=str(value))
        assert implied_tokens_per_s(other, model, 312e12) == pytest.approx(tokens)


def test_rates_in_flop_follow_the_convention_of_their_source():
    """SC21, section 3.2: 96 B s L h^2 (1 + s/6h + V/16Lh) flop with recompute, full attention."""
    case = row("sc21-001")
    model = model_of_row(case)
    layers, hidden, vocab, seq = 24, 2304, 51200, 2048
    flop = 96 * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden))
    tokens = implied_tokens_per_s(case, model, 312e12)
    assert tokens == pytest.approx(137e12 * 32 / flop, rel=1e-3)  # norms are not in the formula
    causal = implied_tokens_per_s(row("sc21-001", flop_convention="causal"), model, 312e12)
    assert causal > tokens
    half = row("sc21-001", metric="mfu_percent", value="50")
    rate = row("sc21-001", metric="model_tflops_per_gpu", value="156")
    assert implied_tokens_per_s(half, model, 312e12) == implied_tokens_per_s(rate, model, 312e12)


def test_settings_that_are_not_stated_follow_the_rule():
    """Least recompute first, then the largest micro-batch up to 16k tokens; 1 with a pipeline."""
    flash = {"recompute": "unknown", "stack": "flash"}
    free = row("sc21-001", micro_batch="", zero_stage="1", **flash)
    plans = plans_of_row(free, model_of_row(free), (8,))
    assert [p["recompute_code"] for p in plans[:2]] == [0, 0]
    least = [p for p in plans if p["recompute_code"] == p["offload_code"] == 0]
    assert [p["micro_batch_sequences"] for p in least] == [8, 4, 2, 1]
    piped = row("sc21-007", **flash)
    plans = plans_of_row(piped, model_of_row(piped), (8,))
    assert {p["micro_batch_sequences"] for p in plans} == {1}
    assert [p["recompute_code"] for p in plans if not p["offload_code"]] == [0, 1, 2]
    assert [p["offload_code"] for p in plans] == [0, 0, 0, 2, 2, 2, 3, 3, 3]
    stated = row("sc21-007", recompute="none")
    alone = plans_of_row(stated, model_of_row(stated), (8,), has_host=False)
    assert [p["recompute_code"] for p in alone] == [0, 1]


def test_no_run_that_was_made_is_called_impossible():
    """A buyer would be refused what others run."""
    assert [p.row.case_id for p in everything().predictions if p.is_infeasible] == []


def test_only_runs_whose_recipes_offload_are_predicted_to_offload():
    """Memory in the host would be a way to call anything possible."""
    found = {p.row.case_id for p in everything().predictions if p.plan["offload_code"]}
    assert {case.rsplit("-", 1)[0] for case in found} == {"nemo-bridge", "ironwood"}
    assert len(found) == 14


def test_a_sum_on_paper_is_no_run_that_has_to_fit():
    """The figure shows what does not fit: to call it impossible would be no fault of ours."""
    told = {p.row.case_id: p for p in everything().predictions if p.metric == "memory_bytes"}
    assert not told["korthikanti-mem-001"].is_infeasible
    assert told["korthikanti-mem-001"].plan["recompute_code"] == 0


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ({}, "dual_pipe"),
        ({"notes": "", "schedule": "DualPipeV"}, "dual_pipe_v"),
        ({"notes": "pipeline with zero-bubble"}, "zero_bubble"),
        ({"notes": ""}, "one_forward_one_backward"),
        ({"global_batch_seqs": "3840"}, "one_forward_one_backward"),
    ],
)
def test_a_schedule_that_a_row_names_is_run_if_its_micro_batches_allow(cells, wanted):
    """DeepSeek-V3's own run would be judged by a pipeline it did not have."""
    stated = row("deepseek-v3-run-001", **cells)
    names = plugins.names("schedules")
    codes = {p["schedule_code"] for p in plans_of_row(stated, model_of_row(stated), (8,))}
    assert {names[code] for code in codes} == {wanted}


def test_stacks_without_flash_attention_recompute_in_full():
    """Pythia would be predicted with activations that its configuration did not keep."""
    pythia = row("pythia-004")
    plans = plans_of_row(pythia, model_of_row(pythia), (8,))
    assert {p["recompute_code"] for p in plans} == {RECOMPUTE.index("full")}


def test_a_pipeline_of_torchtitan_has_as_many_micro_batches_as_stages():
    """Local batch 32 on 8 stages is 8 micro-batches of 4; interleaved has two stages a device."""
    for case, chunks in (("torchtitan-013", 1), ("torchtitan-014", 2)):
        run = row(case)
        (plan,) = plans_of_row(run, model_of_row(run), (8,))[:1]
        assert plan["micro_batch_sequences"] == 4
        assert plan["virtual_stages"] == chunks


def test_a_release_that_states_no_virtual_stages_has_none():
    """A recipe without interleaving would be predicted with the smaller bubble."""
    run = row("nemo-bridge-017")
    assert {p["virtual_stages"] for p in plans_of_row(run, model_of_row(run), (8,))} == {1}


def test_a_row_says_what_its_stack_overlaps():
    """Async TP and one graph belong to a run, not to all runs of its year."""
    cases = {p.row.case_id: p.case.stack for p in everything().predictions}
    assert cases["torchtitan-012"].overlaps_tensor
    assert not cases["torchtitan-011"].overlaps_tensor
    assert cases["nemo-bridge-019"].is_one_graph
    assert not cases["nemo-bridge-018"].is_one_graph
    assert cases["nemo-bridge-001"].is_one_graph


def test_recipes_of_one_graph_run_the_exchange_beside_other_micro_batches():
    """Their exchange would stand alone, or be hidden in runs that do not overlap it."""
    plans = {p.row.case_id: p.plan for p in everything().predictions}
    overlapped = plugins.code("schedules", "combined_1f1b")
    for case in ("nemo-bridge-001", "nemo-bridge-007", "nemo-bridge-019"):
        assert plans[case]["schedule_code"] == overlapped, case
    assert plans["nemo-bridge-018"]["schedule_code"] != overlapped


def test_a_stated_recompute_stands_if_it_fits_within_the_band_on_memory():
    """DeepSeek-V3's own run would be predicted as running every layer again."""
    found = {p.row.case_id: p for p in everything().predictions}
    own, far = found["deepseek-v3-run-001"], found["nemo-bridge-078"]
    assert own.plan["recompute_code"] == RECOMPUTE.index("selective")
    assert far.row.text("recompute") == "selective"  # needs 1.34 times what there is
    assert far.plan["recompute_code"] == RECOMPUTE.index("full")


def test_only_a_whole_training_run_routes_as_it_learnt_to():
    """Benchmarks force the router to balance; DeepSeek's own run did not."""
    loads = {p.row.case_id: p.case.imbalance for p in everything().predictions}
    assert loads["deepseek-v3-run-001"] > 1.0
    assert loads["nemo-bridge-001"] == 1.0


def test_a_batch_that_cannot_be_shared_out_is_not_rounded():
    """A step would train other tokens than the row says."""
    odd = row("sc21-001", global_batch_seqs="510")
    with pytest.raises(MissingFact, match="batch of 510"):
        plans_of_row(odd, model_of_row(odd), (8,))


def test_a_model_without_a_file_is_built_from_its_columns_to_its_published_size():
    """A gated MLP mistaken for a plain one would be half its work off."""
    shaped = {
        r.text("model"): r for r in rows() if r.text("model").startswith(("gpt-", "maxtext"))
    }
    assert len(shaped) > 10
    for each in shaped.values():
        count = float(parameters(model_of_row(each)).total)
        is_narrow = each.text("model") == "maxtext-52b"  # heads narrower than hidden / heads
        wanted = pytest.approx(each.number("params_b") * 1e9, rel=0.13 if is_narrow else 0.04)
        assert count == wanted, each.text("model")
    with pytest.raises(MissingFact, match="ffn_hidden"):
        model_of_row(row("sc21-001", ffn_hidden=""))


def test_a_label_and_a_shape_that_contradict_each_other_are_not_predicted():
    """Llama with other layers than Llama's is another model."""
    with pytest.raises(MissingFact, match="n_layers"):
        model_of_row(row("nemo-bridge-009", n_layers="12"))


def test_all_faults_of_a_file_are_told_at_once(tmp_path):
    """A user would mend a file cell by cell."""
    path = tmp_path / "bad.csv"
    cells = {**row("sc21-001").cells, "value": "fast", "tp": "-1", "zero_stage": "0"}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cells))
        writer.writeheader()
        writer.writerow(cells)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadFile) as error:
        read_truth([path, tmp_path / "other.csv", tmp_path / "none.csv"])
    assert len(error.value.faults) == 2
    ((_, why),) = sound(read_truth([path])).faulty
    assert "value: 'fast' is not a number above 0" in why
    assert "tp: '-1' is not a number above 0" in why


def test_conditions_narrow_and_override_what_is_used():
    """--where usable_as=... must reach the rows that are left out by default."""
    all_rows = read_truth([TRAIN])
    assert {r.text("core") for r in chosen(all_rows, ["core=yes"])} == {"yes"}
    assert chosen(all_rows, ["usable_as=exclude"])
    with pytest.raises(BadStudy, match="wanted COLUMN=VALUE"):
        chosen(all_rows, ["colour=red"])


def test_scores_are_what_the_contract_defines():
    """APE = |predicted/measured - 1|, bias = mean(predicted/measured) - 1."""
    some = everything().predictions[:4]
    made = [
        replace(p, predicted=p.measured * factor)
        for p, factor in zip(some, (0.5, 1.0, 1.0, 1.1), strict=True)
    ]
    found = scores(made)["throughput"]
    assert found["n"] == 4
    assert found["mape"] == pytest.approx(0.15)
    assert found["median_ape"] == pytest.approx(0.05)
    assert found["bias"] == pytest.approx(-0.1)
    assert set(found["groups"]) >= {"source_group", "model", "accelerator"}


def test_order_is_judged_where_exactly_one_setting_differs():
    """megascale runs one batch on 256 to 1,024 devices: predictions in reverse order give -1."""
    group = [p for p in everything().predictions if p.row.text("global_batch_seqs") == "768"]
    group = [p for p in group if p.row.text("source_group") == "megascale"]
    turned = [replace(p, predicted=p.plan["devices"] * i) for i, p in enumerate(group)]
    straight = [replace(p, predicted=p.measured) for p in group]
    assert rank_tau(straight) == 1.0
    assert rank_tau(turned) == -1.0
    assert rank_tau(group[:2]) is None


def test_scaling_is_the_change_of_speed_per_device_from_few_to_many():
    """Predictions that hold their speed where runs lost a fifth are off by its logarithm."""
    group = [p for p in everything().predictions if p.row.text("source_group") == "megascale"]
    flat = [replace(p, predicted=p.plan["devices"] * 2.0) for p in group]
    pairs = scalings(flat)
    same_batch, same_share = [(256, 1024), (3072, 12288)], [(768, 6144), (1024, 8192)]
    assert sorted((s.few, s.many) for s in pairs) == sorted(same_batch + same_share)
    for pair in pairs:
        assert pair.predicted == pytest.approx(1.0)
        assert pair.log_error == pytest.approx(-np.log(pair.measured))
    found = order_scores(flat)
    assert found["factorial"]["groups"] == 2
    assert found["scaling"]["pairs"] == 4
    assert len(found["scaling"]["beyond"]) == 2


@pytest.mark.long
def test_the_command_prints_one_document_with_the_promised_keys(tmp_path):
    """A script that reads the JSON would meet a missing key or a stray word."""
    app = typer.Typer()
    register(app)
    out = tmp_path / "rows.csv"
    args = [str(TRAIN), "--json", "--where", "core=yes", "--rows", str(out)]
    result = CliRunner().invoke(app, args)
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {"rows", "predicted", "unsupported", "infeasible", "protocol", "metrics"} <= set(found)
    keys = (
        "n mape median_ape p90_ape bias coverage_80 coverage_90 rank_tau groups factorial scaling"
    )
    assert set(keys.split()) == set(found["metrics"]["throughput"])
    assert "throughput" in commands_validate.validate_text(found)
    with out.open() as file:
        written = list(csv.DictReader(file))
    assert len(written) == found["predicted"]
    assert np.isfinite([float(line["ratio"]) for line in written]).all()


def test_the_shipped_bands_of_speed_are_what_the_command_measures():
    """Bands would be narrower, or wider, than what was missed on sources left out."""
    assert not measured_bands.differences(_shipped_bands(), measured_bands.measured_rows(LEFT_OUT))
    with LEFT_OUT.open() as file:
        left_out = {(row["case_id"], row["metric"]) for row in csv.DictReader(file)}
    rows = {(p.row.case_id, p.row.text("metric")) for p in everything().predictions}
    assert left_out == rows


def test_bands_of_other_sources_hold_nine_left_out_runs_in_ten():
    """A band would say 90% and hold fewer: the next source is one that made none of it."""
    with LEFT_OUT.open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] not in MEMORY]
    inside = []
    for row in rows:
        others = [
            other
            for other in rows
            if other["regime"] == row["regime"] and other["source_group"] != row["source_group"]
        ]
        ratios = np.array([float(other["ratio"]) for other in others])
        low, high = measured_bands.step_band(ratios, [o["source_group"] for o in others])
        inside.append(low <= float(row["ratio"]) <= high)
    assert 0.85 <= np.mean(inside) <= 0.95


@pytest.mark.long
def test_the_page_on_accuracy_is_what_its_command_writes():
    """Its tables would tell the errors of an earlier physics."""
    paths = (TRAIN, LEFT_OUT, TRAIN.parent / "natural_experiments.csv")
    shown = Path(__file__).parents[2] / "docs" / "ACCURACY.md"
    assert accuracy_page.page(*paths) == shown.read_text(encoding="utf-8")
    drawn = shown.with_name(accuracy_page.CHART_FILE).read_text(encoding="utf-8")
    assert accuracy_page.chart(LEFT_OUT) == drawn


def test_a_run_predicted_too_fast_is_drawn_above_and_named():
    """A reader would see errors upside down, or points that no one can look up."""
    runs = [Point(1e3, 1.2, "dense", "fast"), Point(1e4, 0.7, "moe", "slow")]
    root = ElementTree.fromstring(scatter_svg(runs, "two"))
    marks = {e[0].text: e for e in root.iter() if len(e) and "fill-opacity" in e.attrib}
    fast, slow = marks["fast: 1.20"], marks["slow: 0.70"]
    assert float(fast.get("cy")) < float(slow.get("y"))
    assert float(fast.get("cx")) < float(slow.get("x"))


def test_a_band_weighs_sources_alike():
    """A source of a hundred runs would decide how far off the next source may be."""
    many, few = np.full(98, 1.0), np.array([0.5, 2.0])
    sources = ["many"] * 98 + ["few"] * 2
    low, high = measured_bands.step_band(np.concatenate([many, few]), sources)
    assert low == pytest.approx(0.5)
    assert high == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "lacks metric"),
        ("case_id,metric\na,step_time_s\n", "lacks regime"),
        ("metric,regime,source_group,ratio\nstep_time_s,dense,a,1\n", "has not both"),
    ],
)
def test_a_file_that_holds_no_left_out_runs_is_told(tmp_path, text, told):
    """Bands could be made of anything that is a table."""
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(BadFile, match=told):
        measured_bands.measured_rows(path)


def _shipped_bands():
    with TABLE.open() as file:
        return list(csv.DictReader(file))


def test_independent_errors_join_as_logarithms_and_never_narrow():
    """exp(-sqrt(ln 0.8^2 + ln 0.9^2)) = 0.781; one factor alone is itself."""
    low, high = joined((0.8, 1.3), (0.9, 1.2))
    assert low == pytest.approx(0.78132, abs=1e-4)
    assert high == pytest.approx(1.37644, abs=1e-4)
    assert joined((0.8, 1.3)) == pytest.approx((0.8, 1.3))


def test_a_published_closed_form_of_activations_is_met_exactly():
    """Korthikanti 2022, figure 1: 9.5625 to 131.25 GiB; no stack stated."""
    found = [
        p.ratio
        for p in everything().predictions
        if p.row.text("metric") == "activation_mem_gib_per_gpu"
    ]
    assert found == pytest.approx([1.0] * 8, rel=1e-9)
