"""Serving benchmarks and training logs: rows that `planner validate` predicts."""

import json

import pytest
from small import planner

from costdata.catalog import load
from costdata.configs import read_model
from planner.imports import serving_figures
from planner.imports.found import Given
from planner.imports.kinds import megatron_log, serving_benchmark
from simkernel.errors import PlanError, UnknownName

CHIP = {"accelerator": "H100-SXM"}


def run_of(**changes):
    """The result of a benchmark with the keys of vllm-project/vllm, vllm/benchmarks/serve.py.

    A closed loop lasts as long as its requests do, as many at once as its limit lets in.
    """
    run = {
        "date": "20261130-101112", "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B",
        "num_prompts": 100, "request_rate": "inf", "max_concurrency": 16,
        "completed": 100, "failed": 0, "total_input_tokens": 102400, "total_output_tokens": 25600,
        "mean_ttft_ms": 95.0, "median_ttft_ms": 80.0, "mean_tpot_ms": 9.5, "median_tpot_ms": 9.4,
        **{name: value for name, value in changes.items() if name != "completed"},
    }  # fmt: skip
    flying = run["max_concurrency"] or 16
    run.setdefault("duration", 100 * (0.095 + 0.255 * run["mean_tpot_ms"]) / flying)
    run["request_throughput"] = 100 / run["duration"]
    run["output_throughput"] = 25600 / run["duration"]
    return run | changes


def read_runs(tmp_path, *runs, name="bench.json", **settings):
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(run) for run in runs))
    return serving_benchmark.read([path], Given(load(), {**CHIP, **settings}))


def test_a_run_becomes_a_row_that_is_predicted(tmp_path):
    """A team's own benchmark could not be held against the planner."""
    for i, (flying, ms) in enumerate(((16, 9.5), (64, 13.0))):
        (tmp_path / f"run{i}.json").write_text(
            json.dumps(run_of(max_concurrency=flying, mean_tpot_ms=ms))
        )
    words = ("import", "serving-benchmark", tmp_path / "run0.json", tmp_path / "run1.json")
    given = ("--set", "accelerator=H100-SXM", "--set", "name=bench", "--to", tmp_path / "own")
    assert planner(*words, *given).code == 0
    rows = tmp_path / "own" / "imports" / "bench" / serving_benchmark.FILE
    shipped = planner("validate", rows, "--json").document
    fitted = planner("validate", rows, "--protocol", "one_factor:system", "--json").document
    assert shipped["predicted"] == 2
    assert not shipped["unsupported"]
    assert set(shipped["metrics"]) == {"ttft_s", "tpot_s"}
    assert fitted["metrics"]["tpot_s"]["mape"] <= shipped["metrics"]["tpot_s"]["mape"]


def test_runs_one_a_line_are_read_with_their_layout(tmp_path):
    """SGLang's file of several runs would be refused, or its layout lost."""
    runs = [run_of(backend="sglang", max_concurrency=n) for n in (1, 8)]
    found = read_runs(tmp_path, *runs, tensor_parallel="4", precision="fp8", engine_version="0.5")
    lines = found.files[serving_benchmark.FILE].splitlines()
    cells = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    assert [c["concurrency"] for c in cells] == ["1", "8"]
    assert {(c["backend"], c["n_gpu_clean"], c["gemm_quant_mode"]) for c in cells} == {
        ("sglang", "4", "fp8")
    }
    assert {(c["isl"], c["osl"]) for c in cells} == {("1024", "256")}


def test_requests_that_a_run_kept_become_a_log(tmp_path):
    """Tails could not be replayed although every request was written down."""
    run = run_of(
        input_lens=[100, 200, 300], output_lens=[10, 0, 30], ttfts=[0.1, 0.0, 0.2],
        latencies=[1.0, 0.0, 3.0], start_times=[5000.5, 5000.7, 5001.0],
    )  # fmt: skip
    files = read_runs(tmp_path, run).files
    (log,) = (text for name, text in files.items() if name.endswith("_requests.jsonl"))
    (meta,) = (json.loads(text) for name, text in files.items() if name.endswith("_meta.json"))
    first, last = (json.loads(line) for line in log.splitlines())
    assert first == {
        "input_toks": 100, "output_toks": 10, "queued_ts": 0.0, "first_token_ts": 0.1,
        "last_token_ts": 1.0,
    }  # fmt: skip
    assert last["queued_ts"] == 0.5
    assert meta["engine_kwargs"]["tensor_parallel_size"] == 1


REFUSED_RUNS = {
    "failed requests": (run_of(failed=3), "3 requests failed"),
    "no concurrency": (run_of(max_concurrency=None), "max_concurrency is not given and all"),
    "no rate": (run_of(request_rate=None), "says neither inf nor"),
    "a rate that moved": (run_of(ramp_up_strategy="linear"), "was ramped"),
    "not held": (run_of(duration=100.0), "2.52 requests in flight in the mean"),
    "more than the limit": (run_of(duration=8.0), "31.5 requests in flight"),
    "falls behind": (
        run_of(max_concurrency=None, request_rate=40.0, duration=16.0),
        "ever more were in flight",
    ),
    "faster than memory": (
        run_of(mean_tpot_ms=0.0001, duration=0.6),
        "mean_tpot_ms 0.0001 is fas",
    ),
    "no prompt read": (run_of(median_ttft_ms=0.0001), "median_ttft_ms 0.0001 is faster"),
    "no times": (run_of(mean_tpot_ms=0.0), "mean_tpot_ms not given or not above zero"),
    "infinite": (run_of(median_ttft_ms=float("inf")), "median_ttft_ms not given"),
    "too long for a float": (run_of(median_ttft_ms=10**400), "median_ttft_ms not given"),
    "drafts": (run_of(spec_decode_acceptance_rate=60.0), "draft tokens"),
    "contradiction": (run_of(output_throughput=900.0), "output_throughput 900 /s, but"),
    "requests": (run_of(request_throughput=400.0), "request_throughput 400 /s, but completed ov"),
    "all tokens": (run_of(total_token_throughput=9.0), "total_token_throughput 9 /s, but total_i"),
    "unknown engine": (run_of(backend="openai-chat"), "no engine; give --set engine"),
    "unknown model": (run_of(model_id="nobody/Nothing-1B"), "not in the catalogue"),
    "a word": (run_of(completed="many"), "completed not given"),
    "a list": ([1, 2], "is no object of results"),
}


@pytest.mark.parametrize("kind", REFUSED_RUNS)
def test_a_run_that_cannot_be_right_is_refused_by_name(tmp_path, kind):
    """A factor would be fitted to a run that failed."""
    run, words = REFUSED_RUNS[kind]
    with pytest.raises(PlanError, match=words):
        read_runs(tmp_path, run)


def test_requests_that_came_at_a_rate_are_as_many_as_little_s_law_says(tmp_path):
    """Times of a half-empty engine would be taken for those of its limit."""
    at_rate = run_of(request_rate=4.0, max_concurrency=32, duration=26.0)
    for run in (at_rate, {**at_rate, "max_concurrency": None}):
        found = read_runs(tmp_path, run)
        head, line = found.files[serving_benchmark.FILE].splitlines()
        cells = dict(zip(head.split(","), line.split(","), strict=True))
        assert float(cells["concurrency"]) == pytest.approx(100 / 26.0 * 2.5175, rel=1e-3)
        assert (cells["use"], cells["use_ttft"]) == ("yes", "no")
        assert any("Little's law" in note for note in found.notes)
    whole = read_runs(tmp_path, {**at_rate, "mean_e2el_ms": 3000.0})
    assert "11.54" in whole.files[serving_benchmark.FILE]
    assert not any("Little's law" in note for note in read_runs(tmp_path, run_of()).notes)


def test_no_token_comes_before_its_weights_are_read():
    """A bound that grows where hardware is added, or precision narrowed, would be no bound."""
    dense = read_model("meta-llama--Meta-Llama-3.1-8B")
    wide = serving_figures.least_token_s(dense, ("bf16", "bf16"), 1, 3.35e12)
    assert wide == pytest.approx((8.03e9 - 128256 * 4096) * 2.0 / 3.35e12, rel=1e-3)
    assert serving_figures.least_token_s(dense, ("fp8", "fp8"), 4, 3.35e12) == wide / 8.0
    narrow = serving_figures.least_token_s(dense, ("bf16", "nvfp4"), 1, 3.35e12)
    assert narrow == wide  # no experts in it


@pytest.mark.parametrize("name", ["precision", "experts_precision"])
def test_a_precision_that_the_catalogue_does_not_have_is_refused(tmp_path, name):
    """A row would be written that nothing can predict."""
    with pytest.raises(UnknownName, match=f"^{name} 'fp9' is not known; did you mean .*fp8"):
        read_runs(tmp_path, run_of(), **{name: "fp9"})


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}\nnot json', "[" * 100_000])
def test_a_result_that_is_no_json_is_refused(tmp_path, text):
    """A broken file would raise an error that is not ours."""
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(PlanError, match="bench.json"):
        serving_benchmark.read([path], Given(load(), CHIP))


ARGUMENTS = {
    "world_size": 64, "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2,
    "context_parallel_size": 1, "seq_length": 4096, "micro_batch_size": 1,
    "global_batch_size": 256, "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_query_groups": 8, "ffn_hidden_size": 14336, "padded_vocab_size": 128256, "bf16": True,
    "fp16": False, "fp8": None, "recompute_granularity": None, "sequence_parallel": True,
    "use_distributed_optimizer": True, "virtual_pipeline_model_parallel_size": None,
}  # fmt: skip


def log_of(times_ms=(9000, 4000, 3100, 3000, 3010, 2990, 3005), batch=256, **changes):
    """A log with the lines of NVIDIA/Megatron-LM, arguments.py and training.py."""
    lines = ["------------------------ arguments ------------------------"]
    lines += [f"  {name} {'.' * 30} {value}" for name, value in {**ARGUMENTS, **changes}.items()]
    lines += ["-------------------- end of arguments ---------------------"]
    for i, ms in enumerate(times_ms, start=1):
        lines.append(
            f" [2026-11-30 10:00:{i:02}] iteration {i:8}/     500 |"
            f" consumed samples: {i * batch:12} |"
            f" elapsed time per iteration (ms): {ms} | learning rate: 1.0E-04 |"
            f" global batch size: {batch:5} | lm loss: 7.0E+00 |"
        )
    return "\n".join(lines)


def read_log(tmp_path, text, **settings):
    path = tmp_path / "train.log"
    path.write_text(text)
    given = {**CHIP, "model": "meta-llama--Meta-Llama-3.1-8B", **settings}
    return megatron_log.read([path], Given(load(), given))


def test_a_training_log_becomes_a_row_that_is_predicted(tmp_path):
    """A team's own iteration time could not be held against the planner."""
    path = tmp_path / "train.log"
    path.write_text(log_of())
    settings = [
        word
        for setting in ("accelerator=H100-SXM", "model=meta-llama--Meta-Llama-3.1-8B", "name=run")
        for word in ("--set", setting)
    ]
    own = tmp_path / "own"
    done = planner("import", "megatron-log", path, "--to", own, "--json", *settings)
    assert done.code == 0
    (told,) = done.document["told"]["logs"]
    assert told["step_s"] == pytest.approx(3.0025)
    scored = planner("validate", own / "imports" / "run" / megatron_log.FILE, "--json").document
    assert scored["predicted"] == 1
    assert scored["metrics"]["throughput"]["n"] == 1
    assert scored["metrics"]["throughput"]["mape"] < 1.0


def test_a_growing_batch_counts_from_its_last_size(tmp_path):
    """Steps of a smaller batch would be taken for steps of the whole one."""
    text = log_of() + "\n" + log_of(times_ms=(7000, 6100, 6000, 6010, 5990, 6000), batch=512)
    (told,) = read_log(tmp_path, text).told["logs"]
    assert told["step_s"] == pytest.approx(6.0, rel=0.01)
    assert told["iterations"] == 3


REFUSED_LOGS = {
    "no iterations": (log_of(times_ms=()), "no line of an iteration"),
    "too few": (log_of(times_ms=(3000, 3000, 3000, 3000)), "wanted 3 at least"),
    "a time that is none": (log_of(times_ms=(3000,) * 6 + ("nan",)), "an iteration of nan ms"),
    "negative": (log_of(times_ms=(3000,) * 6 + (-5,)), "an iteration of -5 ms"),
    "no batch": (
        log_of(global_batch_size=None).replace("global batch size", "batches"),
        "does not state global_batch_size",
    ),
    "a batch of nothing": (log_of(batch=0), "a global batch of 0; wanted"),
    "a batch without an end": (log_of(batch="9" * 5000), "a global batch of 9999"),
    "no arguments": (log_of().split("end of arguments")[1], "does not state world_size"),
    "a layout that cannot be": (log_of(world_size=63), "no multiple of tp 4"),
}


@pytest.mark.parametrize("kind", REFUSED_LOGS)
def test_a_log_that_cannot_be_right_is_refused_by_name(tmp_path, kind):
    """A run of other devices than it says would be scored."""
    text, words = REFUSED_LOGS[kind]
    with pytest.raises(PlanError, match=words):
        read_log(tmp_path, text)


def test_what_no_arguments_say_has_to_be_given(tmp_path):
    """A run would be scored on a chip that nobody named."""
    path = tmp_path / "train.log"
    path.write_text(log_of())
    with pytest.raises(PlanError, match="names no device"):
        megatron_log.read([path], Given(load(), {}))
    with pytest.raises(PlanError, match="is not in the catalogue"):
        read_log(tmp_path, log_of(), model="nobody--Nothing")
