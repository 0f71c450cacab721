"""What `planner extrapolate` answers: the step of a trace at another shape on the same device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costdata.catalog import load
from costdata.configs import read_model
from planner.imports.found import Given
from planner.imports.kinds.kineto import read_timeline
from planner.imports.steps.own_device import own_device, step_on
from planner.imports.steps.part_rows import why_not
from planner.imports.steps.recognised import Batch
from simkernel.columns import Column
from simkernel.errors import BadFile, BadStudy, unknown
from simkernel.ledger import Ledger

SHAPE = {
    "micro_batch_sequences": "sequences of a micro-batch",
    "tokens_per_sequence": "tokens of a sequence",
    "micro_batches": "micro-batches of a step",
}
"""What of a step's shape may be another, each with its meaning."""

SHORT = {"mbs": "micro_batch_sequences"}


def extrapolated(
    path: Path, model: str, other: str | None, settings: Sequence[str]
) -> dict[str, Any]:
    """The step of a trace, again and at another shape.

    Parameters
    ----------
    model, other : that was trained, and that is to be: names of the catalogue or config.json
    settings : NAME=COUNT, names of SHAPE; what is not given is as in the trace

    Raises
    ------
    BadFile : a trace that cannot be read, or whose step cannot stand for the model
    BadStudy, UnknownName : a setting or a model that is none
    """
    catalog = load(None)
    given = Given(catalog, {})
    trained, wanted = (
        read_model(catalog.resolve("model", name) or name) for name in (model, other or model)
    )
    line = read_timeline(path, given)
    if why := why_not(line, trained):
        raise BadFile(f"{path.name} stands for no other step: {why}")
    batch = _shape(line.batch, settings)
    chips = own_device(line.step, line.batch, trained)
    own, there = step_on(chips, trained, line.batch), step_on(chips, wanted, batch)
    return {
        "trace": path.name,
        "recorded": {"model": trained.name, **_batch(line.batch), "step_s": line.step_s},
        "recognised_frac": line.step.recognised_frac,
        "same_step_s": _first(own.time.total),
        "asked": {"model": wanted.name, **_batch(batch)},
        "step_s": _first(there.time.total),
        "timed_frac": _first(there.timed_frac),
        "terms_s": _terms(there.time),
    }


def extrapolated_text(document: Mapping[str, Any]) -> str:
    """What was recorded, what is asked, and what it is made of."""
    recorded, asked = document["recorded"], document["asked"]
    lines = [
        f"recorded: {_shown(recorded)}: {recorded['step_s']:.4g} s "
        f"({document['recognised_frac']:.1%} recognised; from its parts "
        f"{document['same_step_s']:.4g} s)",
        f"asked:    {_shown(asked)}: {document['step_s']:.4g} s "
        f"(times speak for {document['timed_frac']:.0%} of its products)",
    ]
    whole = document["step_s"]
    for name, seconds in document["terms_s"].items():
        lines.append(f"  {name:22} {seconds:10.4g} s  {seconds / whole:6.1%}")
    return "\n".join(lines)


def _shape(batch: Batch, settings: Sequence[str]) -> Batch:
    given: dict[str, int] = {}
    for setting in settings:
        word, sign, text = (part.strip() for part in setting.partition("="))
        name = SHORT.get(word, word)
        if name not in SHAPE:
            raise unknown("part of a step's shape", word, tuple(SHAPE))
        if not sign or not text.isdecimal() or not 1 <= int(text) <= MOST:
            raise BadStudy(
                f"--set {setting}: wanted a whole number from 1 to {MOST:,}, as in {name}=8"
            )
        given[name] = int(text)
    return Batch(
        float(given.get("micro_batches", max(batch.micro_batches, 1.0))),
        given.get("micro_batch_sequences", batch.sequences),
        given.get("tokens_per_sequence", batch.sequence_tokens),
    )


MOST = 10**7
"""Of sequences, tokens or micro-batches: more is a slip; own choice."""


def _batch(batch: Batch) -> dict[str, Any]:
    counts = (batch.sequences, batch.sequence_tokens, max(batch.micro_batches, 1.0))
    return dict(zip(SHAPE, counts, strict=True))


def _shown(one: Mapping[str, Any]) -> str:
    return (
        f"{one['model']}, {one['micro_batches']:g} x {one['micro_batch_sequences']} sequences of "
        f"{one['tokens_per_sequence']} tokens"
    )


def _first(column: Column) -> float:
    """Of the one row that there is."""
    return float(np.ravel(column)[0])


def _terms(step: Ledger) -> dict[str, float]:
    """Terms that take time, the longest first [s]."""
    terms = {name: _first(value) for name, value in step.terms.items()}
    return dict(sorted(((n, s) for n, s in terms.items() if s > 0.0), key=lambda one: -one[1]))
