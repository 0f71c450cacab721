"""What units do: replicas that serve streams, and runs at a stretch, with pauses or in troughs.

Every column that puts units to work is told as a `Use`; capacity, energy and power follow from
these alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.fleet.linear import Linear
from planner.fleet.problem import Option, Problem, Run, Stream
from simkernel.columns import Codes

HOURS_PER_DAY = 24.0


@dataclass(frozen=True)
class Use:
    """Units that one of a column puts to work at a node.

    Parameters
    ----------
    share : of the period that they work [1]
    hour : part of the day; -1 where they are held day and night
    """

    node: int
    column: int
    units: float
    option: Option
    share: float = 1.0
    hour: int = -1


@dataclass(frozen=True)
class Pace:
    """Columns of a run in one of its forms: `begin`, `on` or `blocks`, and its stops."""

    form: str
    columns: Codes
    stops: Codes


class Work:
    """Columns and rows of everything that units do.

    Parameters
    ----------
    problem : whose workloads
    linear : program that they are written in
    """

    def __init__(self, problem: Problem, linear: Linear) -> None:
        self.problem, self.linear = problem, linear
        self.uses: list[Use] = []
        self.serve: dict[str, Codes] = {}
        self.busy: dict[str, Codes] = {}
        self.runs: dict[str, Pace] = {}
        self.hours = max([len(s.by_hour) for s in problem.streams], default=1)
        for stream in problem.streams:
            self._write_stream(stream)
        for run in problem.runs:
            self._write_run(run)

    @property
    def has_troughs(self) -> bool:
        """A run works in parts of the day."""
        return any(run.in_blocks for run in self.problem.runs)

    # Streams.

    def _write_stream(self, stream: Stream) -> None:
        """Whole replicas, of which enough serve the demand and its headroom at every node."""
        nodes = len(self.problem.tree)
        columns = self.linear.columns(len(stream.options), nodes, whole=True)
        self.serve[stream.name] = columns
        need = stream.demand * (1.0 + stream.headroom_frac)
        for n in range(nodes):
            terms = {}
            for o, option in enumerate(stream.options):
                column, most = int(columns[o, n]), float(need[n])
                self.linear.upper[column] = math.ceil(most / option.serves) + option.lost
                self.uses.append(Use(n, column, option.units, option))
                if option.lost:
                    terms[self._surviving(column, option, most)] = 1.0
                else:
                    terms[column] = option.serves
            self.linear.row(terms, low=float(need[n]), limit=f"demand of {stream.name}",
                            step=float(need[n]))  # fmt: skip
            self._survive_sites(stream, n)
        if self.has_troughs:
            self._write_hours(stream)

    def _surviving(self, column: int, option: Option, most: float) -> int:
        """What replicas serve of which some may be out of work."""
        some, served = self.linear.column(upper=1.0, whole=True), self.linear.column()
        self.linear.row({served: 1.0, column: -option.serves}, high=0.0)
        full = min(option.serves_full, 1e9)
        self.linear.row({served: 1.0, column: -full, some: full * option.lost}, high=0.0)
        self.linear.row({served: 1.0, some: -most}, high=0.0)
        return served

    def _survive_sites(self, stream: Stream, n: int) -> None:
        """Enough is served elsewhere when any one site is lost."""
        share = self.problem.limits.survive_site_frac
        for site in self.problem.sites if share else ():
            terms = {
                int(self.serve[stream.name][o, n]): option.serves
                for o, option in enumerate(stream.options)
                if (a := self.problem.assets[option.asset]).site != site or not a.is_own
            }
            least = share * float(stream.demand[n])
            self.linear.row(terms, low=least, limit="survive_site_frac", step=least)

    def _write_hours(self, stream: Stream) -> None:
        """Whole replicas at work in each part of the day."""
        columns = self.serve[stream.name]
        busy = self.linear.columns(*columns.shape, self.hours, whole=True)
        self.busy[stream.name] = busy
        shares = np.broadcast_to(stream.by_hour, self.hours)
        for o, n, h in np.ndindex(*busy.shape):
            terms = {int(busy[o, n, h]): 1.0, int(columns[o, n]): -float(shares[h])}
            self.linear.row(terms, low=0.0)

    # Runs.

    def _write_run(self, run: Run) -> None:
        if run.in_blocks:
            self.runs[run.name] = self._in_blocks(run)
        elif run.may_pause:
            self.runs[run.name] = self._with_pauses(run)
        else:
            self.runs[run.name] = self._at_a_stretch(run)

    def _at_a_stretch(self, run: Run) -> Pace:
        """A run begins once, on whichever way the future goes, and holds its units to its end."""
        tree = self.problem.tree
        columns = self.linear.columns(len(run.options), len(tree), upper=1.0, whole=True)
        allowed = set()
        for o, n in np.ndindex(*columns.shape):
            option, column, t = run.options[o], int(columns[o, n]), int(tree.period[n])
            whole = math.ceil(option.periods - 1e-9)
            if not run.start <= t <= run.due - whole + 1:
                self.linear.upper[column] = 0.0
                continue
            allowed.add(column)
            for m in tree.after(n):
                gone = int(tree.period[m]) - t
                if gone < whole:
                    share = min(1.0, option.periods - gone)
                    self.uses.append(Use(m, column, option.units, option, share))
        for leaf in tree.leaves:
            terms = {int(c): 1.0 for c in columns[:, tree.path(leaf)].ravel() if c in allowed}
            self.linear.row(terms, low=1.0, high=1.0)
        return Pace("begin", columns, np.zeros((0, 0), int))

    def _with_pauses(self, run: Run) -> Pace:
        """A run is on or off in each period, and every start costs the work of its stop."""
        tree = self.problem.tree
        columns = self.linear.columns(len(run.options), len(tree), upper=1.0, whole=True)
        starts = self.linear.columns(*columns.shape, upper=1.0)
        hours = self.problem.horizon.years * HOURS_PER_YEAR
        gain: dict[int, dict[int, float]] = {n: {} for n in range(len(tree))}
        for o, n in np.ndindex(*columns.shape):
            option, column, start = run.options[o], int(columns[o, n]), int(starts[o, n])
            if not run.start <= tree.period[n] <= run.due:
                self.linear.upper[column] = 0.0
                continue
            self.uses.append(Use(n, column, option.units, option))
            before = {int(columns[o, tree.parent[n]]): 1.0} if tree.parent[n] >= 0 else {}
            self.linear.row({start: 1.0, column: -1.0, **before}, low=0.0)
            gain[n][column] = 1.0 / option.periods
            gain[n][start] = -run.stop_hours / hours / option.periods
        for n in range(len(tree)):
            self.linear.row({int(c): 1.0 for c in columns[:, n]}, high=1.0)
        self._finish(gain)
        return Pace("on", columns, starts)

    def _in_blocks(self, run: Run) -> Pace:
        """Blocks beside streams in each part of the day; a block that stops loses some hours."""
        tree, hours = self.problem.tree, self.hours
        shape = len(run.options), len(tree)
        columns = self.linear.columns(*shape, hours, whole=True)
        stops = self.linear.columns(*shape, hours)
        some = self.linear.columns(*shape, upper=1.0, whole=True)
        gain: dict[int, dict[int, float]] = {n: {} for n in range(len(tree))}
        for o, n, h in np.ndindex(*columns.shape):
            option, column, stop = run.options[o], int(columns[o, n, h]), int(stops[o, n, h])
            most = math.floor(option.units / option.block_units + 1e-9)
            is_on = run.start <= tree.period[n] <= run.due
            self.linear.upper[column] = float(most) if is_on else 0.0
            self.linear.row({column: 1.0, int(some[o, n]): -float(most)}, high=0.0)
            then = int(columns[o, n, (h + 1) % hours])
            if then != column:
                self.linear.row({stop: 1.0, column: -1.0, then: 1.0}, low=0.0)
            self.uses.append(Use(n, column, option.block_units, option, 1.0 / hours, h))
            rate = option.block_units / option.units / option.periods
            gain[n][column] = rate / hours
            gain[n][stop] = -rate * run.stop_hours / HOURS_PER_DAY
        for n in range(len(tree)):
            self.linear.row({int(c): 1.0 for c in some[:, n]}, high=1.0)
        self._finish(gain)
        return Pace("blocks", columns, stops)

    def _finish(self, gain: dict[int, dict[int, float]]) -> None:
        """All of a run is done on every way through the tree."""
        for leaf in self.problem.tree.leaves:
            terms: dict[int, float] = {}
            for n in self.problem.tree.path(leaf):
                terms |= gain[n]
            self.linear.row(terms, low=1.0)

    # What is at work.

    def at_work(self, hour: int) -> Iterator[tuple[int, int, int, float]]:
        """Asset, node, column and units at work in a part of the day; -1: streams at their peak.

        Uses of runs that hold their units day and night are at work in every part.
        """
        serving = {int(c) for columns in self.serve.values() for c in columns.ravel()}
        for use in self.uses:
            is_stream = use.column in serving
            if (is_stream and hour >= 0) or (use.hour >= 0 and use.hour != hour):
                continue
            yield use.option.asset, use.node, use.column, use.units
        for stream in self.problem.streams if hour >= 0 else ():
            busy = self.busy[stream.name]
            for o, n in np.ndindex(*busy.shape[:2]):
                option = stream.options[o]
                yield option.asset, n, int(busy[o, n, hour]), option.units
