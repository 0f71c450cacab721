"""Kernel timings and nameplates read from CSV: what `fits` needs, by our chip names.

The timing files are those of `tests/truth/` (see its README): one row per shape, the shape in
words in `params`.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from planner.calibration.curves import Cores, Messages, Products
from simkernel.errors import BadFile
from simkernel.hardware import PRECISIONS, Columns

CHIPS = {
    "a100_sxm": "A100-80G-SXM",
    "h100_sxm": "H100-SXM",
    "h200_sxm": "H200-SXM",
    "b200_sxm": "B200-SXM",
    "b300_sxm": "B300-SXM",
    "gb200": "GB200",
    "gb300": "GB300",
    "l40s": "L40S",
    "rtx_pro_6000_server": "RTX-PRO-6000-Server",
}
"""The timing files' labels and ours."""

GEMM = re.compile(r"^(\w+) m=(\d+) n=(\d+) k=(\d+)")
ATTENTION = re.compile(r"^GQA (\d+)q/(\d+)kv d(\d+) (.*?)b=(\d+) (L|ctx)=(\d+)")
COLLECTIVE = re.compile(r"^(trtllm custom )?(\w+) n=(\d+) (\d+) elements")
EXPERTS = re.compile(r"^DeepEP LL nodes=(\d+) \(EP(\d+)\) tokens/rank=(\d+) h(\d+) top(\d+)")

BYTES_PER_ELEMENT = 2.0
"""fp16 and bf16 messages; the files count elements (tests/truth/README.md)."""

SAME_FABRIC = {"GB200": "B200-SXM", "GB300": "B300-SXM"}
"""Racks were timed in groups of two and four only: their curves also take the groups of eight on
the same links and wire rate."""

INSIDE_EXPERTS = "DeepEP V2 EP8 NIC none SMs 64"
INSIDE_SENT_BYTES = 8192 * 8 * 7168 * 7 / 8
"""Expert exchange inside one Blackwell node: 8K tokens to 8 of 256 experts at hidden 7,168, a
byte each; an eighth stays at home (deepseek-ai/DeepEP README, V2; logical bandwidth)."""

DISPATCH_BYTES, COMBINE_BYTES = 1.0, 2.0
"""DeepEP sends FP8 out and brings bf16 back (deepseek-ai/DeepEP README)."""

LOW_LATENCY = re.compile(r"^DeepEP (?:V1 )?LL (?:nodes=\d+ \()?EP(\d+)\)?(?: tokens/rank=(\d+))?")
NVLINK = re.compile(r"^alltoall_(dispatch|combine) NVLink\w+ (\w+) EP(\d+) tokens/rank=(\d+)")
DEEPEP_TOKENS, TOP_K, HIDDEN = 128, 8, 7168  # deepseek-ai/DeepEP README, V1, low-latency kernels
NODE_DEVICES, RACK_DEVICES = 8, 72
VALUE_BYTES = {"fp8": 1.0, "nvfp4": 0.5 + 1 / 16}  # OCP scales: a byte per 16 values
EXCHANGE_CHIPS = CHIPS | {"H800": "H800-SXM"}

C = TypeVar("C", bound=Columns)
K = TypeVar("K")


@dataclass(frozen=True)
class Timing:
    """One collective inside a domain; `payload_bytes` as in simkernel.collectives.

    `kernel` is "library" (NCCL) or "engine" (the all-reduce of a serving engine, TensorRT-LLM).
    """

    chip: str
    kernel: str
    operation: str
    ranks: int
    payload_bytes: float
    seconds: float


@dataclass(frozen=True)
class Exchange:
    """One dispatch or combine between experts.

    Parameters
    ----------
    ranks, domain : in the group, and in a scale-up domain
    payload_bytes : that a device sends, its own part included
    """

    chip: str
    ranks: int
    domain: int
    payload_bytes: float
    seconds: float


@dataclass(frozen=True)
class Nameplate:
    """What a chip is rated at; `peak_flop_per_s` by precision, dense, only those it has."""

    name: str
    peak_flop_per_s: dict[str, float]
    hbm_bytes_per_s: float
    scaleup_bytes_per_s: float
    scaleout_bytes_per_s: float
    tdp_w: float | None
    idle_w: float | None
    context_w: float | None


def read_nameplates(path: Path) -> dict[str, Nameplate]:
    """Ratings from a table like costdata/tables/accelerators.csv, by name.

    Raises
    ------
    BadFile : a column is missing or a figure is not a number
    """
    try:
        return {row["name"]: _nameplate(row) for row in _rows(path)}
    except (KeyError, ValueError) as error:
        raise BadFile(f"{path}: {error}; wanted the columns of accelerators.csv") from error


def read_products(paths: Sequence[Path]) -> dict[tuple[str, str], Products]:
    """Matrix products by (chip, precision); of several engines, the fastest for each shape."""
    best: dict[tuple[str, str, str, str, str], float] = {}
    for chip, row in _timings(paths, "gemm"):
        if match := GEMM.match(row["params"]):
            precision, m, n, k = match.groups()
            key = (chip, precision.replace("bfloat16", "bf16"), m, k, n)
            best[key] = min(best.get(key, np.inf), float(row["value"]) * 1e-3)
    found: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    for (chip, precision, *shape), seconds in best.items():
        found[chip, precision].append((*map(float, shape), seconds))
    return _tables(found, Products)


def read_cores(paths: Sequence[Path]) -> dict[str, Cores]:
    """Attention cores by chip, arithmetic in bf16; decode rows have one query and no causal half.

    Prefill rows are those of stock training kernels ([vllm ...] runs FlashAttention); TensorRT-LLM
    context rows include cache writes that training does not do.
    """
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for kind in ("attn_prefill", "attn_decode"):
        for chip, row in _timings(paths, kind):
            match = ATTENTION.match(row["params"])
            if not match or (kind == "attn_prefill" and "[vllm" not in row["params"]):
                continue
            heads, kv_heads, dim, batch = (float(match[g]) for g in (1, 2, 3, 5))
            tokens, causal = float(match[7]), float(kind == "attn_prefill")
            kv_bytes = 1.0 if "kv=fp8" in match[4] else 2.0
            queries = tokens if causal else 1.0
            seconds = float(row["value"]) * 1e-3
            found[chip].append(
                (batch, queries, tokens, heads, kv_heads, dim, kv_bytes, causal, seconds)
            )
    return _tables(found, Cores)


def read_collectives(paths: Sequence[Path]) -> list[Timing]:
    """Collectives inside a node."""
    found = []
    for chip, row in _timings(paths, "collective"):
        if match := COLLECTIVE.match(row["params"]):
            kernel = "engine" if match[1] else "library"
            operation = match[2].replace("alltoall", "all_to_all")
            payload_bytes = int(match[4]) * BYTES_PER_ELEMENT
            seconds = float(row["value"]) * 1e-3
            found.append(Timing(chip, kernel, operation, int(match[3]), payload_bytes, seconds))
    return found


def read_messages(paths: Sequence[Path]) -> dict[tuple[str, str], Messages]:
    """The library's collectives inside a node by (chip, operation).

    A `send` is an all-gather of two, each of which hands its half to the other and copies
    nothing at home.
    """
    found: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    for one in read_collectives(paths):
        if one.kernel != "library":
            continue
        rounds = 2 if one.operation == "all_reduce" else 1
        steps = float(rounds * (one.ranks - 1))
        own = rounds * one.payload_bytes / one.ranks
        sent = own * (one.ranks - 1)
        found[one.chip, one.operation].append((sent, own, steps, one.seconds))
        if one.operation == "all_gather" and one.ranks == 2:
            found[one.chip, "send"].append((sent, 0.0, 1.0, one.seconds))
    for path in paths:
        for row in _rows(path):
            if row["params"] == INSIDE_EXPERTS:
                is_dispatch = row["metric"].startswith("dispatch")
                sent = INSIDE_SENT_BYTES * (DISPATCH_BYTES if is_dispatch else COMBINE_BYTES)
                seconds = sent * 8 / 7 / (float(row["value"]) * 1e9)
                found["B200-SXM", "all_to_all"].append((sent, sent / 7, 1.0, seconds))
    for rack, node in SAME_FABRIC.items():
        for operation in {op for chip, op in found if chip == rack}:
            found[rack, operation] += found.get((node, operation), [])
    return _tables(found, Messages)


def read_dispatches(paths: Sequence[Path], chips: Sequence[str]) -> Messages:
    """Expert dispatch and combine between nodes: bytes that leave the node, per device."""
    found = []
    for chip, row in _timings(paths, "ep_alltoall"):
        match = EXPERTS.match(row["params"])
        if not match or chip not in chips or match[1] == "1":
            continue
        nodes, _, tokens, hidden, top_k = (float(g) for g in match.groups())
        value_bytes = DISPATCH_BYTES if row["metric"] == "dispatch_us" else COMBINE_BYTES
        sent = tokens * top_k * hidden * value_bytes * (1 - 1 / nodes)
        found.append((sent, 0.0, 1.0, float(row["value"]) * 1e-6))
    return Messages(*np.array(found, dtype=float).T)


def read_exchanges(paths: Sequence[Path]) -> list[Exchange]:
    """Dispatches and combines of kernels that are timed from end to end.

    DeepEP's low-latency kernels send one copy for each expert, those of TensorRT-LLM over NVLink
    one for each device that holds one (of evenly random routing). Left out: what plans an exchange
    (`prepare`), what casts on its way (`combine_low_precision`), and rates without a time.
    """
    rows = [row for path in paths for row in _rows(path) if row["kind"] == "ep_alltoall"]
    found = []
    for row in rows:
        sized = LOW_LATENCY.match(row["params"])
        if sized and row["metric"].endswith("_us"):
            ranks, tokens = int(sized[1]), float(sized[2] or DEEPEP_TOKENS)
            width = DISPATCH_BYTES if row["metric"] == "dispatch_us" else COMBINE_BYTES
            seconds = float(row["value"]) * 1e-6
            found.append((row, ranks, NODE_DEVICES, tokens * TOP_K * width, seconds))
        elif match := NVLINK.match(row["params"]):
            ranks, tokens = int(match[3]), float(match[4])
            width = VALUE_BYTES[match[2]] if match[1] == "dispatch" else COMBINE_BYTES
            copies = ranks * (1 - (1 - 1 / ranks) ** TOP_K)
            seconds = float(row["value"]) * 1e-3
            found.append((row, ranks, RACK_DEVICES, tokens * copies * width, seconds))
    return [
        Exchange(EXCHANGE_CHIPS[row["accelerator"]], ranks, domain, values * HIDDEN, seconds)
        for row, ranks, domain, values, seconds in found
    ]


def _timings(paths: Sequence[Path], kind: str) -> Iterable[tuple[str, dict[str, str]]]:
    """Rows of one kind that may be used, with our name of their chip."""
    for path in paths:
        for row in _rows(path):
            if row["kind"] == kind and row["accelerator"] in CHIPS and row.get("use") != "no":
                yield CHIPS[row["accelerator"]], row


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); name a CSV file") from error


def _tables(found: dict[K, list[tuple[float, ...]]], table: Callable[..., C]) -> dict[K, C]:
    return {key: table(*np.array(rows, dtype=float).T) for key, rows in found.items()}


def _nameplate(row: dict[str, str]) -> Nameplate:
    peaks = {p: row[f"{p}_tflop_per_s"] for p in PRECISIONS}
    return Nameplate(
        name=row["name"],
        peak_flop_per_s={p: float(v) * 1e12 for p, v in peaks.items() if v},
        hbm_bytes_per_s=float(row["hbm_gbytes_per_s"]) * 1e9,
        scaleup_bytes_per_s=float(row["scaleup_gbytes_per_s_per_direction"]) * 1e9,
        scaleout_bytes_per_s=float(row["scaleout_gbytes_per_s_per_direction"]) * 1e9,
        tdp_w=_number(row["tdp_w"]),
        idle_w=_number(row["idle_w"]),
        context_w=_number(row["context_w"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
