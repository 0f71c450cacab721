"""How much error of the model is counted: the front, its bars and the odds of a plan follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from planner.costing.recost import Repriced
from planner.documents.figures import values_of
from planner.pages import desk
from planner.pages.points import ids_of
from planner.report.choice import objectives
from planner.uncertainty.draws import drawn
from planner.uncertainty.error_scale import front_at_bad_end, widened, with_error
from planner.uncertainty.plans import Part, parts_of
from simkernel.columns import Floats

Columns = Mapping[str, Any]

DRAWN_KINDS = ("train", "serve", "hardware")
DRAWS = 200
MOST_DRAWN = 120
"""Plans that are drawn while a slider is moved; the report draws a thousand."""

MOST_SCALE, STEP = 3.0, 0.25


@dataclass(frozen=True)
class Counted:
    """How the error is counted.

    Parameters
    ----------
    scale : of the 90% band, 1 as measured
    is_against : every plan stands at the bad end of its band
    """

    scale: float
    is_against: bool


def asked() -> Counted:
    """The slider and the switch."""
    scale = st.slider(
        "Error band [× the 90% band]", 0.0, MOST_SCALE, step=STEP, format="%.2f",
        key=desk.kept("if_error", 1.0),
        help="1: as published runs were missed; 0: the model is right; 2: twice as far. Bars and "
        "odds follow; with the switch below the front follows too.",
    )  # fmt: skip
    is_against = st.toggle(
        "at the bad end", key=desk.kept("if_against", False),
        help="every objective and limit at the end of its band that hurts",
    )  # fmt: skip
    return Counted(float(scale), is_against)


@dataclass(frozen=True)
class Held:
    """The front as the error is counted.

    Parameters
    ----------
    plans : its rows as predicted, bands at the scale asked for; {} for none
    shown : the same where they are drawn: at the bad end of the band, if asked for
    """

    plans: Columns
    shown: Columns


def held(priced: Repriced, how: Counted) -> Held:
    """The front under some prices, with the error counted."""
    costed = priced.costed
    if costed is None:
        return Held({}, {})
    signs = objectives(priced.study)
    is_front = costed.is_front
    moved: dict[str, Floats] = {}
    if how.is_against:
        may = costed.worst_excess <= 0
        moved, is_front = front_at_bad_end(
            costed.columns, signs, priced.study.limits, may, how.scale
        )
    rows = np.flatnonzero(is_front)
    if not len(rows):
        return Held({}, {})
    some = {n: np.asarray(c)[rows] for n, c in costed.columns.items()}
    banded = [name for name in some if f"{name}_low" in some]
    plans = widened(some, banded, how.scale)
    return Held(plans, plans | {name: column[rows] for name, column in moved.items()})


def odds_of(priced: Repriced, plans: Columns, chosen: str, how: Counted) -> dict[str, float]:
    """Share of draws in which a plan is on the front, by the names of the plans drawn.

    Parameters
    ----------
    plans : rows of the front as predicted; the chosen one and others evenly spread are drawn, at
        most MOST_DRAWN
    """
    study = priced.study
    if study.kind not in DRAWN_KINDS or not plans:
        return {}
    ids, signs = ids_of(plans), objectives(study)
    spread = np.linspace(0, len(ids) - 1, min(len(ids), MOST_DRAWN)).astype(int).tolist()
    first = [ids.index(chosen)] if chosen in ids else []
    is_known = np.all([[v is not None for v in values_of(plans, n)] for n in signs], axis=0)
    rows = [row for row in dict.fromkeys([*first, *spread]) if is_known[row]]
    if not rows:
        return {}
    some = {name: np.asarray(column)[rows] for name, column in plans.items()}
    parts: Sequence[Part] = with_error(parts_of(study, priced.catalog, some), how.scale)
    found = drawn(parts, some, signs, DRAWS, study.seed).front_frac()
    return {ids[row]: float(share) for row, share in zip(rows, found, strict=True)}


def told(odds: Mapping[str, float], chosen: str) -> str:
    """The odds in a sentence; "" where nothing was drawn."""
    if not odds:
        return ""
    sure = sum(share >= 0.5 for share in odds.values())
    words = (
        f"In {DRAWS} draws, {sure} of {len(odds)} plans are on the front in half of them or more"
    )
    return words + (f"; {chosen} in {odds[chosen]:.0%}." if chosen in odds else ".")
