"""The table [axes] of a study: levels as given, defaults where nothing is said, one count."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from planner.axes import ALL, AXES, COUNTS, DERIVED, MOST, Axis, Level, axes_of
from planner.study.faults import Faults
from planner.study.levels import BadLevel, levels_of, what_to_do
from planner.study.lines import Path
from planner.study.names import Names
from planner.study.pools import POOLS, check_pools, of_all_chips


def axes_kind(tables: Mapping[str, Mapping[str, Any]], kind: str) -> str:
    """The kind of study whose axes and pins are meant: of a purchase plan that of its workloads.

    Without a workload it plans hardware alone; only where it has both kinds has it all axes.
    """
    if kind != "fleet":
        return kind
    kinds = {
        work.get("kind", "train") if isinstance(work, Mapping) else "train"
        for work in tables["workload"].values()
    }
    if not kinds:
        return "hardware"
    return str(kinds.pop()) if len(kinds) == 1 and kinds <= {"train", "serve"} else kind


def read_axes(
    table: Mapping[str, Any],
    kind: str,
    faults: Faults,
    names: Names,
    *,
    is_fleet: bool = False,
) -> Mapping[str, tuple[Level, ...]]:
    """Levels of every axis of a kind, in the order of `planner.axes`; faults are noted.

    Parameters
    ----------
    table : [axes] as given
    kind : of the study
    faults : where what is wrong is noted, with its path
    names : how accelerators are looked up
    is_fleet : of a purchase plan, which asks for as much as its limits allow
    """
    if kind == "mixed" and not table:  # its devices stand in [mixed]
        return MappingProxyType({})
    known = {axis.name: axis for axis in axes_of(kind)}
    given = _flat_pools(table, kind)
    for name in given:
        if name.rpartition(".")[2] not in known:
            faults.unknown_key(("axes", *name.split(".")), known, f"axis of a {kind} study")
    if kind in ("serve", "fleet") and not any(name in given for name in COUNTS):
        given["devices"] = DERIVED
    if is_fleet and kind == "hardware" and not any(name in given for name in COUNTS):
        given["supernodes"] = MOST
    if both := of_all_chips(given, "accelerator"):
        given["accelerator"] = both
    count = _count_axis(given, faults)
    chosen: dict[str, tuple[Level, ...]] = {}
    for name, axis in known.items():
        if name in given:
            chosen[name] = _levels(axis, given[name], ("axes", name), faults, names)
        elif name not in COUNTS:
            chosen[name] = _default(axis, faults)
    for name in (key for key in given if "." in key and key.rpartition(".")[2] in known):
        axis = known[name.rpartition(".")[2]]
        chosen[name] = _levels(axis, given[name], ("axes", *name.split(".")), faults, names)
    found = {k: v for k, v in chosen.items() if k not in COUNTS or k == count}
    check_pools(found, faults)
    return MappingProxyType(found)


def _flat_pools(table: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Tables [axes.prefill] and [axes.decode] as keys prefill.X and decode.X."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if name in POOLS and kind in AXES["batching"].kinds:
            inner = value if isinstance(value, Mapping) else {}
            flat.update({f"{name}.{key}": item for key, item in inner.items()})
        else:
            flat[name] = value
    return flat


def _count_axis(given: Mapping[str, Any], faults: Faults) -> str:
    """Which of devices, nodes, supernodes the study gives."""
    counts = [name for name in COUNTS if name in given]
    if len(counts) > 1:
        faults.say(
            ("axes", counts[1]),
            f"axes.{' and axes.'.join(counts)} both say how many chips",
            "wanted one of them; remove the others",
        )
    if not counts:
        faults.missing(("axes", "devices"), "how many chips, e.g. devices = [512, 1024]")
    return counts[0] if counts else "devices"


def _default(axis: Axis, faults: Faults) -> tuple[Level, ...]:
    if not axis.default:
        faults.missing(("axes", axis.name), f"{axis.doc}; {what_to_do(axis)}")
    return axis.default


def _levels(
    axis: Axis, given: object, path: Path, faults: Faults, names: Names
) -> tuple[Level, ...]:
    try:
        levels = levels_of(axis, given)
    except BadLevel as error:
        faults.add(path, given, str(error), what_to_do(axis))
        return axis.default
    if axis.name != "accelerator" or levels == (ALL,):
        return levels
    found = tuple(faults.looked_up(names.accelerator, str(x), path) for x in levels)
    if len(set(found)) < len(found):
        faults.add(path, given, "two names mean one chip", "wanted each chip once; remove one")
    return found
