"""The solver: a written program handed to HiGHS, its answer with status, bound and gap."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from planner.fleet.linear import Linear, Terms
from simkernel.columns import Codes, Floats

STATUS = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnbounded: "unbounded",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "unbounded",
}


KINDS = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
"""Of a column that may be broken, and of one that is whole."""


@dataclass(frozen=True)
class Model:
    """A program in the solver; `whole` marks the columns that were to be whole."""

    engine: highspy.Highs
    whole: np.ndarray


@dataclass(frozen=True)
class Answer:
    """Status in words, value, proved bound, gap, and the columns (NaN where there is no plan)."""

    status: str
    value: float
    bound: float
    gap_frac: float
    columns: Floats


def model(linear: Linear, objective: Terms, fixed: float) -> Model:
    """A program that minimises the sum of some terms."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(linear.lower), len(linear.row_low)
    cost = np.zeros(lp.num_col_)
    cost[list(objective)] = list(objective.values())
    lp.col_cost_, lp.offset_ = cost, fixed
    lp.col_lower_, lp.col_upper_ = np.array(linear.lower), np.array(linear.upper)
    lp.row_lower_, lp.row_upper_ = np.array(linear.row_low), np.array(linear.row_high)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.array([*linear.starts, len(linear.places)])
    lp.a_matrix_.index_, lp.a_matrix_.value_ = np.array(linear.places), np.array(linear.values)
    lp.integrality_ = [KINDS[is_whole] for is_whole in linear.whole]
    engine = _quiet()
    engine.setOptionValue("output_flag", False)
    engine.passModel(lp)
    return Model(engine, np.array(linear.whole, dtype=bool))


def set_whole(one: Model, whole: np.ndarray) -> None:
    """Which columns have to be whole from now on; (c,)."""
    count = len(whole)
    kinds = np.array([KINDS[int(is_whole)] for is_whole in whole])
    one.engine.changeColsIntegrality(count, np.arange(count, dtype=np.int32), kinds)


def fix(one: Model, columns: Codes, values: Floats) -> None:
    """Columns that are known from now on."""
    places = np.asarray(columns, dtype=np.int32)
    one.engine.changeColsBounds(len(places), places, values, values)


def solved(
    one: Model,
    gap_frac: float,
    limit_s: float,
    start: Floats | None,
    tell: Callable[[Answer], None] | None = None,
) -> Answer:
    """The best solution in a time.

    Parameters
    ----------
    gap_frac : at which it may stop
    limit_s : after which it gives the best so far [s]
    start : columns to begin with
    tell : given each better solution while it looks for the best
    """
    engine = one.engine
    if tell is not None:
        _listened(one, tell)
    engine.setOptionValue("mip_rel_gap", gap_frac)
    engine.setOptionValue("time_limit", limit_s)
    if start is not None and len(start) == len(one.whole) and np.isfinite(start).all():
        begun = highspy.HighsSolution()
        begun.col_value = start.tolist()
        engine.setSolution(begun)
    engine.run()
    info = engine.getInfo()
    is_there = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    word = STATUS.get(engine.getModelStatus(), "feasible" if is_there else "no plan in time")
    if word == "unbounded" or not is_there:
        return Answer(_sure(word, one, limit_s), np.nan, np.nan, np.nan,
                      np.full(len(one.whole), np.nan))  # fmt: skip
    columns = _rounded(np.array(engine.getSolution().col_value), one)
    value = float(info.objective_function_value)
    return Answer(word, value, float(info.mip_dual_bound), float(info.mip_gap), columns)


def _listened(one: Model, tell: Callable[[Answer], None]) -> None:
    """Have each better solution told with the bound of that moment."""

    def better(event: Any) -> None:
        found = event.data_out
        columns = _rounded(np.array(found.mip_solution), one)
        value, bound = float(found.objective_function_value), float(found.mip_dual_bound)
        gap = abs(value - bound) / max(abs(value), 1e-9)
        tell(Answer("feasible", value, bound, gap, columns))

    one.engine.cbMipImprovingSolution.subscribe(better)


def _rounded(columns: Floats, one: Model) -> Floats:
    """A solution with whole numbers where they are to be whole; (c,)."""
    found = columns[: len(one.whole)].copy()
    found[one.whole] = np.rint(found[one.whole])
    return found


def _sure(word: str, one: Model, limit_s: float) -> str:
    """Which of unbounded and infeasible it is: without an objective only one is left."""
    if word != "unbounded":
        return word
    engine = one.engine
    count = engine.getNumCol()
    engine.changeColsCost(count, np.arange(count, dtype=np.int32), np.zeros(count))
    engine.setOptionValue("time_limit", limit_s)
    engine.run()
    status = engine.getModelStatus()
    return "unbounded" if status == highspy.HighsModelStatus.kOptimal else "infeasible"


def _quiet() -> highspy.Highs:
    """A solver that says nothing: its constructor prints a banner that no option turns off."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        return highspy.Highs()  # type: ignore[no-untyped-call]
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
