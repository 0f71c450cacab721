"""Prefill and decode apart: which axes each pool has, as a serving study of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from planner.axes import AFTER_PREFILL, COUNTS, DERIVED, NO_PREFIX_CACHE, Level
from planner.study.faults import Faults

if TYPE_CHECKING:
    from planner.study.read import Study

PREFILL, DECODE = "prefill", "decode"
POOLS = (PREFILL, DECODE)

TRANSFER = "kv_transfer"
OF_BOTH = (TRANSFER, "scaleout_fabric", "oversubscription")
"""Axes that the pools share: one fabric joins them, and one way of sending."""


def has_pools(study: Study) -> bool:
    """The study gives at least one axis to one of the pools alone."""
    return any("." in name for name in study.axes)


def pool_study(study: Study, pool: str) -> Study:
    """The study as one pool sees it: its own axes in the place of those for both.

    How keys and values are sent is nothing that one pool decides.
    """
    own = {n.partition(".")[2]: v for n, v in study.axes.items() if n.startswith(f"{pool}.")}
    counted = [name for name in COUNTS if name in own]
    axes = {name: levels for name, levels in study.axes.items() if "." not in name}
    axes[TRANSFER] = (AFTER_PREFILL,)
    if counted:
        axes = {name: levels for name, levels in axes.items() if name not in COUNTS}
    return replace(study, axes=MappingProxyType(_in_order(axes, own)))


def _in_order(
    axes: Mapping[str, tuple[Level, ...]], own: Mapping[str, tuple[Level, ...]]
) -> dict[str, tuple[Level, ...]]:
    """Axes with those of one pool over them; a count of its own comes second, as counts do."""
    found = {name: own.get(name, levels) for name, levels in axes.items()}
    more = {name: levels for name, levels in own.items() if name not in found}
    first = dict(list(found.items())[:1])
    return {**first, **more, **found}


def of_all_chips(given: Mapping[str, object], name: str) -> list[object] | None:
    """What both pools give of an axis that the study leaves out, each level once; else None."""
    keys = [f"{pool}.{name}" for pool in POOLS]
    if name in given or not all(key in given for key in keys):
        return None
    found: list[object] = []
    for key in keys:
        levels = given[key]
        found += levels if isinstance(levels, list | tuple) else [levels]
    return list(dict.fromkeys(found))


def unsaid_pool(study: Study) -> list[str]:
    """Counts of devices that do not say which pool has them, as faults."""
    return [
        f"axes.{name} does not say which pool has them; wanted prefill.{name} and decode.{name}, "
        "or neither: the load decides"
        for name in COUNTS
        if study.axes.get(name, (DERIVED,)) != (DERIVED,)
    ] + [
        f"axes.{name}: prefix caches of pools apart are not evaluated in this version; remove it"
        for name, levels in study.axes.items()
        if name.rpartition(".")[2] == "prefix_cache" and levels != (NO_PREFIX_CACHE,)
    ]


def check_pools(axes: Mapping[str, tuple[Level, ...]], faults: Faults) -> None:
    """What an axis of one pool, or of both, cannot mean; faults are noted."""
    pooled = [name for name in axes if "." in name]
    for name in pooled:
        pool, _, axis = name.partition(".")
        if axis in OF_BOTH:
            problem = f"one fabric joins both pools, and {axis} is of it"
            faults.say(("axes", pool, axis), problem, f"write axes.{axis}, for both")
    for pool in POOLS:
        counts = [name for name in COUNTS if f"{pool}.{name}" in axes]
        if len(counts) > 1:
            faults.say(("axes", pool), f"{' and '.join(counts)} both say how many chips",
                       "wanted one of them")  # fmt: skip
