"""Fit the profiles: one set of global parameters that makes published training runs come out.

`python -m planner.calibration.profile_fit tests/truth/train.csv` writes profiles.csv,
sustained.csv and the column `fitted` of rules/profile_parameters.csv; with `--check` it compares
them instead.

A parameter belongs to a kind of stack, to an architecture or to all; none belongs to a source, a
model or a row. Each starts from a prior with a reason and moves as far as the runs pull it, and
as far as the slopes of their scaling pairs do, in which what a source is missed by cancels. Which
parameters there are, and some priors, were chosen with the runs in sight: a source left out of a
fit had its say in that. Gauss-Newton steps on the logarithms of predicted over measured speed.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from costdata.facts import ALL_ROWS
from costdata.profiles import (
    COMPILED,
    FLAGS,
    HOPPER,
    NUMBERS,
    REACHED,
    UNFUSED,
    VENDOR,
    XLA,
    joined,
)
from planner.calibration.curves import rounded
from planner.calibration.kernels import TABLES, Row, write_or_check
from planner.validation.rows import chosen, read_truth
from planner.validation.scaling import contrasts
from planner.validation.training import Block, Prediction, blocks_of, speeds, validate
from simkernel.columns import Codes, Column, Floats
from simkernel.stack import Stack

PARAMETERS = "rules/profile_parameters.csv"
SCALE_LOG = 0.12
"""Spread of a good prediction: errors of one run that no parameter should chase."""

FAR_SCALES = 1.5
"""Beyond so many spreads a row pulls with a constant force (Huber 1964, Robust Estimation of a
Location)."""

CORE_WEIGHT, OTHER_WEIGHT = 1.0, 0.25
"""Rows of the balanced core against the many alike ones beside it."""

PAIR_LOG = 0.04
"""Spread of a good slope: two runs of one configuration share their source, stack and chip."""

STEPS, LARGEST_STEP_LOG, NUDGE_LOG = 8, 0.5, 0.02

KINDS: Mapping[str, Mapping[str, bool]] = {
    UNFUSED: {
        "is_attention_fused": False, "overlaps_data": False, "overlaps_tensor": False,
        "sends_once": False, "cuts_evenly": True,
    },
    COMPILED: {
        "is_attention_fused": True, "overlaps_data": True, "overlaps_tensor": False,
        "sends_once": False, "cuts_evenly": False,
    },
    VENDOR: {
        "is_attention_fused": True, "overlaps_data": True, "overlaps_tensor": True,
        "sends_once": True, "cuts_evenly": False,
    },
    HOPPER: {
        "is_attention_fused": True, "overlaps_data": True, "overlaps_tensor": False,
        "sends_once": True, "cuts_evenly": False,
    },
    XLA: {
        "is_attention_fused": True, "overlaps_data": True, "overlaps_tensor": True,
        "sends_once": False, "cuts_evenly": False,
    },
}  # fmt: skip
"""What each kind of stack does. Megatron-LM of 2020-22 fuses and overlaps nothing, and takes only
layers that its stages divide (v2.5, megatron/model/transformer.py, _get_num_layers); compiled
PyTorch and its kin have flash attention and run data-parallel traffic beside the passes; vendor
containers (Transformer Engine's user buffers) and XLA (collective matmul) the tensor-parallel
traffic as well. The vendor's performance recipes dispatch with DeepEP or Hybrid-EP and reduce
gradients in 16 bits (NVIDIA-NeMo/Megatron-Bridge v0.2.0 to v0.6.0, moe_flex_dispatcher_backend,
grad_reduce_in_fp32)."""

NEWEST_RELEASE = 26 + 7 / 12
"""Of the vendor's releases among the runs, in years after 2000; the shipped row is for it."""

SHARED = ("contention_frac", "grouped_frac", "bias_passes", "stream_passes", "permute_passes")
"""Columns with one value for all fused stacks."""

ONE_GRAPH_FROM = 2026.58
"""The vendor's release whose recipes for experts run the exchange beside another micro-batch, the
step as one graph and the activation inside the grouped products: 26.08 (NVIDIA-NeMo/
Megatron-Bridge v0.6.0, src/megatron/bridge/perf_recipes: overlap_moe_expert_parallel_comm,
cuda_graph_impl full_iteration, use_transformer_engine_op_fuser); in v0.5.0 some of them."""

NARROW_ATTENTION_FRAC = 1.18
"""Attention in 8 bits over 16 bits on B200, 4 sequences of 4,096 tokens: 1.243 over 1.057 ms
(tests/truth/microbench.csv, attn_prefill). The recipes of ONE_GRAPH_FROM that take MXFP8 set
fp8_dot_product_attention, but for DeepSeek-V3 on GB200."""

TENSOR_HOST_FRAC = 0.012
"""Launch time more for every pair of tensor ranks whose hosts have to meet in the unfused stack:
vTrain's layers of 1,024 values take 3.0 ms on one rank, 3.3 on two, 3.4 on four and 3.6 to 5.0 on
eight, however small the work."""

HOPPER_KERNELS: Mapping[str, Column] = {
    "contention_frac": 20 / 132, "grouped_frac": 1.0, "attention_frac": 0.925,
}  # fmt: skip
"""Kernels published for Hopper, from figures of single kernels; no run is fitted. The exchange
takes 20 of 132 processors (DeepSeek-V3 report, section 3.2.2; products run in 112 blocks in the
trace of deepseek-ai/profile-data, train.json). Grouped fp8 products are as fast as single ones:
1,297 and 1,304 TFLOP/s (deepseek-ai/DeepGEMM, first README, 8,192 rows a group and 4,096 rows, N
4096, K 7168). The trace names FlashAttention-3's core; 1.24 ms forward and 4.25 ms backward, what
prepares and ends it included, for 4,096 tokens are 0.925 of the isolated core's rate."""

DENSE_HOST_S, MOE_HOST_S = 0.0005, 0.004
"""Launches of fused stacks that no run among the published ones comes near: planning estimates."""


@dataclass(frozen=True)
class Priors:
    """Names, prior logarithms, their spreads, and the shipped fit; (k,) each.

    `rows` are those of the table, for writing it again.
    """

    names: tuple[str, ...]
    centres: Floats
    spreads: Floats
    shipped: Floats
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Fitted:
    """Logarithms of the parameters (k,) and what they leave of each row (n,)."""

    logs: Floats
    residuals: Floats


def read_priors(folder: Path = TABLES) -> Priors:
    """The table of parameters."""
    with (folder / PARAMETERS).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Priors(
        names=tuple(row["parameter"] for row in rows),
        centres=np.log([float(row["prior"]) for row in rows]),
        spreads=np.array([float(row["spread_log"]) for row in rows]),
        shipped=np.log([float(row["fitted"]) for row in rows]),
        rows=tuple({**row} for row in rows),
    )


class Values:
    """Parameters by name; a number each, or one per row of a block."""

    def __init__(self, names: Sequence[str], values: Floats) -> None:
        self._of = dict(zip(names, values, strict=True))

    def __call__(self, name: str, *scopes: str) -> Column:
        """Product of a parameter over those of the scopes that have one."""
        found: Column = 1.0
        for scope in dict.fromkeys(scopes):
            found = found * self._of.get(f"{name}.{scope}", 1.0)
        return found


def profile_cells(values: Values, kind: str) -> dict[str, Column]:
    """A kind's row of profiles.csv, names and sources aside."""
    cells: dict[str, Column] = dict(KINDS[kind])
    cells |= {"lagging_attention_frac": values("lagging_attention_frac", kind)}
    cells |= {"straggler_frac": values("straggler_frac", "all"), "exchange_frac": 1.0}
    cells |= {"product_frac": values("product_frac", kind)}
    cells |= {"narrow_attention_frac": NARROW_ATTENTION_FRAC if kind == VENDOR else 1.0}
    if kind == UNFUSED:
        host_s = values("dense_host_s", kind)
        return cells | {
            "contention_frac": 0.0, "grouped_frac": 1.0, "wide_grouped_frac": 1.0,
            "permute_passes": 1.0, "bias_passes": 0.0, "expert_host_s": 0.0,
            "attention_frac": values("attention_frac", kind),
            "stream_passes": values("stream_passes", kind),
            "dense_host_s": host_s, "moe_host_s": host_s, "tensor_host_frac": TENSOR_HOST_FRAC,
        }  # fmt: skip
    cells |= {name: values(name, "fused") for name in SHARED}
    cells |= {"attention_frac": values("attention_frac", "fused", kind)}
    cells |= {"tensor_host_frac": 0.0}
    cells |= {"wide_grouped_frac": cells["grouped_frac"] if kind == XLA else 1.0}
    if kind == XLA:
        cells |= {"contention_frac": 0.0}
    if kind == HOPPER:
        cells |= HOPPER_KERNELS
    return cells | _launches(values, kind)


def _launches(values: Values, kind: str) -> dict[str, Column]:
    """Launch times of a fused stack; XLA runs a step as one program."""
    if kind == XLA:
        return {"dense_host_s": 0.0, "moe_host_s": 0.0, "expert_host_s": 0.0}
    if kind in (COMPILED, HOPPER):
        return {"dense_host_s": DENSE_HOST_S, "moe_host_s": MOE_HOST_S, "expert_host_s": 0.0}
    timed = {n: values(n, kind) for n in ("moe_host_s", "expert_host_s")}
    return {"dense_host_s": DENSE_HOST_S, **timed}


def sustained_cells(values: Values, accelerator: str, architecture: str) -> dict[str, Column]:
    """What products of a chip reach inside a step."""
    if architecture == "tpu":
        both = values("gemm_frac", architecture, accelerator)
        return {"gemm_frac": both, "narrow_gemm_frac": both}
    return {name: values(name, ALL_ROWS, architecture) for name in REACHED}


def stack_of_block(values: Values, block: Block) -> Stack:
    """The stack of a block of rows, all of one kind and architecture."""
    aged: Column = 1.0
    if block.kind == VENDOR:
        years = NEWEST_RELEASE - block.release
        aged = np.exp(values("matures_per_year", block.kind) * years)
    stack = joined(
        profile_cells(values, block.kind),
        sustained_cells(values, block.accelerator, block.architecture),
        architecture=block.architecture,
        maturity_frac=aged,
    )
    data, tensor, exchange = block.overlaps
    return replace(stack, overlaps_data=data, overlaps_tensor=tensor, is_one_graph=exchange)


@dataclass(frozen=True)
class Problem:
    """Rows in blocks, what was measured, and the priors; everything a fit looks at.

    `weights` (n,) hold 0 for rows that are left out; `contrasts` (pairs, n) are those of
    `planner.validation.scaling`.
    """

    blocks: tuple[Block, ...]
    measured: Floats
    weights: Floats
    contrasts: Floats
    priors: Priors

    def without(self, is_out: Codes) -> Problem:
        """The same with some rows left out."""
        return replace(self, weights=np.where(is_out, 0.0, self.weights))

    def residuals(self, logs: Floats) -> Floats:
        """log(predicted / measured) of every row; (n,)."""
        found = np.zeros(len(self.measured))
        for block in self.blocks:
            stack = stack_of_block(Values(self.priors.names, np.exp(logs)), block)
            found[block.rows] = np.log(speeds(block, stack) / self.measured[block.rows])
        return found

    def slopes(self, logs: Floats) -> tuple[Floats, Floats]:
        """Residuals (n,) and their derivatives by each parameter (n, k).

        Every block is priced once, its rows repeated with one parameter nudged at a time.
        """
        count = len(logs)
        residuals = np.zeros(len(self.measured))
        slopes = np.zeros((len(self.measured), count))
        for block in self.blocks:
            mine = len(block.rows)
            nudged = np.exp(logs[:, None] + NUDGE_LOG * np.eye(count, count + 1, 1))
            values = Values(self.priors.names, np.repeat(nudged, mine, axis=1))
            many = block.repeated(count + 1)
            found = np.log(speeds(many, stack_of_block(values, many))).reshape(count + 1, mine)
            residuals[block.rows] = found[0] - np.log(self.measured[block.rows])
            slopes[block.rows] = ((found[1:] - found[0]) / NUDGE_LOG).T
        return residuals, slopes


def read_problem(truth: Sequence[Path], catalog: Catalog) -> Problem:
    """The fit of all usable speeds in some files of training measurements.

    Raises
    ------
    BadFile : a file that cannot be read
    """
    found = validate(chosen(read_truth(truth), []), catalog).predictions
    return problem_of([p for p in found if p.metric == "throughput"], catalog)


def problem_of(runs: Sequence[Prediction], catalog: Catalog) -> Problem:
    """The fit of some predicted speeds."""
    is_core = np.array([p.row.text("core") == "yes" for p in runs])
    weights = np.where(is_core, CORE_WEIGHT, OTHER_WEIGHT)
    measured = np.array([p.measured for p in runs])
    return Problem(blocks_of(runs, catalog), measured, weights, contrasts(runs), read_priors())


def fit(problem: Problem, start: Floats | None = None, steps: int = STEPS) -> Fitted:
    """Parameters of the least weighted squares, priors included.

    Parameters
    ----------
    start : logarithms to begin at; the priors if not given
    """
    logs = problem.priors.centres if start is None else start
    for _ in range(steps):
        residuals, slopes = problem.slopes(logs)
        step = _gauss_newton(problem, logs, residuals, slopes)
        logs = logs + np.clip(step, -LARGEST_STEP_LOG, LARGEST_STEP_LOG)
    return Fitted(logs, problem.residuals(logs))


def _gauss_newton(problem: Problem, logs: Floats, residuals: Floats, slopes: Floats) -> Floats:
    """One step of iteratively reweighted least squares with normal priors."""
    prior = 1.0 / problem.priors.spreads**2
    matrix, force = np.diag(prior), prior * (logs - problem.priors.centres)
    pairs, is_whole = problem.contrasts, (problem.contrasts == 0.0) | (problem.weights > 0.0)
    parts = (
        (residuals, slopes, problem.weights, SCALE_LOG),
        (pairs @ residuals, pairs @ slopes, is_whole.all(axis=1) * 1.0, PAIR_LOG),
    )
    for missed, by_parameter, weights, scale in parts:
        far = np.maximum(1.0, np.abs(missed) / (FAR_SCALES * scale))
        pull = (weights / far / scale**2)[:, None] * by_parameter
        matrix, force = matrix + by_parameter.T @ pull, force + pull.T @ missed
    return -np.linalg.solve(matrix, force)


def tables(fitted: Floats, priors: Priors) -> dict[str, list[Row]]:
    """The three tables of fitted logarithms, which are rounded first."""
    held = np.array([rounded(value) for value in np.exp(fitted)])
    values = Values(priors.names, held)
    found = zip(priors.rows, held, strict=True)
    return {
        PARAMETERS: [{**row, "fitted": float(value)} for row, value in found],
        "profiles.csv": [_profile_row(values, kind) for kind in KINDS],
        "sustained.csv": [_sustained_row(values, scope) for scope in _scopes(priors)],
    }


def _scopes(priors: Priors) -> list[str]:
    """Scopes of sustained.csv, all chips first."""
    named = [n.split(".", 1)[1] for n in priors.names if n.startswith("gemm_frac.")]
    return [ALL_ROWS, *(scope for scope in named if scope != ALL_ROWS)]


def _profile_row(values: Values, kind: str) -> Row:
    cells = profile_cells(values, kind)
    years = values("matures_per_year", kind) if kind == VENDOR else 0.0
    row: Row = {"profile": kind}
    row |= {name: "yes" if cells[name] else "no" for name in FLAGS}
    row |= {"made_for": "hopper" if kind == HOPPER else ""}
    row |= {name: rounded(cells[name]) for name in NUMBERS}
    row |= {"matures_per_year": rounded(years)}
    row |= {"release": f"{2000 + NEWEST_RELEASE:.4f}" if kind == VENDOR else ""}
    row |= {"one_graph_from": f"{ONE_GRAPH_FROM:.2f}" if kind == VENDOR else ""}
    return row | _origin(SPARSE.get(kind, ""))


def _sustained_row(values: Values, scope: str) -> Row:
    architecture = "tpu" if scope.startswith(("tpu", "TPU")) else scope
    accelerator = scope if scope.startswith("TPU") else ""
    cells = sustained_cells(values, accelerator, architecture)
    return {"scope": scope} | {n: rounded(v) for n, v in cells.items()} | _origin("")


SPARSE = {
    COMPILED: "launch times and experts rest on priors: no published run of this kind binds them",
    HOPPER: "attention, grouped products and contention are those of published kernels",
}


def _origin(note: str) -> Row:
    return {
        "source": "fitted: planner.calibration.profile_fit on tests/truth/train.csv",
        "as_of": "2026-11",
        "grade": "estimate",
        "licence": "MIT",
        "note": note,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped tables differ or a file is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.profile_fit", description=__doc__
    )
    parser.add_argument("truth", nargs="+", type=Path, help="files of training measurements")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    given = parser.parse_args(arguments)

    def make() -> dict[str, list[Row]]:
        problem = read_problem(given.truth, catalogue.load())
        return tables(fit(problem).logs, problem.priors)

    return write_or_check(make, TABLES, only_check=given.check)


if __name__ == "__main__":
    sys.exit(main())
