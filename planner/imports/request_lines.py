"""Requests of a run as a log that `planner validate` replays, and the settings beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from planner.imports.numbers import is_number
from planner.validation.request_logs import ENGINE_OF_VERSION, LOG_ENDING, META_ENDING

Request = dict[str, float]
KEPT = ("input_lens", "output_lens", "ttfts", "latencies", "start_times")
"""What a benchmark keeps of its requests under --save-detailed."""

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16"}


def requests_of(run: Mapping[str, Any]) -> list[Request]:
    """Requests that a benchmark kept, by the clock of its client; [] where it did not."""
    columns = [run.get(name) for name in KEPT]
    if not all(isinstance(column, list) for column in columns):
        return []
    lists: list[list[Any]] = [column for column in columns if isinstance(column, list)]
    if len({len(column) for column in lists}) != 1:
        return []
    found = []
    for cells in zip(*lists, strict=True):
        if not all(is_number(cell) for cell in cells) or cells[1] < 1:
            continue
        prompt, output, first, lasts, start = cells
        found.append(
            {
                "input_toks": prompt,
                "output_toks": output,
                "queued_ts": start,
                "first_token_ts": start + first,
                "last_token_ts": start + max(lasts, first),
            }
        )
    begin = min((one["queued_ts"] for one in found), default=0.0)
    stamps = ("queued_ts", "first_token_ts", "last_token_ts")
    return [{**one, **{s: round(one[s] - begin, 6) for s in stamps}} for one in found]


def written_log(
    requests: Sequence[Request], row: Mapping[str, str], chip: str, number: int
) -> dict[str, str]:
    """A log and its settings as files, by name.

    Parameters
    ----------
    row : of the run, with the columns of a sweep
    number : of the run in its import
    """
    version = {engine: key for key, engine in ENGINE_OF_VERSION.items()}[row["backend"]]
    meta = {
        "model": row["model_path"],
        version: row["backend_version"],
        "engine_kwargs": {
            "tensor_parallel_size": int(row["tp_size"]),
            "pipeline_parallel_size": int(row["pp_size"]),
            "data_parallel_size": int(row["attention_dp_size"]),
            "enable_expert_parallel": int(row["moe_ep_size"]) > 1,
            "dtype": PRECISIONS.get(row["gemm_quant_mode"], "bfloat16"),
            "quantization": None
            if row["gemm_quant_mode"] in PRECISIONS
            else row["gemm_quant_mode"],
        },
    }
    name = f"{chip}_run{number}"
    lines = "".join(json.dumps(one) + "\n" for one in requests)
    return {f"{name}{LOG_ENDING}": lines, f"{name}{META_ENDING}": json.dumps(meta, indent=1)}
