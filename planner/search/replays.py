"""The costly tier of a study: every plan replayed once, whoever asks for it and whoever does it.

Replays share nothing, so other processes or a cluster take those that are asked for together.
What a replay found is priced here as the closed form is, at every site. Everything that was
replayed stays with what a reader is told of it, so a run that goes on pays for nothing again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from planner.costing.front import SiteScores, site_scores
from planner.costing.price_desk import Desk, desk_of
from planner.evaluated import REPLAY, Replay
from planner.explain.plan import plain
from planner.runs.physics import physics_of
from planner.search.near import no_memo, violation
from planner.search.sweep import named_rows
from planner.search.workforce import Processes, Workforce
from planner.space.blocks import Ints, keys_of, values_of
from planner.space.plan_keys import codes_of, plan_name
from simkernel.columns import Floats

BEGIN_S = 3.0
"""What a process takes to load: replays that took so long in this one are worth others."""

CHOSEN = ("accelerator", "devices", "supernode_devices", "tensor_parallel", "pipeline_parallel")
"""What is told of a replayed plan beside its replay."""


@dataclass(frozen=True)
class OneReplay:
    """What one replay came to.

    Parameters
    ----------
    points, excess : (sites, k) objectives to be minimised, and (sites,)
    row : figures for a reader, by name
    table : the plan as it was replayed, before any price, by column; {} of a replay that was
        kept without
    """

    points: Floats
    excess: Floats
    row: Mapping[str, Any]
    table: Mapping[str, Any] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """Plain values; what is not finite is None."""
        points = [[plain(value) for value in site] for site in self.points]
        return {"points": points, "excess": [plain(v) for v in self.excess],
                "row": dict(self.row), "table": dict(self.table)}  # fmt: skip


def from_plain(table: Mapping[str, Any]) -> OneReplay:
    """What `OneReplay.as_plain` wrote down."""
    points = np.array(table["points"], dtype=float)
    excess = np.array(table["excess"], dtype=float)
    points, excess = (np.where(np.isnan(a), np.inf, a) for a in (points, excess))
    return OneReplay(points, excess, table["row"], table.get("table", {}))


@dataclass
class Replays:
    """All replays of a study.

    Parameters
    ----------
    engine : of a kind of work that has a replay
    known : design key to what its replay came to
    unsaved : keys replayed since they were last written down
    after : called after every replay
    is_stopped : asked between replays
    workers : processes that may replay beside each other, 1 for this one alone; or a cluster
    """

    engine: Any
    known: dict[int, OneReplay] = field(default_factory=dict)
    unsaved: list[int] = field(default_factory=list)
    after: Callable[[], None] = lambda: None
    is_stopped: Callable[[], bool] = lambda: False
    workers: int | Workforce = 1

    def __post_init__(self) -> None:
        """The desk is laid once, for every chip of the space."""
        chips = [str(name) for name in self.engine.space.levels["accelerator"]]
        self.desk = desk_of(self.engine.study, self.engine.catalog, chips)
        self.alone_s = 0.0
        self.processes: Processes | None = None

    def __enter__(self) -> Replays:
        """Processes begin when they pay."""
        return self

    def __exit__(self, *said: object) -> None:
        """Those that were begun here end."""
        if self.processes:
            self.processes.__exit__(*said)
            self.processes = None

    def scores(self, codes: Ints) -> SiteScores:
        """Scores of some plans; those not known yet are replayed.

        Parameters
        ----------
        codes : (n, axes) level codes of legal candidates

        Returns
        -------
        of all of them, or where it was stopped of those before the first without a replay
        """
        keys = [int(key) for key in keys_of(self.engine.space, codes)]
        for key, found in self._replayed([key for key in keys if key not in self.known]):
            self.known[key] = found
            self.unsaved.append(key)
            self.after()
        rows = [self.known[key] for key in takewhile(self.known.__contains__, keys)]
        if not rows:
            return no_memo().scores
        return SiteScores(np.stack([r.points for r in rows]), np.stack([r.excess for r in rows]))

    def _replayed(self, keys: Sequence[int]) -> Iterator[tuple[int, OneReplay]]:
        """Replays as they are done, until it is stopped."""
        left = list(keys)
        while left and (team := self._team(len(left))) is None:
            if self.is_stopped():
                return
            key, started = left.pop(0), time.perf_counter()
            found = replay_of(self.engine, self.desk, key)
            self.alone_s += time.perf_counter() - started
            yield key, found
        if left and team:
            for key, replay in team.spread(self.engine, played, left, self.is_stopped):
                yield key, priced(self.engine, self.desk, key, replay)

    def _team(self, count: int) -> Workforce | None:
        """Who replays so many; None for this process, until it took as long as others begin."""
        if not isinstance(self.workers, int):
            return self.workers
        if self.workers == 1 or count == 1 or self.alone_s < BEGIN_S:
            return None
        self.processes = self.processes or Processes(self.engine, self.workers)
        return self.processes


def played(engine: Any, key: int) -> tuple[int, Replay]:
    """One plan replayed, wherever it is done.

    Parameters
    ----------
    key : design key of a plan that can exist
    """
    space = engine.space
    codes = codes_of(space, np.array([key]))
    replay = physics_of(engine.study).replay
    assert replay is not None, "asked for only where the kind of work has one"
    accelerator = str(space.levels["accelerator"][codes[0, 0]])
    return key, replay(engine, values_of(space, codes), accelerator)


def replay_of(engine: Any, desk: Desk, key: int) -> OneReplay:
    """One plan replayed and priced; parameters as `priced`."""
    return priced(engine, desk, *played(engine, key))


def priced(engine: Any, desk: Desk, key: int, told: Replay) -> OneReplay:
    """What a replay came to.

    Parameters
    ----------
    key : design key of the plan
    told : its replay
    """
    columns = values_of(engine.space, codes_of(engine.space, np.array([key])))
    table = named_rows(engine, np.array([key]), columns, told.found, np.arange(1))
    priced = site_scores(desk, table)
    excess = priced.excess[0] + violation(told.found)[0]
    chosen = {name: plain(table[name][0]) for name in CHOSEN}
    said = {name: plain(value) for name, value in told.told.items()}
    row = {"plan": plan_name(key), "fidelity": REPLAY, **chosen, **said}
    as_replayed = {name: plain(column[0]) for name, column in table.items()}
    return OneReplay(priced.points[0], excess, row, as_replayed)
