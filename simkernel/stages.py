"""Which layers sit on which pipeline stage, and the three stages that decide a step.

Layers fill the chunks in order. When they do not divide, the chunks between the first and the
last take one more: the ends already hold the embedding and the head (as Llama 3 405B runs, The
Llama 3 Herd of Models, section 3.3.2).
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


def chunk_sizes(layers: int, chunks: int) -> list[int]:
    """Layers in each chunk of a pipeline, first to last."""
    size, extra = divmod(layers, chunks)
    first_extra = 1 if extra <= chunks - 2 else 0
    return [size + (first_extra <= i < first_extra + extra) for i in range(chunks)]


@lru_cache(maxsize=4096)
def _mix(model: Model, pipeline: int, chunks: int) -> Floats:
    """(3, kinds) for one pair of stages and chunks."""
    kinds = len(model.kinds)
    stages = np.zeros((pipeline, kinds))
    at = 0
    for i, size in enumerate(chunk_sizes(len(model.layer_codes), pipeline * chunks)):
        codes = model.layer_codes[at : at + size]
        stages[i % pipeline] += np.bincount(codes, minlength=kinds)
        at += size
    weight = np.array([sum(w.parameters for w in kind.weights) for kind in model.kinds])
    inner = stages[1:-1] if pipeline > 2 else stages[-1:]
    return np.array([stages[0], inner[np.argmax(inner @ weight)], stages[-1]])
