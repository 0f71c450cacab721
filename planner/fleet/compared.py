"""What a purchase study compares: the one or two sums that its programs are solved for."""

from __future__ import annotations

from dataclasses import replace

from planner.fleet.program import CARBON, COST, FLOP, OBJECTIVES, PEAK, TAIL
from planner.study.parts import Objectives
from planner.study.read import Study
from simkernel.errors import BadStudy

GAIN = "npv_usd"
"""Worth of renting everything less that of the plan: the same order as the plan's own worth."""

COMPARED = {GAIN: COST, COST: COST, CARBON: CARBON, PEAK: PEAK, FLOP: FLOP, TAIL: TAIL}
"""What a purchase study may compare, and what the program optimises for it."""


def by_own_worth(study: Study) -> Study:
    """The study with its plans' own worth for what they save against renting.

    Notes
    -----
    Both order plans in the same way, and where nothing can be rented only the first is known.
    """
    wanted = study.objectives
    if GAIN not in wanted.maximise:
        return study
    rest = tuple(name for name in wanted.maximise if name != GAIN)
    least = tuple(dict.fromkeys((COST, *wanted.minimise)))
    return replace(study, objectives=Objectives(minimise=least, maximise=rest))


def compared(study: Study) -> tuple[str, ...]:
    """What the programs of a study optimise, one or two of OBJECTIVES.

    Raises
    ------
    BadStudy : an objective that no purchase plan is optimised for, or more than two
    """
    wanted = (*study.objectives.maximise, *study.objectives.minimise)
    strange = [name for name in wanted if name not in COMPARED]
    found = tuple(dict.fromkeys(COMPARED[name] for name in wanted if name in COMPARED))
    if strange or len(found) > 2 or (found == (CARBON,) and study.fleet.points > 1):
        raise BadStudy(
            f"objectives {', '.join(wanted)}: purchase plans are compared in one or two of "
            f"{', '.join(OBJECTIVES)}, the first one within bounds on the second"
        )
    if FLOP in found and study.workloads:
        raise BadStudy(f"{FLOP} is of hardware alone; remove the workloads, or that objective")
    if TAIL in found:
        _refuse_tail(study)
    return found


def _refuse_tail(study: Study) -> None:
    """The worst futures of a study that has one alone, or that weighs them in the cost too."""
    if not study.fleet.branches:
        raise BadStudy(
            f"{TAIL} is the mean of the worst futures, and the study has one future; wanted "
            "[[fleet.branches]], or another objective"
        )
    if study.fleet.risk and study.fleet.risk.weight:
        raise BadStudy(
            f"fleet.risk.weight is {study.fleet.risk.weight:g} and {TAIL} an objective: the worst "
            "futures would count twice; leave fleet.risk.weight out"
        )
