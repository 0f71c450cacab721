"""Rows of part_times.csv from the step of a trace, where it may stand for a whole model."""

from __future__ import annotations

import numpy as np

from planner.imports.found import Rows
from planner.imports.steps.model_work import part_seconds, part_work
from planner.imports.steps.report import fit_of
from planner.imports.steps.timeline import Timeline
from simkernel.hardware import Chips
from simkernel.models import Model

MATCHED_FRAC = 0.9
"""Of the time of products, what has to be with the model's weights; own choice: a model cut over
tensor ranks has other extents throughout."""

OPTIMISER = "optimiser"


def why_not(line: Timeline, model: Model) -> str:
    """Why the parts of a step price no other plan, in words; "" where they do."""
    fit = fit_of(line, model)
    if not line.batch.sequences or not line.batch.sequence_tokens:
        return "no embedding or attention with its shape says how many sequences a step has"
    if not any(ran.is_backward for ran in line.step.products):
        return "it has no backward pass: it is no training step"
    if fit.matched_frac < MATCHED_FRAC:
        return f"{fit.matched_frac:.0%} of the time of products is with weights of {model.name}"
    found = len(fit.layers_s) / max(line.batch.micro_batches, 1.0) / line.step.steps
    if round(found, 6) != model.layers:
        return f"{found:g} layers were found, {model.name} has {model.layers}"
    if is_run_again(line):
        return "activations are recomputed: the backward pass holds forward work"
    return ""


def is_run_again(line: Timeline) -> bool:
    """An attention core runs forward inside the backward pass."""
    names = list(line.calls.names)
    codes = np.frombuffer(line.calls.name_codes, dtype=np.int64)
    again = {names[code] for code in np.unique(codes[line.sorted.is_backward])}
    return any(
        name.startswith("aten::_") and "attention" in name and "backward" not in name.lower()
        for name in again
    )


def part_rows(accelerator: str, chips: Chips, line: Timeline, model: Model, ranks: int) -> Rows:
    """One row a part.

    Parameters
    ----------
    accelerator : its name in the catalogue
    chips : one row, by its curves alone
    ranks : that the run had: of several the optimiser's state may be shared out, and is left out
    """
    batch, seconds = line.batch, part_seconds(line.step)
    work = part_work(chips, model, batch)
    return [
        {
            "accelerator": accelerator,
            "part": part,
            "model": model.name,
            "sequences": str(batch.sequences),
            "tokens_per_sequence": str(batch.sequence_tokens),
            "passes": f"{work[part].passes:g}",
            "flop": f"{work[part].flop:.6g}",
            "moved_bytes": f"{work[part].moved_bytes:.6g}",
            "seconds": f"{seconds[part]:.6g}",
            "timings": str(line.step.steps),
        }
        for part in seconds
        if part in work and (part != OPTIMISER or ranks == 1)
    ]


def middle_rows(rows: Rows) -> Rows:
    """One row a part, model and shape: of several traces the one with the middle time."""
    groups: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in KEY), []).append(row)
    return [
        sorted(group, key=lambda row: float(row["seconds"]))[len(group) // 2]
        for group in groups.values()
    ]


KEY = ("accelerator", "part", "model", "sequences", "tokens_per_sequence")
