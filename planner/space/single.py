"""One candidate out of a study, in a space wide enough to look around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from planner.axes import ALL, AXES, CATALOGUE, COUNTS, DERIVED, OFFERED, Axis, Level
from planner.runs.physics import physics_of
from planner.space.blocks import bills, keys_of
from planner.study.read import Study
from simkernel.errors import BadStudy

LADDER = 2
"""Neighbours of a whole number are half and twice of it."""

LEFT_ALONE = (
    "accelerator", "profile", "compute", "scaleout_fabric", "data_parallel", "kv_transfer",
)  # fmt: skip
"""Axes that are not widened: another chip is another study, the rest has one value."""


@dataclass(frozen=True)
class Single:
    """One candidate: its design key in an engine whose space holds its neighbours too.

    `taken` are axes that the study left open, with the value taken: the first.
    """

    engine: Any
    key: int
    taken: Mapping[str, Level]


def single(study: Study) -> Single:
    """The candidate of a study in which every axis has one value, or is taken at its first.

    Raises
    ------
    BadStudy : "all" accelerators, or a supernode size the chip does not offer
    """
    physics = physics_of(study)
    return physics.pairs.single(study) if physics.pairs else one_of(study, physics.prepare)


def one_of(study: Study, prepare: Callable[[Study], Any]) -> Single:
    """The same, of engines that are prepared so."""
    chosen = {name: levels[0] for name, levels in study.axes.items() if name in AXES}
    taken = {n: v for n, v in chosen.items() if len(study.axes[n]) > 1}
    if chosen["accelerator"] == ALL:
        raise BadStudy(
            'axes.accelerator = "all" is many candidates; wanted one; add --set accelerator=NAME'
        )
    narrow = prepare(replace(study, axes=_frozen({n: (v,) for n, v in chosen.items()})))
    if chosen["supernode_devices"] == OFFERED:
        taken |= {"supernode_devices": _domain(narrow)}
    engine = prepare(_widened(study, chosen))
    wide = {**chosen, **_bill_values(narrow, taken, chosen)}
    return Single(engine, _key(engine, wide), MappingProxyType(taken))


def _frozen(axes: Mapping[str, tuple[Level, ...]]) -> Mapping[str, tuple[Level, ...]]:
    return MappingProxyType(dict(axes))


def _domain(narrow: Any) -> Level:
    """The largest offered domain of which no smaller one already holds all devices."""
    rows = [bill.values["supernode_devices"] for bill in bills(narrow.space) if not bill.masked_by]
    return rows[-1] if rows else narrow.space.levels["supernode_devices"][-1]


def _bill_values(
    narrow: Any, taken: Mapping[str, Level], chosen: Mapping[str, Level]
) -> dict[str, Level]:
    """Devices and supernode size as the space counts them, whatever the study counts in."""
    levels = narrow.space.levels
    domain = taken.get("supernode_devices", levels["supernode_devices"][-1])
    chassis = {"chassis_devices": levels["chassis_devices"][0]}
    if "supernodes" in chosen and isinstance(domain, int):
        devices = int(chosen["supernodes"]) * domain
        return {**chassis, "devices": devices, "supernode_devices": domain}
    return {**chassis, "devices": levels["devices"][0], "supernode_devices": domain}


def _widened(study: Study, chosen: Mapping[str, Level]) -> Study:
    """The study with the neighbours of the chosen value on every axis that can be varied."""
    axes = {
        name: levels if name in LEFT_ALONE else _around(AXES[name], levels, chosen[name])
        for name, levels in study.axes.items()
        if name in AXES
    }
    axes = {n: (chosen[n],) if n == "accelerator" else levels for n, levels in axes.items()}
    if study.network.any_supernode:
        named = (chosen["supernode_devices"], *study.axes["supernode_devices"])
        axes["supernode_devices"] = tuple(dict.fromkeys(named))
    return replace(study, axes=_frozen(axes))


def _around(axis: Axis, levels: tuple[Level, ...], value: Level) -> tuple[Level, ...]:
    """The study's own levels, and the nearest others that the axis allows."""
    more: list[Level] = [value, *levels]
    if axis.name == "zero_stage":
        more += [0, 1, 2, 3]
    elif axis.name == "shard_devices":
        more += [0]
    elif axis.name in ("first_stage_layers", "last_stage_layers"):
        more += [0, *([value - 1, value + 1] if isinstance(value, int) and value > 1 else [])]
    elif axis.name == "speculative":  # who else could draft, the study does not say
        more += list(axis.default)
    elif axis.name == "supernode_devices" and OFFERED not in levels:
        return (OFFERED,)
    elif axis.values == "integer" and isinstance(value, int) and value >= 1:
        more += [value * LADDER, *([value // LADDER] if value % LADDER == 0 else [])]
    elif axis.values == "name" and axis.names and not axis.is_bill and axis.name != "placement":
        more += [n for n in axis.names if not axis.ready or n in axis.ready]
    if axis.is_bill and axis.name not in (*COUNTS, "supernode_devices"):
        more = [value, *levels]
    words = (CATALOGUE, DERIVED, OFFERED)
    named = [level for level in dict.fromkeys(more) if level not in words]
    return tuple(named) if named else levels


def _key(engine: Any, chosen: Mapping[str, Level]) -> int:
    """Design key of the chosen values in a space."""
    space, faults, codes = engine.space, [], []
    for name in space.axes:
        levels = space.levels[name]
        value = chosen.get(name, levels[0])
        if value not in levels:
            faults.append(
                f"axes.{name} = {value!r} is not possible here; wanted one of {list(levels)[:12]}"
            )
            value = levels[0]
        codes.append(levels.index(value))
    if faults:
        raise BadStudy(*faults)
    return int(keys_of(space, np.array([codes], dtype=np.int32))[0])
