"""Results of serving benchmarks: JSON of vLLM, SGLang and TensorRT-LLM, one run a file or a line.

A run becomes a row of a serving sweep, which `planner validate` predicts and fits a factor to.
Keys are those of `vllm bench serve --save-result` (vllm-project/vllm, vllm/benchmarks/serve.py),
which SGLang's bench_serving and TensorRT-LLM's benchmark_serving share. Time per output token is
the mean, time to first token the median: all requests come at once when a run begins.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costdata.own_tables import table_text
from planner.imports.chip_named import chip_named, count_given, model_named
from planner.imports.found import Found, Given
from planner.imports.request_lines import requests_of, written_log
from planner.imports.text_files import read_text
from planner.validation.rows import SWEEP_COLUMNS
from simkernel.errors import BadFile

SETTINGS = {
    "accelerator": "chip that served",
    "model": "catalogue name, where the file's is another",
    "engine": "vllm, sglang or trtllm, where the file names an endpoint only",
    "engine_version": "release of the engine",
    "tensor_parallel": "devices that share a layer; 1 unless given",
    "pipeline_parallel": "stages; 1 unless given",
    "attention_data_parallel": "copies of attention that share experts; 1 unless given",
    "expert_parallel": "devices that experts lie over; 1 unless given",
    "precision": "of the products: bf16, fp8, fp8_block, nvfp4, …; bf16 unless given",
    "experts_precision": "of the experts' products, where it is another",
}

ENGINE_OF = {
    "vllm": "vllm", "sglang": "sglang", "sglang-native": "sglang", "sglang-oai": "sglang",
    "tensorrt-llm": "trtllm", "trt": "trtllm", "trtllm": "trtllm",
}  # fmt: skip
"""Backends as the benchmarks call them."""

NEEDED = (
    "duration", "completed", "total_input_tokens", "total_output_tokens", "median_ttft_ms",
    "mean_tpot_ms",
)  # fmt: skip
AGREES_FRAC = 0.02
"""Between the output rate of a file and its tokens over its duration; both are printed figures."""

FILE = "serving_sweep.csv"


def read(paths: Sequence[Path], given: Given) -> Found:
    """Rows of a sweep, and a log of requests where a run kept them.

    Raises
    ------
    BadFile : every fault of all runs
    """
    faults: list[str] = []
    rows: list[dict[str, str]] = []
    logs: dict[str, str] = {}
    chip = chip_named(given, (), ", ".join(path.name for path in paths))
    for path in paths:
        for where, run in _runs(path, faults):
            wrong = _faults_of(run, where)
            if not wrong:
                try:
                    rows.append(_row(run, where, chip, given))
                except BadFile as error:
                    wrong = list(error.faults)
            faults += wrong
            if not wrong and (requests := requests_of(run)):
                logs |= written_log(requests, rows[-1], chip, len(rows))
    if faults:
        raise BadFile(*faults)
    named = f"{chip}: {len(rows)} runs of {', '.join(sorted({r['model_path'] for r in rows}))}"
    note = f"score them: planner validate IMPORT/{FILE} [--protocol one_factor:system]"
    header = [*SWEEP_COLUMNS, *OTHER_COLUMNS]
    return Found({}, named, {"runs": len(rows)}, [note], {FILE: table_text(header, rows), **logs})


OTHER_COLUMNS = ("tp_size", "measured", "dump")


def _told_model(run: Mapping[str, Any], given: Given) -> str:
    return given.text("model") or str(run.get("model_id") or run.get("model") or "")


def _runs(path: Path, faults: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a file: one, or one a line."""
    text = read_text(path)
    try:
        whole = [(path.name, json.loads(text))]
    except RecursionError:
        whole = []
        faults.append(f"{path.name} is nested too deeply; give the result of a benchmark")
    except ValueError:
        whole = []
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                if line.strip():
                    whole.append((f"{path.name} line {number}", json.loads(line)))
            except (ValueError, RecursionError):
                faults.append(f"{path.name} line {number} is no JSON; give the file as written")
                break
    faults += [f"{where} is no object of results" for where, x in whole if not _is_run(x)]
    if not text.strip():
        faults.append(f"{path.name} is empty; give the result of a benchmark")
    return [(where, run) for where, run in whole if _is_run(run)]


def _is_run(value: object) -> bool:
    return isinstance(value, dict)


def _number(run: Mapping[str, Any], name: str) -> float | None:
    value = run.get(name)
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_one and value is not None and math.isfinite(value) else None


def _faults_of(run: Mapping[str, Any], where: str) -> list[str]:
    """What is wrong with the figures of a run."""
    lacking = [name for name in NEEDED if (_number(run, name) or 0.0) <= 0.0]
    if lacking:
        return [f"{where}: {', '.join(lacking)} not given or not above zero"]
    faults = []
    if run.get("failed"):
        faults.append(f"{where}: {run['failed']} requests failed; mend the run before its times")
    if any(str(name).startswith("spec_decode") for name in run):
        faults.append(f"{where}: ran with draft tokens, which are not scored; run it without")
    rate, told = _number(run, "output_throughput"), _number(run, "total_output_tokens") or 0.0
    made = told / (_number(run, "duration") or 1.0)
    if rate is not None and abs(rate / made - 1.0) > AGREES_FRAC:
        faults.append(
            f"{where}: output_throughput {rate:g} tokens/s, but total_output_tokens over duration "
            f"is {made:g}; one of them is another run's"
        )
    if not _in_flight(run):
        faults.append(
            f"{where}: max_concurrency is not given; a row says how many requests are in flight: "
            "run it with --max-concurrency, or keep its requests (--save-detailed)"
        )
    return faults


def _in_flight(run: Mapping[str, Any]) -> float | None:
    number = _number(run, "max_concurrency")
    return number if number and number >= 1 else None


def _row(run: Mapping[str, Any], where: str, chip: str, given: Given) -> dict[str, str]:
    """A run as a row of a sweep.

    Raises
    ------
    BadFile : an engine or a model that is not known
    """
    engine = given.text("engine") or ENGINE_OF.get(str(run.get("backend", "")).lower(), "")
    if engine not in set(ENGINE_OF.values()):
        raise BadFile(
            f"{where}: backend {run.get('backend')!r} is no engine; give --set engine=vllm, "
            "sglang or trtllm"
        )
    degrees = {
        name: count_given(given, name) or 1
        for name in (
            *("tensor_parallel", "pipeline_parallel", "attention_data_parallel"),
            "expert_parallel",
        )
    }
    tensor, copies = degrees["tensor_parallel"], degrees["attention_data_parallel"]
    stages, experts = degrees["pipeline_parallel"], degrees["expert_parallel"]
    served = float(run["completed"])
    precision = given.text("precision") or "bf16"
    devices = tensor * copies * stages
    return {
        "case_id": f"{where.replace(' line ', '-')}-c{_in_flight(run):g}",
        "backend": engine,
        "backend_version": given.text("engine_version"),
        "model_path": model_named(given, _told_model(run, given), where),
        "system": chip,
        "mode": "agg",
        "isl": f"{float(run['total_input_tokens']) / served:.6g}",
        "osl": f"{float(run['total_output_tokens']) / served:.6g}",
        "gemm_quant_mode": precision,
        "moe_quant_mode": given.text("experts_precision") or precision,
        "attention_dp_size": str(copies),
        "moe_ep_size": str(experts),
        "pp_size": str(stages),
        "n_gpu_clean": str(devices),
        "silicon_ttft_ms": f"{float(run['median_ttft_ms']):.6g}",
        "silicon_tpot_ms": f"{float(run['mean_tpot_ms']):.6g}",
        "concurrency": f"{_in_flight(run):g}",
        "use": "yes",
        "use_ttft": "yes",
        "tp_size": str(tensor),
        "measured": given.text("as_of"),
        "dump": "own",
    }
