"""Which plan a report is about, by which rule, and the few plans it has to be held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.decide.methods import knee, topsis
from planner.decide.scaled import scaled
from planner.metrics import find_metric
from planner.study.read import Study
from simkernel.columns import Codes, Floats, Masks

MOST_CANDIDATES = 6

NEAR_FRAC = 0.05
"""How much more than the choice a plan may cost to be shown as the best exchange beside it.

What is little money is a choice of ours; it is told beside the plan, and moves no other figure.
"""

ASKED, CHEAPEST, RATIO, KNEE, ONLY = "asked", "cheapest", "ratio", "knee", "only"
"""Why a plan was chosen: a person named it; it costs least of all that keep the limits, where
money is an objective; it costs least for what it has, where a study wants the most for its money;
it is the knee; there is one objective or plan."""

SHORT = "falls_short"
"""Column of a front: 1 where a replay found that the plan breaks its bounds as it is priced."""

MONEY = (
    "usd",
    "own_npv_usd",
    "usd_per_mtoken",
    "usd_per_mtoken_total",
    "usd_per_year",
    "capex_usd",
)
"""Objectives by which the cheapest plan is found, the first that a study has."""


@dataclass(frozen=True)
class Choice:
    """Plans of a front that a report shows.

    Parameters
    ----------
    row : the chosen one's place on the front
    rule : ASKED, CHEAPEST, KNEE or ONLY
    rows : places of the candidates, the chosen one first
    best_in : place to the objectives in which that row is the best
    picks : rule ("knee", "topsis") to the place that it picks
    exchange : the place that gains most for a little more money; None where none gains
    """

    row: int
    rule: str
    rows: tuple[int, ...]
    best_in: Mapping[int, tuple[str, ...]]
    picks: Mapping[str, int]
    exchange: int | None = None


def objectives(study: Study) -> dict[str, float]:
    """Objectives of a study to +1 where less is better, -1 where more is."""
    return {
        **{name: 1.0 for name in study.objectives.minimise},
        **{name: -1.0 for name in study.objectives.maximise},
    }


def chosen(study: Study, front: Mapping[str, Any], rows: Codes, asked: int | None) -> Choice:
    """The plan that a report is about.

    Parameters
    ----------
    front : columns of a stored front, (n,)
    rows : places that compete: those of one scenario, (m,)
    asked : the place that a person named; None for the rule

    Notes
    -----
    Cheapest where money is an objective: every plan of a front keeps the limits, and what more
    money buys in the other objectives is told beside it. Else the knee: the plan with the least
    sum of objectives, each scaled from 0 at its best to 1 at its worst on the front, so that none
    weighs more than another. Where a study also maximises something that is not money (a peak
    rate), the cheapest would be the least that can be had: the money for each unit of it decides.
    A plan on a chip without measurements is only picked where there is
    no other.
    """
    signs = objectives(study)
    points = np.stack([s * np.asarray(front[n], float)[rows] for n, s in signs.items()], axis=1)
    table = scaled(points)
    alike = np.ones(len(signs))
    picks = {"knee": int(knee(table).argmax()), "topsis": int(topsis(table, alike).argmax())}
    best = {name: int(points[:, i].argmin()) for i, name in enumerate(signs)}
    count = len(front["plan"])
    is_measured = np.asarray(front.get("validated", np.ones(count)), float)[rows] != 0
    is_measured &= np.asarray(front.get(SHORT, np.zeros(count)), float)[rows] == 0
    rule, at = _by_rule(signs, points, knee(table), is_measured)
    if asked is not None:
        rule, at = ASKED, int(np.flatnonzero(rows == asked)[0])
    trade = _exchange(signs, points, at)
    near = [] if trade is None else [trade]
    order = [at, *best.values(), *near, *picks.values(), *np.argsort(table.unit.sum(axis=1))]
    names = _distinct(order, front, rows)
    best_in = {
        int(rows[place]): tuple(n for n, b in best.items() if points[place, _i(signs, n)]
                                == points[b, _i(signs, n)])
        for place in names
    }  # fmt: skip
    return Choice(
        row=int(rows[at]),
        rule=rule,
        rows=tuple(int(rows[place]) for place in names),
        best_in=best_in,
        picks={name: int(rows[place]) for name, place in picks.items()},
        exchange=None if trade is None else int(rows[trade]),
    )


def _exchange(signs: Mapping[str, float], points: Floats, at: int) -> int | None:
    """The plan that gains most on the choice in the other objectives for at most `NEAR_FRAC` more.

    Parameters
    ----------
    points : (m, k) objectives to minimise
    at : the choice

    Notes
    -----
    A gain is the sum of ln(choice / plan) over the objectives that are not money, of their
    inverse where most is wanted: halving a time counts as much as halving a tonnage.
    """
    names = list(signs)
    money = next((name for name in MONEY if signs.get(name) == 1.0), "")
    others = [i for i, n in enumerate(names) if find_metric(n).unit != "USD"]
    if not money or not others:
        return None
    usd = points[:, names.index(money)]
    sizes = np.abs(points[:, others])
    may = (usd <= usd[at] * (1.0 + NEAR_FRAC)) & (sizes > 0).all(axis=1)
    if not may[at]:
        return None
    ways = np.array([signs[names[i]] for i in others])
    gains = np.full(len(points), -np.inf)
    gains[may] = (np.log(sizes[at] / sizes[may]) * ways).sum(axis=1)
    found = int(gains.argmax())
    return found if gains[found] > 0 else None


def _by_rule(
    signs: Mapping[str, float], points: Floats, bulge: Floats, is_measured: Masks
) -> tuple[str, int]:
    """The rule that applies, and the place that it picks.

    Parameters
    ----------
    points : (m, k) objectives to minimise
    bulge : (m,) of `methods.knee`
    is_measured : (m,) plans on chips with measurements that no replay has found short; where there
        are any, no other is picked
    """
    may = is_measured if is_measured.any() else np.ones(len(points), dtype=bool)
    names = list(signs)
    money = next((name for name in MONEY if signs.get(name) == 1.0), "")
    if money and len(signs) > 1 and len(points) > 1:
        most = wanted_most(signs)
        if most:
            each = points[:, names.index(money)] / -points[:, names.index(most)]
            return RATIO, int(np.where(may, each, np.inf).argmin())
        return CHEAPEST, int(np.where(may, points[:, names.index(money)], np.inf).argmin())
    if len(signs) == 1 or len(points) == 1:
        return ONLY, int(np.where(may, points[:, 0], np.inf).argmin())
    return KNEE, int(np.where(may, bulge, -np.inf).argmax())


def wanted_most(signs: Mapping[str, float]) -> str:
    """What a study maximises beside money, where it is one thing; else ""."""
    names = [n for n, sign in signs.items() if sign < 0 and find_metric(n).unit != "USD"]
    return names[0] if len(names) == 1 else ""


def _i(signs: Mapping[str, float], name: str) -> int:
    return list(signs).index(name)


def _distinct(order: Sequence[int], front: Mapping[str, Any], rows: Codes) -> list[int]:
    """The first few places that differ in hardware or site; the first is always kept."""
    seen: set[tuple[str, ...]] = set()
    found: list[int] = []
    for place in order:
        row = int(rows[place])
        named = ("accelerator", "devices", "supernode_devices", "site")
        mark = tuple(str(front[n][row]) for n in named if n in front)
        if mark not in seen and len(found) < MOST_CANDIDATES:
            seen.add(mark)
            found.append(int(place))
    return found
