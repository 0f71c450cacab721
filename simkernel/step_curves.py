"""What a step takes by the tokens it holds: one curve per distinct layout, read by many plans.

Plans that differ only in how many sequences or tokens they admit share their curves. The same
parts as the replay's tables, on coarser grids: layers by tokens, head by rows, attention by
decoding sequences, attention by prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from simkernel.capped_passes import elapsed_s
from simkernel.columns import Codes, Column, Floats, distinct, kept, taken
from simkernel.ops import Parts
from simkernel.passes import wires_s
from simkernel.serving_passes import launched_s, prefill_attention
from simkernel.serving_rig import Rig
from simkernel.step_parts import (
    ATTENTION,
    EXCHANGE,
    EXPERTS,
    HEAD,
    WIRES,
    overlap_fracs,
    step_parts,
)

QUANTITIES = ("floor_s", "peak_compute_s", "peak_hbm_s", "inside_bytes", "wires_s")
"""What is kept of a pass: elapsed seconds, under its cap; those at full rate for watts, of bytes
on scale-up links as well; and those in which a device waits for messages alone."""

FLOOR, PEAK_COMPUTE, PEAK_HBM, INSIDE, EXCHANGED = range(len(QUANTITIES))

RATIO = 2.0**0.25
"""Between points of the grid: steps are nearly straight lines between them (tested to 1%)."""

NOT_OF_A_LAYOUT = (
    "max_sequences", "budget_tokens", "first_accept_frac", "later_accept_frac",
)  # fmt: skip
"""Columns of a plan that change no pass."""


@dataclass(frozen=True)
class SharedCurves:
    """What attention copies do together, apart from what each does on its own; by tokens.

    Parameters
    ----------
    experts_s : (k, u, m) products of experts, of as many tokens of every copy
    exchange_s : (k, u, m) between them, dispatch and combine
    covers_s : (u, m) elapsed, own layers while no wire of the device is busy
    layers_frac : of the layers, those with experts
    hides_frac : (n,) of the exchange of a step in two micro-batches that may run beside the
        rest: all but the first layer's; 0 where a step is one batch
    """

    experts_s: Floats
    exchange_s: Floats
    covers_s: Floats
    layers_frac: float
    hides_frac: Floats

    def rows_taken(self, rows: Codes) -> SharedCurves:
        """The same for some plans."""
        return replace(self, hides_frac=taken(self.hides_frac, rows))


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
    shared : experts and their exchange, where any plan has attention copies: not in `layers_s`
        then
    """

    layout: Codes
    points: Floats
    layers_s: Floats
    head_s: Floats
    decode_s: Floats
    prompts_s: Floats
    launch_s: Floats
    shared: SharedCurves | None = None

    def rows_taken(self, rows: Codes) -> StepCurves:
        """The same for some plans: of their layouts, the tables of all."""
        shared = self.shared and self.shared.rows_taken(rows)
        return replace(self, layout=self.layout[rows], shared=shared)

    def of(self, part_s: Floats, tokens: Column) -> Floats:
        """A part of a step with some tokens, for every plan; (k, n).

        Between points linearly; below the first point its value holds.
        """
        at = self.place(tokens)
        return np.stack([at.read(Table(row)) for row in part_s])

    def floor_of(self, part_s: Floats, tokens: Column) -> Floats:
        """Elapsed seconds alone of a part; (n,)."""
        return self.place(tokens).read(Table(part_s[FLOOR]))

    def place(self, tokens: Column) -> Place:
        """Where some tokens lie on the grid of every plan's layout; (n,) or (rows, n)."""
        at = np.maximum(tokens, 1.0)
        way = np.log2(at)
        way *= 1.0 / np.log2(RATIO)
        cell = np.minimum(way.astype(np.int64), len(self.points) - 2)
        share = (at - self.points.take(cell)) / self._widths.take(cell)
        return Place(self._starts + cell, share)

    @cached_property
    def floors(self) -> Floors:
        """Elapsed seconds of all parts, ready to be read."""
        shared = self.shared
        return Floors(
            Table(self.layers_s[FLOOR]),
            Table(self.head_s[FLOOR]),
            Table(self.decode_s[FLOOR]),
            self.prompts_s[FLOOR].mean(axis=1)[self.layout],
            self.launch_s[self.layout],
            Table(shared.experts_s[FLOOR]) if shared else None,
            Table(shared.exchange_s[FLOOR]) if shared else None,
            Table(shared.covers_s) if shared else None,
        )

    @cached_property
    def _starts(self) -> Codes:
        return self.layout * len(self.points)

    @cached_property
    def _widths(self) -> Floats:
        return self.points * (RATIO - 1.0)


class Table:
    """A quantity on the grid of every layout, (u, m), and its rise to the next point."""

    def __init__(self, values_s: Floats) -> None:
        rise = np.zeros_like(values_s)
        rise[:, :-1] = values_s[:, 1:] - values_s[:, :-1]
        self.values, self.rises = np.ravel(values_s), np.ravel(rise)


@dataclass(frozen=True)
class Floors:
    """Elapsed seconds by part: tables by tokens or sequences, and of a mean prompt; (n,).

    `launch_s` is the least that a step with prompts takes; (n,).
    """

    layers: Table
    head: Table
    decode: Table
    prompt_s: Floats
    launch_s: Floats
    experts: Table | None
    exchange: Table | None
    covers: Table | None


@dataclass(frozen=True)
class Place:
    """Points before some tokens in a table laid out flat, and shares of the way on; (n,) each."""

    cells: Codes
    shares: Floats

    def read(self, table: Table) -> Floats:
        """A quantity between points; (n,)."""
        return np.asarray(
            table.values.take(self.cells) + self.shares * table.rises.take(self.cells)
        )


def step_curves(
    rig: Rig,
    most_tokens: float,
    context_tokens: float,
    prompt_tokens: Floats,
    cached_tokens: Floats | float = 0.0,
) -> StepCurves:
    """Curves of every distinct layout of a rig.

    Parameters
    ----------
    rig : n candidates; its chips differ only as its plans do
    most_tokens : that a step holds at most
    context_tokens : keys that a decoding sequence meets, on average
    prompt_tokens : (q,) lengths of prompts
    cached_tokens : (q,) of each that were computed before and are met beside
    """
    first, layout = distinct(_layout_columns(rig))
    points = RATIO ** np.arange(int(np.ceil(np.log(most_tokens) / np.log(RATIO))) + 2)
    rows, tokens = np.repeat(first, len(points)), np.tile(points, len(first))
    steps = taken_rig(rig, rows)
    parts = step_parts(steps, tokens, np.full(len(rows), context_tokens))
    shape = (len(first), len(points))
    rows, lengths = np.repeat(first, len(prompt_tokens)), np.tile(prompt_tokens, len(first))
    prompts = taken_rig(rig, rows)
    cached = np.tile(cached_tokens + 0.0 * prompt_tokens, len(first))
    met = {ATTENTION: prefill_attention(prompts, np.ones(len(rows)), lengths, cached)}
    is_apart = bool(np.any(rig.plans.attention_data_parallel > 1))
    apart = (EXPERTS, EXCHANGE) if is_apart else ()
    return StepCurves(
        layout=layout,
        points=points,
        layers_s=_summed(steps, parts, lambda name: name not in (ATTENTION, HEAD, *apart), shape),
        head_s=_summed(steps, parts, lambda name: name == HEAD, shape),
        decode_s=_summed(steps, parts, lambda name: name == ATTENTION, shape),
        prompts_s=_summed(prompts, met, lambda _: True, (len(first), len(prompt_tokens))),
        launch_s=launched_s(rig)[first],
        shared=_shared(rig, steps, parts, shape) if is_apart else None,
    )


def _shared(rig: Rig, steps: Rig, parts: Parts, shape: tuple[int, int]) -> SharedCurves:
    """What attention copies share, from the parts of steps, a row each."""
    beside = (ATTENTION, HEAD, EXPERTS, EXCHANGE, WIRES)
    layers_frac, hides_frac = overlap_fracs(rig)
    return SharedCurves(
        experts_s=_summed(steps, parts, lambda name: name == EXPERTS, shape),
        exchange_s=_summed(steps, parts, lambda name: name == EXCHANGE, shape),
        covers_s=_summed(steps, parts, lambda name: name not in beside, shape)[FLOOR],
        layers_frac=layers_frac,
        hides_frac=hides_frac,
    )


def taken_rig(rig: Rig, rows: Codes) -> Rig:
    """The rig for some of its candidates; what is of one chip stays one row."""
    cells = {f.name: getattr(rig, f.name) for f in fields(rig)}
    return Rig(**{n: v if n in ("model", "engine") else kept(v, rows) for n, v in cells.items()})


def _layout_columns(rig: Rig) -> list[Codes]:
    """Integer columns that tell layouts apart; real ones by their bits."""
    named = [(f.name, getattr(rig.plans, f.name)) for f in fields(rig.plans)]
    columns = [np.asarray(column) for name, column in named if name not in NOT_OF_A_LAYOUT]
    chips = rig.chips
    columns += [chips.scaleup_bytes_per_s, chips.scaleout_bytes_per_s]
    columns += [chips.scaleup_topology_code]
    columns += [rig.limit.cap_frac] if rig.limit is not None else []
    return [_bits(np.broadcast_to(column, len(rig.plans))) for column in columns]


def _bits(column: Floats) -> Codes:
    is_real = column.dtype.kind == "f"
    return np.ascontiguousarray(column, float).view(np.int64) if is_real else column


def _summed(
    rig: Rig, parts: Parts, is_wanted: Callable[[str], bool], shape: tuple[int, int]
) -> Floats:
    """Quantities of the wanted parts, summed, each row at the clock of its cap; (k, *shape)."""
    wanted = [part for name, part in parts.items() if is_wanted(name)]
    total = np.zeros((len(QUANTITIES), shape[0] * shape[1]))
    for part in wanted:
        for i, name in enumerate(QUANTITIES[:EXCHANGED]):
            total[i] += getattr(part, name)
        total[EXCHANGED] += wires_s(part)
    total[INSIDE] /= rig.chips.scaleup_bytes_per_s
    if rig.limit is not None:
        total[FLOOR] = elapsed_s(wanted, rig.chips.power, rig.limit)
    return total.reshape(len(QUANTITIES), *shape)
