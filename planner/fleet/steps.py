"""One whole step more of each limit that a purchase problem has, and the problem with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from planner.fleet.limits import named, with_limits
from planner.fleet.problem import Deal, Problem, Stream

MW = 1e6
POINT = 0.01
"""One point of a share."""


@dataclass(frozen=True)
class Step:
    """What gives way by how much: in `words`, the limit's name, and the problem with it."""

    words: str
    limit: str
    relaxed: Problem


def steps_of(problem: Problem) -> Iterator[Step]:
    """One whole step more of every limit there is.

    Parameters
    ----------
    problem : with the limits as they are
    """
    yield from _of_sites(problem)
    yield from _of_sums(problem)
    yield from _of_shares(problem)
    yield from _of_reserves(problem)
    yield from _of_deals(problem)
    yield from _of_dates(problem)


def _of_sites(problem: Problem) -> Iterator[Step]:
    limits = problem.limits
    rows = (("power", "+1 MW", MW, limits.site_w),
            ("IT power", "+1 MW of racks", MW, limits.site_it_w),
            ("racks", "+1 rack", 1.0, limits.site_racks))  # fmt: skip
    for what, words, step, bounds in rows:
        for site in bounds:
            name = f"{what} at {site}"
            yield Step(f"{words} at {site}", name, named(problem, name).moved(problem, step))


def _of_sums(problem: Problem) -> Iterator[Step]:
    limits = problem.limits
    rows = (("budget_usd_per_period", "+$10M in every period", 10e6, limits.budget_usd),
            ("capex_usd", "+$10M in all", 10e6, limits.capex_usd),
            ("kgco2e", "+1 t CO2e in all", 1000.0, limits.kgco2e),
            ("kgco2e_per_year", "+1 t CO2e a year", 1000.0, limits.kgco2e_per_year))  # fmt: skip
    for name, words, step, bound in rows:
        if np.isfinite(bound).any():
            yield Step(words, name, named(problem, name).moved(problem, step))


def _of_shares(problem: Problem) -> Iterator[Step]:
    """Clean energy, what is served without any one site, headroom: a point less of each."""
    limits = problem.limits
    if limits.clean_frac > 0:
        less = with_limits(problem, clean_frac=max(limits.clean_frac - POINT, 0.0))
        yield Step("one point less clean energy", "clean_frac", less)
    if limits.survive_site_frac:
        less = with_limits(problem, survive_site_frac=max(limits.survive_site_frac - POINT, 0.0))
        yield Step("one point less served without a site", "survive_site_frac", less)
    for stream in problem.streams:
        if stream.headroom_frac:
            less = _with_stream(problem, stream, max(stream.headroom_frac - POINT, 0.0))
            yield Step(f"one point less headroom of {stream.name}",
                       f"headroom_frac of {stream.name}", less)  # fmt: skip


def _with_stream(problem: Problem, stream: Stream, headroom_frac: float) -> Problem:
    other = replace(stream, headroom_frac=headroom_frac)
    return replace(problem, streams=[other if s is stream else s for s in problem.streams])


def _of_reserves(problem: Problem) -> Iterator[Step]:
    """Units that may be lost, one less; spares for those in repair, none."""
    if count := problem.limits.survive_units:
        less = with_limits(problem, survive_units=count - 1)
        yield Step("one unit less that may be lost", "survive_units", less)
    if any(asset.spare_frac for asset in problem.assets):
        bare = [replace(asset, spare_frac=0.0) for asset in problem.assets]
        yield Step("no spares for repair", "repair_days", replace(problem, assets=bare))


def _of_deals(problem: Problem) -> Iterator[Step]:
    """Least takes a unit less, deliveries and new chips a period sooner."""
    for name in dict.fromkeys(deal.name for deal in problem.deals if deal.least > deal.step):
        deals = [replace(d, least=max(d.least - 1, 1)) if d.name == name else d
                 for d in problem.deals]  # fmt: skip
        yield Step(f"one unit less to take of {name}", f"least_units of {name}",
                   replace(problem, deals=deals))  # fmt: skip
    if any(deal.lead for deal in problem.deals):
        deals = [replace(d, lead=max(d.lead - 1, 0)) for d in problem.deals]
        yield Step("delivery one period sooner", "lead_weeks", replace(problem, deals=deals))
    for chip in dict.fromkeys(chip_of(problem, d) for d in problem.deals if d.first > d.lead):
        deals = [replace(d, first=max(d.first - 1, 0)) if chip_of(problem, d) == chip else d
                 for d in problem.deals]  # fmt: skip
        yield Step(f"sale one period sooner of {chip}", f"available of {chip}",
                   replace(problem, deals=deals))  # fmt: skip


def chip_of(problem: Problem, deal: Deal) -> str:
    """The chip that a deal is about."""
    return problem.assets[deal.asset].name


def _of_dates(problem: Problem) -> Iterator[Step]:
    for i, run in enumerate(problem.runs):
        if run.due + 1 < problem.horizon.periods:
            later = [*problem.runs[:i], replace(run, due=run.due + 1), *problem.runs[i + 1 :]]
            yield Step(f"date one period later of {run.name}", f"due of {run.name}",
                       replace(problem, runs=later))  # fmt: skip
