"""Optuna behind the seam: for plans whose evaluation costs more than Optuna's own milliseconds.

One trial is one plan at one site. What Optuna suggests is bent to the nearest plan that can exist;
a plan known already is answered from memory, so a repeated suggestion costs nothing. The sampler
is named, never Optuna's default: its TPE takes 50 ms a trial with several objectives.

References
----------
Akiba et al., Optuna, KDD 2019; Deb and Jain, IEEE Trans. Evol. Comput. 18(4), 2014 (NSGA-III).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import Study as Trials
from optuna.trial import FrozenTrial, Trial, TrialState

from planner.search.legal import Layouts, repaired
from planner.search.seam import Scores
from planner.space.blocks import Ints, keys_of
from simkernel.columns import Floats

SAMPLERS = {"nsga2": NSGAIISampler, "nsga3": NSGAIIISampler}

BATCH = 16
"""Plans asked for together: enough for the cores of a machine, few enough to learn from."""

MOST_REPEATS = 100
"""Suggestions of known plans in a row after which a driver takes the space for exhausted."""

MOST_EXCESS = 1e6
"""Stands for a violation without bound, and for an objective that is not known."""

LOCK_S = 5
"""A lock that is held for so long was left behind: writing a few lines takes milliseconds."""

SITE = "site"
VIOLATION = "violation"


class Sampling:
    """An Optuna study behind the seam.

    Parameters
    ----------
    layouts : the legal part of the space
    width : number of objectives
    seed : the same seed asks for the same plans
    sites : where a plan may stand, one parameter of a trial
    algorithm : a name of `SAMPLERS`
    population : trials in a generation
    first : (n, axes) plans to try before any other, e.g. the front of a cheaper tier
    journal : a file that optuna-dashboard can open while the search runs; None keeps it in memory
    name : of the study in the journal
    """

    def __init__(
        self,
        layouts: Layouts,
        width: int,
        seed: int,
        *,
        sites: tuple[str, ...] = ("",),
        algorithm: str = "nsga2",
        population: int = 50,
        first: Ints | None = None,
        journal: Path | None = None,
        name: str = "search",
    ) -> None:
        self.layouts, self.sites = layouts, sites
        self.rng = np.random.default_rng([seed, 2])
        self.distributions: dict[str, BaseDistribution] = _distributions(layouts, sites)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = _journal(journal) if journal else InMemoryStorage()
        self.trials: Trials = optuna.create_study(
            storage=storage,
            study_name=_unused(storage, name),
            sampler=_sampler(algorithm, population, seed),
            directions=["minimize"] * width,
        )
        for row in () if first is None else first:
            for site in sites:
                self.trials.enqueue_trial(self._parameters(row, site))
        self.known: dict[int, tuple[Floats, Floats]] = {}
        self.waiting: dict[int, list[Trial]] = {}

    def ask(self) -> Ints:
        """Plans that were not asked for before, from as many suggestions as that takes."""
        found: list[Ints] = []
        repeats = 0
        while len(found) < BATCH and repeats < MOST_REPEATS and len(self.layouts):
            trials = [self.trials.ask(self.distributions) for _ in range(BATCH - len(found))]
            wishes = np.stack([self._wish(trial.params) for trial in trials])
            codes, is_legal = repaired(self.layouts, wishes, self.rng)
            for trial, row, is_one in zip(trials, codes, is_legal, strict=True):
                is_news = self._taken(trial, row, is_plan=bool(is_one))
                found += [row] if is_news else []
                repeats = 0 if is_news else repeats + 1
        return np.array(found, dtype=np.int32).reshape(-1, len(self.layouts.space.axes))

    def _taken(self, trial: Trial, row: Ints, *, is_plan: bool) -> bool:
        """Let a trial wait for its plan, or tell it what is known; True for a plan that is new."""
        key = int(keys_of(self.layouts.space, row[None])[0])
        if not is_plan:
            self.trials.tell(trial, state=TrialState.FAIL)
            return False
        if key in self.known:
            self._tell(trial, *self.known[key])
            return False
        is_news = key not in self.waiting
        self.waiting.setdefault(key, []).append(trial)
        return is_news

    def tell(self, codes: Ints, scores: Scores) -> None:
        """Values of the trials that wait for these plans, each at its own site."""
        keys = keys_of(self.layouts.space, codes).tolist()
        for key, points, excess in zip(keys, scores.points, scores.excess, strict=True):
            self.known[key] = (points, excess)
            for trial in self.waiting.pop(key, []):
                self._tell(trial, points, excess)

    def _tell(self, trial: Trial, points: Floats, excess: Floats) -> None:
        site = self.sites.index(trial.params[SITE])
        over = float(np.clip(excess[site], 0.0, MOST_EXCESS))
        trial.set_user_attr(VIOLATION, over)
        values = np.where(np.isfinite(points[site]), points[site], MOST_EXCESS)
        self.trials.tell(trial, [float(value) for value in values])

    def _parameters(self, row: Ints, site: str) -> dict[str, Any]:
        levels = self.layouts.space.levels
        names = self.layouts.space.axes
        told = {n: levels[n][int(code)] for n, code in zip(names, row, strict=True)}
        return {n: told[n] for n in self.distributions if n != SITE} | {SITE: site}

    def _wish(self, parameters: Mapping[str, Any]) -> Ints:
        """Level codes of a suggestion; (axes,)."""
        space = self.layouts.space
        codes = np.zeros(len(space.axes), dtype=np.int32)
        for column, name in enumerate(space.axes):
            if name in parameters:
                codes[column] = space.levels[name].index(parameters[name])
        return codes


def _distributions(layouts: Layouts, sites: tuple[str, ...]) -> dict[str, BaseDistribution]:
    """The levels of every axis that has several, as a person reads them, and the sites."""
    space = layouts.space
    varied = {name: space.levels[name] for name in space.axes if len(space.levels[name]) > 1}
    return {name: CategoricalDistribution(tuple(c)) for name, c in {**varied, SITE: sites}.items()}


def _sampler(algorithm: str, population: int, seed: int) -> BaseSampler:
    """A sampler by name; that NSGA-III may change its interface is told to nobody.

    Violations pass through `constraints_func`, to be removed in Optuna 7: what `set_constraint`
    writes, Optuna reads alike, but optuna-dashboard (0.21) shows no trial as infeasible.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return SAMPLERS[algorithm](
            population_size=population, seed=seed, constraints_func=_violation
        )


def _violation(trial: FrozenTrial) -> tuple[float]:
    """What a trial is over its limits by; at most 0 for one that keeps them."""
    return (trial.user_attrs[VIOLATION],)


def _journal(path: Path) -> JournalStorage:
    """Opened with a lock that is broken where a killed process left it, and says so on stderr.

    Optuna's own lock by symbolic link can hang for good (optuna#5921).
    """
    lock = JournalFileOpenLock(str(path), grace_period=LOCK_S)
    return JournalStorage(JournalFileBackend(str(path), lock))


def _unused(storage: InMemoryStorage | JournalStorage, name: str) -> str:
    """The name, or the name with a number where the journal has it already."""
    known = {study.study_name for study in storage.get_all_studies()}
    numbered = (f"{name}-{i}" for i in range(2, len(known) + 3))
    return name if name not in known else next(n for n in numbered if n not in known)
