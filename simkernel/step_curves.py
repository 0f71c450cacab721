"""What a step takes by the tokens it holds: one curve per distinct layout, read by many plans.

Plans that differ only in how many sequences or tokens they admit share their curves. The same
parts as the replay's tables, on coarser grids: layers by tokens, head by rows, attention by
decoding sequences, attention by prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from simkernel.columns import Codes, Column, Floats, distinct, taken
from simkernel.ops import Parts
from simkernel.serving_passes import Rig, decode_parts, launched_s, prefill_parts

QUANTITIES = ("floor_s", "compute_s", "peak_compute_s", "peak_hbm_s", "inside_s")
"""What is kept of a pass: elapsed seconds, busy ones, and seconds at full rate for watts."""

FLOOR, COMPUTE, PEAK_COMPUTE, PEAK_HBM, INSIDE = range(len(QUANTITIES))

RATIO = 2.0**0.25
"""Between points of the grid: steps are nearly straight lines between them (tested to 1%)."""

NOT_OF_A_LAYOUT = ("max_sequences", "budget_tokens")
"""Columns of a plan that change no pass."""


@dataclass(frozen=True)
class StepCurves:
    """Parts of a step on a grid, one row per distinct layout.

    Parameters
    ----------
    layout : (n,) the layout of each plan
    points : (m,) tokens, or sequences
    layers_s : (k, u, m) all but attention and head, of that many tokens; k as QUANTITIES
    head_s : (k, u, m) of that many rows
    decode_s : (k, u, m) attention of that many decoding sequences
    prompts_s : (k, u, q) attention of one prompt of each length
    launch_s : (u,) that the host needs to launch a step with prompts
    """

    layout: Codes
    points: Floats
    layers_s: Floats
    head_s: Floats
    decode_s: Floats
    prompts_s: Floats
    launch_s: Floats

    def of(self, part_s: Floats, tokens: Column) -> Floats:
        """A part of a step with some tokens, for every plan; (k, n).

        Between points linearly; below the first point its value holds.
        """
        at = self.place(tokens)
        return np.stack([at.read(row) for row in part_s.reshape(len(part_s), -1)])

    def floor_of(self, part_s: Floats, tokens: Column) -> Floats:
        """Elapsed seconds alone of a part; (n,)."""
        return self.place(tokens).read(part_s[FLOOR].ravel())

    def place(self, tokens: Column) -> Place:
        """Where some tokens lie on the grid of every plan's layout."""
        at = np.maximum(np.asarray(tokens, float), 1.0)
        way = np.log2(at)
        way *= 1.0 / np.log2(RATIO)
        cell = np.minimum(way.astype(np.int64), len(self.points) - 2)
        low = self.points[cell]
        share = (at - low) / (low * (RATIO - 1.0))
        return Place(self.layout * len(self.points) + cell, share)


@dataclass(frozen=True)
class Place:
    """Points before some tokens in a table laid out flat, and shares of the way on; (n,) each."""

    cells: Codes
    shares: Floats

    def read(self, flat_s: Floats) -> Floats:
        """A quantity between points; (n,)."""
        low = flat_s.take(self.cells)
        return np.asarray(low + self.shares * (flat_s.take(self.cells + 1) - low))


def step_curves(
    rig: Rig, most_tokens: float, context_tokens: float, prompt_tokens: Floats
) -> StepCurves:
    """Curves of every distinct layout of a rig.

    Parameters
    ----------
    rig : n candidates; its chips differ only as its plans do
    most_tokens : that a step holds at most
    context_tokens : keys that a decoding sequence meets, on average
    prompt_tokens : (q,) lengths of prompts
    """
    first, layout = distinct(_layout_columns(rig))
    points = RATIO ** np.arange(int(np.ceil(np.log(most_tokens) / np.log(RATIO))) + 2)
    rows, tokens = np.repeat(first, len(points)), np.tile(points, len(first))
    parts = decode_parts(taken_rig(rig, rows), tokens, np.full(len(rows), context_tokens))
    shape = (len(first), len(points))
    rows, lengths = np.repeat(first, len(prompt_tokens)), np.tile(prompt_tokens, len(first))
    met = prefill_parts(taken_rig(rig, rows), np.ones(len(rows)), lengths)
    return StepCurves(
        layout=layout,
        points=points,
        layers_s=_summed(parts, lambda name: name not in ("attention", "head"), shape),
        head_s=_summed(parts, lambda name: name == "head", shape),
        decode_s=_summed(parts, lambda name: name == "attention", shape),
        prompts_s=_summed(met, lambda name: name == "attention", (len(first), len(prompt_tokens))),
        launch_s=launched_s(rig)[first],
    )


def taken_rig(rig: Rig, rows: Codes) -> Rig:
    """The rig for some of its candidates."""
    cells = {f.name: getattr(rig, f.name) for f in fields(rig)}
    return Rig(**{n: v if n in ("model", "engine") else taken(v, rows) for n, v in cells.items()})


def _layout_columns(rig: Rig) -> list[Codes]:
    """Integer columns that tell layouts apart; real ones by their bits."""
    named = [(f.name, getattr(rig.plans, f.name)) for f in fields(rig.plans)]
    columns = [np.asarray(column) for name, column in named if name not in NOT_OF_A_LAYOUT]
    chips = rig.chips
    columns += [chips.scaleup_bytes_per_s, chips.scaleout_bytes_per_s]
    columns += [chips.scaleup_topology_code]
    return [_bits(np.broadcast_to(column, len(rig.plans))) for column in columns]


def _bits(column: Floats) -> Codes:
    is_real = column.dtype.kind == "f"
    return np.ascontiguousarray(column, float).view(np.int64) if is_real else column


def _summed(parts: Parts, is_wanted: Callable[[str], bool], shape: tuple[int, int]) -> Floats:
    """Quantities of the wanted parts, summed; (k, *shape)."""
    wanted = [part for name, part in parts.items() if is_wanted(name)]
    total = np.zeros((len(QUANTITIES), shape[0] * shape[1]))
    for i, name in enumerate(QUANTITIES):
        for part in wanted:
            total[i] += getattr(part, name)
    return total.reshape(len(QUANTITIES), *shape)
