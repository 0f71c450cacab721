"""Traces of the PyTorch profiler: what is kept of them, and what is refused."""

import gzip
import json

import pytest
from trace_files import MM, PRODUCTS, STRANGE, Recorder, event, trace, training_step, write_trace

from costdata.catalog import load
from planner.imports import json_stream
from planner.imports.found import Given
from planner.imports.kinds import kineto
from simkernel.errors import BadFile


def found_in(*paths, **settings):
    return kineto.read(paths, Given(load(), settings))


def test_every_shape_of_a_product_is_kept_with_its_median(tmp_path):
    """A team's own products would be lost, or a slow first step would stand for all."""
    rows = found_in(write_trace(tmp_path / "step.json")).tables["product_times"]
    kept = {(int(r["rows"]), int(r["inner"]), int(r["columns"])): r for r in rows}
    assert set(kept) == set(PRODUCTS)
    for shape, lasts in PRODUCTS.items():
        assert float(kept[shape]["seconds"]) == pytest.approx(lasts * 1.005e-6, rel=1e-3)
        assert kept[shape]["accelerator"] == "H100-SXM"
        assert kept[shape]["precision"] == "bf16"
        assert kept[shape]["timings"] == "4"


def test_the_time_of_the_device_is_split_and_what_is_not_known_is_said(tmp_path):
    """A trace half of which nobody understands would be taken as understood."""
    recorder = Recorder()
    recorder.product((4096, 4096, 4096), 300.0)
    recorder.kernel(STRANGE, 100.0)
    (told,) = found_in(write_trace(tmp_path / "half.json", recorder.events)).told["traces"]
    assert told["recognised_frac"] == pytest.approx(0.75)
    assert told["product_frac"] == pytest.approx(0.75)
    assert told["idle_frac"] == pytest.approx(10.0 / 410.0)


def test_steps_are_found_and_collectives_are_told_but_not_kept(tmp_path):
    """Waiting for other ranks would be taken for the time of the wire."""
    found = found_in(write_trace(tmp_path / "step.json"))
    (told,) = found.told["traces"]
    assert told["steps"] == 4
    assert told["communication_frac"] > 0.05
    assert set(found.tables) == {"product_times"}
    assert any("collectives" in note for note in found.notes)
    assert any("float" in note for note in found.notes)


def test_a_packed_trace_says_the_same(tmp_path):
    """The form that the profiler writes by default would be refused."""
    plain = write_trace(tmp_path / "a.json")
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert found_in(packed).tables == found_in(plain).tables


def test_pieces_of_any_size_give_the_same_items(tmp_path, monkeypatch):
    """An event that lies across two pieces would be lost or cut."""
    path = write_trace(tmp_path / "a.json")
    whole = list(json_stream.stream(path, "traceEvents"))
    for piece in (1, 7, 64, 1000):
        monkeypatch.setattr(json_stream, "PIECE", piece)
        assert list(json_stream.stream(path, "traceEvents")) == whole


EVENTS = training_step()
GOOD = json.dumps(trace(EVENTS))


def _with(change):
    events = json.loads(json.dumps(EVENTS))
    change(events)
    return json.dumps(trace(events))


def _negative(events):
    events[5]["dur"] = -3.0


def _endless(events):
    events[5]["dur"] = 10**400


def _worded(events):
    events[5]["ts"] = "soon"


def _skewed(events):
    for one in events:
        if one["cat"] == "cuda_runtime":
            one["ts"] += 1e6


def _with_side(side):
    """The trace with a side of a matrix that cannot be."""

    def change(events):
        products = [one for one in events if one["name"] == "aten::mm"]
        products[0]["args"]["Input Dims"] = [[side, 4096], [4096, 6144]]

    return _with(change)


HOSTILE = {
    "negative side": (_with_side(-4096), "Input Dims with -4096"),
    "side without an end": (_with_side(1e30), r"Input Dims with 1e\+30"),
    "side in digits": (_with_side(10**30), "Input Dims with 1000000"),
    "side that is no number": (_with_side("8192"), "Input Dims with 8192"),
    "truncated": (GOOD[: len(GOOD) // 2], "truncated"),
    "empty": ("", "truncated"),
    "no JSON": ("PK\x03\x04 a zip", "begins with neither"),
    "goes on": (GOOD + "{}", "goes on after its end"),
    "comma missing": (GOOD.replace("}, {", "} {", 1), "where a comma"),
    "deep": ('{"traceEvents": [' + "[" * 200_000, "nested too deeply"),
    "not a number": (GOOD.replace('"dur": 8.0', '"dur": NaN', 1), "number that is none"),
    "endless digits": (GOOD.replace('"dur": 8.0', '"dur": ' + "9" * 9999, 1), "number that is"),
    "negative": (_with(_negative), "cannot be negative"),
    "too long for a float": (_with(_endless), "wanted numbers"),
    "words for times": (_with(_worded), "wanted numbers"),
    "skewed": (_with(_skewed), "the clocks of host and device are apart"),
    "no kernels": (
        json.dumps(trace([e for e in EVENTS if e["cat"] != "kernel"])),
        "no kernels of a device",
    ),
    "newer": (json.dumps(trace(EVENTS, schemaVersion=9)), "schemaVersion 9"),
    "no device": (json.dumps(trace(EVENTS, deviceProperties=[])), "names no device"),
    "unknown device": (
        json.dumps(trace(EVENTS, deviceProperties=[{"name": "=cmd|' /C calc'!A0"}])),
        "is no name of the catalogue",
    ),
    "events that are none": ('{"traceEvents": [1, 2, "x"]}', "no object"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_cannot_be_right_is_refused_by_name(tmp_path, kind):
    """Numbers of a broken trace would end in a purchase order."""
    text, words = HOSTILE[kind]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=words) as refused:
        found_in(path)
    assert all("bad.json" in fault for fault in refused.value.faults)


def test_bytes_that_are_no_text_and_broken_packing_are_refused(tmp_path):
    """A file that was cut on its way would raise an error that is not ours."""
    path = tmp_path / "bad.json"
    packed = gzip.compress(GOOD.encode())
    for data, words in (
        (b"\xff\xfe\x00{", "is not UTF-8"),
        (packed[: len(packed) // 2], "truncated"),
        (
            packed[:20] + b"\x00" * 40 + packed[60:],
            "cannot be read|truncated|not UTF-8|is no JSON",
        ),
    ):
        path.write_bytes(data)
        with pytest.raises(BadFile, match=words):
            found_in(path)


def test_traces_of_two_versions_are_not_mixed(tmp_path):
    """Half of a table would be of other software than it says."""
    paths = (
        write_trace(tmp_path / "a.json"),
        write_trace(tmp_path / "b.json", cuda_runtime_version=13000),
    )
    with pytest.raises(BadFile, match="different versions: cuda_runtime_version"):
        found_in(*paths)


def test_shapes_that_contradict_each_other_are_left_out_and_told(tmp_path):
    """A product would be kept under a shape that it did not have."""
    dims = {"Input Dims": [[8, 4], [5, 8]], "Input type": ["c10::Half", "c10::Half"]}
    recorder = Recorder()
    recorder.kernel(MM, 50.0, "aten::mm", dims)
    recorder.product((1024, 1024, 1024), 20.0)
    found = found_in(write_trace(tmp_path / "odd.json", recorder.events))
    assert len(found.tables["product_times"]) == 1
    assert any("no shape" in note for note in found.notes)


def test_an_empty_matrix_is_left_out(tmp_path):
    """An expert without a token would make its trace unreadable."""
    path = tmp_path / "empty.json"
    path.write_text(_with_side(0))
    found = found_in(path)
    assert len(found.tables["product_times"]) == len(PRODUCTS)
    assert any("no shape" in note for note in found.notes)


def test_every_fault_of_all_files_is_told_at_once(tmp_path):
    """A person would mend one file after another."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{")
    with pytest.raises(BadFile) as refused:
        found_in(tmp_path / "a.json", tmp_path / "b.json")
    assert len(refused.value.faults) == 2


def test_a_kernel_that_begins_just_before_its_launch_ends_is_no_fault(tmp_path):
    """Stamps of two clocks slip by microseconds; good traces would be refused."""
    events = training_step()
    kernels = [e for e in events if e["cat"] == "kernel"]
    kernels[0]["ts"] -= 9.0
    found_in(write_trace(tmp_path / "a.json", events))


def test_an_annotation_does_not_count_as_time_of_the_device(tmp_path):
    """A step's own mark would be taken for a kernel as long as the step."""
    events = [*training_step(), event("gpu_user_annotation", "nccl:all_reduce", 0.0, 1e9, {})]
    (told,) = found_in(write_trace(tmp_path / "a.json", events)).told["traces"]
    assert told["span_s"] < 1.0
