"""Operator timings of serving engines, read from the Parquet files of aiconfigurator-core.

A folder `systems/data` holds chip/operator/engine/version/*.parquet, latencies in milliseconds.
Of several versions the newest that has the precision is taken. Read as data and never loaded
whole: each query brings medians of the shapes that models have. Nothing outside that folder is
opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from planner.calibration.curves import Products
from planner.calibration.measured import CHIPS
from simkernel.columns import Floats
from simkernel.errors import BadFile
from simkernel.hardware import Columns

ENGINES = ("trtllm", "vllm", "sglang")
PRECISION_OF = {
    "half": "bf16",
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
}
"""The files' names of precisions and ours; where both mxfp4 kernels were timed, the later one."""

FEWEST_SHAPES, FEWEST_MESSAGES = 40, 15
"""Shapes below which a curve would rest on its starting point; messages of all-reduces, which
have one dimension."""

MOST_SHAPES = 4000
"""Shapes that one curve is fitted to: more do not move it by its rounding."""


@dataclass(frozen=True)
class Grouped(Columns):
    """Timed expert layers, two grouped products each; shape (n,).

    `tokens` of all ranks, balanced routing; `width` of one expert on one rank.
    """

    tokens: Floats
    hidden: Floats
    width: Floats
    used: Floats
    experts: Floats
    expert_ranks: Floats
    seconds: Floats


@dataclass(frozen=True)
class Attended(Columns):
    """Timed attention cores; shape (n,). `context` of each sequence; decode has one query each."""

    sequences: Floats
    context: Floats
    heads: Floats
    kv_heads: Floats
    seconds: Floats


@dataclass(frozen=True)
class Reduced(Columns):
    """Timed all-reduces inside a node; shape (n,)."""

    devices: Floats
    message_bytes: Floats
    seconds: Floats


@dataclass(frozen=True)
class Found:
    """Timings of one kernel of one engine on one chip in one precision."""

    engine: str
    version: str
    chip: str
    kernel: str
    precision: str
    rows: Columns


def read_engines(folder: Path) -> list[Found]:
    """All timings that curves are made from, in a settled order.

    Parameters
    ----------
    folder : `systems/data` of the unpacked package

    Raises
    ------
    BadFile : no such timings there
    """
    found = list(_found(folder))
    if not found:
        raise BadFile(
            f"{folder} has no operator timings; give systems/data of aiconfigurator-core"
        )
    return found


@dataclass(frozen=True)
class _Kernel:
    """Where a kernel's timings are and which rows and columns of them are wanted."""

    name: str
    operator: str
    file: str
    precision: str
    columns: str
    where: str
    kind: type[Columns]


_CONTEXTS = "between 128 and 40000 and batch_size <= 512"
_PROMPTS = "isl between 64 and 16384 and batch_size <= 16"
_GROUPED_HEADS = "head_dim = 128 and window_size = 0 and num_heads > num_key_value_heads"
_KERNELS = (
    _Kernel(
        "gemm", "gemm", "gemm_perf", "gemm_dtype", "m, k, n",
        "m <= 16384 and n between 512 and 32768 and k between 512 and 32768", Products,
    ),
    _Kernel(
        "grouped", "moe", "moe_perf", "moe_dtype",
        "num_tokens, hidden_size, inter_size / moe_tp_size, topk, num_experts, moe_ep_size",
        "distribution = 'balanced' and kernel_source not like '%nongated%' and num_experts >= 64"
        " and num_tokens <= 8192 and moe_ep_size <= 16 and inter_size / moe_tp_size >= 128",
        Grouped,
    ),
    _Kernel(
        "decode", "attention", "generation_attention_perf", "kv_cache_dtype",
        "batch_size, isl + step, num_heads, num_key_value_heads",
        f"{_GROUPED_HEADS} and isl + step {_CONTEXTS} and num_heads <= 64"
        " and batch_size * step < 4000000", Attended,
    ),
    _Kernel(
        "prefill", "attention", "context_attention_perf", "attn_dtype",
        "batch_size, isl, num_heads, num_key_value_heads",
        f"{_GROUPED_HEADS} and {_PROMPTS} and num_heads <= 64 and step = 0", Attended,
    ),
    _Kernel(
        "latent_decode", "mla", "generation_mla_perf", "kv_cache_dtype",
        "batch_size, isl + step, num_heads, 1", f"isl + step {_CONTEXTS}", Attended,
    ),
    _Kernel(
        "latent_prefill", "mla", "context_mla_perf", "mla_dtype",
        "batch_size, isl, num_heads, num_heads", _PROMPTS, Attended,
    ),
    _Kernel(
        "all_reduce", "comm", "custom_allreduce_perf", "allreduce_dtype",
        "num_gpus, message_size * 2", "message_size <= 67108864", Reduced,
    ),
)  # fmt: skip
"""Products as models have them, balanced experts, cores of 128 wide heads that share keys, and
messages up to 128 MB (message_size counts 2-byte elements: tests/truth/README.md)."""

_LIBRARY = _Kernel(
    "all_reduce", "comm", "nccl_perf", "nccl_dtype", "num_gpus, message_size * 2",
    "op_name = 'all_reduce' and num_gpus <= 8 and message_size between 4096 and 67108864", Reduced,
)  # fmt: skip


def _found(folder: Path) -> Iterator[Found]:
    for label, chip in CHIPS.items():
        for kernel in _KERNELS:
            for engine in ENGINES:
                have: set[str] = set()
                for version in _newest_first(folder / label / kernel.operator / engine):
                    path = version / f"{kernel.file}.parquet"
                    for precision, rows in _rows(path, kernel) if path.exists() else ():
                        if precision not in have:
                            have.add(precision)
                            if kernel.kind is Reduced:
                                rows = _with_library(rows, folder / label)
                            yield Found(engine, version.name, chip, kernel.name, precision, rows)


EARLIER = {"vllm_0_19": ("rtx_pro_6000_server", "vllm", "0.19.0")}
"""All-reduces of releases that took another way than the newest: chip, engine and version.

Without peer access between cards on PCIe a message goes through the host: 2.2 ms for 32 MiB
between two cards where 0.9 ms were timed later.
"""


def read_earlier(folder: Path) -> Iterator[Found]:
    """All-reduces of earlier releases, under a name of their own."""
    kernel = next(k for k in _KERNELS if k.name == "all_reduce")
    for name, (label, engine, version) in EARLIER.items():
        path = folder / label / kernel.operator / engine / version / f"{kernel.file}.parquet"
        found = _rows(path, kernel, FEWEST_MESSAGES) if path.exists() else ()
        for precision, rows in found:
            yield Found(name, version, CHIPS[label], kernel.name, precision, rows)


def _with_library(own: Columns, chip_folder: Path) -> Columns:
    """All-reduces by the faster of the engine's own kernel and the newest NCCL, per message."""
    best = dict(_messages(own))
    for version in _newest_first(chip_folder / "comm" / "nccl")[:1]:
        for _, rows in _rows(version / "nccl_perf.parquet", _LIBRARY):
            for key, seconds in _messages(rows):
                best[key] = min(best.get(key, seconds), seconds)
    return Reduced(*np.array([(*key, seconds) for key, seconds in sorted(best.items())]).T)


def _messages(rows: Columns) -> Iterator[tuple[tuple[float, float], float]]:
    if isinstance(rows, Reduced):
        keys = zip(rows.devices, rows.message_bytes, strict=True)
        yield from zip(keys, rows.seconds, strict=True)


def _newest_first(folder: Path) -> list[Path]:
    """Versions of an engine, by the numbers in their names."""
    versions = [path for path in folder.glob("*") if path.is_dir()]
    return sorted(versions, key=lambda p: [int(x) for x in re.findall(r"\d+", p.name)])[::-1]


def _rows(
    path: Path, kernel: _Kernel, fewest: int = FEWEST_SHAPES
) -> Iterator[tuple[str, Columns]]:
    """Median seconds of each shape, by precision.

    Where several kernels were timed for a shape, the engine would choose the fastest.
    """
    query = (
        f"select {kernel.precision} as p, {kernel.columns}, min(latency) * 1e-3 as seconds "
        f"from read_parquet(?) where {kernel.where} group by all order by all"
    )
    with duckdb.connect() as connection:
        try:
            lines = connection.execute(query, [str(path)]).fetchall()
        except duckdb.BinderException:  # an older layout without one of the columns
            return
    for name in sorted({line[0] for line in lines} & set(PRECISION_OF)):
        mine = np.array([line[1:] for line in lines if line[0] == name], dtype=float)
        if len(mine) > MOST_SHAPES:  # every so many of a sorted grid would miss whole widths
            mine = mine[np.sort(np.random.default_rng(0).permutation(len(mine))[:MOST_SHAPES])]
        if len(mine) >= fewest:
            yield PRECISION_OF[name], kernel.kind(*mine.T)
