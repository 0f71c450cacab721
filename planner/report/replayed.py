"""What replays found of the plans of a run, and the front among them: closed form stays apart.

A plan as it was replayed has the fleet that keeps its bounds there and the latencies of the
replay, so its cost is another than the closed form's. The two are never on one front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from planner.axes import DERIVED
from planner.evaluated import CLOSED_FORM, REPLAY
from planner.study.read import Study
from simkernel.columns import Codes, Masks
from simkernel.errors import UnknownName

Columns = Mapping[str, Any]

OF_A_REPLAY = ("keeps", "is_front")
"""Columns that say of a replayed plan at a site whether it is an answer."""


@dataclass(frozen=True)
class OfReplay:
    """What a replay found of a plan: replicas of the closed form, needed, bounds it breaks."""

    replicas: float
    needed: float
    broken: str

    @property
    def is_short(self) -> bool:
        """The plan as the closed form prices it does not keep its bounds."""
        return bool(self.broken) or self.needed > self.replicas


@dataclass(frozen=True)
class OneFront:
    """Rows of one fidelity, and nothing of the other.

    Parameters
    ----------
    fidelity : CLOSED_FORM or REPLAY
    columns : of the rows, NaN for NULL, (n,)
    asked : place of the row that a person named; None where none is
    held : plans that keep every limit at some site as they were replayed
    """

    fidelity: str
    columns: Columns
    asked: int | None
    held: frozenset[str] = frozenset()


def replays_of(sample: Mapping[str, Any]) -> dict[str, OfReplay]:
    """Replays of serving plans that a run has stored, by plan."""
    if "needed_replicas" not in sample:
        return {}
    names = ("plan", "replicas", "needed_replicas", "broken")
    rows = zip(*(np.ma.filled(np.ma.asarray(sample[n]), "") if n in ("plan", "broken")
                 else np.ma.filled(np.ma.asarray(sample[n], float), 0.0) for n in names),
               strict=True)  # fmt: skip
    return {str(p): OfReplay(float(r), float(n), str(b)) for p, r, n, b in rows}


def front_of(
    run: str, study: Study, closed: Columns, replayed: Columns, plan: str = "", site: str = ""
) -> OneFront:
    """The front that a decision is taken on: as replayed where a replay holds a plan up.

    Parameters
    ----------
    closed : the closed form's front, (n,)
    replayed : plans as replayed at every site, (m,), {} for none
    plan, site : of a plan that is asked for: its name, or its place on the closed form's front,
        which leads to the same plan as replayed where there is one

    Notes
    -----
    Of a study whose replays change no fleet (training), the closed form's front is the one: how
    far its replays were off is in its bands.

    Raises
    ------
    UnknownName : the plan is of neither
    """
    kept = _kept(study, replayed)
    asked = _place(closed, plan, site)
    if asked is not None and plan.isdigit():
        plan, site = (str(closed[name][asked]) for name in ("plan", "site"))
    named = _place(_taken(replayed, kept), plan, site) if plan and len(kept) else None
    if len(kept) and (named is not None or not plan):
        is_front = np.asarray(replayed["is_front"], bool)[kept]
        if named is not None:
            is_front[named] = True
        rows = kept[is_front]
        at = None if named is None else int(np.flatnonzero(rows == kept[named])[0])
        held = frozenset(str(plan) for plan in replayed["plan"][kept])
        return OneFront(REPLAY, _taken(replayed, rows), at, held)
    if plan and asked is None:
        where, count = f" at {site}" if site else "", len(closed["plan"])
        raise UnknownName(
            f"plan {plan}{where} is not on the front of run {run}, which has {count} rows; "
            f"see planner show {run}"
        )
    return OneFront(CLOSED_FORM, closed, asked)


def at_its_fleet(study: Study, row: Mapping[str, Any]) -> Study:
    """The study with the replicas that a replay gave a plan, where the load decided them."""
    if study.axes.get("replicas") != (DERIVED,):
        return study
    axes = {**study.axes, "replicas": (int(row["replicas"]),)}
    return replace(study, axes=MappingProxyType(axes))


def _kept(study: Study, replayed: Columns) -> Codes:
    """Rows of serving plans that keep every limit as replayed."""
    if study.kind != "serve" or not len(replayed.get("plan", ())):
        return np.zeros(0, dtype=np.int64)
    keeps: Masks = np.asarray(replayed["keeps"], bool) & np.isfinite(
        np.asarray(replayed["usd"], float)
    )
    return np.flatnonzero(keeps)


def _taken(columns: Columns, rows: Codes) -> dict[str, Any]:
    return {n: column[rows] for n, column in columns.items() if n not in OF_A_REPLAY}


def _place(columns: Columns, plan: str, site: str) -> int | None:
    """The place of a plan among rows: by its number, or its name and site."""
    count = len(columns.get("plan", ()))
    if plan.isdigit():
        return int(plan) - 1 if 1 <= int(plan) <= count else None
    is_it = [
        str(columns["plan"][i]) == plan and site in ("", str(columns["site"][i]))
        for i in range(count)
    ]
    return is_it.index(True) if True in is_it else None
