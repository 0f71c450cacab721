"""A pipeline's program: what its devices run, in which order, and what each pass waits for.

Written by the schedules' own `order` and laid out in arrays, once per schedule, depth and number
of micro-batches. A device's items run one after the other; between devices a pass waits for one
pass of a neighbour, which a token stands for: one place of the model and one micro-batch.
"""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from simkernel import plugins
from simkernel.columns import Codes
from simkernel.errors import BadStudy

KINDS = ("forward", "backward", "input", "weight")
FORWARD, BACKWARD, INPUT, WEIGHT, PAIR = range(5)
"""Codes of passes; an item of two passes takes the time of a pair."""

NOTHING = -1

KEPT_PROGRAMS = 8
"""Programs kept for the next plan of the same schedule: a few, so that memory stays flat."""


class Program(NamedTuple):
    """The items of all devices of one pipeline.

    Parameters
    ----------
    first : (devices + 1,) items of device d are first[d] to first[d + 1]
    kinds : (items, 2) codes of the passes of an item, NOTHING where there is no second
    tokens : (items, 2) what the passes are about: (walk x places + place) x micro-batches + batch
    stage : (items,) model stage of the first pass, whose times an item takes
    other : (items,) model stage of the second pass, else of the first
    cost : (items,) kind that an item's time is looked up by: PAIR for two passes
    places : a walk through the model has so many
    micro_batches : of one walk
    walks : through the model: two where a stage is served from both ends
    """

    first: Codes
    kinds: Codes
    tokens: Codes
    stage: Codes
    other: Codes
    cost: Codes
    places: int
    micro_batches: int
    walks: int

    @property
    def devices(self) -> int:
        """Devices along the pipeline."""
        return len(self.first) - 1


@lru_cache(maxsize=KEPT_PROGRAMS)
def program_of(schedule: str, devices: int, chunks: int, micro_batches: int) -> Program:
    """The program of a schedule.

    Parameters
    ----------
    schedule : a file of simkernel/schedules
    devices : along the pipeline
    chunks : virtual stages of each device
    micro_batches : of one replica and step

    Raises
    ------
    BadStudy : the schedule cannot be run with so many micro-batches
    """
    module = plugins.find("schedules", schedule)
    if not bool(module.fills(np.array(devices), np.array(micro_batches))):
        raise BadStudy(
            f"schedule {schedule} cannot run {micro_batches} micro-batches on {devices} devices; "
            "give a global batch that fills it"
        )
    stages = devices * module.TRAITS.stages_held // module.TRAITS.stage_copies
    lines = [_flat(module.order(d, devices, chunks, micro_batches)) for d in range(devices)]
    first = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    passes, device = np.concatenate(lines), np.repeat(np.arange(devices), np.diff(first))
    kinds = np.ascontiguousarray(passes[:, :, 0])
    walk, place = _places(module, device[:, None], passes[:, :, 1], devices, stages)
    places = stages * chunks
    tokens = (walk * places + place) * micro_batches + passes[:, :, 2]
    is_pair = kinds[:, 1] != NOTHING
    stage = place % stages
    return Program(
        first=first.astype(np.int64),
        kinds=kinds,
        tokens=np.where(kinds == NOTHING, NOTHING, tokens),
        stage=np.ascontiguousarray(stage[:, 0]),
        other=np.where(is_pair, stage[:, 1], stage[:, 0]),
        cost=np.where(is_pair, PAIR, kinds[:, 0]),
        places=places,
        micro_batches=micro_batches,
        walks=module.TRAITS.stage_copies if module.TRAITS.stages_held > 1 else 1,
    )


def _flat(order: list[tuple[tuple[str, int, int], ...]]) -> Codes:
    """Items as numbers; (items, 2, 3): kind, chunk, batch of up to two passes."""
    code = {name: i for i, name in enumerate(KINDS)}
    nothing = (NOTHING, 0, 0)
    rows = [
        [
            (code[item[0][0]], item[0][1], item[0][2]),
            (code[item[1][0]], item[1][1], item[1][2]) if len(item) > 1 else nothing,
        ]
        for item in order
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), 2, 3)


def _places(
    module: ModuleType, device: Codes, chunk: Codes, devices: int, stages: int
) -> tuple[Codes, Codes]:
    """Which walk through the model a chunk belongs to, and where in it; as `device` and `chunk`.

    A device that serves two stages has the i-th from either end: its second chunk is the mirror.
    """
    held, copies = module.TRAITS.stages_held, module.TRAITS.stage_copies
    if held == 1:
        return np.zeros_like(chunk), chunk * devices + device
    walk = chunk if copies > 1 else np.zeros_like(chunk)
    return walk, np.where(chunk == 1, stages - 1 - device, device + 0 * chunk)
