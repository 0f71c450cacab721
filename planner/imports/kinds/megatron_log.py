"""Logs of Megatron-LM and what is built on it: seconds of an iteration, with the plan it ran.

The list of arguments at the head of a log says layout and shape, lines of iterations the time
(NVIDIA/Megatron-LM, megatron/training/arguments.py and training.py). A log becomes a row of
training measurements, which `planner validate` predicts. The first iterations are left out: they
compile, fill caches and grow the batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from costdata.own_tables import table_text
from planner.imports.chip_named import chip_named, model_named
from planner.imports.found import Found, Given, told_later
from planner.imports.numbers import whole_number
from planner.imports.text_files import read_lines
from planner.validation.rows import TRAINING_COLUMNS
from simkernel.errors import BadFile

SETTINGS = {
    "accelerator": "chip that trained",
    "model": "catalogue name, else the shape that the log states",
    "software_release": "as the vendor numbers its containers, such as 25.11",
    "parameters_b": "billions of parameters, where the model is not in the catalogue",
}

ARGUMENT = re.compile(r"^\s*(?:\[[^\]]*\]:?\s*|\d+:\s*)?([a-z][a-z0-9_]*) \.{3,} (.+?)\s*$")
ITERATION = re.compile(r"iteration\s+(\d+)\s*/\s*\d+\s*\|")
ELAPSED = re.compile(r"elapsed time per iteration \(ms\):\s*([0-9.eE+-]+|nan|inf)")
BATCH = re.compile(r"global batch size:\s*(\d+)")

WARM_ITERATIONS = 3
"""Left out at the head of each log, and again after a change of the batch; own choice."""

LEAST_ITERATIONS = 3

NEEDED = (
    "world_size", "tensor_model_parallel_size", "pipeline_model_parallel_size", "seq_length",
    "micro_batch_size",
)  # fmt: skip
FILE = "training_rows.csv"
OTHER_COLUMNS = (
    "params_b", "n_layers", "hidden", "n_heads", "n_kv_heads", "ffn_hidden", "n_experts", "top_k",
    "vocab", "sp", "source", "software_release",
)  # fmt: skip


@dataclass
class _Log:
    """What a log says: its arguments, and (batch, seconds) of every iteration."""

    where: str
    arguments: dict[str, str] = field(default_factory=dict)
    iterations: list[tuple[int, float]] = field(default_factory=list)

    def text(self, name: str) -> str:
        """An argument; "" where it is None or not there."""
        value = self.arguments.get(name, "")
        return "" if value == "None" else value


def read(paths: Sequence[Path], given: Given) -> Found:
    """A row of training measurements for every log.

    Raises
    ------
    BadFile : every fault of all logs
    """
    chip = chip_named(given, (), ", ".join(path.name for path in paths))
    faults: list[str] = []
    rows: list[dict[str, str]] = []
    told = []
    for path in paths:
        with told_later(faults):
            log = _read(path, faults)
            batch, seconds = _steady(log)
            rows.append(_row(log, batch, float(np.median(seconds)), chip, given))
            told.append(
                {
                    "file": path.name,
                    "step_s": float(np.median(seconds)),
                    "iterations": len(seconds),
                    "spread_frac": float(np.std(seconds) / np.mean(seconds)),
                }
            )
    if faults:
        raise BadFile(*faults)
    note = f"score them: planner validate IMPORT/{FILE} [--protocol one_factor:accelerator]"
    text = table_text([*TRAINING_COLUMNS, *OTHER_COLUMNS], rows)
    return Found({}, f"{chip}: {len(rows)} training logs", {"logs": told}, [note], {FILE: text})


def _read(path: Path, faults: list[str]) -> _Log:
    log = _Log(path.name)
    batch = 0
    for number, line in enumerate(read_lines(path), start=1):
        if match := ARGUMENT.match(line):
            log.arguments.setdefault(match[1], match[2])
        elif ITERATION.search(line) and (found := ELAPSED.search(line)):
            if stated := BATCH.search(line):
                batch = whole_number(stated[1]) or 0
                if not batch:
                    faults.append(
                        f"{path.name} line {number}: a global batch of {stated[1][:40]}; wanted "
                        "one sequence at least: give the log as it was written"
                    )
            try:
                seconds = float(found[1]) * 1e-3
            except ValueError:
                seconds = float("nan")
            if not 0.0 < seconds < float("inf"):
                faults.append(f"{path.name} line {number}: an iteration of {found[1]} ms")
            log.iterations.append((batch, seconds))
    return log


def _steady(log: _Log) -> tuple[int, list[float]]:
    """The last batch size and its iterations, the first ones left out.

    Raises
    ------
    BadFile : too few of them
    """
    if not log.iterations:
        raise BadFile(f"{log.where} has no line of an iteration with its elapsed time")
    batch = log.iterations[-1][0]
    first = len(log.iterations)
    while first and log.iterations[first - 1][0] == batch:
        first -= 1
    kept = [seconds for _, seconds in log.iterations[first + WARM_ITERATIONS :]]
    if len(kept) < LEAST_ITERATIONS:
        raise BadFile(
            f"{log.where} has {len(kept)} iterations after the first {WARM_ITERATIONS} at one "
            f"batch size; wanted {LEAST_ITERATIONS} at least"
        )
    return batch, kept


def _row(log: _Log, batch: int, seconds: float, chip: str, given: Given) -> dict[str, str]:
    """A log as a row of training measurements.

    Raises
    ------
    BadFile : arguments that are not there, or a layout that does not fill the devices
    """
    counts = {name: _count(log, name) for name in NEEDED}
    total = batch or _count(log, "global_batch_size")
    lacking = [name for name, value in {**counts, "global_batch_size": total}.items() if not value]
    if lacking:
        raise BadFile(
            f"{log.where} does not state {', '.join(lacking)}; keep the list of arguments at its "
            "head"
        )
    world, tensor, stages, *_ = (value or 1 for value in counts.values())
    context = _count(log, "context_parallel_size") or 1
    if world % (tensor * stages * context):
        raise BadFile(
            f"{log.where}: world_size {world} is no multiple of tp {tensor} x pp {stages} x cp "
            f"{context}; is the log whole?"
        )
    return {
        "case_id": log.where,
        "model": model_named(given, given.text("model"), log.where)
        if given.text("model")
        else _shape_name(log),
        "accelerator": chip,
        "n_accel": str(world),
        "tp": str(tensor),
        "pp": str(stages),
        "dp": str(world // (tensor * stages * context)),
        "cp": str(context),
        "ep": str(_count(log, "expert_model_parallel_size") or 1),
        "vpp": str(_count(log, "virtual_pipeline_model_parallel_size") or 1),
        "seq_len": log.text("seq_length"),
        "global_batch_seqs": str(total),
        "micro_batch": log.text("micro_batch_size"),
        "recompute": {"full": "full", "selective": "selective"}.get(
            log.text("recompute_granularity"), "none"
        ),
        "zero_stage": "1" if log.text("use_distributed_optimizer") == "True" else "0",
        "precision": _precision(log),
        "metric": "step_time_s",
        "value": f"{seconds:.6g}",
        "unit": "s/step",
        "source_group": "own",
        "usable_as": "throughput",
        "sp": "1" if log.text("sequence_parallel") == "True" else "0",
        "source": log.where,
        "software_release": given.text("software_release"),
        **_shape(log, given),
    }


def _shape(log: _Log, given: Given) -> Mapping[str, str]:
    """The model's shape as the log states it; blank for a model of the catalogue."""
    if given.text("model"):
        return {}
    names = {
        "n_layers": "num_layers", "hidden": "hidden_size", "n_heads": "num_attention_heads",
        "n_kv_heads": "num_query_groups", "ffn_hidden": "ffn_hidden_size",
        "n_experts": "num_experts", "top_k": "moe_router_topk", "vocab": "padded_vocab_size",
    }  # fmt: skip
    return {column: log.text(name) for column, name in names.items()} | {
        "params_b": given.text("parameters_b")
    }


def _shape_name(log: _Log) -> str:
    return f"own-{log.text('num_layers') or '?'}x{log.text('hidden_size') or '?'}"


def _precision(log: _Log) -> str:
    if log.text("fp8") not in ("", "False"):
        return "fp8"
    return "fp16" if log.text("fp16") == "True" else "bf16"


def _count(log: _Log, name: str) -> int | None:
    return whole_number(log.text(name))
