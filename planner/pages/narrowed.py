"""What a person wants to see of a front: chips, sites and ranges, the same for every chart.

A range is set by its slider, or by drawing over an axis of the parallel coordinates, which moves
the slider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from planner.documents.figures import scale_of, unit_of, values_of
from planner.pages import desk
from planner.pages.desk import Desk
from simkernel.columns import Floats, Masks

WORDS = ("accelerator", "site", "scenario")
STEPS = 200
"""Of a slider over the whole range of a metric."""

ABREAST = 3


@dataclass(frozen=True)
class Span:
    """From the least to the most that a front has of a metric, in its unit.

    Parameters
    ----------
    factor, unit : what a screen shows it in
    """

    metric: str
    least: float
    most: float
    factor: float
    unit: str

    @property
    def label(self) -> str:
        """Name and unit."""
        return f"{self.metric} [{self.unit}]" if self.unit else self.metric

    def at(self, share: float) -> float:
        """The value so far from the least to the most."""
        return self.least + share * (self.most - self.least)

    def share(self, value: float) -> float:
        """How far a value lies from the least to the most; 0.5 where all are alike."""
        return (value - self.least) / (self.most - self.least) if self.most > self.least else 0.5


@dataclass(frozen=True)
class Wanted:
    """Words and ranges that are wanted; what is not named in them is wanted whatever it is.

    Parameters
    ----------
    words : column to the words wanted
    ranges : metric to its least and most, None for no bound
    """

    words: Mapping[str, Sequence[str]]
    ranges: Mapping[str, tuple[float | None, float | None]]

    def keeps(self, plans: Mapping[str, Any]) -> Masks:
        """Rows that have all that is wanted; one without a figure is not in its range; (n,)."""
        kept = np.ones(len(plans["plan"]), dtype=bool)
        for name, words in self.words.items():
            kept &= np.isin(np.asarray(plans[name]).astype(str), list(words))
        for name, (least, most) in self.ranges.items():
            values: Floats = np.ma.filled(np.ma.asarray(plans[name], dtype=float), np.nan)
            kept &= np.isfinite(values)
            kept &= np.ones_like(kept) if least is None else values >= least
            kept &= np.ones_like(kept) if most is None else values <= most
        return kept

    def __len__(self) -> int:
        """How many filters there are."""
        return len(self.words) + len(self.ranges)


def spans_of(front: Mapping[str, Any], metrics: Sequence[str]) -> list[Span]:
    """Spans of the metrics of which a front has figures."""
    found = []
    for metric in metrics:
        known = [float(value) for value in values_of(front, metric) if value is not None]
        if known:
            factor, unit = scale_of(unit_of(metric), known)
            found.append(Span(metric, min(known), max(known), factor, unit))
    return found


def wanted(found: Desk, spans: Sequence[Span]) -> Wanted:
    """The widgets, and what they say."""
    words = dict(_words(found))
    columns = [c for _ in range(0, len(spans), ABREAST) for c in st.columns(ABREAST)]
    ranges = {}
    for column, span in zip(columns, spans, strict=False):
        with column:
            chosen = _range(found, span)
        if chosen != (None, None):
            ranges[span.metric] = chosen
    st.button(
        "Clear the filters",
        key="clear_filters",
        on_click=_clear,
        args=(found.run,),
        disabled=not (words or ranges),
    )
    return Wanted(words, ranges)


def brushed(run: str, spans: Sequence[Span], chart: str) -> None:
    """Take what was drawn over axes of the parallel coordinates as ranges; for callbacks.

    Parameters
    ----------
    chart : key of the chart, whose selection names the axes and the shares of their height
    """
    drawn = st.session_state[chart]["selection"].get(BRUSH) or {}
    shares = drawn.get("share") or ()
    if len(shares) != 2:
        return
    low, high = (float(np.clip(share, 0.0, 1.0)) for share in sorted(shares))
    for span in spans:
        if span.label in (drawn.get("axis") or ()) and span.most > span.least:
            ends = (span.at(low) / span.factor, span.at(high) / span.factor)
            st.session_state[_key(run, span.metric)] = ends


BRUSH = "brush"
"""Name of the selection that drawing over an axis makes."""


def _words(found: Desk) -> Iterator[tuple[str, list[str]]]:
    names = [name for name in WORDS if len(set(values_of(found.front, name))) > 1]
    if not names:
        return
    for column, name in zip(st.columns(len(names)), names, strict=True):
        options = sorted({str(value) for value in values_of(found.front, name)})
        key = desk.kept(f"only_{found.run}_{name}", [])
        chosen = column.multiselect(name.capitalize(), options, key=key, placeholder="all")
        if chosen:
            yield name, chosen


def _range(found: Desk, span: Span) -> tuple[float | None, float | None]:
    """What the slider of a metric says; an end that was not moved is no bound."""
    if span.most <= span.least:
        st.caption(f"{span.label}: the same for all")
        return None, None
    least, most = span.least / span.factor, span.most / span.factor
    key = desk.kept(f"range_{found.run}_{span.metric}", (least, most))
    low, high = st.session_state[key]
    st.session_state[key] = (max(min(low, most), least), max(min(high, most), least))
    step = (most - least) / STEPS
    chosen: Any = st.slider(span.label, least, most, step=step, format="%.4g", key=key)
    low, high = chosen
    close = 0.5 * step
    return (
        None if low <= least + close else low * span.factor,
        None if high >= most - close else high * span.factor,
    )


def _key(run: str, metric: str) -> str:
    return f"{desk.KEEP}range_{run}_{metric}"


def _clear(run: str) -> None:
    for key in list(st.session_state):
        if str(key).startswith((f"{desk.KEEP}range_{run}_", f"{desk.KEEP}only_{run}_")):
            del st.session_state[key]
