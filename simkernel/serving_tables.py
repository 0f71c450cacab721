"""Dense tables of the steps of one plan, filled from its passes, for the replay to look up.

The replay never prices a pass itself. Between points it goes in straight lines, and the grids are
so dense that this is within 0.1% of the pass (tested). What it approximates beyond that is its
own form: attention of several chunks is read at the root of their summed squares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simkernel.capped_passes import elapsed_s
from simkernel.columns import Codes, Column, Floats
from simkernel.kv_cache import free_bytes, resident_sequence_bytes
from simkernel.ops import Parts
from simkernel.passes import Pass
from simkernel.power import DutyWatts
from simkernel.replay.tables import StepJoules, StepTables, TogetherTables
from simkernel.serving_passes import launched_s, prefill_attention
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

SHARED = {"experts": EXPERTS, "exchange": EXCHANGE}
APART = tuple(SHARED.values())


def step_tables(
    rig: Rig,
    most_sequences: int,
    most_tokens: int,
    most_context_tokens: int,
    duty: DutyWatts | None = None,
) -> StepTables:
    """Tables of the one plan of a rig.

    Parameters
    ----------
    rig : one candidate, under its power cap
    most_sequences, most_tokens : in a step of one lane
    most_context_tokens : prompt and output of the longest request
    duty : watts of a device by what is busy; no joules without
    """
    tokens = spaced(most_tokens, TOKEN_RATIO, WHOLE_TO)
    sequences = spaced(most_sequences, SEQUENCE_RATIO, WHOLE_TO)
    contexts = spaced(most_context_tokens, CONTEXT_RATIO, 64)
    chunks = spaced(most_tokens, CHUNK_RATIO, 256)
    before = np.concatenate([[0], spaced(2 * most_context_tokens, CONTEXT_RATIO, 16)])
    layers = _at(rig, tokens.astype(float), np.ones(len(tokens)))
    heads = _at(rig, sequences.astype(float), np.ones(len(sequences)))
    pairs = np.meshgrid(sequences.astype(float), contexts.astype(float), indexing="ij")
    decodes = _at(rig, pairs[0].ravel(), pairs[1].ravel())
    met = np.meshgrid(before.astype(float), chunks.astype(float), indexing="ij")
    chunked = _chunks(rig, met[0].ravel(), met[1].ravel())
    stages = float(rig.plans.pipeline_parallel[0])
    step_s = float(np.asarray(rig.engine.host_s(stages, 0.0)))
    each_s = float(np.asarray(rig.engine.host_s(stages, 1.0))) - step_s
    is_apart = int(rig.plans.attention_data_parallel[0]) > 1
    apart = APART if is_apart else ()
    parts = {
        "token": _wanted(layers, lambda name: name not in (*NOT_LAYERS, *apart)),
        "sequence": _wanted(heads, lambda name: name == HEAD),
        "decode": _wanted(decodes, lambda name: name == ATTENTION),
        "prefill": [chunked],
    }
    shapes = {"decode": pairs[0].shape, "prefill": met[0].shape}
    seconds = {}
    for part, passes in parts.items():
        rows = _seconds(rig, passes)
        seconds[part] = rows.reshape(shapes.get(part, rows.shape))
    host_s: dict[str, Column] = {"token": step_s, "sequence": each_s * sequences}
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
        least_prefill_s=float(launched_s(rig)[0]) + step_s,
        joules=_joules(rig, parts, seconds, host_s, duty) if duty else None,
        together=_together(rig, layers, duty) if is_apart else None,
    )


def _together(rig: Rig, layers: Parts, duty: DutyWatts | None) -> TogetherTables:
    """Experts and their exchange by the tokens of a copy, as all copies share them."""
    shared = {name: [layers.get(part, Pass())] for name, part in SHARED.items()}
    covers_s = _seconds(
        rig, _wanted(layers, lambda name: name not in (*NOT_LAYERS, *APART, WIRES))
    )
    none = np.zeros(len(np.ravel(covers_s)))
    seconds = {name: _seconds(rig, passes) + none for name, passes in shared.items()}
    joules = {f"{name}_j": none for name in shared}
    if duty:
        joules = {
            f"{name}_j": _part_joules(rig, shared[name], seconds[name], 0.0, duty)
            for name in shared
        }
    layers_frac, hides_frac = overlap_fracs(rig)
    return TogetherTables(
        **{f"{name}_s": values for name, values in seconds.items()},
        **joules,
        covers_s=covers_s,
        layers_frac=layers_frac,
        hides_frac=float(hides_frac[0]),
    )


def _joules(
    rig: Rig,
    parts: dict[str, list[Pass]],
    seconds: dict[str, Floats],
    host_s: dict[str, Column],
    duty: DutyWatts,
) -> StepJoules:
    """Energies in the shapes of the seconds."""
    found = {
        f"{name}_j": _part_joules(rig, passes, seconds[name], host_s.get(name, 0.0), duty)
        for name, passes in parts.items()
    }
    rest_w = float(np.ravel(duty.context_w)[0])
    return StepJoules(**found, idle_w=rest_w * float(rig.plans.devices[0]))


def _part_joules(
    rig: Rig, passes: list[Pass], table_s: Floats, host_s: Column, duty: DutyWatts
) -> Floats:
    """Of all devices of a replica: at rest all the time, and more for what is busy."""
    total = sum(passes, start=Pass())
    rest_w, memory_w, compute_w, link_w = (
        float(np.ravel(value)[0])
        for value in (duty.context_w, duty.memory_w, duty.compute_w, duty.link_w)
    )
    busy_j = (
        memory_w * np.asarray(total.peak_hbm_s)
        + compute_w * np.asarray(total.peak_compute_s)
        + link_w * np.asarray(total.inside_bytes / rig.chips.scaleup_bytes_per_s)
    )
    busy_j = np.broadcast_to(busy_j, table_s.size).reshape(table_s.shape)
    return np.asarray(float(rig.plans.devices[0]) * (rest_w * (table_s + host_s) + busy_j))


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


def _wanted(parts: Parts, is_wanted: Callable[[str], bool]) -> list[Pass]:
    return [part for name, part in parts.items() if is_wanted(name)]


def _seconds(rig: Rig, passes: list[Pass]) -> Floats:
    return np.asarray(elapsed_s(passes, rig.chips.power, rig.limit), float)
