"""Rows of a stored front as what they are costed from, at both ends of every uncertain input.

What physics predicts has the bands of published runs: an error of speed is one of time in a
training run, and one of the size of the fleet where the load is given. The rest are the bands of
the fact tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.ends import HIGH, LOW, TYPICAL
from planner.bands import bands, regime_of
from planner.costing.places import scenario_studies, scenario_words
from planner.costing.price_desk import bought_by, desk_of, run_of
from planner.costing.quoted import names_in, quotes_of
from planner.costing.terms import supply_given, terms_of
from planner.hardware.figures import stock_of
from planner.hardware.price import case_of, ends_of
from planner.hardware.study import OF_AN_OPTION
from planner.study.read import Study
from planner.uncertainty.inputs import Ends, Inputs, terms_at_end
from simkernel.columns import Codes, Floats
from simkernel.errors import MissingFact

WATTS = ("it_mean_w", "it_peak_w")


@dataclass(frozen=True)
class Part:
    """Rows of a front that share a scenario, with their ends; `rows` are their places (m,)."""

    rows: Codes
    study: Study
    ends: Ends


def parts_of(study: Study, catalog: Catalog, front: Mapping[str, Any]) -> list[Part]:
    """A front as rows to cost anew, a part for each scenario that has some.

    Parameters
    ----------
    front : columns of rows at sites, with bands, as `costing.second_pass` makes them; (n,)

    Raises
    ------
    MissingFact : a row without a price
    """
    return [
        Part(rows, here, _ends(here, catalog, {n: np.asarray(c)[rows] for n, c in front.items()}))
        for here, rows in _scenarios(study, front)
    ]


def _scenarios(study: Study, front: Mapping[str, Any]) -> Iterator[tuple[Study, Codes]]:
    count = len(front["plan"])
    if "scenario" not in front:
        yield study, np.arange(count)
        return
    for one in scenario_studies(study):
        rows = np.flatnonzero(np.asarray(front["scenario"]) == scenario_words(one))
        if len(rows):
            yield one, rows


def _ends(study: Study, catalog: Catalog, rows: Mapping[str, Any]) -> Ends:
    sites = np.array([study.costing.site.index(str(name)) for name in rows["site"]])
    if study.kind == "hardware":
        return _hardware_ends(study, catalog, rows, sites)
    low, middle, high = (_at(study, catalog, rows, sites, place) for place in (LOW, TYPICAL, HIGH))
    return Ends(low, middle, high)


def _hardware_ends(study: Study, catalog: Catalog, rows: Mapping[str, Any], sites: Codes) -> Ends:
    kept = {n: rows[n] for n in (*OF_AN_OPTION, "site", "acquire") if n in rows}
    case = case_of(stock_of(study, catalog, names_in(rows)), kept, sites)
    return ends_of(case, np.asarray(rows["devices"], float))


def _at(study: Study, catalog: Catalog, rows: Mapping[str, Any], sites: Codes, end: int) -> Inputs:
    """Rows of plans with a workload, all inputs at one end."""
    names = names_in(rows)
    desk = desk_of(study, catalog, names)
    desk = replace(desk, quotes=quotes_of(study.costing, catalog, names, end))
    bought = bought_by(desk, rows)
    if len(bought.plans) < len(sites):
        raise MissingFact(
            f"{len(sites) - len(bought.plans)} plans of this front have no price in the tables "
            "of now; use planner recost, and take the run that it makes"
        )
    run = run_of(study, rows, bought.plans, bought.it_idle_w)
    terms = terms_of(study.costing, catalog, end).take(sites)
    fleet: Floats = np.ones(len(sites))
    if end != TYPICAL:
        place = 0 if end == LOW else 1
        word = ("low", "high")[place]
        terms = terms_at_end(study.costing, terms, place)
        factors = bands(regime_of(study))
        watts = {n: getattr(run, n) * _watt_factor(study, n, factors, place) for n in WATTS}
        watts["it_mean_w"] = np.minimum(watts["it_mean_w"], watts["it_peak_w"])
        hours = run.hours * _band(rows, "days", word)
        run = replace(run, hours=hours, **watts)
        run = replace(run, it_idle_w=np.minimum(run.it_idle_w, run.it_mean_w))
        fleet = _band(rows, "replicas", word) if study.kind == "serve" else fleet
    return Inputs(
        bought.bill,
        run,
        bought.quoted,
        bought.made,
        terms,
        study.costing.carbon,
        supply_given(study.costing),
        fleet,
        bought.beside,
    )


def _watt_factor(study: Study, name: str, factors: Mapping[str, Any], place: int) -> float:
    """How far watts may be off; not at all where the study gives those of a device."""
    device = name.replace("it_", "device_")
    return 1.0 if device in study.pin else float(factors[name][place])


def _band(rows: Mapping[str, Any], name: str, end: str) -> Floats:
    """An end of the band of a metric over its middle; 1 where it has none; (m,)."""
    value = np.asarray(rows[name], float)
    if f"{name}_{end}" not in rows:
        return np.ones(len(value))
    return np.asarray(np.asarray(rows[f"{name}_{end}"], float) / value)
