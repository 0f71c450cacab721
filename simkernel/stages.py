"""Which layers sit on which pipeline stage, and the three stages that decide a step.

Layers fill the chunks in order. The last chunk also holds the head and gets as many layers fewer
as the head weighs: Llama 3 405B runs 126 layers on 16 stages with one fewer on the first and on
the last (The Llama 3 Herd of Models, section 3.3.2). A stack that cuts evenly does so where layers
divide. Chunks beyond the layers hold none.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simkernel.columns import Codes, Floats, distinct
from simkernel.models import Model

STAGES = ("first", "inner", "last")
"""Stages a candidate is priced by; with one stage all three are the same one."""


def stage_layers(
    model: Model,
    pipeline: Codes,
    chunks: Codes,
    *,
    has_drafts: bool = False,
    is_even: bool = False,
    given: tuple[Codes, Codes] | None = None,
) -> Floats:
    """Layers of each kind on the first, the heaviest inner and the last stage.

    Parameters
    ----------
    pipeline : (n,) stages
    chunks : (n,) virtual stages of each
    has_drafts : the last stage also trains the multi-token prediction layers
    is_even : every chunk gets as many layers, whatever else it holds, where they divide
    given : (n,) each, layers of the first and of the last stage; 0 where the others decide

    Returns
    -------
    (n, 3, kinds); heaviest by parameters. With two stages, inner repeats the last.
    """
    ends = given or (0 * pipeline, 0 * pipeline)
    first, inverse = distinct([pipeline, chunks, *ends])
    mixes = [
        _mix(
            model,
            int(pipeline[i]),
            int(chunks[i]),
            has_drafts,
            is_even,
            (int(ends[0][i]), int(ends[1][i])),
        )
        for i in first
    ]
    return np.array(mixes)[inverse]


def by_device(values: Floats, held: Codes) -> Floats:
    """Sums over the stages of the first, an inner and the last device; (n, 3, ...).

    Parameters
    ----------
    values : (n, 3, ...) of the first, an inner and the last stage
    held : (n,) stages of one device; 2 are the i-th from either end
    """
    if np.all(held == 1):
        return values
    is_both = (held == 2).reshape(-1, *[1] * (values.ndim - 1))
    return np.where(is_both, values + values[:, ::-1], values)


def draft_counts(model: Model, *, has_drafts: bool) -> Floats:
    """Multi-token prediction layers of each kind that are trained too; (kinds,)."""
    codes = model.draft_codes if has_drafts else ()
    return np.bincount(np.array(codes, dtype=np.int64), minlength=len(model.kinds)) * 1.0


def with_drafts(layers: Floats, is_single: Codes, drafts: Floats) -> Floats:
    """Layers with the draft layers of the last stage, or of the only one; (n, 3, kinds).

    Parameters
    ----------
    layers : (n, 3, kinds) of the first, an inner and the last stage
    is_single : (n,) the pipeline has one stage
    drafts : (kinds,)
    """
    if not drafts.any():
        return layers
    is_there = np.stack([is_single, is_single, np.ones_like(is_single)], axis=-1)
    return layers + is_there[:, :, None] * drafts


def chunk_sizes(layers: int, chunks: int, head_layers: int = 0) -> list[int]:
    """Layers in each chunk of a pipeline, first to last.

    Parameters
    ----------
    head_layers : layers that the head weighs as much as; the last chunk gets fewer for it, down
        to none, so that the heaviest chunk is as light as can be. What does not divide goes to
        the chunks after the first.
    """
    if chunks == 1:
        return [layers]
    most = (layers + head_layers) // chunks + 1
    largest = max(min(max(most - head_layers, 1), layers - chunks + 1), 0)
    lasts = range(largest, -1, -1)
    last = min(lasts, key=lambda n: max(-((n - layers) // (chunks - 1)), n + head_layers))
    size, extra = divmod(layers - last, chunks - 1)
    first_extra = 1 if extra <= chunks - 2 else 0
    before = [size + (first_extra <= i < first_extra + extra) for i in range(chunks - 1)]
    return [*before, last]


@lru_cache(maxsize=256)
def head_layers(model: Model, has_drafts: bool = False) -> int:
    """Layers whose products take as long as what sits beside the last chunk, rounded.

    The head, and with drafts a layer and one more head for each; by parameters a token meets.
    """
    met = sum(w.active_parameters for code in model.layer_codes for w in model.kinds[code].weights)
    head = model.vocab * model.hidden / (met / len(model.layer_codes))
    drafts = len(model.draft_codes) if has_drafts else 0
    return round(head * (1 + drafts)) + drafts


def given_sizes(layers: int, stages: int, chunks: int, given: tuple[int, int]) -> list[int]:
    """Layers in each chunk of a pipeline whose first or last stage is told how many it gets.

    Parameters
    ----------
    given : layers of the first and of the last stage, 0 where they share with the others

    Notes
    -----
    As Megatron-Core cuts them (decoder_first_pipeline_num_layers and its counterpart), but for
    what does not divide, which goes to the later stages, and to the earlier chunks of a stage.
    """
    ends = {0: given[0], stages - 1: given[1]}
    open_stages = [i for i in range(stages) if not ends.get(i)]
    left = layers - sum(given)
    size, extra = divmod(left, max(len(open_stages), 1))
    later = open_stages[len(open_stages) - extra :]
    held = [ends.get(i) or size + (i in later) for i in range(stages)]
    return [n // chunks + (c < n % chunks) for c in range(chunks) for n in held]


@lru_cache(maxsize=256)
def every_stage(
    model: Model,
    pipeline: int,
    chunks: int,
    has_drafts: bool = False,
    is_even: bool = False,
    given: tuple[int, int] = (0, 0),
) -> Floats:
    """Layers of each kind on every stage of one pipeline, drafts apart; (stages, kinds)."""
    kinds = len(model.kinds)
    stages = np.zeros((pipeline, kinds))
    at = 0
    layers, all_chunks = len(model.layer_codes), pipeline * chunks
    is_even = is_even and layers % all_chunks == 0
    sizes = chunk_sizes(layers, all_chunks, 0 if is_even else head_layers(model, has_drafts))
    if any(given):
        sizes = given_sizes(layers, pipeline, chunks, given)
    for i, size in enumerate(sizes):
        codes = model.layer_codes[at : at + size]
        stages[i % pipeline] += np.bincount(codes, minlength=kinds)
        at += size
    return stages


@lru_cache(maxsize=4096)
def _mix(
    model: Model,
    pipeline: int,
    chunks: int,
    has_drafts: bool,
    is_even: bool,
    given: tuple[int, int],
) -> Floats:
    """(3, kinds) for one pair of stages and chunks."""
    stages = every_stage(model, pipeline, chunks, has_drafts, is_even, given)
    weight = np.array([sum(w.parameters for w in kind.weights) for kind in model.kinds])
    inner = stages[1:-1] if pipeline > 2 else stages[-1:]
    return np.array([stages[0], inner[np.argmax(inner @ weight)], stages[-1]])
