"""Figures as a person reads them: units in multiples, names in words, NULL as nothing.

Used by app and report alike, so that a number is rounded the same way in both. Metrics keep their
names and units of the contract in tables; charts scale them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from planner.explain.plan import plain
from planner.metrics import METRICS, find_metric

GIB = 2.0**30
SWITCHES = ("validated", "liquid_cooled")
"""Metrics that are 0 or 1."""

LARGEST_WRITTEN_OUT = 1e15
"""Beyond 2^53 = 9e15 whole numbers lose digits in a browser."""

SCALES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "B": ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (GIB, "GiB"), (2.0**40, "TiB")),
    "W": ((1.0, "W"), (1e3, "kW"), (1e6, "MW"), (1e9, "GW")),
    "MWh": ((1.0, "MWh"), (1e3, "GWh"), (1e6, "TWh")),
    "USD": ((1.0, "$"), (1e3, "k$"), (1e6, "M$"), (1e9, "bn$")),
    "USD/year": ((1.0, "$/year"), (1e3, "k$/year"), (1e6, "M$/year"), (1e9, "bn$/year")),
    "USD/h": ((1.0, "$/h"),),
    "kgCO2e": ((1.0, "kgCO2e"), (1e3, "tCO2e"), (1e6, "ktCO2e")),
    "L": ((1.0, "L"), (1e3, "m³"), (1e6, "thousand m³")),
    "s": ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s")),
    "h": ((1.0, "h"), (1e6, "million h")),
    "1/s": ((1.0, "1/s"), (1e3, "thousand/s"), (1e6, "million/s"), (1e9, "billion/s")),
    "flop/s": ((1e9, "GFLOP/s"), (1e12, "TFLOP/s"), (1e15, "PFLOP/s"), (1e18, "EFLOP/s")),
    "day": ((1.0, "days"),),
}
"""Unit of a metric or ledger to its multiples, smallest first."""


def scale_of(unit: str, values: Iterable[Any]) -> tuple[float, str]:
    """The multiple of a unit in which the largest of some values is at least 1, and its name."""
    steps = SCALES.get(unit, ((1.0, unit),))
    known = [abs(float(value)) for value in values if value is not None]
    most = max((value for value in known if np.isfinite(value)), default=1.0)
    fitting = [step for step in steps if step[0] <= most]
    return fitting[-1] if fitting else (min(steps) if most else (1.0, dict(steps).get(1.0, unit)))


def unit_of(metric: str) -> str:
    """Unit of a metric as a screen scales it: products apart from tokens and requests."""
    return "flop/s" if "flop_per_s" in metric else find_metric(metric).unit


def axis_unit(metric: str, unit: str) -> str:
    """What an axis counts in: a unit, shares and switches of 1, or pieces."""
    if unit:
        return unit
    return "1" if metric.endswith("_frac") or metric in SWITCHES else "count"


def title_of(metric: str, unit: str) -> str:
    """A metric in words, with the unit a chart shows it in and which way is better."""
    found = find_metric(metric)
    better = {"minimise": ", less is better", "maximise": ", more is better"}
    named = f"{metric}: {found.doc}{better.get(found.direction, '')}"
    return f"{named} [{unit}]" if unit else named


def offered(front: Mapping[str, Any], objectives: Sequence[str]) -> list[str]:
    """Metrics of which a front has a figure somewhere, the objectives first."""
    names = dict.fromkeys((*objectives, *METRICS))
    return [name for name in names if name in front and _has_figures(front[name])]


def is_metric(name: str) -> bool:
    """True for a metric or an end of its band."""
    return name.removesuffix("_low").removesuffix("_high") in METRICS


def column_of(name: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Heading and cells of a table's column, scaled only where digits would be lost."""
    known = [abs(value) for value in values if isinstance(value, int | float)]
    if max(known, default=0.0) < LARGEST_WRITTEN_OUT:
        return name, values
    factor, unit = scale_of(unit_of(name) if is_metric(name) else "", known)
    return f"{name} [{unit}]", [None if value is None else value / factor for value in values]


def values_of(front: Mapping[str, Any], name: str) -> list[Any]:
    """A column as plain values; what is NULL is None, as is a column that is not there."""
    rows = len(front["plan"])
    if name not in front:
        return [None] * rows
    return [None if np.ma.is_masked(value) else plain(value) for value in front[name]]


def figure(value: Any) -> str:
    """A number in four digits, or with its thousands apart."""
    if value is None:
        return "not known"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def human(value: float | None, unit: str) -> str:
    """A number with its unit in the multiple that suits it."""
    factor, name = scale_of(unit, [value])
    return "not known" if value is None else f"{figure(value / factor)} {name}".strip()


def _has_figures(column: Any) -> bool:
    return any(
        value is not None for value in (plain(v) for v in np.ma.compressed(np.ma.asarray(column)))
    )
