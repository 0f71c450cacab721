"""Results of serving benchmarks: JSON of vLLM, SGLang and TensorRT-LLM, one run a file or a line.

A run becomes a row of a serving sweep, which `planner validate` predicts and fits a factor to.
Keys are those of `vllm bench serve --save-result` (vllm-project/vllm, vllm/benchmarks/serve.py),
which SGLang's bench_serving and TensorRT-LLM's benchmark_serving share. Time per output token is
the mean, time to first token the median: all requests come at once when a run begins. A run whose
requests came at a rate has as many in flight as Little's law says; its time to first token, which
is that of an open door, is not scored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costdata.configs import read_model
from costdata.own_tables import table_text
from planner.imports.chip_named import chip_named, count_given, model_named, precision_given
from planner.imports.found import Found, Given, told_later
from planner.imports.request_lines import requests_of, written_log
from planner.imports.serving_figures import figure_faults, in_flight, least_token_s, too_fast
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

DEGREES = (
    "tensor_parallel", "pipeline_parallel", "attention_data_parallel", "expert_parallel",
)  # fmt: skip
FILE = "serving_sweep.csv"
OTHER_COLUMNS = ("tp_size", "measured", "dump")


def read(paths: Sequence[Path], given: Given) -> Found:
    """Rows of a sweep, and a log of requests where a run kept them.

    Raises
    ------
    BadFile : every fault of all runs
    UnknownName : a chip or a precision that the catalogue does not have
    """
    faults: list[str] = []
    rows: list[dict[str, str]] = []
    logs: dict[str, str] = {}
    notes: list[str] = []
    chip = chip_named(given, (), ", ".join(path.name for path in paths))
    _precisions(given)
    for path in paths:
        with told_later(faults):
            for where, run in _runs(path, faults):
                with told_later(faults):
                    rows.append(_row(run, where, chip, given))
                    notes += _open_note(rows[-1], run, where)
                    if requests := requests_of(run):
                        logs |= written_log(requests, rows[-1], chip, len(rows))
    if faults:
        raise BadFile(*faults)
    named = f"{chip}: {len(rows)} runs of {', '.join(sorted({r['model_path'] for r in rows}))}"
    notes.append(f"score them: planner validate IMPORT/{FILE} [--protocol one_factor:system]")
    header = [*SWEEP_COLUMNS, *OTHER_COLUMNS]
    return Found({}, named, {"runs": len(rows)}, notes, {FILE: table_text(header, rows), **logs})


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


def _row(run: Mapping[str, Any], where: str, chip: str, given: Given) -> dict[str, str]:
    """A run as a row of a sweep.

    Raises
    ------
    BadFile : figures that contradict each other, an engine or a model that is not known, a number
        in flight that cannot be told, or a time that the memory of the devices does not allow
    """
    if faults := figure_faults(run, where):
        raise BadFile(*faults)
    engine = given.text("engine") or ENGINE_OF.get(str(run.get("backend", "")).lower(), "")
    if engine not in set(ENGINE_OF.values()):
        raise BadFile(
            f"{where}: backend {run.get('backend')!r} is no engine; give --set engine=vllm, "
            "sglang or trtllm"
        )
    tensor, stages, copies, experts = (count_given(given, name) or 1 for name in DEGREES)
    served = float(run["completed"])
    precision, experts_precision = _precisions(given)
    devices = tensor * copies * stages
    model = model_named(given, _told_model(run, given), where)
    flying, is_closed = in_flight(run, where)
    rate = given.catalog.tables["accelerators"][(chip,)].need("hbm_gbytes_per_s")
    least_s = least_token_s(
        read_model(model), (precision, experts_precision), tensor * copies, rate
    )
    if faults := too_fast(run, least_s, where):
        raise BadFile(*faults)
    return {
        "case_id": f"{where.replace(' line ', '-')}-c{flying:.4g}",
        "backend": engine,
        "backend_version": given.text("engine_version"),
        "model_path": model,
        "system": chip,
        "mode": "agg",
        "isl": f"{float(run['total_input_tokens']) / served:.6g}",
        "osl": f"{float(run['total_output_tokens']) / served:.6g}",
        "gemm_quant_mode": precision,
        "moe_quant_mode": experts_precision,
        "attention_dp_size": str(copies),
        "moe_ep_size": str(experts),
        "pp_size": str(stages),
        "n_gpu_clean": str(devices),
        "silicon_ttft_ms": f"{float(run['median_ttft_ms']):.6g}",
        "silicon_tpot_ms": f"{float(run['mean_tpot_ms']):.6g}",
        "concurrency": f"{flying:.4g}",
        "use": "yes",
        "use_ttft": "yes" if is_closed else "no",
        "tp_size": str(tensor),
        "measured": given.text("as_of"),
        "dump": "own",
    }


def _precisions(given: Given) -> tuple[str, str]:
    """Of dense products and of those of experts."""
    dense = precision_given(given, "precision", "bf16")
    return dense, precision_given(given, "experts_precision", dense)


def _open_note(row: Mapping[str, str], run: Mapping[str, Any], where: str) -> list[str]:
    """What a reader must know of a run whose requests came at a rate; [] of the others."""
    if row["use_ttft"] == "yes":
        return []
    return [
        f"{where}: requests came at {float(run['request_rate']):g} /s, so {row['concurrency']} "
        "were in flight (Little's law: throughput times latency), not max_concurrency; its time "
        "to first token is not scored"
    ]
