"""A purchase problem, and what was decided in it, as text: to be stored, and read back whole.

The problem is written by the fields of its classes, so a field more needs no word here. A plan is
written as what is not nought in it, by places in its problem. Its books are the same afterwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from planner.fleet.plan import Left, Plan, Running
from planner.fleet.problem import Problem
from simkernel.columns import Floats


def problem_text(problem: Problem) -> str:
    """A problem as JSON; infinite and unknown numbers as words."""
    return json.dumps(_plain(problem))


def problem_read(text: str) -> Problem:
    """The problem that `problem_text` wrote."""
    found: Problem = _restored(Problem, json.loads(text))
    return found


def plan_text(plan: Plan) -> str:
    """What a plan decides as JSON, without the columns of its program."""
    return json.dumps({
        "status": plan.status,
        "value": _plain(plan.value),
        "bound": _plain(plan.bound),
        "gap_frac": _plain(plan.gap_frac),
        "ordered": _cells(plan.ordered),
        "left": [_plain(one) for one in plan.left],
        "replicas": {name: _cells(counts) for name, counts in plan.replicas.items()},
        "runs": {name: [one.form, _cells(one.when)] for name, one in plan.runs.items()},
    })  # fmt: skip


def plan_read(problem: Problem, text: str) -> Plan:
    """The plan that `plan_text` wrote.

    Parameters
    ----------
    problem : in which it was decided
    """
    told, nodes = json.loads(text), len(problem.tree)
    options = {work.name: len(work.options) for work in problem.works}
    hours = max([len(s.by_hour) for s in problem.streams], default=1)
    shapes = {"begin": (nodes,), "on": (nodes,), "blocks": (nodes, hours)}
    return Plan(
        status=told["status"],
        value=float(told["value"]),
        bound=float(told["bound"]),
        gap_frac=float(told["gap_frac"]),
        ordered=_filled(told["ordered"], (len(problem.deals), nodes)),
        left=tuple(_restored(Left, one) for one in told["left"]),
        replicas={
            name: _filled(cells, (options[name], nodes))
            for name, cells in told["replicas"].items()
        },
        runs={
            name: Running(form, _filled(cells, (options[name], *shapes[form])))
            for name, (form, cells) in told["runs"].items()
        },
        columns=np.zeros(0),
    )


def _cells(values: Floats) -> list[list[float]]:
    """Places and values of all that is not nought."""
    return [[*map(int, place), float(values[tuple(place)])] for place in np.argwhere(values)]


def _filled(cells: Sequence[Sequence[float]], shape: tuple[int, ...]) -> Floats:
    found = np.zeros(shape)
    for *place, value in cells:
        found[tuple(map(int, place))] = value
    return found


def _plain(value: Any) -> Any:
    """A value as JSON holds it; pairs for tables, since their keys may be numbers."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return [[key, _plain(one)] for key, one in value.items()]
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def _restored(kind: Any, told: Any) -> Any:
    """A value of a type from its plain form."""
    origin, own = get_origin(kind) or kind, get_args(kind)
    if origin is UnionType:
        (kind,) = (one for one in own if one is not NoneType)
        return None if told is None else _restored(kind, told)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _restored(hints[name], one) for name, one in told.items()})
    if origin is np.ndarray:
        return np.array([float(one) if isinstance(one, str) else one for one in told])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _restored(own[1], one) for key, one in told}
    if origin is date:
        return date.fromisoformat(told)
    if origin is tuple or origin is Sequence:
        found = [_restored(own[0], one) for one in told]
        return tuple(found) if origin is tuple else found
    return kind(told)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
