"""What differs between two runs: what went in, what was removed, and the fronts row by row.

A plan of one run is the plan of another when its design key, site and way of acquiring agree;
plan names are a run's own. Knows nothing of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.archive_columns import Array, Columns
from planner.archive_runs import RunRecord

SAME_FRAC = 1e-9
"""Numbers this near are one number: the order of a sum moves them by 1e-12."""

NOT_METRICS = ("plan", "design_key", "status")
Pair = tuple[Any, Any]
Key = tuple[str, ...]


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
    only_left, only_right : keys of front rows that the other front does not have
    changed : key of a front row to its metrics that differ
    same : front rows that agree in every metric
    """

    left: str
    right: str
    study: Mapping[str, Pair]
    inputs: Mapping[str, Pair]
    facts: Mapping[str, Pair]
    counts: Mapping[str, Pair]
    rejections: Mapping[str, Pair]
    only_left: Sequence[Key]
    only_right: Sequence[Key]
    changed: Mapping[Key, Mapping[str, Pair]]
    same: int


def difference(left: Side, right: Side) -> Difference:
    """All that differs between two runs."""
    a, b = left.record, right.record
    rows_a, rows_b = _by_key(left.front), _by_key(right.front)
    both = {key: _changed(rows_a[key], rows_b[key]) for key in rows_a if key in rows_b}
    return Difference(
        left=a.run,
        right=b.run,
        study=_pairs(_flat(a.start.resolved), _flat(b.start.resolved)),
        inputs=_pairs(_inputs(a), _inputs(b)),
        facts=_pairs(left.facts, right.facts),
        counts=_pairs(_counts(a), _counts(b)),
        rejections=_pairs(left.rejections, right.rejections),
        only_left=[key for key in rows_a if key not in rows_b],
        only_right=[key for key in rows_b if key not in rows_a],
        changed={key: metrics for key, metrics in both.items() if metrics},
        same=sum(not metrics for metrics in both.values()),
    )


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


def _by_key(front: Columns) -> dict[Key, dict[str, Any]]:
    """Every row of a front by what it is, whatever its run called it."""
    lists = {name: _listed(values) for name, values in front.items()}
    keys = [lists.get("design_key") or lists.get("plan") or []]
    keys += [lists[name] for name in ("site", "acquire") if name in lists]
    metrics = [name for name in lists if name not in NOT_METRICS]
    rows = (dict(zip(metrics, row, strict=True)) for row in _rows(lists[m] for m in metrics))
    return dict(zip((tuple(map(str, key)) for key in _rows(keys)), rows, strict=True))


def _rows(lists: Iterable[Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
    return zip(*lists, strict=True)


def _listed(values: Array) -> list[Any]:
    """Plain values, None where there is no number."""
    listed: list[Any] = np.ma.asanyarray(values).tolist()
    return listed


def _changed(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Pair]:
    """Metrics that both rows have and that differ."""
    return _pairs(
        {name: value for name, value in left.items() if name in right},
        {name: value for name, value in right.items() if name in left},
    )
