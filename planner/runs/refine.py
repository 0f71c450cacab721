"""Replays of a run: what is worth one after the closed form has looked, and what they say.

The closed form's front stays what it is; the replayed plans have a front of their own, and how far
both tiers agree is told. The same for every kind of work that has a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.bands import GAP_HIGH, GAP_LOW, gap_band
from planner.costing.front import SiteScores
from planner.costing.second_pass import all_columns, cost_at
from planner.evaluated import REPLAY
from planner.pareto import compared, nondominated, rounded_hash
from planner.search.band import guard_band, promoted
from planner.search.drivers import make_driver
from planner.search.legal import layouts_of
from planner.search.replays import CHOSEN, Replays
from planner.search.seam import SEARCHED, Explored
from planner.search.sweep import BillResult
from planner.search.tiers import Refined, refine, refine_by
from planner.space.blocks import keys_of
from planner.space.plan_keys import codes_of, plan_name
from planner.study.read import Study

LEAST_RANKED = 5
"""Replays from which ranks are compared: of fewer, chance alone makes any agreement."""

SPREAD = "replayed_over_closed_form"
"""Of a step: its 90% band among the replayed plans, in the document of the tiers."""

NOT_TOLD = ("tensor_parallel", "pipeline_parallel")
"""Columns of a replay that its line on the front leaves to the plan's own."""


@dataclass(frozen=True)
class Refinement:
    """What the replays of a run came to.

    Parameters
    ----------
    rows : columns for the archive, one row per plan in the order of replay; {} for none
    priced : what was replayed as a front has it, at every site, one row per plan and site
    said : the run's document of its tiers
    """

    rows: dict[str, Any] = field(default_factory=dict)
    priced: dict[str, Any] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)


def why_replayed(study: Study, most: int) -> str:
    """Who chooses what is replayed, and why, for a person."""
    if study.search.driver == "sample":
        return f"{most} plans at most, proposed by sample, which was asked for"
    return (
        f"{most} plans at most; one costs a thousand of the closed form and more, which therefore "
        "chooses them: the best in each objective and of every chip, then whatever of its guard "
        "band is expected to add most to the replayed front"
    )


def refined(
    explored: Explored,
    physical: Mapping[str, Any],
    replays: Replays,
    most: int,
    is_stopped: Callable[[], bool],
    *,
    is_whole: bool,
) -> Refinement:
    """Replay the plans of a search that are worth it.

    Parameters
    ----------
    explored : scores of what the closed form has seen; what it asks for beside is evaluated there
    physical : the physical front so far, whose scores may not be in `explored` yet
    replays : of the study, those of an earlier run among them
    most : plans to replay at most
    is_whole : the closed form has seen and counted every candidate, those that it forgot as well
    """
    study, space = explored.engine.study, explored.engine.space
    _remember(explored, physical)
    keys = np.array(sorted(explored.known), dtype=np.int64)
    if not len(keys) or not most:
        return Refinement()
    layouts, codes = layouts_of(space), codes_of(space, keys)
    cheap = (_beside(explored) if is_whole else explored).scores
    near = codes[guard_band(layouts, codes, cheap(codes))]
    if not len(near):
        return Refinement()
    if study.search.driver == "sample":
        first = near[promoted(layouts, near, cheap(near))]
        driver = make_driver("sample", explored.engine, first)
        found = refine_by(driver, layouts, cheap, replays.scores, most, is_stopped)
    else:
        found = refine(layouts, near, cheap, replays.scores, most, is_stopped)
    rows = _rows(study, replays, found, space)
    said = _said(study, replays, found, most, len(near), space)
    return Refinement(rows, _priced(replays, found, space), said | _spread(rows))


def _beside(explored: Explored) -> Explored:
    """The same knowledge, where what is evaluated again is not counted again."""
    return replace(
        explored,
        known=dict(explored.known),
        waiting=[],
        unsettled=[],
        since=BillResult(SEARCHED),
    )


def _spread(rows: Mapping[str, Any]) -> dict[str, Any]:
    """How far the closed form's steps were off, where enough were replayed to say."""
    gaps = np.asarray(rows.get("gap_step_s", []), dtype=float)
    gaps = gaps[np.isfinite(gaps)]
    if len(gaps) < LEAST_RANKED:
        return {}
    low, high = gap_band(gaps)
    return {SPREAD: {"low_frac": low, "high_frac": high, "plans": len(gaps)}}


def with_spread(plans: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Plans of the closed form, with how far the replays of their run found it to be off.

    Parameters
    ----------
    plans : columns, (n,) each
    said : the run's document of its tiers
    """
    if SPREAD not in said:
        return dict(plans)
    ends = {GAP_LOW: said[SPREAD]["low_frac"], GAP_HIGH: said[SPREAD]["high_frac"]}
    return {**plans, **{name: np.full(len(plans["plan"]), end) for name, end in ends.items()}}


def _remember(explored: Explored, physical: Mapping[str, Any]) -> None:
    """Price the plans of the physical front that the search did not."""
    if physical:
        is_new = np.array([int(key) not in explored.known for key in physical["key"]], dtype=bool)
        if is_new.any():
            explored.remember_rows({n: np.asarray(c)[is_new] for n, c in physical.items()})


def _rows(study: Study, replays: Replays, found: Refined, space: Any) -> dict[str, Any]:
    """Every replayed plan as columns, with what it is best in before and after."""
    if not len(found):
        return {}
    best_in, sites = _best_in(study, found.cheap), _front_sites(study, found.costly)
    rows = [
        {
            **replays.known[key].row,
            "best_in": best_in.get(place, ""),
            "is_front": place in sites,
            "front_sites": "; ".join(sites.get(place, ())),
        }
        for place, key in enumerate(_keys(found, space))
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _column([row.get(name) for row in rows]) for name in names}


def _priced(replays: Replays, found: Refined, space: Any) -> dict[str, Any]:
    """Plans as they were replayed, with their cost at every site.

    Returns
    -------
    columns of a front, (n,), and beside them "fidelity", "keeps": every limit is kept as replayed,
    and "is_front": no other replayed plan is better; {} for none
    """
    keys = _keys(found, space)
    tables = [replays.known[key].table for key in keys if replays.known[key].table]
    if not tables:
        return {}
    columns = {name: _column([table[name] for table in tables]) for name in tables[0]}
    columns["key"] = np.array([table["key"] for table in tables], dtype=np.int64)
    costed = cost_at(replays.desk, columns)
    place = {key: at for at, key in enumerate(keys)}
    at = np.array([place[int(key)] for key in costed.columns["key"]], dtype=np.int64)
    sites = {name: number for number, name in enumerate(replays.desk.study.costing.site)}
    site = np.array([sites[str(name)] for name in costed.columns["site"]], dtype=np.int64)
    is_front = np.zeros(found.costly.excess.shape, dtype=bool)
    is_front[_front_of(found.costly)] = True
    return {
        **all_columns(costed),
        "fidelity": np.full(len(at), REPLAY, dtype=object),
        "keeps": found.costly.excess[at, site] <= 0,
        "is_front": is_front[at, site],
    }


def _said(
    study: Study, replays: Replays, found: Refined, most: int, near: int, space: Any
) -> dict[str, Any]:
    row, site = _front_of(found.costly)
    points, keys = found.costly.points[row, site], _keys(found, space)
    order = [int(i) for i in np.lexsort(compared(points).T[::-1])] if len(points) else []
    lines = [
        _line(study, replays, keys[row[i]], study.costing.site[site[i]], points[i]) for i in order
    ]
    return {
        "asked": most,
        "replayed": len(found),
        "within_the_band": near,
        "proposed_by": "sample" if study.search.driver == "sample" else "guard band",
        "ended": found.ended,
        "agreement": _agreement(study, found),
        "hypervolume": [[count, volume] for count, volume in found.trace],
        "front": lines,
        "front_hash": rounded_hash(points) if len(points) else "",
    }


def _line(
    study: Study, replays: Replays, key: int, site: str, point: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """A plan at a site on the front of the replays."""
    row, wanted = replays.known[key].row, study.objectives
    signs = [1.0] * len(wanted.minimise) + [-1.0] * len(wanted.maximise)
    names = (*wanted.minimise, *wanted.maximise)
    figures = {n: sign * float(v) for n, sign, v in zip(names, signs, point, strict=True)}
    chosen = {name: row[name] for name in CHOSEN if name not in NOT_TOLD}
    return {"plan": plan_name(key), "site": site, "fidelity": REPLAY, **figures, **chosen}


def _agreement(study: Study, found: Refined) -> dict[str, float]:
    """Kendall's tau of the tiers by objective; {} where too few were replayed to say."""
    wanted = (*study.objectives.minimise, *study.objectives.maximise)
    if len(found) < LEAST_RANKED:
        return {}
    return {name: float(tau) for name, tau in zip(wanted, found.agreement, strict=True)}


def _best_in(study: Study, told: SiteScores) -> dict[int, str]:
    """Place of the best replayed plan in each objective, as the closed form has it."""
    wanted = (*study.objectives.minimise, *study.objectives.maximise)
    best = np.where((told.excess <= 0)[..., None], told.points, np.inf).min(axis=1)
    found: dict[int, str] = {}
    for column, name in enumerate(wanted):
        if np.isfinite(best[:, column]).any():
            found.setdefault(int(best[:, column].argmin()), name)
    return found


def _front_sites(study: Study, told: SiteScores) -> dict[int, list[str]]:
    """Place of each plan on the front of the replays to the sites where it is."""
    found: dict[int, list[str]] = {}
    for place, site in zip(*_front_of(told), strict=True):
        found.setdefault(int(place), []).append(study.costing.site[site])
    return found


def _front_of(told: SiteScores) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Plans and sites that no other plan at any site beats, as two columns of places."""
    row, site = np.nonzero((told.excess <= 0) & np.isfinite(told.points).all(axis=-1))
    if len(row):
        best = nondominated(told.points[row, site])
        row, site = row[best], site[best]
    return row, site


def _keys(found: Refined, space: Any) -> list[int]:
    return [int(key) for key in keys_of(space, found.codes)]


def _column(values: list[Any]) -> npt.NDArray[Any]:
    """Numbers, NaN where a row has none; words as they are."""
    if any(isinstance(value, str) for value in values):
        return np.array(["" if value is None else value for value in values], dtype=object)
    return np.array([np.nan if value is None else value for value in values])
