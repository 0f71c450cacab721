"""Per-request logs of a serving engine: what came when, and when its tokens left.

`X_requests.jsonl` has one request a line, `X_meta.json` beside it the engine and its settings; the
accelerator is X up to the first `_`. Times are the engine's own, from its queue to its last
token: clients and networks are not in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.validation.rows import TruthRow, read_truth
from simkernel.columns import Codes, Floats
from simkernel.errors import BadFile

LOG_ENDING, META_ENDING = "_requests.jsonl", "_meta.json"
LOG_PATH = "log_path"
"""The column of a row that stands for a whole log."""

FIELDS = ("queued_ts", "first_token_ts", "last_token_ts", "input_toks", "output_toks")
ENGINE_OF_VERSION = {
    "vllm_version": "vllm",
    "sglang_version": "sglang",
    "trtllm_version": "trtllm",
}


@dataclass(frozen=True)
class RequestLog:
    """One run, requests in order of arrival; (n,) each, seconds from the first arrival."""

    arrival_s: Floats
    prompt_tokens: Codes
    output_tokens: Codes
    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats


def is_request_log(path: Path) -> bool:
    """A file of requests, by its name."""
    return path.name.endswith(LOG_ENDING)


def read_rows(paths: Sequence[Path]) -> tuple[TruthRow, ...]:
    """The rows of any files of measurements; a log is one row."""
    logs = [path for path in paths if is_request_log(path)]
    others = [path for path in paths if not is_request_log(path)]
    return (*read_truth(others), *(log_row(path) for path in logs))


def is_log(row: TruthRow) -> bool:
    """A row that stands for a whole log."""
    return LOG_PATH in row.cells


def log_row(path: Path) -> TruthRow:
    """The run as one row, by which it is grouped and chosen; cells as in other serving files.

    Raises
    ------
    BadFile : no settings beside it, or settings that lack the model or the engine
    """
    name = path.name.removesuffix(LOG_ENDING)
    meta = _meta(path.with_name(name + META_ENDING))
    settings = meta["engine_kwargs"]
    changed = [name for name, plain in UNREAD.items() if settings.get(name) not in (None, *plain)]
    version = next((v for v in ENGINE_OF_VERSION if v in meta), "")
    cells = {
        "case_id": name,
        "source_group": f"log {name}",
        "model": meta["model"],
        "accelerator": name.partition("_")[0],
        "engine": ENGINE_OF_VERSION.get(version, str(meta.get("engine", ""))),
        "release": str(meta.get(version, "")),
        "metric": "request_log",
        "tp": str(settings.get("tensor_parallel_size", 1)),
        "pp": str(settings.get("pipeline_parallel_size", 1)),
        "precision": PRECISION_OF.get(str(settings.get("dtype")), str(settings.get("dtype"))),
        "max_num_seqs": str(settings.get("max_num_seqs") or 1024),  # vLLM's own default
        "max_num_batched_tokens": str(settings.get("max_num_batched_tokens") or 8192),  # the same
        "unread": ", ".join(f"{name} = {settings[name]!r}" for name in changed),
        LOG_PATH: str(path),
    }
    return TruthRow(cells, str(path))


UNREAD: Mapping[str, tuple[Any, ...]] = {
    "quantization": (),
    "kv_cache_dtype": ("auto",),
    "data_parallel_size": (1,),
    "enable_expert_parallel": (False,),
    "enable_prefix_caching": (False,),
    "speculative_config": (),
    "enable_chunked_prefill": (True,),
}
"""Settings of an engine that change what a step does and are not read, each with what changes
nothing; names as in vLLM's engine arguments."""


PRECISION_OF = {"bfloat16": "bf16", "float16": "fp16", "auto": "bf16"}


def read_log(path: Path) -> RequestLog:
    """The requests of a log; those without a token are left out.

    Raises
    ------
    BadFile : a file that cannot be read, lines that are no JSON or lack a time or a length; every
        fault at once
    """
    lines = [x for x in _lines(path) if x.strip()]
    faults, rows = [], []
    for number, line in enumerate(lines, start=1):
        found = _numbers(line)
        if found is None:
            faults.append(f"{path} line {number} lacks one of {', '.join(FIELDS)}; give numbers")
        elif found[3] >= 1 and found[4] >= 1:
            rows.append(found)
    if faults or not rows:
        raise BadFile(*(faults or [f"{path} has no served request; give a log of some"]))
    queued, first, last, prompt, output = np.array(sorted(rows)).T
    gaps = np.where(output > 1, output - 1.0, np.nan)
    return RequestLog(
        arrival_s=queued - queued[0],
        prompt_tokens=prompt.astype(np.int64),
        output_tokens=output.astype(np.int64),
        ttft_s=first - queued,
        tpot_s=(last - first) / gaps,
        e2e_s=last - queued,
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}; give a log of requests") from None


def _numbers(line: str) -> tuple[float, ...] | None:
    try:
        cells = json.loads(line)
        return tuple(float(cells[name]) for name in FIELDS)
    except (ValueError, KeyError, TypeError):
        return None


def _meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read: {error}; put the run's settings there") from None
    lacking = [n for n in ("model", "engine_kwargs") if not (isinstance(meta, dict) and n in meta)]
    if lacking:
        raise BadFile(f"{path} lacks {', '.join(lacking)}; give the settings of the run")
    return dict(meta)
