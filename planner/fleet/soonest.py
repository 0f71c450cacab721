"""Workloads that have to be done before any unit for them can be there, whatever is ordered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from planner.fleet.problem import Option, Problem


def too_soon(problem: Problem) -> Iterator[str]:
    """A sentence for each stream that comes, and each run that is due, before its units can."""
    never = problem.horizon.periods
    for stream in problem.streams:
        asked = problem.tree.period[stream.demand > 0]
        first, soonest = min(asked, default=never), _soonest(problem, stream.options)
        if soonest > first:
            yield (
                f"{stream.name} is asked for in period {first}, and {_when(soonest, never)}"
                f"{DO_STREAM}"
            )
    for run in problem.runs:
        ends = [
            max(run.start, _soonest(problem, [option])) + int(np.ceil(option.periods - 1e-9)) - 1
            for option in run.options
        ]
        if ends and min(ends) > run.due:
            soonest = _soonest(problem, run.options)
            yield (
                f"{run.name} is due by the end of period {run.due}, and {_when(soonest, never)} "
                f"for it, so that it ends in period {min(ends)} at the soonest; give it a later "
                "due, or units sooner"
            )


DO_STREAM = (
    "; let it be rented until then (may_rent, fleet.contracts), give units that are held, a "
    "shorter lead_weeks or an earlier sale, or no demand before"
)


def _when(soonest: int, never: int) -> str:
    if soonest >= never:
        return "no unit can ever be there (lead_weeks, available)"
    return f"no unit can be there before period {soonest} (lead_weeks, available)"


def _soonest(problem: Problem, options: Sequence[Option]) -> int:
    """First period in which a unit of one of them can be there; the last and one where none."""
    places = {option.asset for option in options}
    if any(units > 0 and left > 0 for a in places
           for left, units in problem.assets[a].held.items()):  # fmt: skip
        return 0
    periods = problem.horizon.periods
    days = [
        due
        for deal in problem.deals
        if deal.asset in places
        for due in range(deal.soonest, periods)
        if deal.is_had(due, periods)
    ]
    return min(days, default=periods)
