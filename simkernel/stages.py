"""Which layers sit on which pipeline stage, and the three stages that decide a step.

Layers fill the chunks in order. The last chunk also holds the head and gets as many layers fewer
as the head weighs: Llama 3 405B gives its last stage one fewer (The Llama 3 Herd of Models,
section 3.3.2), DeepSeek-V3 leaves one layer with the head on the last of 16.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.models import Model

STAGES = ("first", "inner", "last")
"""Stages a candidate is priced by; with one stage all three are the same one."""


def stage_layers(model: Model, pipeline: Codes, chunks: Codes) -> Floats:
    """Layers of each kind on the first, the heaviest inner and the last stage.

    Parameters
    ----------
    pipeline : (n,) stages
    chunks : (n,) virtual stages of each

    Returns
    -------
    (n, 3, kinds); heaviest by parameters. With two stages, inner repeats the last.
    """
    pairs, inverse = np.unique(pipeline * 4096 + chunks, return_inverse=True)
    mixes = [_mix(model, int(pair) // 4096, int(pair) % 4096) for pair in pairs]
    return np.array(mixes)[inverse.reshape(-1)]


def chunk_sizes(layers: int, chunks: int, head_layers: int = 0) -> list[int]:
    """Layers in each chunk of a pipeline, first to last.

    Parameters
    ----------
    head_layers : layers that the head weighs as much as; the last chunk gets so many fewer, but
        at least one. What does not divide goes to the chunks after the first.
    """
    last = min(max((layers + head_layers) // chunks - head_layers, 1), layers)
    if chunks == 1:
        return [layers]
    size, extra = divmod(layers - last, chunks - 1)
    first_extra = 1 if extra <= chunks - 2 else 0
    before = [size + (first_extra <= i < first_extra + extra) for i in range(chunks - 1)]
    return [*before, last]


@lru_cache(maxsize=256)
def head_layers(model: Model) -> int:
    """Layers whose products take as long as the head's, rounded; by parameters a token meets."""
    met = sum(w.active_parameters for code in model.layer_codes for w in model.kinds[code].weights)
    return round(model.vocab * model.hidden / (met / len(model.layer_codes)))


@lru_cache(maxsize=4096)
def _mix(model: Model, pipeline: int, chunks: int) -> Floats:
    """(3, kinds) for one pair of stages and chunks."""
    kinds = len(model.kinds)
    stages = np.zeros((pipeline, kinds))
    at = 0
    sizes = chunk_sizes(len(model.layer_codes), pipeline * chunks, head_layers(model))
    for i, size in enumerate(sizes):
        codes = model.layer_codes[at : at + size]
        stages[i % pipeline] += np.bincount(codes, minlength=kinds)
        at += size
    weight = np.array([sum(w.parameters for w in kind.weights) for kind in model.kinds])
    inner = stages[1:-1] if pipeline > 2 else stages[-1:]
    return np.array([stages[0], inner[np.argmax(inner @ weight)], stages[-1]])
