"""What does not change from step to step of a serving plan: a model on placed chips, an engine.

What is of one chip stays one row, however many plans are on it: equations spread it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from simkernel.capped_passes import PowerLimit
from simkernel.columns import Floats, is_one_row, kept
from simkernel.hardware import OPERATIONS, Chips, GemmCurve, LinkCurve
from simkernel.models import Model
from simkernel.placement import Placement, place
from simkernel.serving_engine import Engine, EngineCurves
from simkernel.serving_plans import ServingPlans
from simkernel.traffic import Network, network


@dataclass(frozen=True)
class Rig:
    """What does not change from step to step: a model on placed chips under an engine.

    `chips` and `grouped_chips` have the engine's product curves, (n,) rows both; `limit` is None
    where no power is capped.
    """

    model: Model
    engine: Engine
    plans: ServingPlans
    chips: Chips
    grouped_chips: Chips
    curves: EngineCurves
    placement: Placement
    network: Network
    limit: PowerLimit | None = None

    @cached_property
    def kernels(self) -> Chips:
        """The chips as their kernels see them: one row where all are one chip."""
        return _of_one_chip(self.chips)

    @cached_property
    def grouped_kernels(self) -> Chips:
        """The same with the curves of grouped products."""
        return _of_one_chip(self.grouped_chips)


def rig_of(
    model: Model,
    engine: Engine,
    chips: Chips,
    curves: EngineCurves,
    plans: ServingPlans,
    limit: PowerLimit | None = None,
) -> Rig:
    """Plans on chips under an engine; `chips` and `curves` have one row per plan.

    Notes
    -----
    A precision that a chip cannot multiply in is one of the weights alone: products run in 16
    bits and read narrow weights.
    """
    placement = place(plans.degrees, plans.supernode_devices, plans.placement_code)
    links = replace(chips.scaleup, **_first_column(chips.scaleup, curves.all_reduce))
    able = replace(_weights_only(chips, curves.gemm), scaleup=links)
    grouped = _weights_only(chips, curves.grouped)
    wires = network(able, plans.supernode_devices, plans.oversubscription)
    return Rig(model, engine, plans, able, grouped, curves, placement, wires, limit)


def _first_column(links: LinkCurve, all_reduce: LinkCurve) -> dict[str, Floats]:
    """Link curves with another all-reduce, whose column is the first."""
    cells, count = {}, len(links.wire_frac)
    for name in (f.name for f in fields(LinkCurve)):
        own, others = _once(getattr(links, name), getattr(all_reduce, name))
        column = np.array(own, dtype=float)
        column[:, OPERATIONS.index("all_reduce")] = others
        cells[name] = _for_all(column, count)
    return cells


def _once(*columns: Floats) -> tuple[Floats, ...]:
    """Columns as one row where each of them repeats one, else as they are."""
    return tuple(c[:1] for c in columns) if all(is_one_row(c) for c in columns) else columns


def _for_all(column: Floats, count: int) -> Floats:
    """One row as a view that repeats it; more as they are."""
    one_row = len(column) == 1
    return np.broadcast_to(column, (count, *column.shape[1:])) if one_row else column


def _weights_only(chips: Chips, curve: GemmCurve) -> Chips:
    """Chips on which every precision multiplies: in 16 bits where they have no other way."""
    count = len(chips.peak_flop_per_s)

    def filled(values: Floats) -> Floats:
        (values,) = _once(values)
        first = np.where(np.isnan(values[:, :1]), values[:, 1:2], values[:, :1])
        return _for_all(np.where(np.isnan(values), first, values), count)

    every = {f.name: filled(getattr(curve, f.name)) for f in fields(GemmCurve)}
    return replace(chips, peak_flop_per_s=filled(chips.peak_flop_per_s), gemm=GemmCurve(**every))


def _of_one_chip(chips: Chips) -> Chips:
    is_one = is_one_row(chips.peak_flop_per_s) and is_one_row(chips.hbm_bytes_per_s)
    return kept(chips, np.zeros(1, dtype=np.int64)) if is_one else chips
