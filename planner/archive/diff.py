"""What differs between two runs: what went in, what was removed, and the fronts row by row.

A plan of one run is the plan of another when all axes that both runs wrote agree, and site and way
of acquiring; plan names and design keys are a study's own. Knows nothing of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.archive.columns import Array, Columns, design_keys
from planner.archive.runs import RunRecord
from planner.axes import AXES

SAME_FRAC = 1e-9
"""Numbers this near are one number: the order of a sum moves them by 1e-12."""

NAMES = ("plan", "site", "acquire", "scenario")
NOT_METRICS = (*NAMES, "design_key", "status", "null_reasons", *AXES)
Pair = tuple[Any, Any]
Row = tuple[str, ...]
Front = dict[Row, tuple[Row, dict[str, Any]]]
"""What a row is (in any run), to what its run calls it and its metrics."""


@dataclass(frozen=True)
class Side:
    """One of the two runs: its record, facts by name, rejections by reason, front."""

    record: RunRecord
    facts: Mapping[str, Any]
    rejections: Mapping[str, int]
    front: Columns


@dataclass(frozen=True)
class Difference:
    """Everything that is not the same; a pair is (left, right), None where it is missing.

    Parameters
    ----------
    left, right : run ids
    study : path in the resolved study to its two values
    inputs : seed, facts hash, versions
    facts : fact name to its two values
    counts : enumerated, evaluated, fronts and the front hash
    rejections : reason to its two counts
    only_left, only_right : front rows the other front does not have: plan, site, acquire
    changed : front row, named as in the left run, to its metrics that differ
    same : front rows that agree in every metric
    """

    left: str
    right: str
    study: Mapping[str, Pair]
    inputs: Mapping[str, Pair]
    facts: Mapping[str, Pair]
    counts: Mapping[str, Pair]
    rejections: Mapping[str, Pair]
    only_left: Sequence[Row]
    only_right: Sequence[Row]
    changed: Mapping[Row, Mapping[str, Pair]]
    same: int


def difference(left: Side, right: Side) -> Difference:
    """All that differs between two runs."""
    a, b = left.record, right.record
    axes = sorted(set(AXES) & set(left.front) & set(right.front))
    rows_a, rows_b = _by_what(left.front, axes), _by_what(right.front, axes)
    both = {
        name: _changed(metrics, rows_b[key][1])
        for key, (name, metrics) in rows_a.items()
        if key in rows_b
    }
    return Difference(
        left=a.run,
        right=b.run,
        study=_pairs(_flat(a.start.resolved), _flat(b.start.resolved)),
        inputs=_pairs(_inputs(a), _inputs(b)),
        facts=_pairs(left.facts, right.facts),
        counts=_pairs(_counts(a), _counts(b)),
        rejections=_pairs(left.rejections, right.rejections),
        only_left=[name for key, (name, _) in rows_a.items() if key not in rows_b],
        only_right=[name for key, (name, _) in rows_b.items() if key not in rows_a],
        changed={name: metrics for name, metrics in both.items() if metrics},
        same=sum(not metrics for metrics in both.values()),
    )


def with_axes(front: Columns, physical: Columns) -> dict[str, Array]:
    """A front with the axes of its plans, as far as the physical front has written them."""
    missing = [name for name in physical if name in AXES and name not in front]
    if not front or not missing:
        return dict(front)
    rows = {plan: row for row, plan in enumerate(physical["plan"].tolist())}
    found = np.array([rows[plan] for plan in front["plan"].tolist()], dtype=np.int64)
    return {**front, **{name: physical[name][found] for name in missing}}


def _pairs(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Pair]:
    """What two mappings do not agree on, in reading order."""
    names = [*left, *(name for name in right if name not in left)]
    pairs = ((name, (left.get(name), right.get(name))) for name in names)
    return {name: pair for name, pair in pairs if not _same(*pair)}


def _same(left: Any, right: Any) -> bool:
    """Equal, or numbers too near to tell apart."""
    is_number = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (left, right))
    if is_number:
        return abs(left - right) <= SAME_FRAC * max(abs(left), abs(right))
    return bool(left == right)


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """A nested mapping as path to value; lists stay whole."""
    if not isinstance(value, Mapping):
        return {path: value}
    parts = (_flat(inner, f"{path}.{name}".lstrip(".")) for name, inner in value.items())
    return {name: inner for part in parts for name, inner in part.items()}


def _inputs(record: RunRecord) -> dict[str, Any]:
    start = record.start
    return {"seed": start.seed, "facts_hash": start.facts_hash, **start.versions}


def _counts(record: RunRecord) -> dict[str, Any]:
    names = ("enumerated", "evaluated", "physical_front", "front", "front_hash")
    return {name: getattr(record.summary, name) for name in names} if record.summary else {}


def _by_what(front: Columns, axes: Sequence[str]) -> Front:
    """Every row of a front by its axes, site and way of acquiring; by its plan without axes."""
    lists = {name: np.ma.asanyarray(values).tolist() for name, values in front.items()}
    plans = lists.get("plan", [])
    whats = design_keys({axis: front[axis] for axis in axes}).tolist() if axes else plans
    places = [name for name in NAMES[1:] if name in lists]
    metrics = [n for n in lists if n not in NOT_METRICS and not _is_document(lists[n])]
    rows: Front = {}
    for i, (what, plan) in enumerate(zip(whats, plans, strict=True)):
        place = tuple(str(lists[name][i]) for name in places)
        rows[(str(what), *place)] = (
            (str(plan), *place),
            {name: lists[name][i] for name in metrics},
        )
    return rows


def _is_document(values: Sequence[Any]) -> bool:
    """A column of whole documents, such as calendars, which are compared where they are read."""
    return all(isinstance(value, str) and value[:1] in ("", "{") for value in values)


def _changed(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Pair]:
    """Metrics that both rows have and that differ."""
    return _pairs(
        {name: value for name, value in left.items() if name in right},
        {name: value for name, value in right.items() if name in left},
    )
