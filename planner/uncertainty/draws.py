"""A front drawn a thousand times: every uncertain input at random, all plans in the same worlds.

Inputs are independent of one another. Plans on one chip share the draws of that chip (its speed,
its price), plans at one site those of the site, so that what errs for both does not part them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.pareto import nondominated
from planner.uncertainty.figures import FOLLOWS, figures_of
from planner.uncertainty.inputs import CHIP, MOVED, SITE
from planner.uncertainty.plans import Part
from planner.uncertainty.quantile import Band, at_quantile
from simkernel.columns import Codes, Floats

BLOCK_ROWS = 16_384
"""Rows costed at a time, so that their columns stay in a processor's cache."""

QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Drawn:
    """Figures of a front in every draw.

    Parameters
    ----------
    values : metric to (draws, n) in its unit
    signs : objective to +1 where less is better, -1 where more is
    """

    values: Mapping[str, Floats]
    signs: Mapping[str, float]

    def quantiles(self, metric: str) -> Floats:
        """P10, P50 and P90 of a metric; (3, n)."""
        return np.asarray(np.quantile(self.values[metric], QUANTILES, axis=0))

    def front_frac(self) -> Floats:
        """Share of draws in which each row is on the front of that draw; (n,)."""
        points = np.stack([sign * self.values[n] for n, sign in self.signs.items()], axis=2)
        return np.asarray(np.mean([nondominated(draw) for draw in points], axis=0))


def drawn(
    parts: Sequence[Part], front: Mapping[str, Any], signs: Mapping[str, float], draws: int,
    seed: int,
) -> Drawn:  # fmt: skip
    """Every objective of a front in a number of draws.

    Parameters
    ----------
    parts : of the front, as `plans.parts_of` makes them
    front : its columns, (n,)
    signs : objectives, +1 where less is better
    seed : the same seed draws the same worlds, in whatever order plans stand

    Notes
    -----
    A figure with a band that money does not follow (a latency) is drawn on its own; one without
    (the size of a domain) is what it is.
    """
    count = len(front["plan"])
    worlds = _Worlds(front, draws, seed)
    values = {name: np.empty((draws, count)) for name in signs}
    for part in parts:
        found = _costed(part, worlds, {FOLLOWS.get(name, name) for name in signs})
        for name in signs:
            values[name][:, part.rows] = _one(name, found, part, front, worlds)
    return Drawn(values, signs)


class _Worlds:
    """Standard normal numbers by input and by what shares them, the same whatever is asked."""

    def __init__(self, front: Mapping[str, Any], draws: int, seed: int) -> None:
        self.keys = {CHIP: np.asarray(front["accelerator"]), SITE: np.asarray(front["site"])}
        self.draws, self.seed = draws, seed
        self._kept: dict[tuple[str, str], Floats] = {}

    def scores(self, name: str, of: str, rows: Any) -> tuple[Floats, Codes]:
        """Of an input by what shares it (draws, k), and which of these each row has (m,)."""
        words = self.keys[of][rows] if of in self.keys else np.full(len(rows), "")
        distinct, code = np.unique(words.astype(str), return_inverse=True)
        return np.stack([self._column(name, word) for word in distinct], axis=1), code

    def _column(self, name: str, word: str) -> Floats:
        if (name, word) not in self._kept:
            spelled = [ord(letter) for letter in f"{name}|{word}"]
            rng = np.random.default_rng([self.seed, *spelled])
            self._kept[name, word] = rng.standard_normal(self.draws)
        return self._kept[name, word]


def _costed(part: Part, worlds: _Worlds, wanted: Collection[str]) -> dict[str, Floats]:
    """Metrics of a part that its costing gives; (draws, m) each."""
    scores = {n: worlds.scores(n, MOVED[n].of, part.rows) for n in part.ends.uncertain()}
    size = len(part.ends)
    step = max(BLOCK_ROWS // size, 1)
    found: dict[str, list[Floats]] = {}
    for start in range(0, worlds.draws, step):
        stop = min(start + step, worlds.draws)
        rows = np.tile(np.arange(size), stop - start)
        inputs = part.ends.middle.take(rows)
        for name, (table, code) in scores.items():
            inputs = part.ends.at_scores(inputs, name, table[start:stop][:, code])
        columns = figures_of(inputs, part.study, wanted)
        for name, column in columns.items():
            found.setdefault(name, []).append(column.reshape(stop - start, size))
    return {name: np.concatenate(blocks) for name, blocks in found.items()}


def _one(
    name: str, found: Mapping[str, Floats], part: Part, front: Mapping[str, Any], worlds: _Worlds
) -> Floats:
    """One metric of a part in every draw; (draws, m)."""
    if name in found:
        return found[name]
    base = FOLLOWS.get(name, "")
    if base in found:
        ratio = np.asarray(front[name], float) / np.asarray(front[base], float)
        return found[base] * ratio[part.rows]
    return _own(name, part, front, worlds)


def _own(name: str, part: Part, front: Mapping[str, Any], worlds: _Worlds) -> Floats:
    """A figure that money does not follow; (draws, m)."""
    value = np.asarray(front[name], float)[part.rows]
    ends = [np.asarray(front.get(f"{name}_{end}", front[name]), float) for end in ("low", "high")]
    low, high = (end[part.rows] for end in ends)
    table, code = worlds.scores(name, CHIP, part.rows)
    return at_quantile(Band(low, value, high), table[:, code])
