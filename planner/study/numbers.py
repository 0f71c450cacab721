"""The tables of a study whose keys are quantities: limits, pins, and scenarios of both and costs.

A scenario is a figure that the buyer does not choose: a budget not yet granted, a rent, a price of
carbon. Each of its values is checked as the key of its own table would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from planner.metrics import PINNABLE, Pinnable, can_be_negative, find_metric, metric_names
from planner.study.faults import Faults
from planner.study.lines import Path
from planner.study.parts import Costing

MOST_SCENARIOS = 1000  # our choice: each is costed in full and has a front of its own

_COSTING: type[Any] = Costing

NUMBERS_OF_COSTING = tuple(
    f.name
    for f in fields(Costing)
    if f.name not in ("site", "acquire", "carbon", "embodied", "money", "rent_plan")
    and "Mapping" not in str(f.type)
)
"""Keys of [costing] that are one number."""


def numbers(
    table: Mapping[str, Any], section: str, known: tuple[str, ...], faults: Faults
) -> Mapping[str, float]:
    """A table whose keys are quantities and whose values are numbers that they can have."""
    found: dict[str, float] = {}
    for name, value in table.items():
        if name not in known:
            faults.unknown_key((section, name), known, f"quantity [{section}] can hold")
        elif _is_possible((section, name), value, faults):
            found[name] = float(value)
    return MappingProxyType(found)


def pins(
    table: Mapping[str, Any], kind: str, faults: Faults, chip_name: Callable[[str], str]
) -> Mapping[str, float]:
    """The table [pin]; a figure of one chip under "name.CHIP".

    Parameters
    ----------
    table : a per-chip pin is a number for all chips, or a table by chip, or given as "name.CHIP"
    chip_name : the catalogue's spelling of a chip, or UnknownName
    """
    known = {name: pin for name, pin in PINNABLE.items() if kind in pin.kinds}
    found: dict[str, float] = {}
    for key, path, value in _flat(table, known):
        name, _, chip = key.partition(".")
        if name not in known or (chip and not known[name].is_per_chip):
            faults.unknown_key(path, known, "quantity [pin] can hold")
        elif _is_finite(path, value, faults):
            _check_bounds(known[name], path, value, faults)
            spelt = f"{name}.{faults.looked_up(chip_name, chip, path)}" if chip else name
            found[spelt] = float(value)
    return MappingProxyType(found)


def scenarios(
    tables: Mapping[str, Mapping[str, Any]], kind: str, faults: Faults
) -> Mapping[str, tuple[float, ...]]:
    """The table [scenarios]: [scenarios.costing] and [scenarios.limits], values of each key.

    Parameters
    ----------
    tables : all tables of the study as read
    """
    found: dict[str, tuple[float, ...]] = {}
    table = tables["scenarios"]
    if table and kind != "hardware":
        faults.say(
            ("scenarios",), f"a {kind} study has no scenarios", 'wanted kind = "hardware"; remove'
        )
        return MappingProxyType(found)
    known = {"costing": NUMBERS_OF_COSTING, "limits": metric_names(kind)}
    for section, inner in table.items():
        if section not in known or not isinstance(inner, Mapping):
            faults.unknown_key(("scenarios", section), known, "table of scenarios")
            continue
        for name, values in inner.items():
            path: Path = ("scenarios", section, name)
            if name not in known[section]:
                faults.unknown_key(path, known[section], f"number of [{section}]")
            elif _is_given(tables, section, name):
                faults.say(
                    path, f"{section}.{name} is given beside its scenarios", "remove one of them"
                )
            else:
                found[f"{section}.{name}"] = _levels(path, values, faults)
    _count(found, faults)
    return MappingProxyType(found)


def _flat(table: Mapping[str, Any], known: Mapping[str, Pinnable]) -> list[tuple[str, Path, Any]]:
    """Key, path and value of every pin, tables by chip taken apart."""
    found: list[tuple[str, Path, Any]] = []
    for name, value in table.items():
        if isinstance(value, Mapping) and name in known and known[name].is_per_chip:
            found += [(f"{name}.{c}", ("pin", name, c), item) for c, item in value.items()]
        else:
            found.append((name, ("pin", name), value))
    return found


def _is_finite(path: Path, value: Any, faults: Faults) -> bool:
    """A finite number; a fault is noted for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        faults.add(path, value, "is no number", f"write {path[-1]} = 60")
    elif value != value or abs(value) == float("inf"):
        faults.add(path, value, "is not finite", f"write {path[-1]} = 60")
    else:
        return True
    return False


def _is_possible(path: Path, value: Any, faults: Faults) -> bool:
    """A finite number that the metric can have; a fault is noted for anything else."""
    if not _is_finite(path, value, faults):
        return False
    if value >= 0 or can_be_negative(str(path[-1])):
        return True
    metric = find_metric(str(path[-1]))
    wanted = f"wanted {metric.doc}, at least 0 {metric.unit}".strip()
    faults.add(path, value, "is below 0, which no plan can be", wanted)
    return False


def _check_bounds(pin: Pinnable, path: Path, value: float, faults: Faults) -> None:
    if not pin.least <= value <= pin.most:
        bounds = f"from {pin.least:g} to {pin.most:g} {pin.unit}".strip()
        faults.add(path, value, "is out of bounds", f"wanted {pin.doc}, {bounds}")


def _is_given(tables: Mapping[str, Mapping[str, Any]], section: str, name: str) -> bool:
    """The key has a value of its own; a resolved study writes defaults out, which are none."""
    given = tables[section].get(name)
    return given is not None and given != getattr(Costing(), name, None)


def _levels(path: Path, values: Any, faults: Faults) -> tuple[float, ...]:
    """One number or a list of them, each as the key's own table would take it."""
    listed = values if isinstance(values, list | tuple) else [values]
    is_known = _is_possible if path[1] == "limits" else _is_finite
    found = [float(value) for value in listed if is_known(path, value, faults)]
    if len(set(found)) < len(found) or not listed:
        faults.add(path, values, "is empty or repeats", "wanted each value once")
    for value in found if path[1] == "costing" else ():
        _check_costing(path, value, faults)
    return tuple(found)


def _check_costing(path: Path, value: float, faults: Faults) -> None:
    key, shape = str(path[-1]), _COSTING
    try:
        TypeAdapter(shape).validate_python({key: value})
    except ValidationError as error:
        faults.take_pydantic(error, path[:-1], {key: value}, shape.__pydantic_fields__)


def _count(found: Mapping[str, tuple[float, ...]], faults: Faults) -> None:
    total = 1
    for values in found.values():
        total *= max(len(values), 1)
    if total > MOST_SCENARIOS:
        faults.say(
            ("scenarios",), f"{total} scenarios", f"wanted at most {MOST_SCENARIOS}; give fewer"
        )
