"""A front of purchase plans: the best in one sum within bounds on another, from end to end."""

from __future__ import annotations

from collections.abc import Sequence

from planner.fleet.plan import Plan
from planner.fleet.program import FLOP, Program
from planner.fleet.worth import Effort


class Front:
    """The plans of a front, the best in the first objective, then from the other end towards it.

    Each but the first begins from the one before it, which keeps the wider bound as well; so none
    is dearer than one that keeps a smaller bound.

    Parameters
    ----------
    program : of the problem
    compared : one or two objectives
    points : how many plans
    effort : time and gap for each; its objective is the first of `compared`
    start : a plan for the first of them to begin with
    """

    def __init__(
        self, program: Program, compared: Sequence[str], points: int, effort: Effort,
        start: Plan | None = None,
    ) -> None:  # fmt: skip
        self.program, self.effort, self.points = program, effort, points
        self.others, self.ends = tuple(compared[1:]), (0.0, 0.0)
        self.last: Plan | None = None
        self.start = start

    @property
    def order(self) -> list[int]:
        """Places of the front in the order in which they are solved."""
        return [0, *range(self.points - 1, 0, -1)]

    def point(self, index: int) -> Plan:
        """The plan of one place: the best in the first objective, the best in the second last."""
        program, effort = self.program, self.effort
        first, others = effort.objective, self.others
        if index == 0 or self.last is None:
            best = program.solve(first, effort.gap_frac, effort.limit_s, start=self.start)
            if not best.is_there or not others or self.points == 1:
                return best
            least = program.solve(others[0], effort.gap_frac, effort.limit_s, start=best)
            self.last = least if least.is_there else best
            sign = -1.0 if first == FLOP else 1.0
            if least.is_there and sign * (program.figure(first, least.columns) - best.value) < 0:
                best = program.solve(first, effort.gap_frac, effort.limit_s, start=least)
            most = program.figure(others[0], best.columns)
            self.ends = (most, program.figure(others[0], self.last.columns))
            if index == 0:
                return best
        share = index / (self.points - 1)
        bound = self.ends[0] + share * (self.ends[1] - self.ends[0])
        bounds = {others[0]: bound + 1e-9 * (1 + abs(bound))}
        found = program.solve(first, effort.gap_frac, effort.limit_s, bounds, start=self.last)
        self.last = found if found.is_there else self.last
        return found
