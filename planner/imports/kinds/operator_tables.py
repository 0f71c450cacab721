"""Operator timings of aiconfigurator-core and its successor: Parquet files of `systems/data`.

A file lies in chip/operator/engine/version, which say what it is of: products (gemm_perf.parquet)
and NCCL's collectives inside a node (nccl_perf.parquet). Latencies are in milliseconds and sizes
in elements of two bytes (tests/truth/README.md). The package's samples of whole runs are not read:
what is measured on them could not be told from what was learnt on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from planner.calibration.engine_timings import PRECISION_OF
from planner.calibration.measured import CHIPS
from planner.imports.found import Found, Given, Rows, told_later
from planner.imports.left_out import message_errors, product_errors
from planner.imports.timed_rows import collective_row, product_row
from simkernel.errors import BadFile

SETTINGS = {"accelerator": "chip, where the folder's name of it is not known"}

SAMPLES = "silicon_sample"
MOST_PRODUCTS = 4_000
"""Of one chip and precision, drawn at random: more do not move a prediction by its spread."""

PRODUCTS = (
    "select gemm_dtype, m, k, n, min(latency) * 1e-3 from read_parquet(?) "
    "where latency > 0 and m > 0 and k > 0 and n > 0 group by all order by all"
)
COLLECTIVES = (
    "select op_name, num_gpus, message_size * 2, min(latency) * 1e-3 from read_parquet(?) "
    "where latency > 0 and message_size > 0 and num_gpus > 1 "
    "and nccl_dtype in ('half', 'bfloat16', 'float16') group by all order by all"
)
OPERATION_OF = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all", "all_to_all": "all_to_all",
}  # fmt: skip


def read(paths: Sequence[Path], given: Given) -> Found:
    """Products and collectives of some files.

    Raises
    ------
    BadFile : every fault of all files
    """
    faults: list[str] = []
    products: Rows = []
    collectives: Rows = []
    for path in paths:
        with told_later(faults):
            chip = _chip(path, given)
            if path.name == "gemm_perf.parquet":
                products += _products(path, chip)
            elif path.name == "nccl_perf.parquet":
                collectives += _collectives(path, chip)
            else:
                raise BadFile(
                    f"{path.name} is not read; give gemm_perf.parquet or nccl_perf.parquet"
                )
    if faults:
        raise BadFile(*faults)
    chips = sorted({row["accelerator"] for row in (*products, *collectives)})
    told: dict[str, Any] = {"products": len(products), "collectives": len(collectives)}
    for chip in chips:
        mine = [row for row in products if row["accelerator"] == chip]
        sent = [row for row in collectives if row["accelerator"] == chip]
        told[chip] = {
            **({"product_errors": product_errors(given.catalog, chip, mine)} if mine else {}),
            **({"message_errors": message_errors(given.catalog, chip, sent)} if sent else {}),
        }
    summary = f"{', '.join(chips)}: {len(products)} products, {len(collectives)} collectives"
    return Found({"product_times": products, "collective_times": collectives}, summary, told)


def _chip(path: Path, given: Given) -> str:
    """The chip whose folder a file is in.

    Raises
    ------
    BadFile : a sample of whole runs, or a folder that is of no chip
    """
    if any(part.startswith(SAMPLES) for part in path.resolve().parts):
        raise BadFile(
            f"{path.name} is a sample of whole runs, by which predictions are judged; give files "
            "of systems/data"
        )
    if given.text("accelerator"):
        return given.catalog.accelerator_name(given.text("accelerator"))
    parts = path.resolve().parts
    label = parts[-5] if len(parts) > 5 else ""
    if label not in CHIPS:
        raise BadFile(
            f"{path.name} is not in CHIP/OPERATOR/ENGINE/VERSION of a chip that is known "
            f"({', '.join(CHIPS)}); give it there, or --set accelerator=NAME"
        )
    return CHIPS[label]


def _query(path: Path, query: str) -> list[tuple[Any, ...]]:
    try:
        with duckdb.connect() as connection:
            return connection.execute(query, [str(path)]).fetchall()
    except duckdb.Error as error:
        first = str(error).splitlines()[0][:120]
        raise BadFile(f"{path.name} is no such table ({first}); give it as shipped") from error


def _products(path: Path, chip: str) -> Rows:
    found: Rows = []
    rows = [row for row in _query(path, PRODUCTS) if row[0] in PRECISION_OF]
    for name in sorted({row[0] for row in rows}):
        mine = [row for row in rows if row[0] == name]
        if len(mine) > MOST_PRODUCTS:
            order = np.random.default_rng(0).permutation(len(mine))[:MOST_PRODUCTS]
            mine = [mine[i] for i in np.sort(order)]
        found += [
            product_row(chip, PRECISION_OF[name], (int(m), int(k), int(n)), "alone", [seconds])
            for _, m, k, n, seconds in mine
        ]
    if not found:
        raise BadFile(
            f"{path.name} has no products in a precision that is known "
            f"({', '.join(PRECISION_OF)}); give it as shipped"
        )
    return found


def _collectives(path: Path, chip: str) -> Rows:
    found = [
        collective_row(chip, OPERATION_OF[name], (int(ranks), 1), int(size), [seconds])
        for name, ranks, size, seconds in _query(path, COLLECTIVES)
        if name in OPERATION_OF
    ]
    if not found:
        raise BadFile(
            f"{path.name} has no collectives of an operation and type that are known "
            f"({', '.join(OPERATION_OF)} in 16 bits); give it as shipped"
        )
    return found
