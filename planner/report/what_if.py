"""The front under other prices and terms: what the plan costs then, and what another would save.

Each scenario costs every row of the front anew from its own inputs, so +50% is of each site's own
price. Plans that were off the front before are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from planner.uncertainty.figures import figures_of
from planner.uncertainty.inputs import Inputs
from planner.uncertainty.plans import Part
from simkernel.columns import Floats

CARBON_USD_PER_T = 100.0
WACC_UP = 0.02
USED_FRAC = 0.7
AS_IT_IS = "as it is"
DEARER_RENT = "rent +30%"
SAME_FRAC = 5e-4
"""Figures closer than this are told as alike."""

Change = Callable[[Inputs], Inputs]


@dataclass(frozen=True)
class Outcome:
    """A plan in one scenario.

    Parameters
    ----------
    name : of the scenario
    value : of the plan [$]
    best : of any row of the front [$]
    best_row : its place among the rows that were costed
    """

    name: str
    value: float
    best: float
    best_row: int

    @property
    def regret(self) -> float:
        """What the plan costs beyond the best of the scenario [$]."""
        return self.value - self.best

    @property
    def is_beaten(self) -> bool:
        """Another plan costs less, by more than figures are told apart."""
        return self.regret > SAME_FRAC * abs(self.value)


def _with_terms(**factors: Callable[[Floats], Floats]) -> Change:
    def change(inputs: Inputs) -> Inputs:
        terms = inputs.terms
        moved = {name: f(np.asarray(getattr(terms, name))) for name, f in factors.items()}
        return replace(inputs, terms=replace(terms, **moved))

    return change


def _with_servers(factor: float) -> Change:
    def change(inputs: Inputs) -> Inputs:
        prices = replace(inputs.prices, unit_usd=inputs.prices.unit_usd * factor)
        return replace(inputs, prices=prices)

    return change


def _with_rent(factor: float) -> Change:
    def change(inputs: Inputs) -> Inputs:
        rent = inputs.prices.rent_usd_per_device_hour * factor
        return replace(inputs, prices=replace(inputs.prices, rent_usd_per_device_hour=rent))

    return change


SCENARIOS: Mapping[str, Change] = MappingProxyType(
    {
        AS_IT_IS: lambda inputs: inputs,
        "electricity +50%": _with_terms(usd_per_kwh=lambda usd: usd * 1.5),
        "carbon of electricity at 100 $/t": _with_terms(
            carbon_usd_per_t=lambda usd: 0 * usd + CARBON_USD_PER_T
        ),
        "servers +30%": _with_servers(1.3),
        "servers -20%": _with_servers(0.8),
        DEARER_RENT: _with_rent(1.3),
        "interest +2 points": _with_terms(wacc_frac=lambda frac: frac + WACC_UP),
        "no residual value": _with_terms(residual_frac=lambda frac: 0 * frac),
        "used 70% of the time": lambda inputs: _used(inputs, USED_FRAC),
    }
)
"""What a board asks about, and what it does to the inputs of a row."""


def outcomes(
    parts: Sequence[Part], rows: int, at: int, metric: str
) -> tuple[list[Outcome], list[str]]:
    """A plan in every scenario, and the names of those that change nothing.

    Parameters
    ----------
    parts : of the rows that compete
    rows, at : how many there are, and the plan's place among them
    metric : of `figures_of`, to be minimised [$]
    """
    found: list[Outcome] = []
    idle: list[str] = []
    for name in SCENARIOS:
        values = cost_in(parts, rows, name, metric)
        best = int(np.nanargmin(values))
        one = Outcome(name, float(values[at]), float(values[best]), best)
        if found and np.isclose(one.value, found[0].value, rtol=1e-12):
            idle.append(name)
        else:
            found.append(one)
    return found, idle


def cost_in(parts: Sequence[Part], rows: int, name: str, metric: str) -> Floats:
    """A metric of every row in one scenario; (rows,)."""
    values = np.empty(rows)
    for part in parts:
        inputs = SCENARIOS[name](part.ends.middle)
        values[part.rows] = figures_of(inputs, part.study, (metric,))[metric]
    return values


def _used(inputs: Inputs, used_frac: float) -> Inputs:
    """Fewer hours at work; hardware alone works fewer hours of its life, a run takes as many."""
    terms, run = inputs.terms, inputs.run
    less = np.minimum(terms.utilisation_frac, used_frac)
    terms = replace(terms, utilisation_frac=less)
    is_alone = np.isnan(run.tokens)
    hours = np.where(is_alone, run.hours * less / inputs.terms.utilisation_frac, run.hours)
    return replace(inputs, terms=terms, run=replace(run, hours=hours))
