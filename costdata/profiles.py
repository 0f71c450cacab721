"""Profiles: what kinds of software stack reach of a chip's kernels and keep in its memory.

profiles.csv has one row per kind of stack, sustained.csv one per chip, architecture or all chips:
what matrix products reach inside a whole step. Both are fitted on published runs (planner.
profile_fit). keeping.csv and reserve.csv say what a stack and the runtime of a chip hold of the
memory; they are read in the software, not fitted. Which stack a buyer will run is not known here;
"shipped" takes the newest one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from costdata.facts import ALL_ROWS, Row, Tables
from simkernel.columns import Column
from simkernel.errors import MissingFact, unknown
from simkernel.keeping import Keeping
from simkernel.stack import Stack

SHIPPED = "shipped"
UNFUSED, COMPILED, VENDOR, XLA = "unfused_2020", "compiled_2023", "vendor_2026", "xla"
HOPPER = "hopper_2025"
"""Kernels written for Hopper and published: FlashAttention-3, DeepGEMM, DeepEP, DualPipe."""

AS_IS = (
    "contention_frac", "grouped_frac", "wide_grouped_frac", "stream_passes", "straggler_frac",
    "dense_host_s", "tensor_host_frac", "narrow_attention_frac",
)  # fmt: skip
"""Columns of profiles.csv that are fields of a Stack as they stand."""

MATURING = (
    "permute_passes", "exchange_frac", "bias_passes", "moe_host_s", "expert_host_s",
)  # fmt: skip
"""Columns whose value shrinks with every year of releases."""

CORE_BY_THEN = ("ampere", "volta")
"""Architectures whose best attention kernel (FlashAttention-2) every fused stack has; later chips
had to wait for theirs (FlashAttention-3, arXiv 2407.08608)."""


def profile_names(tables: Tables) -> tuple[str, ...]:
    """Names a study may give, the default first."""
    return (SHIPPED, *(key[0] for key in tables["profiles"]))


def stack_of(tables: Tables, profile: str, chip: Row, release_year: float | None = None) -> Stack:
    """The stack of a profile on a chip.

    Parameters
    ----------
    profile : name in profiles.csv, or "shipped": XLA on a TPU, else the vendor's newest
    chip : row of accelerators.csv
    release_year : of another release than the row's, in years after 2000

    Raises
    ------
    UnknownName : no such profile
    MissingFact : sustained.csv has no row for the chip, its architecture or all chips, or the
        kernels of the profile are written for chips of another architecture
    """
    name = _named(tables, profile, chip)
    _refuse_other_chips(tables["profiles"][(name,)], chip)
    row, reach = tables["profiles"][(name,)], sustained_row(tables, chip)
    numbers: dict[str, Column] = {column: row.need(column) for column in NUMBERS}
    flags = {column: row.text(column) == "yes" for column in FLAGS}
    newest = row.number("release")
    release = newest if release_year is None else 2000.0 + release_year
    older = 0.0 if newest is None or release is None else newest - release
    stack = joined(
        {**numbers, **flags},
        {column: reach.need(column) for column in REACHED},
        architecture=chip.text("architecture"),
        maturity_frac=math.exp(row.need("matures_per_year") * older),
    )
    since = row.number("one_graph_from")
    is_new = release is not None and since is not None and release >= since
    return replace(stack, is_one_graph=is_new)


def _refuse_other_chips(row: Row, chip: Row) -> None:
    """Kernels that do not run on a chip."""
    made_for, architecture = row.text("made_for"), chip.text("architecture")
    if made_for and made_for != architecture:
        raise MissingFact(
            f"profile {row.name} is of kernels written for {made_for} chips; {chip.name} is of "
            f"{architecture}: name {made_for} chips alone, or another profile"
        )


FLAGS = ("is_attention_fused", "overlaps_data", "overlaps_tensor", "sends_once", "cuts_evenly")
NUMBERS = (*AS_IS, *MATURING, "product_frac", "attention_frac", "lagging_attention_frac")
REACHED = ("gemm_frac", "narrow_gemm_frac")


def sustained_row(tables: Tables, chip: Row) -> Row:
    """What products reach on a chip inside a step: its own row, its architecture's, or all's.

    Raises
    ------
    MissingFact : none of the three is there
    """
    scopes = (chip.name, chip.text("architecture"), ALL_ROWS)
    for scope in scopes:
        if (scope,) in tables["sustained"]:
            return tables["sustained"][(scope,)]
    raise MissingFact(f"sustained.csv has no row for any of {', '.join(scopes)}; add one")


def joined(
    profile: Mapping[str, Column],
    reach: Mapping[str, Any],
    *,
    architecture: str,
    maturity_frac: Column = 1.0,
) -> Stack:
    """A stack from the cells of its two rows.

    Parameters
    ----------
    profile : FLAGS and NUMBERS by column name
    reach : REACHED by column name
    architecture : decides whether the stack's attention kernel was made for the chip
    maturity_frac : of the MATURING figures, for a release older than the profile's
    """
    lag = 1.0 if architecture in CORE_BY_THEN else profile["lagging_attention_frac"]
    cells: dict[str, Any] = {name: bool(profile[name]) for name in FLAGS}
    cells |= {name: profile[name] for name in AS_IS}
    cells |= {name: profile[name] * maturity_frac for name in MATURING}
    cells |= {name: reach[name] * profile["product_frac"] for name in REACHED}
    return Stack(**cells, attention_frac=profile["attention_frac"] * lag)


def keeping_of(tables: Tables, profile: str, chip: Row) -> Keeping:
    """In which form a profile's software keeps what is trained, on a chip.

    Parameters
    ----------
    profile, chip : as in `stack_of`

    Raises
    ------
    UnknownName : no such profile
    """
    name = _named(tables, profile, chip)
    if (name,) not in tables["keeping"]:
        raise unknown("profile in keeping.csv", name, (key[0] for key in tables["keeping"]))
    row = tables["keeping"][(name,)]
    cells: dict[str, Any] = {column: row.need(column) for column in KEPT_BYTES}
    cells |= {column: row.text(column) == "yes" for column in KEPT_FLAGS}
    return Keeping(**cells)


KEPT_BYTES = ("gradient_bytes", "optimiser_bytes", "logit_bytes", "narrow_copies", "gate_bytes")
KEPT_FLAGS = ("has_weight_copy", "is_narrow_alone", "keeps_combined")


def reserve_row(tables: Tables, chip: Row) -> Row | None:
    """What a chip's runtime takes, its own or its architecture's; None for the planning figure."""
    rows = tables["reserve"]
    found = (rows.get((scope,)) for scope in (chip.name, chip.text("architecture")))
    return next((row for row in found if row is not None), None)


def _named(tables: Tables, profile: str, chip: Row) -> str:
    """The row of profiles.csv that a study's word stands for."""
    name = profile
    if profile == SHIPPED:
        name = XLA if chip.text("architecture") == "tpu" else VENDOR
    if (name,) not in tables["profiles"]:
        raise unknown("profile", profile, profile_names(tables))
    return name
