"""Which kind of software stack a published run had: what its row states, else a stated default.

The rule, made with scores of earlier versions in sight: the column `stack` where it names the
unfused stack of 2020-22; a vendor's release where the row names one; XLA on a TPU; the unfused
stack where the source is of 2022 or earlier; the kernels that were published with DualPipe where a
run on Hopper names it; else a compiled stack of its year. What a stack
overlaps is its kind's, and what the notes (async TP) or the recipe (one graph) of a row say.
"""

from __future__ import annotations

import csv
import re
from functools import cache

from costdata.profiles import COMPILED, HOPPER, UNFUSED, VENDOR, XLA
from planner.calibration.kernels import TABLES
from planner.validation.faults import RELEASE, UNFUSED_ATTENTION, UNKNOWN
from planner.validation.rows import TruthRow

LAST_UNFUSED_YEAR = 2022
"""Year of FlashAttention (arXiv 2205.14135); stacks of published runs took it up after it."""
YEAR = re.compile(r"\b20[12]\d\b")
NOT_OVERLAPPED = re.compile(r"\bwithout (custom )?overlap\b", re.IGNORECASE)
DUAL_PIPE = re.compile(r"dual[ _-]?pipe", re.IGNORECASE)
ASYNC_TENSOR = re.compile(r"\basync ?tp\b", re.IGNORECASE)


def stack_kind(row: TruthRow, architecture: str) -> str:
    """Name in profiles.csv of the kind of stack a run had."""
    if not is_attention_fused(row):
        return UNFUSED
    if architecture == "tpu":
        return XLA
    if release_year(row) is not None:
        return VENDOR
    return HOPPER if architecture == "hopper" and names_dual_pipe(row) else COMPILED


def release_year(row: TruthRow) -> float | None:
    """Release of the vendor's container, in years after 2000; None where none is named."""
    found = RELEASE.fullmatch(row.text("software_release"))
    return int(found[1]) + (int(found[2]) - 1) / 12 if found else None


def is_attention_fused(row: TruthRow) -> bool:
    """Whether the run had flash-type attention: `stack`, else by the year its source names."""
    if row.text("stack") not in ("", UNKNOWN):
        return not UNFUSED_ATTENTION.search(row.text("stack"))
    years = [int(year) for year in YEAR.findall(row.text("source"))]
    return not years or max(years) > LAST_UNFUSED_YEAR


def names_dual_pipe(row: TruthRow) -> bool:
    """Whether a row names the schedule that came with kernels of its own."""
    return bool(DUAL_PIPE.search(row.text("schedule") or row.text("notes")))


def overlaps_tensor(row: TruthRow) -> bool:
    """Whether a row says that tensor traffic was cut up and run beside its products."""
    return bool(ASYNC_TENSOR.search(row.text("notes")))


def overlaps_data(row: TruthRow) -> bool:
    """Whether data-parallel traffic may have run beside the passes: unless a row denies it."""
    return not NOT_OVERLAPPED.search(row.text("notes"))


def is_of_maxtext(row: TruthRow) -> bool:
    """Whether a run was one of MaxText's own."""
    return row.text("source").startswith("MaxText")


def is_one_graph(row: TruthRow) -> bool:
    """Whether the vendor's recipe of a row made its step one graph before all recipes did.

    From `one_graph_from` of profiles.csv on all recipes do; rules/one_graph_recipes.csv lists
    those of the release before.
    """
    return tuple(row.text(name) for name in RECIPE) in _one_graph_recipes()


RECIPE = ("software_release", "accelerator", "model", "precision")


@cache
def _one_graph_recipes() -> frozenset[tuple[str, ...]]:
    with (TABLES / "rules" / "one_graph_recipes.csv").open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        names = ("release", *RECIPE[1:])
        return frozenset(tuple(row[name] for name in names) for row in rows)


def routes_freely(row: TruthRow) -> bool:
    """Whether a run's router chose its experts as it learnt to: a whole training run.

    Benchmarks force the router to balance (moe_router_force_load_balancing in the recipes of
    NVIDIA-NeMo/Megatron-Bridge) or route what no one has trained.
    """
    return row.text("metric").startswith("gpu_hours")
