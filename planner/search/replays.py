"""The costly tier of a study: plans replayed one by one, each once, whoever asks for them.

What a replay found is priced as the closed form is, at every site. Everything that was replayed
stays here with what a reader is told of it, so a run that goes on pays for nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from planner.costing.front import SiteScores, site_scores
from planner.costing.price_desk import Desk, desk_of
from planner.explain.plan import plain
from planner.runs.physics import PHYSICS
from planner.search.near import no_memo, violation
from planner.search.sweep import named_rows
from planner.space.blocks import Ints, keys_of, values_of
from planner.space.plan_keys import codes_of, plan_name
from simkernel.columns import Floats

CLOSED_FORM, REPLAY = "closed_form", "replay"
"""Values of the column `fidelity`: rows of one are never compared with rows of the other."""

CHOSEN = ("accelerator", "devices", "supernode_devices", "tensor_parallel", "pipeline_parallel")
"""What is told of a replayed plan beside its replay."""


@dataclass(frozen=True)
class OneReplay:
    """What one replay came to.

    Parameters
    ----------
    points, excess : (sites, k) objectives to be minimised, and (sites,)
    row : figures for a reader, by name
    """

    points: Floats
    excess: Floats
    row: Mapping[str, Any]

    def as_plain(self) -> dict[str, Any]:
        """Plain values; what is not finite is None."""
        points = [[plain(value) for value in site] for site in self.points]
        return {"points": points, "excess": [plain(v) for v in self.excess], "row": dict(self.row)}


def from_plain(table: Mapping[str, Any]) -> OneReplay:
    """What `OneReplay.as_plain` wrote down."""
    points = np.array(table["points"], dtype=float)
    excess = np.array(table["excess"], dtype=float)
    points, excess = (np.where(np.isnan(a), np.inf, a) for a in (points, excess))
    return OneReplay(points, excess, table["row"])


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
    """

    engine: Any
    known: dict[int, OneReplay] = field(default_factory=dict)
    unsaved: list[int] = field(default_factory=list)
    after: Callable[[], None] = lambda: None
    is_stopped: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        """The desk is laid once, for every chip of the space."""
        chips = [str(name) for name in self.engine.space.levels["accelerator"]]
        self.desk = desk_of(self.engine.study, self.engine.catalog, chips)

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
        """Replays one after the other until it is stopped."""
        for key in keys:
            if self.is_stopped():
                return
            yield key, replay_of(self.engine, self.desk, key)


def replay_of(engine: Any, desk: Desk, key: int) -> OneReplay:
    """One plan replayed and priced.

    Parameters
    ----------
    key : design key of a plan that can exist
    """
    space = engine.space
    codes = codes_of(space, np.array([key]))
    columns = values_of(space, codes)
    accelerator = str(space.levels["accelerator"][codes[0, 0]])
    replay = PHYSICS[engine.study.kind].replay
    assert replay is not None, "asked for only where the kind of work has one"
    told = replay(engine, columns, accelerator)
    table = named_rows(engine, np.array([key]), columns, told.found, np.arange(1))
    priced = site_scores(desk, table)
    excess = priced.excess[0] + violation(told.found)[0]
    chosen = {name: plain(table[name][0]) for name in CHOSEN}
    said = {name: plain(value) for name, value in told.told.items()}
    row = {"plan": plan_name(key), "fidelity": REPLAY, **chosen, **said}
    return OneReplay(priced.points[0], excess, row)
