"""What would have to give where nothing is feasible: each limit's smallest relaxation, proved.

One limit at a time is left out and its own metric made the only objective: what the best plan has
then is the least that the limit has to be, all others kept. The study with that limit is evaluated
before anything is said. A latency that a fleet is sized for is bisected instead, since another
bound means another fleet. Where no single limit is enough all are relaxed by one share.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from planner.axes import ALL, DERIVED, OFFERED
from planner.costing.second_pass import Costed, front_columns
from planner.explain.plan import plain
from planner.hardware.study import is_open
from planner.metrics import find_metric, is_at_least, metric_names
from planner.runs.kinds import kind_of
from planner.runs.total import Total
from planner.search.choice import Budget, chosen
from planner.search.drivers import searched
from planner.search.seam import Explored
from planner.search.sweep import BillResult
from planner.study.parts import Objectives
from planner.study.read import Study

RELAXED = ("train", "serve", "hardware")
"""Kinds of study that are looked through again; purchase plans are solved with their limits."""

SOLVE_S = 30.0
"""What looking for one relaxation may take; a space that takes longer is searched, not swept."""

DIGITS = 4
"""Significant digits of a relaxed limit, rounded away from the limit given."""

CLOSE_FRAC = 2e-3
"""A bisected limit is known to this share."""

MOST_DOUBLINGS = 20
"""Of a share by which all limits are relaxed, from one per cent on: to 5,000 times themselves."""


NOT_OF_LIMITS = (
    "no plan is feasible however far they give: it is not they that stop it, see what cannot "
    "exist and what is rejected"
)


@dataclass(frozen=True)
class Bound:
    """A limit of a study, or a bound on a latency of its workload.

    Parameters
    ----------
    name : of the metric
    given : value
    is_slo : it stands in the workload's slo, not in [limits]
    """

    name: str
    given: float
    is_slo: bool = False

    @property
    def is_at_least(self) -> bool:
        """It is the least allowed value."""
        return is_at_least(self.name)

    def moved(self, study: Study, value: float | None) -> Study:
        """The study with another value of it; None for without. A latency becomes a limit."""
        if self.is_slo:
            study = _without_slo(study, self.name)
        limits = {n: v for n, v in study.limits.items() if n != self.name}
        limits |= {} if value is None else {self.name: value}
        return replace(study, limits=MappingProxyType(limits))

    def outward(self, value: float) -> float:
        """A value rounded away from the given one."""
        if not value:
            return 0.0
        scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(abs(value))))
        whole = value * scale * (1.0 - 1e-12 if not self.is_at_least else 1.0 + 1e-12)
        return (math.floor(whole) if self.is_at_least else math.ceil(whole)) / scale


@dataclass(frozen=True)
class Solved:
    """A study looked through: its front as columns, {} for none, and whether all was seen."""

    front: Mapping[str, Any]
    is_whole: bool

    def figure(self, name: str) -> float:
        """Of the best plan."""
        return float(self.front[name][0])


def relaxations(study: Study, costed: Costed | None, workers: int = 1) -> dict[str, Any]:
    """How far each limit has to be relaxed until a plan is feasible, all others kept.

    Parameters
    ----------
    study : nothing of it is feasible
    costed : its rows after costing; None where physics left none
    workers : processes of a sweep

    Returns
    -------
    "relaxations": one line per limit, with the value "needed" and a plan that is feasible then, or
    "why" there is none; "together": the share by which all must give where one is not enough
    """
    bounds = list(bounds_of(study))
    if not bounds or study.kind not in RELAXED:
        return {}
    lines = [_line(study, bound, costed, workers) for bound in bounds]
    found: dict[str, Any] = {"relaxations": lines}
    if all(line["needed"] is None for line in lines) and len(bounds) > 1:
        found["together"] = _together(study, bounds, workers)
    return found


def bounds_of(study: Study) -> Iterator[Bound]:
    """Every limit of a study that may be relaxed; those of scenarios and classes are not."""
    for name, given in study.limits.items():
        if f"limits.{name}" not in study.scenarios:
            yield Bound(name, given)
    if study.kind != "serve":
        return
    known = metric_names("serve")
    for name, value in study.serving.slo.items():
        if name in known and name not in study.limits and isinstance(value, int | float):
            yield Bound(name, float(value), is_slo=True)


def _line(study: Study, bound: Bound, costed: Costed | None, workers: int) -> dict[str, Any]:
    line = {
        "limit": bound.name,
        "given": bound.given,
        "unit": find_metric(bound.name).unit,
        "needed": None,
    }
    value, best = _least(study, bound, costed, workers)
    if value is None:
        more = "" if best.is_whole else f" that was found in {SOLVE_S:g} s"
        return {**line, "why": f"without it no plan{more} keeps the other limits either"}
    needed = bound.outward(value)
    relaxed = bound.moved(study, needed)
    proof = _solved(relaxed if best.is_whole else _at_plan(relaxed, best.front), workers)
    if not proof.front:
        return {**line, "why": f"no plan was found at {needed:g}, which should do"}
    return {
        **line,
        "needed": needed,
        "change_frac": needed / bound.given - 1.0 if bound.given else None,
        "plan": str(proof.front["plan"][0]),
        "site": str(proof.front["site"][0]),
        "accelerator": str(proof.front["accelerator"][0]),
        "devices": int(proof.front["devices"][0]),
        "is_smallest": best.is_whole,
    }


def _least(
    study: Study, bound: Bound, costed: Costed | None, workers: int
) -> tuple[float | None, Solved]:
    """The nearest value of a limit at which a plan is feasible, and what was looked through."""
    if study.kind == "hardware" and is_open(study):
        return _least_of_rows(bound, costed), Solved({}, is_whole=True)
    key = "maximise" if bound.is_at_least else "minimise"
    alone = replace(bound.moved(study, None), objectives=Objectives(**{key: (bound.name,)}))
    best = _solved(alone, workers)
    if not best.front:
        return None, best
    value = best.figure(bound.name)
    if _is_sized_for(study, bound):
        value = _bisected(study, bound, value, workers)
    return value, best


def _at_plan(study: Study, front: Mapping[str, Any]) -> Study:
    """The study narrowed to the best plan, on every axis that the plan tells the level of."""
    axes = {}
    for name, levels in study.axes.items():
        value = plain(front[name][0]) if name in front else None
        is_told = value in levels or levels in ((OFFERED,), (ALL,))
        axes[name] = (value,) if value is not None and is_told else levels
    return replace(study, axes=MappingProxyType(axes))


def _least_of_rows(bound: Bound, costed: Costed | None) -> float | None:
    """The same of options whose count is open: each stands for the most, or the least, it can."""
    if costed is None or bound.name not in costed.limits:
        return None
    names = list(costed.limits)
    others = np.delete(costed.excess, names.index(bound.name), axis=0)
    have = np.asarray(costed.limits[bound.name].have, float)
    have = have[(others <= 0).all(axis=0) & np.isfinite(have)]
    if not len(have):
        return None
    return float(have.max() if bound.is_at_least else have.min())


def _is_sized_for(study: Study, bound: Bound) -> bool:
    """Another bound on it would make another fleet of the same plan."""
    is_latency = bound.name.startswith(("ttft_s", "tpot_s", "e2e_s"))
    counts = (study.axes.get(name, (DERIVED,)) for name in ("devices", "replicas"))
    return study.kind == "serve" and is_latency and all(c == (DERIVED,) for c in counts)


def _bisected(study: Study, bound: Bound, enough: float, workers: int) -> float:
    """The smallest bound at which a plan is feasible, between the one given and one that is."""
    low, high = bound.given, max(enough, bound.given)
    while high > low * (1.0 + CLOSE_FRAC):
        middle = math.sqrt(low * high)
        if _solved(bound.moved(study, middle), workers).front:
            high = middle
        else:
            low = middle
    return high


def _together(study: Study, bounds: Sequence[Bound], workers: int) -> dict[str, Any]:
    """The share by which all limits must give until a plan is feasible."""

    def moved(share: float) -> Study:
        relaxed = study
        for bound in bounds:
            factor = 1.0 / (1.0 + share) if bound.is_at_least else 1.0 + share
            relaxed = bound.moved(relaxed, bound.given * factor)
        return relaxed

    low, high = 0.0, 0.01
    for _ in range(MOST_DOUBLINGS):
        if _solved(moved(high), workers).front:
            break
        low, high = high, 2.0 * high
    else:
        return {"change_frac": None, "why": NOT_OF_LIMITS}
    while 1.0 + high > (1.0 + low) * (1.0 + CLOSE_FRAC):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _solved(moved(middle), workers).front else (middle, high)
    proof = _solved(moved(high), workers)
    return {
        "change_frac": high,
        "plan": str(proof.front["plan"][0]),
        "site": str(proof.front["site"][0]),
        "is_smallest": proof.is_whole,
    }


def _without_slo(study: Study, name: str) -> Study:
    """The study with one latency less to meet."""
    slo = {key: value for key, value in study.serving.slo.items() if key != name}
    works = {
        key: replace(work, slo=slo) if work is study.serving else work
        for key, work in study.workloads.items()
    }
    return replace(study, workloads=MappingProxyType(works))


def _solved(study: Study, workers: int) -> Solved:
    """A study looked through, all of it or for `SOLVE_S`; nothing is stored or replayed."""
    study = replace(study, search=replace(study.search, replay=0, driver="auto"))
    kind, started = kind_of(study), time.perf_counter()
    engine = kind.prepare(study)
    choice = chosen(engine, Budget(seconds=SOLVE_S), kind.is_searchable)

    def is_late() -> bool:
        return time.perf_counter() - started > SOLVE_S

    results: Iterator[BillResult]
    if choice.driver == "sweep":
        results = kind.sweep(engine, workers, is_late, frozenset())
    else:
        results = searched(engine, choice.driver, is_late, Explored(engine))
    total = Total()
    for result in results:
        total.add(result)
    plans = total.physical()
    front = front_columns(study, kind.cost(study, engine.catalog, plans)) if plans else {}
    return Solved(front, choice.driver == "sweep" and not is_late())
