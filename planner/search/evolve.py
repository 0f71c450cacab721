"""Evolution over level codes with pymoo: for spaces too large to enumerate.

Every axis is one whole number, an index into its levels; crossover and mutation round, and what
they make is bent to the nearest plan that can exist before it costs anything. A plan enters the
population once for every site at which none of its other sites beats it.

References
----------
Deb, Pratap, Agarwal and Meyarivan, IEEE Trans. Evol. Comput. 6(2), 2002 (NSGA-II);
Panichella, GECCO 2019, doi 10.1145/3321707.3321839 (AGE-MOEA).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.duplicate import NoDuplicateElimination
from pymoo.core.evaluator import Evaluator
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.termination import NoTermination
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.repair.rounding import RoundingRepair
from pymoo.problems.static import StaticProblem

from planner.pareto import nondominated
from planner.search.legal import TRIES, Layouts, listed, random_codes, repaired
from planner.search.seam import Scores
from planner.space.blocks import Ints, keys_of
from simkernel.columns import Codes, Floats

POPULATION = 50
"""Measured on deepseek_v3_training: 0.98 of the exact hypervolume at 1,000 evaluations, where 100
reaches 0.95; level at 5,000."""

CROSSOVER_ETA, CROSSOVER_PROB = 3.0, 1.0
MUTATION_ETA = 3.0
"""Small: levels lie one apart, so a step has to reach the next ones. As pymoo's integer example,
pymoo.org/customization/discrete.html."""

MOST_EXCESS = 1e6
"""Stands for a violation without bound: pymoo sums and sorts violations."""

STRANGERS_FRAC = 0.1
"""Share of a round that is drawn at random: a population alone may lose a corner for good."""

SPARE = 2
"""Wishes per plan that is lacking: some lead nowhere or to plans that are known, and looking at
more of them together is cheaper than looking again (1.0 to 0.6 ms of processor a plan)."""

FIRST_TRIES = 2
"""How often the many wishes of a first try are shaken: of them enough are left without."""

FILL_TRIES = 20
"""Rounds of mating or drawing after which a driver takes the space for exhausted."""

LIST_AFTER, LISTED = 3, 50_000
"""Rounds after which a space of at most so many candidates is listed, and what is left of it taken
from the list: the last plans of a small space are the hardest to hit."""


class Evolution:
    """A pymoo algorithm behind the seam.

    Parameters
    ----------
    layouts : the legal part of the space
    width : number of objectives
    seed : the same seed asks for the same plans
    algorithm : "nsga2" or "age_moea"
    population : plans kept from round to round, and plans asked for in one
    """

    def __init__(
        self,
        layouts: Layouts,
        width: int,
        seed: int,
        algorithm: str = "nsga2",
        population: int = POPULATION,
    ) -> None:
        self.layouts, self.population = layouts, population
        space = layouts.space
        counts = np.array([len(space.levels[name]) for name in space.axes])
        is_varied = counts > 1
        is_varied[0] |= not is_varied.any()  # one plan: an axis to bend back, pymoo needs one
        self.varied = np.flatnonzero(is_varied)
        self.rng = np.random.default_rng([seed, 1])
        self.problem = Problem(
            n_var=len(self.varied),
            n_obj=width,
            n_ieq_constr=1,
            xl=np.zeros(len(self.varied), dtype=int),
            xu=np.maximum(counts[self.varied] - 1, 1),
            vtype=int,
        )
        self.asked: set[int] = set()
        self.scale: Floats | None = None
        self.algorithm = _named(algorithm)(
            pop_size=population,
            crossover=SBX(
                prob=CROSSOVER_PROB, eta=CROSSOVER_ETA, vtype=float, repair=RoundingRepair()
            ),
            mutation=PM(eta=MUTATION_ETA, vtype=float, repair=RoundingRepair()),
            eliminate_duplicates=NoDuplicateElimination(),
        )
        self.algorithm.setup(self.problem, termination=NoTermination(), seed=seed)

    def ask(self) -> Ints:
        """Children of the population, or random plans where it has none or they are no news."""
        found = np.empty((0, len(self.layouts.space.axes)), dtype=np.int32)
        if self.algorithm.is_initialized:
            few = round(STRANGERS_FRAC * self.population)
            found = self._legal_news(self._strangers(SPARE * few), few, FIRST_TRIES)
        for attempt in range(FILL_TRIES):
            lacking = self.population - len(found)
            if not lacking or not len(self.layouts):
                break
            if attempt >= LIST_AFTER and self._small is not None:
                return np.concatenate([found, self._unasked(self._small, lacking)])
            is_bred = self.algorithm.is_initialized and attempt < FILL_TRIES // 2
            many = SPARE * lacking
            wishes = self._children(many) if is_bred else self._strangers(many)
            tries = TRIES if attempt else FIRST_TRIES
            found = np.concatenate([found, self._legal_news(wishes, lacking, tries)])
        return found

    def tell(self, codes: Ints, scores: Scores) -> None:
        """Selection among the population and these, each at its unbeaten sites."""
        rows, sites = unbeaten_sites(scores)
        points, excess = scores.points[rows, sites], scores.excess[rows, sites]
        excess = np.minimum(np.maximum(excess, 0.0), MOST_EXCESS)
        points = self._scaled(points)
        told = Population.new("X", codes[rows][:, self.varied].astype(float))
        static = StaticProblem(self.problem, F=points, G=excess[:, None])
        Evaluator().eval(static, told)
        self.algorithm.tell(infills=told)

    @cached_property
    def _small(self) -> Ints | None:
        """All of a small space in random order; None where it is large."""
        codes = listed(self.layouts, LISTED)
        return None if codes is None else self.rng.permutation(codes)

    def _unasked(self, codes: Ints, most: int) -> Ints:
        """The first of a list that were never asked for."""
        keys = keys_of(self.layouts.space, codes).tolist()
        rows = [row for row, key in enumerate(keys) if key not in self.asked][:most]
        self.asked.update(keys[row] for row in rows)
        return codes[rows]

    def _children(self, count: int) -> Ints:
        parents = self.algorithm.pop
        children = self.algorithm.mating.do(
            self.problem,
            parents,
            count,
            algorithm=self.algorithm,
            random_state=self.algorithm.random_state,
            n_max_iterations=1,
        )
        codes = np.zeros((len(children), len(self.layouts.space.axes)), dtype=np.int32)
        codes[:, self.varied] = np.rint(children.get("X").astype(float)).astype(np.int32)
        return codes

    def _strangers(self, count: int) -> Ints:
        """Wishes at random."""
        return random_codes(self.layouts, count, self.rng)

    def _legal_news(self, wishes: Ints, most: int, tries: int) -> Ints:
        """Plans near the wishes that were never asked for, at most some; the first of equals."""
        if not len(wishes) or not len(self.layouts):
            return wishes[:0].astype(np.int32)
        repaired_codes, is_legal = repaired(self.layouts, wishes, self.rng, tries)
        codes = repaired_codes[is_legal]
        kept: list[int] = []
        for row, key in enumerate(keys_of(self.layouts.space, codes).tolist()):
            if key not in self.asked and len(kept) < most:
                self.asked.add(key)
                kept.append(row)
        return codes[kept]

    def _scaled(self, points: Floats) -> Floats:
        """Objectives about 1 in size, whatever their unit; what is not known is worst."""
        known = np.where(np.isfinite(points), points, np.nan)
        if self.scale is None:
            self.scale = np.array([_typical(column) for column in known.T])
        scaled: Floats = np.where(np.isnan(known), MOST_EXCESS, known / self.scale)
        return scaled


def _named(algorithm: str) -> Any:
    """A class of pymoo that is reproducible with a seed; NSGA-III of 0.6.2 is not (pymoo#794).

    AGE-MOEA compiles itself with numba, 3 s in each process: loaded only where it is asked for.
    """
    if algorithm == "nsga2":
        return NSGA2
    from pymoo.algorithms.moo.age import AGEMOEA

    return AGEMOEA


def _typical(column: Floats) -> float:
    """Median size of the known values, 1 where there is none."""
    sizes = np.abs(column[~np.isnan(column)])
    middle = float(np.median(sizes)) if len(sizes) else 0.0
    return middle or 1.0


def unbeaten_sites(scores: Scores) -> tuple[Codes, Codes]:
    """Plans and sites worth telling, as two columns of places; (m,) each.

    The feasible sites of a plan that no other of its sites beats, or the one nearest to feasible.
    """
    rows: list[int] = []
    sites: list[int] = []
    for row in range(len(scores.excess)):
        fit = np.flatnonzero(scores.excess[row] <= 0)
        if len(fit) > 1:
            fit = fit[nondominated(scores.points[row, fit])]
        if not len(fit):
            fit = np.array([scores.excess[row].argmin()])
        rows += [row] * len(fit)
        sites += fit.tolist()
    return np.array(rows, dtype=np.int64), np.array(sites, dtype=np.int64)
