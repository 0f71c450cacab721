"""What was recognised of a step, as a document: its parts, its model, what is left over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.imports.kernel_kinds import COMMUNICATION, PRODUCT
from planner.imports.steps.operators import NOBODY
from planner.imports.steps.products import HEAD, Known, match, shape_of, weights_of
from planner.imports.steps.recognised import Ran, product_owners
from planner.imports.steps.sorting import HOST, PARTS
from planner.imports.steps.timeline import Timeline
from simkernel.columns import Floats
from simkernel.models import Model

MOST_TOLD = 8
"""Of what was not recognised, the longest."""


def told(line: Timeline, model: Model | None) -> dict[str, Any]:
    """Parts of a step with their share, and how it fits a model.

    Parameters
    ----------
    model : that was trained, None where nobody said
    """
    step, batch = line.step, line.batch
    parts = _parts_s(line, model)
    document: dict[str, Any] = {
        "device": "host" if line.is_host else "accelerator",
        "steps": step.steps,
        "step_s": line.step_s,
        "micro_batches": batch.micro_batches,
        "micro_batch_sequences": batch.sequences,
        "tokens_per_sequence": batch.sequence_tokens,
        "recognised_frac": step.recognised_frac,
        "parts": {
            part: {"forward_s": s[0], "backward_s": s[1], "time_frac": sum(s) / step.total_s}
            for part, s in sorted(parts.items(), key=lambda one: -sum(one[1]))
        },
    }
    lost = sorted(step.strangers_s.items(), key=lambda one: -one[1])
    if lost:
        document["not_recognised_s"] = {name[:80]: s for name, s in lost[:MOST_TOLD]}
    if model is not None:
        document["model"] = _fit_told(line, model)
    return document


def _parts_s(line: Timeline, model: Model | None) -> dict[str, tuple[float, float]]:
    """Seconds forward and backward of every part; products by the weights they are with."""
    step = line.step
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (part, back), seconds in step.parts_s.items():
        found[part][back] += seconds
    if model is not None:
        known = weights_of(model)
        whole = [step.parts_s.get((PRODUCT, back), 0.0) for back in (False, True)]
        usual = [step.usual_s.get((PRODUCT, back), 0.0) for back in (False, True)]
        for ran in step.products:
            fits = match(ran.shape, known, is_backward=ran.is_backward)
            if fits is not None:
                back = ran.is_backward
                seconds = ran.seconds * ran.per_step * whole[back] / usual[back]
                found[f"{fits.part} {PRODUCT}s"][back] += seconds
                found[PRODUCT][back] = max(found[PRODUCT][back] - seconds, 0.0)
        found[f"other {PRODUCT}s"] = found.pop(PRODUCT, [0.0, 0.0])
    return {name: (s[0], s[1]) for name, s in found.items() if sum(s) > LEAST_FRAC * step.total_s}


LEAST_FRAC = 1e-6
"""Of a step: what is below is rounding."""


@dataclass(frozen=True)
class Fit:
    """How the products of a step fit the weights of a model.

    Parameters
    ----------
    matched_frac : share of the time of products that is with its weights
    forward : weights to how often a step meets them forward
    strange_s : products of no weight to their seconds of a step, the longest first [s]
    layers_s : (layers of all steps,) seconds forward of each [s]
    """

    matched_frac: float
    forward: Mapping[str, float]
    strange_s: Mapping[str, float]
    layers_s: Floats


def fit_of(line: Timeline, model: Model) -> Fit:
    """How the step of a trace fits a model."""
    step, known = line.step, weights_of(model)
    forward: dict[str, float] = defaultdict(float)
    strange: dict[str, float] = {}
    matched_s, all_s = 0.0, 0.0
    for ran in step.products:
        seconds = ran.seconds * ran.per_step
        all_s += seconds
        fits = match(ran.shape, known, is_backward=ran.is_backward)
        if fits is None:
            strange[_shown(ran)] = seconds
            continue
        matched_s += seconds
        if not ran.is_backward:
            forward["+".join(fits.names)] += ran.per_step
    longest = dict(sorted(strange.items(), key=lambda one: -one[1]))
    return Fit(matched_s / all_s if all_s else 0.0, forward, longest, _layers_s(line, known))


def _fit_told(line: Timeline, model: Model) -> dict[str, Any]:
    fit, micro_batches = fit_of(line, model), max(line.batch.micro_batches, 1.0)
    told: dict[str, Any] = {
        "name": model.name,
        "layers": model.layers,
        "layers_found": len(fit.layers_s) / micro_batches / line.step.steps,
        "products_matched_frac": fit.matched_frac,
        "products_per_micro_batch": {
            name: count / micro_batches for name, count in sorted(fit.forward.items())
        },
    }
    if fit.strange_s:
        told["products_not_of_the_model_s"] = dict(list(fit.strange_s.items())[:MOST_TOLD])
    if len(fit.layers_s):
        least, median, most = (float(q) for q in np.quantile(fit.layers_s, (0.0, 0.5, 1.0)))
        told["layer_forward_s"] = {"least": least, "median": median, "most": most}
    return told


def _layers_s(line: Timeline, known: Mapping[tuple[int, int], Known]) -> Floats:
    """Seconds of every layer forward, from the first product of its mixer to that of the next.

    The last layer ends where the head begins. Calls of other threads than the products' are not
    in it.
    """
    calls, pieces = line.calls, line.pieces
    owners = product_owners(calls, line.tree)
    names, dims = list(calls.names), list(calls.dims)
    order = np.argsort(pieces.starts_s, kind="stable")
    kept = [PARTS.index(part) for part in (HOST, COMMUNICATION)]
    is_layer = ~pieces.is_backward & ~np.isin(pieces.parts, kept)
    found: list[float] = []
    current, is_open, after_mixer, seen = 0.0, False, False, NOBODY
    for i in order[is_layer[order]].tolist():
        call = int(pieces.calls[i])
        owner = int(owners[call]) if call != NOBODY else NOBODY
        fits = None
        if owner not in (NOBODY, seen):
            seen = owner
            shape = shape_of(names[calls.name_codes[owner]], dims[calls.dims_codes[owner]])
            fits = match(shape, known, is_backward=False) if shape is not None else None
        if fits is not None:
            if is_open and (fits.part == HEAD or (fits.part == "attention" and after_mixer)):
                found.append(current)
                is_open = False
            if fits.part == "attention" and not is_open:
                current, is_open, after_mixer = 0.0, True, False
            after_mixer |= fits.part not in ("attention", HEAD)
        if is_open:
            current += float(pieces.seconds[i])
    return np.array(found)


def _shown(ran: Ran) -> str:
    rows, inner, columns, groups = ran.shape
    several = f"{groups} x " if groups > 1 else ""
    return f"{several}{rows} x {inner} x {columns} {'backward' if ran.is_backward else 'forward'}"
