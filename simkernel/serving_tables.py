"""Dense tables of the steps of one plan, filled from its passes, for the replay to look up.

The replay never prices a pass itself. Between points it goes in straight lines, and the grids are
so dense that this is within 0.1% of the pass (tested). What it approximates beyond that is its
own form: attention of several chunks is read at the root of their summed squares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.kv_cache import free_bytes, resident_sequence_bytes
from simkernel.ops import Parts
from simkernel.passes import Pass
from simkernel.power import device_w
from simkernel.replay.tables import StepJoules, StepTables, TogetherTables
from simkernel.serving_passes import prefill_attention
from simkernel.serving_rig import Rig
from simkernel.step_curves import taken_rig
from simkernel.step_parts import (
    ATTENTION,
    EXCHANGE,
    EXPERTS,
    HEAD,
    NOT_LAYERS,
    WIRES,
    overlap_fracs,
    step_parts,
)

WHOLE_TO = 384
"""Every whole number up to here is a point; beyond it points grow apart."""

TOKEN_RATIO, SEQUENCE_RATIO, CONTEXT_RATIO, CHUNK_RATIO = 1.01, 1.02, 1.015, 1.02
"""Between points further out, by grid."""

BLOCK_TOKENS = 16  # vLLM's default block_size

APART = (EXPERTS, EXCHANGE)


def step_tables(
    rig: Rig,
    most_sequences: int,
    most_tokens: int,
    most_context_tokens: int,
    slower_frac: float = 0.0,
    cap_frac: float = 1.0,
) -> StepTables:
    """Tables of the one plan of a rig.

    Parameters
    ----------
    rig : one candidate
    most_sequences, most_tokens : in a step of one lane
    most_context_tokens : prompt and output of the longest request
    slower_frac : extra time of kernels under a power cap
    cap_frac : of the rated watts, that no device may draw more than
    """
    tokens = spaced(most_tokens, TOKEN_RATIO, WHOLE_TO)
    sequences = spaced(most_sequences, SEQUENCE_RATIO, WHOLE_TO)
    contexts = spaced(most_context_tokens, CONTEXT_RATIO, 64)
    chunks = spaced(most_tokens, CHUNK_RATIO, 64)
    before = np.concatenate([[0], spaced(2 * most_context_tokens, CONTEXT_RATIO, 16)])
    layers = _at(rig, tokens.astype(float), np.ones(len(tokens)))
    heads = _at(rig, sequences.astype(float), np.ones(len(sequences)))
    pairs = np.meshgrid(sequences.astype(float), contexts.astype(float), indexing="ij")
    decodes = _at(rig, pairs[0].ravel(), pairs[1].ravel())
    met = np.meshgrid(before.astype(float), chunks.astype(float), indexing="ij")
    chunked = _chunks(rig, met[0].ravel(), met[1].ravel())
    stages = float(rig.plans.pipeline_parallel[0])
    step_s = float(np.asarray(rig.engine.host_s(stages, 0.0)))
    each_s = float(np.asarray(rig.engine.sequence_s))
    is_apart = int(rig.plans.attention_data_parallel[0]) > 1
    apart = APART if is_apart else ()
    parts = {
        "token": _whole(layers, lambda name: name not in (*NOT_LAYERS, *apart)),
        "sequence": _whole(heads, lambda name: name == HEAD),
        "decode": _whole(decodes, lambda name: name == ATTENTION),
        "prefill": chunked,
    }
    shapes = {"decode": pairs[0].shape, "prefill": met[0].shape}
    seconds, joules = {}, {}
    for part, total in parts.items():
        rows = _seconds(total, slower_frac)
        shape = shapes.get(part, rows.shape)
        seconds[part] = rows.reshape(shape)
        joules[part] = (_watts(rig, total, len(rows), cap_frac) * rows).reshape(shape)
    idle_w = float(rig.chips.power.context_w[0]) * float(rig.plans.devices[0])
    return StepTables(
        tokens=tokens,
        token_s=seconds["token"] + step_s,
        sequences=sequences,
        sequence_s=seconds["sequence"] + each_s * sequences,
        decode_contexts=contexts,
        decode_s=seconds["decode"],
        prefill_contexts=before,
        prefill_chunks=chunks,
        prefill_s=seconds["prefill"],
        joules=StepJoules(
            token_j=joules["token"] + idle_w * step_s,
            sequence_j=joules["sequence"] + idle_w * each_s * sequences,
            decode_j=joules["decode"],
            prefill_j=joules["prefill"],
            idle_w=idle_w,
        ),
        together=_together(rig, layers, slower_frac, cap_frac) if is_apart else None,
    )


def _together(rig: Rig, layers: Parts, slower_frac: float, cap_frac: float) -> TogetherTables:
    """Experts and their exchange by the tokens of a copy, as all copies share them."""
    experts, exchange = (layers.get(name, Pass()) for name in APART)
    covers = _whole(layers, lambda name: name not in (*NOT_LAYERS, *APART, WIRES))
    pairs = {"experts": experts, "exchange": exchange, "covers": covers}
    rows = {name: _seconds(total, slower_frac) for name, total in pairs.items()}
    joules = {
        f"{name}_j": _watts(rig, pairs[name], len(rows[name]), cap_frac) * rows[name]
        for name in ("experts", "exchange")
    }
    layers_frac, hides_frac = overlap_fracs(rig)
    return TogetherTables(
        **{f"{name}_s": values for name, values in rows.items()},
        **joules,
        layers_frac=layers_frac,
        hides_frac=float(hides_frac[0]),
    )


def pool_blocks(rig: Rig, tokens: float) -> int:
    """Blocks of the cache of one lane; at least one, which then refuses every request.

    Parameters
    ----------
    tokens : keys that a decoding sequence meets, on average: states and full windows weigh the
        same in long requests and short ones, and so more by the token in short ones
    """
    room = free_bytes(rig.model, rig.engine, rig.plans, rig.chips.memory_bytes)
    each = resident_sequence_bytes(rig.model, rig.plans, tokens) / tokens
    lanes = float(rig.plans.pipeline_parallel[0])
    return max(int(float(np.asarray(room / each / lanes)[0]) // BLOCK_TOKENS), 1)


def spaced(most: int, spacing_frac: float, whole_to: int) -> Codes:
    """Whole numbers from 1 to `most`: all of the first ones, then growing apart by a ratio."""
    head = np.arange(1, min(most, whole_to) + 1)
    if most <= whole_to:
        return head
    steps = int(np.ceil(np.log(most / whole_to) / np.log(spacing_frac)))
    tail = np.rint(whole_to * (most / whole_to) ** (np.arange(1, steps + 1) / steps))
    return np.unique(np.concatenate([head, tail.astype(np.int64)]))


def _at(rig: Rig, sequences: Floats, contexts: Floats) -> Parts:
    """Decoding steps of so many sequences that meet so many keys each."""
    return step_parts(taken_rig(rig, _zeros(sequences)), sequences, contexts)


def _chunks(rig: Rig, contexts: Floats, chunks: Floats) -> Pass:
    """Attention of one chunk each, after a context."""
    rows = taken_rig(rig, _zeros(chunks))
    return prefill_attention(rows, np.ones(len(chunks)), chunks, contexts)


def _zeros(like: Floats) -> Codes:
    return np.zeros(len(like), dtype=np.int64)


def _whole(parts: Parts, is_wanted: Callable[[str], bool]) -> Pass:
    wanted = [part for name, part in parts.items() if is_wanted(name)]
    return sum(wanted, start=Pass())


def _seconds(total: Pass, slower_frac: float) -> Floats:
    return np.asarray(total.floor_s, float) * (1.0 + slower_frac)


def _watts(rig: Rig, total: Pass, rows: int, cap_frac: float) -> Floats:
    """Watts of all devices of a replica while a part runs."""
    floor_s = np.maximum(np.asarray(total.floor_s, float), 1e-12)
    shares = [
        np.minimum(np.asarray(busy) / floor_s, 1.0)
        for busy in (total.peak_hbm_s, total.peak_compute_s, total.inside_s)
    ]
    power = rig.chips.power.take(np.zeros(rows, dtype=np.int64))
    each_w = np.minimum(device_w(power, *shares), power.cap_w * cap_frac)
    return np.asarray(each_w * float(rig.plans.devices[0]))
