"""Training steps in traces: parts, layers, batch and model, and what is not recognised."""

import gzip
import json
from pathlib import Path

import pytest
from torch_steps import BASE, record
from trace_files import Recorder, event, on_a_device, trace, training_step, write_trace

from costdata.catalog import load
from costdata.configs import read_model
from planner.imports.found import Given
from planner.imports.kinds import kineto
from simkernel.errors import BadFile
from simkernel.models import parameters
from simkernel.timed_parts import PARTS

RECORDED = Path(__file__).parent / "imported" / "cpu_step.json.gz"
LEAST_RECOGNISED = 0.95


def found_in(*paths, **settings):
    return kineto.read(paths, Given(load(), settings))


def told_of(path, **settings):
    (told,) = found_in(path, **settings).told["traces"]
    return told


@pytest.fixture
def config(tmp_path):
    """The model of the recorded step."""
    path = tmp_path / "small.json"
    path.write_text(json.dumps(BASE.config))
    return path


def recorded_text():
    return gzip.decompress(RECORDED.read_bytes()).decode()


def check_step(told):
    """The step of the small transformer, part by part."""
    assert told["recognised_frac"] >= LEAST_RECOGNISED
    assert told["steps"] == 5
    assert told["micro_batches"] == 1
    assert told["micro_batch_sequences"] == BASE.sequences
    assert told["tokens_per_sequence"] == BASE.tokens
    parts = told["parts"]
    of_parts_s = sum(part["forward_s"] + part["backward_s"] for part in parts.values())
    assert of_parts_s == pytest.approx(told["step_s"], rel=0.5)  # mean and median
    assert parts["host"]["time_frac"] < 0.2
    wanted = ("attention products", "mlp products", "head products", "attention", "norm", "loss")
    for name in (*wanted, "elementwise", "embedding", "optimiser"):
        assert parts[name]["time_frac"] > 0
    for name in wanted:
        assert min(parts[name]["forward_s"], parts[name]["backward_s"]) > 0
    model = told["model"]
    assert model["layers_found"] == model["layers"] == BASE.layers
    assert model["products_matched_frac"] > 0.99
    for name in ("q+kv", "up", "down"):
        assert model["products_per_micro_batch"][name] == BASE.layers


@pytest.mark.long
def test_a_recorded_step_is_recognised_part_by_part(config):
    """A team's step would be one number of which nobody knows what it is made of."""
    check_step(told_of(RECORDED, model=str(config)))


def test_a_step_that_runs_here_is_recognised(tmp_path, config):
    """Recognition would hold for one recorded file alone."""
    pytest.importorskip("torch", reason="torch is not installed: no step can be run here")
    check_step(told_of(record(tmp_path / "step.json", BASE), model=str(config)))


@pytest.mark.long
def test_a_step_without_its_model_is_told_by_kinds(config):
    """A trace whose model nobody names would not be read at all."""
    told = told_of(RECORDED)
    assert told["parts"]["product"]["time_frac"] > 0.3
    assert "model" not in told


@pytest.mark.long
def test_another_model_is_seen_to_be_another(tmp_path):
    """A plan would be priced by the measured step of a model that it does not train."""
    path = tmp_path / "wide.json"
    path.write_text(json.dumps({**BASE.config, "n_embd": 320, "n_inner": 1280, "n_head": 5}))
    model = told_of(RECORDED, model=str(path))["model"]
    assert model["products_matched_frac"] < 0.01
    assert model["layers_found"] == 0
    assert model["products_not_of_the_model_s"]


def test_what_nobody_knows_is_named_with_its_time(tmp_path):
    """A step half of which is not understood would be taken as understood."""
    events = [
        event("cpu_op", "aten::mm", 0.0, 60.0, {}),
        event("cpu_op", "my_team::secret_op", 60.0, 40.0, {}),
    ]
    path = write_trace(tmp_path / "host.json", events, deviceProperties=[])
    told = told_of(path)
    assert told["recognised_frac"] == pytest.approx(0.6)
    assert told["not_recognised_s"] == {"my_team::secret_op": pytest.approx(40e-6)}


def test_own_time_is_without_what_is_called(tmp_path):
    """A call and what it calls would both be charged for one second."""
    events = [
        event("cpu_op", "aten::linear", 0.0, 100.0, {}),
        event("cpu_op", "aten::addmm", 10.0, 80.0, {}),
        event("cpu_op", "aten::native_layer_norm", 100.0, 30.0, {}),
        event("cpu_op", "aten::mul", 105.0, 20.0, {}),
    ]
    parts = told_of(write_trace(tmp_path / "host.json", events, deviceProperties=[]))["parts"]
    assert parts["product"]["forward_s"] == pytest.approx(100e-6)
    assert parts["norm"]["forward_s"] == pytest.approx(30e-6)


def test_gaps_between_calls_are_the_hosts(tmp_path):
    """Time in which a program did nothing for the device would vanish from its step."""
    events = [
        event("user_annotation", "ProfilerStep#3", 0.0, 200.0, {}),
        event("cpu_op", "aten::mm", 20.0, 100.0, {}),
        event("cpu_op", "aten::mm", 400.0, 100.0, {}),
    ]
    told = told_of(write_trace(tmp_path / "host.json", events, deviceProperties=[]))
    assert told["parts"]["product"]["forward_s"] == pytest.approx(100e-6)
    assert told["parts"]["host"]["forward_s"] == pytest.approx(100e-6)
    assert told["step_s"] == pytest.approx(200e-6)


def test_attention_written_out_is_attention(tmp_path):
    """Scores of a core that no library names would be told as products of weights."""
    scores = {"Input Dims": [[8, 128, 64], [8, 64, 128]], "Input type": ["float", "float"]}
    values = {"Input Dims": [[8, 128, 128], [8, 128, 64]], "Input type": ["float", "float"]}
    squares = {"Input Dims": [[2, 4, 128, 128]]}
    asked = {"Input Dims": [[1000, 256], [2, 128]]}
    events = [
        event("cpu_op", "aten::embedding", 0.0, 10.0, asked),
        event("cpu_op", "aten::bmm", 10.0, 50.0, scores),
        event("cpu_op", "aten::softmax", 60.0, 30.0, squares),
        event("cpu_op", "aten::bmm", 90.0, 50.0, values),
    ]
    parts = told_of(write_trace(tmp_path / "host.json", events, deviceProperties=[]))["parts"]
    assert parts["attention"]["forward_s"] == pytest.approx(130e-6)


def test_kernels_take_the_part_of_the_call_that_launched_them(tmp_path):
    """A kernel with a plain name would be element-wise though a norm or an optimiser ran it."""
    recorder = Recorder()
    for name in ("aten::native_layer_norm", "aten::_fused_adamw_", "aten::mul"):
        recorder.kernel("void at::native::vectorized_elementwise_kernel<4>", 50.0, name)
    step = told_of(write_trace(tmp_path / "device.json", recorder.events))["step"]
    for part in ("norm", "optimiser", "elementwise"):
        assert step["parts"][part]["forward_s"] == pytest.approx(50e-6)
    assert step["parts"]["host"]["forward_s"] == pytest.approx(20e-6)


def test_a_step_of_a_device_is_told_beside_its_products(tmp_path):
    """Parts of a device's step would be asked for in vain."""
    step = told_of(write_trace(tmp_path / "device.json"))["step"]
    assert step["device"] == "accelerator"
    assert step["steps"] == 4
    assert set(step["parts"]) >= {"product", "attention", "communication", "elementwise", "host"}


GOOD = recorded_text()


def _changed(change):
    whole = json.loads(GOOD)
    change(whole["traceEvents"])
    return json.dumps(whole)


def _negative(events):
    events[40]["dur"] = -1.0


def _worded(events):
    events[40]["ts"] = "now"


HOSTILE = {
    "truncated": (GOOD[: len(GOOD) // 3], "truncated"),
    "negative": (_changed(_negative), "cannot be negative"),
    "words for times": (_changed(_worded), "wanted numbers"),
    "newer": (json.dumps({**json.loads(GOOD), "schemaVersion": 4}), "schemaVersion 4"),
    "nothing ran": (json.dumps(trace([], deviceProperties=[])), "no kernels of a device"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_broken_trace_of_a_host_is_refused_by_name(tmp_path, kind):
    """Numbers of a broken trace would stand for a step."""
    text, words = HOSTILE[kind]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=words):
        found_in(path)


def test_traces_of_a_host_and_of_a_device_are_not_mixed(tmp_path):
    """Times of a processor would stand for those of an accelerator."""
    device = write_trace(tmp_path / "device.json", training_step())
    with pytest.raises(BadFile, match="a host alone and of a device"):
        found_in(RECORDED, device)


@pytest.mark.parametrize(
    "dims", [[[-4, 2]], [["x"]], {"a": 1}, [[10**30, 2]], "words", [[4, 2]], [None, [2, 2]]]
)
def test_extents_that_cannot_be_end_in_no_error(tmp_path, dims):
    """A hostile trace would stop the reader with an error that is not ours."""
    args = {"Input Dims": dims, "Input type": ["float"]}
    events = [event("cpu_op", name, 0.0, 5.0, args) for name in ("aten::bmm", "aten::linear")]
    told = told_of(write_trace(tmp_path / "host.json", events, deviceProperties=[]))
    assert told["recognised_frac"] == 1.0


SLOWER = 1.0 / 200.0
"""A device that is 200 times as fast as the core that the step was recorded on."""


def device_trace(path, **about):
    """The recorded step as a device of the catalogue would have run it."""
    events = on_a_device(json.loads(GOOD)["traceEvents"], SLOWER)
    about.setdefault("distributedInfo", {"world_size": 1})
    return write_trace(path, events, **about)


@pytest.mark.long
def test_parts_of_a_device_are_kept_with_what_the_planner_counts_for_them(tmp_path, config):
    """Attention, norms, loss and optimiser of a team's own step would stay curves of others."""
    path = device_trace(tmp_path / "step.json")
    found = found_in(path, model=str(config))
    rows = {row["part"]: row for row in found.tables["part_times"]}
    assert set(rows) == set(PARTS)
    told = found.told["traces"][0]["step"]["parts"]
    core = rows["attention_forward"]
    assert float(core["seconds"]) == pytest.approx(told["attention"]["forward_s"], rel=0.1)
    pairs = BASE.sequences * BASE.tokens**2 / 2 * BASE.hidden
    assert float(core["flop"]) == pytest.approx(4 * pairs * BASE.layers, rel=1e-5)
    assert int(core["passes"]) == BASE.layers
    weights = parameters(read_model(str(config))).total
    assert float(rows["optimiser"]["moved_bytes"]) == pytest.approx(30 * weights, rel=1e-5)


@pytest.mark.long
def test_of_several_ranks_the_optimiser_is_not_kept(tmp_path, config):
    """A share of the state would be taken for all of it."""
    path = device_trace(tmp_path / "step.json", distributedInfo={"world_size": 8})
    rows = found_in(path, model=str(config)).tables["part_times"]
    assert {row["part"] for row in rows} == set(PARTS) - {"optimiser"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"n_embd": 320, "n_inner": 1280, "n_head": 5}, "0% of the time of products"),
        ({"n_layer": 6}, "4 layers were found, small has 6"),
    ],
)
def test_parts_of_a_step_of_another_model_price_nothing(tmp_path, config, change, why):
    """A stage of a pipeline, or another model, would stand for the whole."""
    config.write_text(json.dumps({**BASE.config, **change}))
    found = found_in(device_trace(tmp_path / "step.json"), model=str(config))
    assert "part_times" not in found.tables
    assert any(why in note for note in found.notes)


@pytest.mark.long
def test_a_step_that_recomputes_prices_no_part(tmp_path, config):
    """Forward work in the backward pass would be charged to every plan."""
    events = json.loads(GOOD)["traceEvents"]
    back = [e for e in events if e["name"].endswith("flash_attention_for_cpu_backward")]
    for one in back:
        one["name"] = one["name"].removesuffix("_backward")
    found = found_in(
        write_trace(tmp_path / "step.json", on_a_device(events, SLOWER)), model=str(config)
    )
    assert "part_times" not in found.tables
    assert any("recomputed" in note for note in found.notes)


@pytest.mark.long
def test_a_step_without_a_backward_pass_prices_no_part(tmp_path, config):
    """Half of a step would be scaled by measurement and half by what a stack is said to reach."""
    events = json.loads(GOOD)["traceEvents"]
    marks = [e for e in events if e["cat"] != "cpu_op"]
    back = {(e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("autograd::")}
    forward = [
        e
        for e in events
        if e["cat"] == "cpu_op" and not any(low <= e["ts"] <= high for low, high in back)
    ]
    found = found_in(
        write_trace(tmp_path / "step.json", on_a_device(marks + forward, SLOWER)),
        model=str(config),
    )
    assert "part_times" not in found.tables
    assert any("no backward pass" in note for note in found.notes)
