"""Traces of the PyTorch profiler (Kineto): Chrome trace events, as .json or .json.gz.

What is kept of a step is the median time of every shape of matrix product and, where its model is
named and was whole on the device, the time of its other parts. Collectives are told
and not kept: in a trace they hold what a device waits for the others. The format is that of
libkineto's Chrome trace logger, schema version 1: `kernel` events carry the External id of the
operator that launched them, whose event carries `Input Dims` and `Input type` where the profiler
recorded shapes. Without a device the host is it: then a step is told part by part, no more.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from costdata.configs import read_model
from planner.imports.chip_named import chip_named, count_given
from planner.imports.clocks import skew_faults
from planner.imports.device_time import time_split
from planner.imports.found import Found, Given, told_later
from planner.imports.json_stream import stream
from planner.imports.kernel_kinds import COMMUNICATION, KINDS, PRODUCT, kind_of
from planner.imports.left_out import product_errors
from planner.imports.numbers import is_number, limits
from planner.imports.steps.operators import NOBODY, Calls
from planner.imports.steps.part_rows import middle_rows, part_rows, why_not
from planner.imports.steps.report import told
from planner.imports.steps.sorting import MODULE
from planner.imports.steps.timeline import Kernels, Timeline, step_marks, timeline_of
from planner.imports.timed_rows import product_row
from simkernel.errors import BadFile
from simkernel.models import Model

SETTINGS = {
    "accelerator": "chip, where the trace's name of it is not in the catalogue",
    "model": "that was trained, a name of the catalogue or a config.json: parts are told by it",
    "tokens_per_sequence": "where no embedding or attention of the trace says it",
}

SCHEMA = 1
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime")
MARKS = ("user_annotation", "python_function")

SHAPES = {"aten::mm": 0, "aten::addmm": 1, "aten::_scaled_mm": 0}
"""Operators of one product, and which input is its left matrix."""

PRECISION_OF = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
}
"""Types as PyTorch names them; products in other types are recognised and not kept."""

MOST_EXTENT = int(limits("product_times", "rows")[1])
"""Of one side of a matrix, as our table holds it; a side of 0 is an empty matrix."""

Shape = tuple[str, int, int, int]


@dataclass
class _Trace:
    """What is kept of one file while it streams by."""

    name: str
    about: dict[str, Any] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    shapes: dict[int, Shape] = field(default_factory=dict)
    launched_us: dict[int, float] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    name_codes: array[int] = field(default_factory=lambda: array("q"))
    starts_us: array[float] = field(default_factory=lambda: array("d"))
    lasts_us: array[float] = field(default_factory=lambda: array("d"))
    parents: array[int] = field(default_factory=lambda: array("q"))
    correlations: array[int] = field(default_factory=lambda: array("q"))
    faults: list[str] = field(default_factory=list)

    @property
    def is_of_host(self) -> bool:
        """Nothing was launched on a device: the calls are all there is."""
        return not len(self.starts_us) and not self.launched_us and not _devices(self)

    def operator(self, identity: int) -> str:
        """Name of the call with an External id, "" without one."""
        call = self.calls.identities.get(identity)
        return "" if call is None else self.call_names[self.calls.name_codes[call]]

    @cached_property
    def call_names(self) -> list[str]:
        """Names of calls by code, once the trace was read."""
        return list(self.calls.names)


def read(paths: Sequence[Path], given: Given) -> Found:
    """Products of some traces of one kind of device, and how its time splits.

    Raises
    ------
    BadFile : every fault of all files
    """
    traces: list[_Trace] = []
    faults: list[str] = []
    for path in paths:
        with told_later(faults):
            traces.append(_read(path))
            faults += traces[-1].faults
    faults += _of_different_kinds(traces)
    if faults:
        raise BadFile(*faults)
    tokens, model = count_given(given, "tokens_per_sequence") or 0, _model(given)
    if traces[0].is_of_host:
        return _of_host(traces, tokens, model)
    devices = {str(d.get("name", "")) for t in traces for d in _devices(t)} - {""}
    chip = chip_named(given, devices, ", ".join(t.name for t in traces))
    times: dict[Shape, list[float]] = defaultdict(list)
    left: dict[str, float] = defaultdict(float)
    split, notes, parts = [], [], []
    for trace in traces:
        line = timeline_of(trace.calls, _kernels(trace), tokens)
        split.append({**_split(trace), "step": told(line, model)})
        if model is not None and (why := why_not(line, model)):
            notes.append(f"{trace.name}: parts of its step are told and not kept: {why}")
        elif model is not None:
            parts += part_rows(chip, given.catalog.chips([chip]), line, model, _ranks(trace))
        _add_products(trace, times, left)
    rows = [
        product_row(chip, precision, (m, k, n), "in_step", seconds)
        for (precision, m, k, n), seconds in sorted(times.items())
    ]
    kept_s = sum(sum(seconds) for seconds in times.values())
    product_s = sum(one["kernel_s"] * one["product_frac"] for one in split)
    return Found(
        {"product_times": rows, **({"part_times": middle_rows(parts)} if parts else {})},
        f"{chip}: {len(rows)} shapes of products in {len(traces)} traces",
        {
            "accelerator": chip,
            "traces": split,
            "shapes": len(rows),
            "kept_of_products_frac": kept_s / product_s if product_s else 0.0,
            "errors": product_errors(given.catalog, chip, rows) if rows else {},
        },
        notes + [f"not kept: {what}, {seconds:.4g} s" for what, seconds in sorted(left.items())],
    )


def _ranks(trace: _Trace) -> int:
    """Devices that took part in the run."""
    found = trace.about.get("distributedInfo")
    size = found.get("world_size") if isinstance(found, dict) else 1
    return size if isinstance(size, int) and size > 0 else 1


def _model(given: Given) -> Model | None:
    """The model that was trained, where somebody named it."""
    name = given.text("model")
    return read_model(given.catalog.resolve("model", name) or name) if name else None


def read_timeline(path: Path, given: Given) -> Timeline:
    """The step of one trace, of a host or a device.

    Raises
    ------
    BadFile : every fault of the file
    """
    trace = _read(path)
    if trace.faults:
        raise BadFile(*trace.faults)
    tokens = count_given(given, "tokens_per_sequence") or 0
    return timeline_of(trace.calls, None if trace.is_of_host else _kernels(trace), tokens)


def _read(path: Path) -> _Trace:
    trace = _Trace(path.name)
    for key, value in stream(path, "traceEvents"):
        if key != "traceEvents":
            trace.about[key] = value
        elif not isinstance(value, dict):
            trace.faults.append(f"{path.name}: an event that is no object; is it a trace?")
        elif value.get("ph") == "X":
            _add(trace, value)
        if len(trace.faults) >= MOST_FAULTS:
            break
    if not trace.faults:
        trace.faults += _faults_of(trace)
    return trace


MOST_FAULTS = 20
"""Of events of one file that are told; the rest would say the same."""


def _add(trace: _Trace, event: Mapping[str, Any]) -> None:
    category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
    start, lasts = event.get("ts"), event.get("dur")
    if not (is_number(start) and is_number(lasts)):
        trace.faults.append(
            f"{trace.name}: {name[:60]!r} has ts {str(start)[:40]!r}, dur "
            f"{str(lasts)[:40]!r}; wanted numbers: record the trace again"
        )
        return
    if lasts < 0:
        trace.faults.append(
            f"{trace.name}: {name[:60]!r} at {start} us lasts {lasts} us; a duration cannot be "
            "negative: record the trace again"
        )
        return
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    if category in DEVICE:
        trace.name_codes.append(trace.names.setdefault(name, len(trace.names)))
        trace.starts_us.append(start)
        trace.lasts_us.append(lasts)
        trace.parents.append(_identity(args.get("External id", args.get("external id"))))
        trace.correlations.append(_identity(args.get("correlation")))
    elif category == "cpu_op":
        identity = _identity(args.get("External id", args.get("external id")))
        trace.calls.add(event, identity, is_mark=False)
        if identity >= 0 and name in SHAPES:
            _add_shape(trace, identity, name, args)
    elif category in LAUNCHES:
        identity = _identity(args.get("correlation"))
        if identity >= 0:
            trace.launched_us[identity] = start
    elif category == MARKS[0] or category == MARKS[1] and name.startswith(MODULE):
        trace.calls.add(event, -1, is_mark=True)


def _identity(value: object) -> int:
    """A number that ties events together, -1 where there is none that can."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    return -1


def _add_shape(trace: _Trace, identity: int, name: str, args: Mapping[str, Any]) -> None:
    dims = args.get("Input Dims")
    sides = [side for d in dims if isinstance(d, list) for side in d] if _is_list(dims) else []
    if wrong := [side for side in sides if not _is_extent(side)]:
        trace.faults.append(
            f"{trace.name}: {name} has Input Dims with {str(wrong[0])[:40]}; wanted whole numbers "
            f"from 0 to {MOST_EXTENT:,}"
        )
    elif shape := _shape(args, SHAPES[name]):
        trace.shapes[identity] = shape


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_extent(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_EXTENT


def _shape(args: Mapping[str, Any], left: int) -> Shape | None:
    """Precision, rows, inner and columns of a product; None where the trace does not say."""
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not (isinstance(dims, list) and isinstance(types, list)):
        return None
    pair, kinds = dims[left : left + 2], types[left : left + 2]
    if len(pair) != 2 or not all(
        isinstance(d, list) and len(d) == 2 and all(isinstance(n, int) and n > 0 for n in d)
        for d in pair
    ):
        return None
    if pair[0][1] != pair[1][0] or kinds[0] != kinds[1] and not str(kinds[0]).startswith("c10::F"):
        return None
    return str(kinds[0]), pair[0][0], pair[0][1], pair[1][1]


def _faults_of(trace: _Trace) -> list[str]:
    """What is wrong with a whole trace, in words."""
    schema = trace.about.get("schemaVersion", SCHEMA)
    if schema != SCHEMA:
        return [f"{trace.name} has schemaVersion {schema!r}; this version reads {SCHEMA}"]
    if trace.is_of_host and max(trace.calls.lasts_us, default=0.0) > 0.0:
        return []
    if not len(trace.starts_us) or not sum(trace.lasts_us):
        return [
            f"{trace.name} has no kernels of a device; record it with ProfilerActivity.CUDA and "
            "export_chrome_trace, or on a host alone"
        ]
    early, tied = 0, 0
    for start, lasts, identity in zip(
        trace.starts_us, trace.lasts_us, trace.correlations, strict=True
    ):
        launched = trace.launched_us.get(identity)
        tied += launched is not None
        early += launched is not None and start + lasts < launched
    return skew_faults(trace.name, early, tied, "kernels end before the call that launched them")


def _of_different_kinds(traces: Sequence[_Trace]) -> list[str]:
    """Traces of several versions of the software, which would be mixed in one table."""
    faults = []
    if len({trace.is_of_host for trace in traces}) > 1:
        faults.append("traces of a host alone and of a device; import those of one at a time")
    for key in ("schemaVersion", "cuda_runtime_version", "hip_runtime_version", "cupti_version"):
        values = {str(trace.about.get(key)) for trace in traces}
        if len(values) > 1:
            faults.append(
                f"traces of different versions: {key} is {', '.join(sorted(values))}; import "
                "those of one version at a time"
            )
    return faults


def _devices(trace: _Trace) -> list[Mapping[str, Any]]:
    found = trace.about.get("deviceProperties")
    return [d for d in found if isinstance(d, dict)] if isinstance(found, list) else []


def _kinds(trace: _Trace) -> np.ndarray:
    """Kind of every kernel, by its name and its operator; found once for each pair."""
    names = list(trace.names)
    known: dict[tuple[int, str], int] = {}
    kinds = np.empty(len(trace.starts_us), dtype=np.int64)
    for i, (code, parent) in enumerate(zip(trace.name_codes, trace.parents, strict=True)):
        pair = (code, trace.operator(parent))
        if pair not in known:
            known[pair] = KINDS.index(kind_of(names[code], pair[1]))
        kinds[i] = known[pair]
    return kinds


def _of_host(traces: Sequence[_Trace], tokens: int, model: Model | None) -> Found:
    """Steps of which the host itself was the device: told, for no chip of the catalogue is it."""
    steps = [told(timeline_of(trace.calls, None, tokens), model) for trace in traces]
    least = min(step["recognised_frac"] for step in steps)
    return Found(
        {},
        f"steps of a host in {len(traces)} traces, {least:.1%} recognised",
        {"traces": [{"file": t.name, **s} for t, s in zip(traces, steps, strict=True)]},
        ["no chip of the catalogue ran this: nothing of it prices a plan"],
    )


def _kernels(trace: _Trace) -> Kernels:
    """Kernels as columns, each with the call that launched it."""
    known = trace.calls.identities
    return Kernels(
        list(trace.names),
        np.frombuffer(trace.name_codes, dtype=np.int64),
        np.frombuffer(trace.starts_us, dtype=float) * 1e-6,
        np.frombuffer(trace.lasts_us, dtype=float) * 1e-6,
        np.array([known.get(parent, NOBODY) for parent in trace.parents]),
    )


def _split(trace: _Trace) -> dict[str, Any]:
    starts = np.frombuffer(trace.starts_us, dtype=float) * 1e-6
    lasts = np.frombuffer(trace.lasts_us, dtype=float) * 1e-6
    steps = np.array([end - start for start, end in step_marks(trace.calls)])
    split = time_split(starts, lasts, _kinds(trace), steps)
    whole = {k: v for k, v in split.items() if not math.isnan(v)}
    return {"file": trace.name, "kernels": len(starts), "steps": len(steps), **whole}


def _add_products(trace: _Trace, times: dict[Shape, list[float]], left: dict[str, float]) -> None:
    """Seconds of every product: all kernels that its operator launched, together."""
    by_parent: dict[int, float] = defaultdict(float)
    kinds = _kinds(trace)
    product = KINDS.index(PRODUCT)
    for kind, parent, lasts in zip(kinds, trace.parents, trace.lasts_us, strict=True):
        if parent in trace.shapes:
            by_parent[parent] += lasts * 1e-6
        elif kind == product:
            what = trace.operator(parent) or "products without an operator"
            left[f"{what} (no shape)" if what in SHAPES else what] += lasts * 1e-6
        elif kind == KINDS.index(COMMUNICATION):
            left["collectives, which hold what a device waits for others"] += lasts * 1e-6
    for parent, seconds in by_parent.items():
        kind_name, rows, inner, columns = trace.shapes[parent]
        if kind_name not in PRECISION_OF:
            left[f"products in {kind_name}"] += seconds
        elif seconds > 0:
            times[PRECISION_OF[kind_name], rows, inner, columns].append(seconds)
