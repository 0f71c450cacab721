"""The mean of the worst futures: how much a plan may cost where things go badly."""

from __future__ import annotations

import numpy as np

from planner.fleet.energy import Sums
from planner.fleet.linear import Linear, value_of
from planner.fleet.problem import Problem
from simkernel.columns import Floats


def tail_mean(costs: Floats, chances: Floats, tail_frac: float) -> float:
    """Mean of the dearest futures that together have a chance of `tail_frac`.

    Parameters
    ----------
    costs, chances : of each future, (f,)
    tail_frac : above 0, at most 1 [1]

    Notes
    -----
    A future at the edge counts with the part of its chance that is in the tail.
    """
    order = np.argsort(-np.asarray(costs, float), kind="stable")
    before = np.concatenate([[0.0], np.cumsum(np.asarray(chances, float)[order])[:-1]])
    share = np.clip(tail_frac - before, 0.0, np.asarray(chances, float)[order])
    return float(np.dot(share, np.asarray(costs, float)[order]) / share.sum())


class Tail:
    """The mean cost of the worst futures as terms over columns.

    Parameters
    ----------
    problem : whose futures
    linear : program that its columns and rows are written in
    sums : what is spent

    References
    ----------
    Rockafellar, Uryasev (2000): CVaR = min over v of v + E[(cost - v)+] / tail.
    """

    def __init__(self, problem: Problem, linear: Linear, sums: Sums) -> None:
        tree, frac = problem.tree, problem.risk.tail_frac
        self.frac, self.chances = frac, tree.chance[tree.leaves]
        self.futures = [sums.cost.at(dict.fromkeys(tree.path(n), 1.0)) for n in tree.leaves]
        self.terms, self.fixed = self.futures[0]
        if len(self.futures) == 1:
            return
        value = linear.column()
        linear.lower[value] = -np.inf
        self.terms, self.fixed = {value: 1.0}, 0.0
        for (own, held), chance in zip(self.futures, self.chances, strict=True):
            over = linear.column()
            linear.row({**own, value: -1.0, over: -1.0}, high=-held)
            self.terms[over] = float(chance) / frac

    def of(self, columns: Floats) -> float:
        """What it is of a solution, whatever that one was solved for."""
        costs = [value_of(own, columns) + held for own, held in self.futures]
        return tail_mean(np.array(costs), self.chances, self.frac)
