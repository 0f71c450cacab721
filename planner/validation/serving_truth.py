"""Published serving measurements made ready: model, chip, engine, plan and load of each row.

Two kinds of file: single figures (one metric a row, as training files have it) and sweeps (one
configuration a row, with time to first token and time per output token).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

import numpy as np

from costdata.catalog import Catalog
from costdata.configs import read_model
from costdata.facts import TABLES
from planner.bands import regime_of_model
from planner.validation.launches import AS_SHIPPED, Launch, launch_of
from planner.validation.rows import TruthRow
from simkernel.errors import MissingFact
from simkernel.hardware import PRECISIONS
from simkernel.models import Model

TTFT, TPOT, OUTPUT = "ttft_s", "tpot_s", "output_tokens_per_s"
CLOSED, OFFLINE, STATIC = "closed", "offline", "static"
"""How a run was loaded: so many requests in flight, all queued from the start, or one batch."""

OFFLINE_RUNS = TABLES / "rules" / "offline_runs.csv"
"""Requests of NVIDIA's offline runs by prompt and output length."""

SWEEP_SYSTEMS = {
    "h100_sxm": "H100-SXM",
    "h200_sxm": "H200-SXM",
    "b200_sxm": "B200-SXM",
    "gb200": "GB200",
}
ENGINES = {"trtllm": "trtllm", "vllm": "vllm", "sglang": "sglang"}
NARROW_CACHES = ("trtllm", "vllm")
"""Engines whose published runs of narrow weights keep keys and values in fp8 as well."""

OLD_SGLANG, NEW_SGLANG = "sglang_2025", [0, 5, 6]
"""Prompts before everything: a crowd that starts together is prefilled whole before any decodes,
and stays together (seen up to 0.5.1; not from 0.5.6 on)."""

OLD_VLLM = "vllm_2023"
"""Before captured graphs and fused kernels: no version of it was timed by itself."""

EVERYTHING = 1e6
"""Requests in flight where all are queued at once: more than any memory holds."""

MEAN_DRAWN = 0.9
"""InferenceX draws lengths evenly between 80% and 100% of the stated ones (RANDOM_RANGE_RATIO 0.8
in its workflows)."""

SWEEP_LAYOUT = ("n_gpu_clean", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")

RELEASES = TABLES / "rules" / "engine_releases.csv"
"""When releases that rows state came out."""

Decisions = Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """One configuration with its measured metrics, in SI units.

    `burst_frac` is the least share of the other requests that come together with one, where the
    number of all requests is known. `release` is the engine's version as the row states it, ""
    unknown, and `years` from the start of 2026 to it.
    """

    row: TruthRow
    model: Model
    accelerator: str
    engine: str
    release: str
    years: float
    plan: Decisions
    prompt_tokens: float
    output_tokens: float
    concurrency: float
    burst_frac: float
    has_equal_lengths: bool
    loaded: str
    measured: Mapping[str, float]
    launch: Launch = AS_SHIPPED

    @property
    def kind(self) -> str:
        """The name of the profile, as training cases have it."""
        return self.engine

    @property
    def regime(self) -> str:
        """Whose error of speed the model has."""
        return regime_of_model(self.model)

    @property
    def devices(self) -> float:
        """Of the replica."""
        degrees = ("tensor_parallel", "attention_data_parallel", "pipeline_parallel")
        return float(np.prod([self.plan[name] for name in degrees]))


def serving_rows(rows: Sequence[TruthRow]) -> tuple[TruthRow, ...]:
    """Rows of serving files with the columns by which scores are grouped, whatever the file."""
    return tuple(
        replace(row, cells={**row.cells, **_common(row)}) if is_serving(row) else row
        for row in rows
    )


def _common(row: TruthRow) -> dict[str, str]:
    """Names that both kinds of file have under other columns."""
    if is_sweep(row):
        names = {"source_group": "dump", "model": "model_path", "accelerator": "system"}
        return {name: row.text(column) for name, column in names.items()} | {
            "engine": row.text("backend"),
            "metric": "sweep",
            "parallel": " ".join(row.text(name) for name in SWEEP_LAYOUT),
        }
    layout = " ".join(row.text(name) for name in ("n_accel", "tp", "pp", "ep"))
    return {"source_group": row.text("source"), "parallel": layout}


def is_serving(row: TruthRow) -> bool:
    """A row of either kind of serving file."""
    return is_sweep(row) or "batch_or_concurrency" in row.cells


def is_sweep(row: TruthRow) -> bool:
    """A row of a sweep, not of a file of single figures."""
    return "silicon_tpot_ms" in row.cells


def case_of(row: TruthRow, catalog: Catalog) -> Case:
    """A row made ready; raises PlanError with what is missing or not modelled."""
    return _sweep(row, catalog) if is_sweep(row) else _single(row, catalog)


def _sweep(row: TruthRow, catalog: Catalog) -> Case:
    model = read_model(row.text("model_path"))
    narrow = row.text("gemm_quant_mode") or "bf16"
    experts = row.text("moe_quant_mode") or narrow
    copies = max(row.count("attention_dp_size") or 1, 1)
    stages = row.count("pp_size") or 1
    devices = row.count("n_gpu_clean") or 1
    tensor, left = divmod(devices, copies * stages)
    if left:
        raise MissingFact(
            f"{copies} copies of attention x pp {stages} do not divide the {devices} devices"
        )
    engine = _engine(row.text("backend"), row.text("backend_version"))
    measured = {TPOT: (row.number("silicon_tpot_ms") or 0.0) * 1e-3}
    if row.text("use_ttft") == "yes":
        measured[TTFT] = (row.number("silicon_ttft_ms") or 0.0) * 1e-3
    accelerator = catalog.accelerator_name(
        SWEEP_SYSTEMS.get(row.text("system"), row.text("system"))
    )
    plan = _plan(
        model,
        engine,
        (tensor, copies, stages),
        max(row.count("moe_ep_size") or 1, 1),
        (narrow, experts),
        _domain(catalog, accelerator),
    )
    if engine in NARROW_CACHES and narrow != "bf16":
        plan |= {"cache_bytes_per_value": 1.0}
    if engine not in (*ENGINES, OLD_SGLANG):
        raise MissingFact(f"engine {row.text('backend')!r} has no profile")
    is_drawn = row.text("dump").startswith("ifx")
    drawn = MEAN_DRAWN if is_drawn else 1.0
    if row.text("mode") != "agg":
        raise MissingFact("prefill and decode on pools apart are not predicted yet")
    launch = launch_of(row, model.name, accelerator, tensor) if is_drawn else AS_SHIPPED
    if launch.budget_tokens:
        plan |= {"budget_tokens": launch.budget_tokens}
    return Case(
        row=row,
        model=model,
        accelerator=accelerator,
        engine=engine,
        release=row.text("backend_version"),
        years=_years(row.text("backend"), row.text("backend_version"), row.text("measured")),
        plan=plan,
        prompt_tokens=(row.number("isl") or 1.0) * drawn,
        output_tokens=(row.number("osl") or 1.0) * drawn,
        concurrency=row.number("concurrency") or 1.0,
        burst_frac=0.0,
        has_equal_lengths=drawn == 1.0,
        loaded=CLOSED,
        measured=measured,
        launch=launch,
    )


def _domain(catalog: Catalog, accelerator: str) -> int:
    """The smallest scale-up domain on offer: all published runs stay in it."""
    return int(min(catalog.accelerator(accelerator).domain_options))


def _plan(
    model: Model,
    engine: str,
    degrees: tuple[int, int, int],
    expert: int,
    precisions: tuple[str, str],
    domain: int,
) -> dict[str, float]:
    """Decisions of a plan from what a row states.

    Experts lie over all devices of a stage; those that expert parallelism does not cut are cut
    by tensor parallelism.
    """
    tensor, copies, stages = degrees
    if expert > 1 and (tensor * copies) % expert:
        raise MissingFact(f"ep {expert} does not divide the {tensor * copies} devices of a stage")
    has_experts = any(kind.mlp == "moe" for kind in model.kinds)
    expert = expert if has_experts else 1
    ranks = tensor * copies
    dense, experts = (_precision(name, model) for name in precisions)
    is_narrow_cache = engine in NARROW_CACHES and dense in NARROW
    return {
        "supernode_devices": max(domain, ranks * stages),
        "tensor_parallel": tensor,
        "attention_data_parallel": copies,
        "pipeline_parallel": stages,
        "expert_parallel": expert,
        "expert_tensor_parallel": max(ranks // expert, 1) if has_experts else 1,
        "precision_code": PRECISIONS.index(dense),
        "expert_precision_code": PRECISIONS.index(experts),
        "cache_bytes_per_value": 1.0 if is_narrow_cache else 2.0,
    }


def _engine(name: str, release: str) -> str:
    """The profile of an engine's release; a release that is not stated counts as a new one."""
    numbers = [int(x) for x in re.findall(r"\d+", release)[:3]]
    is_old = name == "sglang" and numbers and numbers < NEW_SGLANG
    return OLD_SGLANG if is_old else name


def _years(engine: str, release: str, measured: str) -> float:
    """From the reference year to a release: that of the table, else the day of the run, else 0."""
    known = [r for r in _releases() if r["engine"] == engine and _names(r["release"], release)]
    if known:
        return float(max(known, key=lambda r: len(r["release"]))["year"]) - REFERENCE_YEAR
    try:
        return (date.fromisoformat(measured) - REFERENCE_DAY).days / DAYS_PER_YEAR
    except ValueError:  # no day is stated, or not as one
        return 0.0


def _names(release: str, text: str) -> bool:
    """The text states the release or a patch of it, not one whose number only holds it."""
    return re.search(rf"(?<![\d.]){re.escape(release)}(?!\d)", text) is not None


REFERENCE_YEAR, REFERENCE_DAY, DAYS_PER_YEAR = 2026.0, date(2026, 1, 1), 365.25
"""Engines are as they were at the start of that year."""


@cache
def _releases() -> tuple[dict[str, str], ...]:
    with RELEASES.open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def _precision(name: str, model: Model) -> str:
    """Our name of a precision as rows write it; fp8 is that of the model's own files.

    Raises
    ------
    MissingFact : a precision that we do not know
    """
    known = {"fp4": "nvfp4", "bfloat16": "bf16"}.get(name, name)
    if known not in PRECISIONS:
        raise MissingFact(f"precision {name!r} is not one of ours: {', '.join(PRECISIONS)}, fp4")
    return BLOCK if known == "fp8" and model.weight_precision == BLOCK else known


BLOCK = "fp8_block"
"""Files with a scale per 128 x 128 block of weights, and none for keys and values."""

NARROW = ("fp8", "nvfp4")
"""Precisions of files that bring scales for keys and values."""


OTHER_RATE = re.compile(r"^input\b|\bper \d+-GPU node", re.IGNORECASE)
"""Units of rates of prompts, or of a part of the devices."""

SINGLE_METRICS = {
    "tpot_ms_mean": (TPOT, 1e-3),
    "ttft_ms_mean": (TTFT, 1e-3),
    "throughput_tok_s": (OUTPUT, 1.0),
    "throughput_tok_s_per_gpu": (OUTPUT, 1.0),
}


def _single(row: TruthRow, catalog: Catalog) -> Case:
    """A single figure.

    Offline maximum load of experts with no layout stated is attention copies with experts over
    all of them, as TensorRT-LLM's page runs such models.
    """
    metric = row.text("metric")
    if row.text("disagg") not in ("", "0", "0.0"):
        raise MissingFact("prefill and decode on pools apart are not predicted yet")
    if metric not in SINGLE_METRICS or "Poisson" in row.text("request_rate"):
        raise MissingFact(f"{metric} of requests that arrive at their own times needs the replay")
    if OTHER_RATE.search(row.text("unit")):
        raise MissingFact(f"{row.text('unit')} is no rate of the output of all devices")
    if not (row.number("input_len") and row.number("output_len")):
        raise MissingFact("the row does not state prompt and output lengths")
    name, unit = SINGLE_METRICS[metric]
    devices = row.number("n_accel") or 1.0
    scale = unit * (devices if metric.endswith("per_gpu") else 1.0)
    model = read_model(row.text("model_slug"))
    engine = next((e for e in ENGINES if _key(e) in _key(row.text("engine"))), "")
    if not engine:
        raise MissingFact(f"engine {row.text('engine')} has no profile")
    accelerator = catalog.accelerator_name(row.text("accelerator_id"))
    tensor, stages = row.count("tp") or 1, row.count("pp") or 1
    expert = row.count("ep") or 1
    copies, left = divmod(int(devices), tensor * stages)
    if left:
        raise MissingFact(f"tp {tensor} x pp {stages} does not divide the {devices:g} of n_accel")
    has_experts = any(kind.mlp == "moe" for kind in model.kinds)
    if has_experts and not row.text("ep"):
        tensor, copies, expert = 1, tensor * copies, tensor * copies
    elif copies > 1 and expert == 1:
        expert = copies
    if engine == "vllm" and "2023" in row.text("engine"):
        engine = OLD_VLLM
    narrow = row.text("precision")
    dense = "bf16" if narrow == "mxfp4" else narrow
    load = row.text("batch_or_concurrency")
    prompts = _prompts(row)
    requests = min(_in_flight(load), prompts)
    burst_frac = 0.5 * requests / prompts if load[:1].isdigit() else 0.0
    loaded = OFFLINE if load.startswith("max") and prompts < EVERYTHING else CLOSED
    return Case(
        row=row,
        model=model,
        accelerator=accelerator,
        engine=engine,
        release=row.text("engine"),
        years=_years(engine, row.text("engine"), ""),
        plan=_plan(
            model, engine, (tensor, copies, stages), expert, (dense, narrow),
            _domain(catalog, accelerator),
        ),
        prompt_tokens=row.number("input_len") or 1.0,
        output_tokens=row.number("output_len") or 1.0,
        concurrency=requests,
        burst_frac=burst_frac,
        has_equal_lengths=False,
        loaded=STATIC if row.text("dataset") == "static batch" else loaded,
        measured={name: row.value * scale},
    )  # fmt: skip


def _in_flight(load: str) -> float:
    """Requests in flight, or their mean; all where the row says "max"."""
    if load.startswith("max"):
        return EVERYTHING
    if not re.fullmatch(r"\d+(\.\d*)?", load) or not float(load):
        raise MissingFact(
            f"batch_or_concurrency {load!r} is neither a number of requests in flight nor max"
        )
    return float(load)


def _prompts(row: TruthRow) -> float:
    """Requests of a whole run where the row says, "400 prompts per run": no more are in flight.

    Those of NVIDIA's page of offline runs stand in a table.
    """
    found = re.search(r"(\d+) prompts per run", row.text("notes"))
    if found:
        return float(found.group(1))
    lengths = (row.number("input_len"), row.number("output_len"))
    is_listed = "perf-overview" in row.text("source")
    return _offline_runs().get(lengths, EVERYTHING) if is_listed else EVERYTHING


@cache
def _offline_runs() -> dict[tuple[float | None, float | None], float]:
    with OFFLINE_RUNS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        (float(r["prompt_tokens"]), float(r["output_tokens"])): float(r["requests"]) for r in rows
    }


def _key(text: str) -> str:
    """Letters of an engine's name, so that TensorRT-LLM is found as trtllm."""
    return text.lower().replace("tensorrt-llm", "trtllm")
