"""What is known of a candidate before its physics: a limit that it must break, and the proof.

A sweep leaves out only what a bound proves infeasible, so the front and the counts of the others
stay as they are; how many were left out, and by which bound, is told apart from what was
evaluated. Each bound states its inequality, and a test looks for a candidate that breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from planner.training.engine import Engine
from planner.training.evaluate import (
    SECONDS_PER_DAY,
    is_step_given,
    training_plans,
)
from simkernel.candidates import TrainingPlans
from simkernel.columns import Floats, Masks
from simkernel.hardware import PRECISION_BYTES, PRECISIONS
from simkernel.keeping import WIDE_BYTES
from simkernel.models import active_parameters
from simkernel.roofline import GemmRates, gemm_rates

PRODUCTS = ("attention", "mlp", "shared_experts", "experts", "head")
"""Parts of a model whose parameters are multiplied with every token they meet."""

WIDE_CODES = (PRECISIONS.index("bf16"), PRECISIONS.index("fp16"))
"""What products that a stack does not narrow run in."""

ROUNDING = 1e-9
"""Share that the order of a sum may move either side of an inequality by."""


@dataclass(frozen=True)
class Bound:
    """A limit that is broken before anything is computed, where it is.

    Parameters
    ----------
    limit : that it proves broken
    inequality : the proof, in words
    is_broken : (engine, columns, accelerator) to (n,), True only where the proof holds
    """

    limit: str
    inequality: str
    is_broken: Callable[[Any, Mapping[str, Any], str], Masks]


def every_bound() -> tuple[Bound, ...]:
    """Bounds of all kinds, for their inequalities."""
    return tuple(bound for bounds in BOUNDS.values() for bound in bounds)


def broken_by(engine: Any, columns: Mapping[str, Any], accelerator: str) -> dict[str, Masks]:
    """Which candidates each bound leaves out, the first of several; limit to (n,).

    Parameters
    ----------
    columns : axis name to (n,) as `planner.space.blocks.columns` gives them
    accelerator : all rows are on it
    """
    found: dict[str, Masks] = {}
    for bound in BOUNDS.get(engine.study.kind, ()):
        is_broken = bound.is_broken(engine, columns, accelerator)
        for earlier in found.values():
            is_broken = is_broken & ~earlier
        if is_broken.any():
            found[bound.limit] = is_broken
    return found


def least_days(engine: Engine, columns: Mapping[str, Any], accelerator: str) -> Floats:
    """Days that no plan can stay below; (n,), NaN where a chip lacks the precision.

    Notes
    -----
    A step lasts at least as long as its busiest device multiplies, and that is at least the mean
    over all devices: matrix products with the weights, forward once and backward twice, at the
    rate of an infinitely large product of the fastest kind. Attention, recomputing, bubbles,
    memory, links, imbalance, floors, power caps and failures only add to it; a goodput that the
    study gives counts.

        days >= 6 x parameters met x tokens / (devices x best rate x goodput) / 86400 s

    References
    ----------
    Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009.
    """
    plans = training_plans(engine, columns)
    rate = _best_rate(engine, plans, accelerator)
    terms = active_parameters(engine.model, "without_input").terms
    flop = 6.0 * sum(float(terms.get(name, 0.0)) for name in PRODUCTS) * engine.job.tokens
    seconds = flop / (plans.devices * rate) / engine.study.pin.get("goodput_frac", 1.0)
    least: Floats = seconds / SECONDS_PER_DAY
    return least


def _best_rate(engine: Engine, plans: TrainingPlans, accelerator: str) -> Floats:
    """Products of a device at their fastest, in the precision of the plan or in 16 bits [flop/s].

    As `simkernel.share` takes the curves: what is reached of them inside a step hangs on whether
    values are narrow, and on whether products are grouped by expert.
    """
    stack = engine.job_on(accelerator).stack
    chips = engine.chip(accelerator).take(np.zeros(len(plans), dtype=np.int64))
    is_narrow = np.array(PRECISION_BYTES)[plans.precision_code] < WIDE_BYTES
    grouped = np.where(is_narrow, stack.grouped_frac, stack.wide_grouped_frac)
    reached = np.where(is_narrow, stack.narrow_gemm_frac, stack.gemm_frac)
    own = gemm_rates(chips, plans.precision_code, reached * np.maximum(grouped, 1.0))
    wide = [gemm_rates(chips, code, stack.gemm_frac) for code in WIDE_CODES]
    rates: Floats = _fastest(own)
    for other in wide:
        rates = np.where(np.isnan(rates), rates, np.fmax(rates, _fastest(other)))
    return rates


def _fastest(rates: GemmRates) -> Floats:
    """Rate that no product beats: of its curve, or the peak where times or tiles replace it."""
    is_curve = rates.timed is None and rates.tiles is None
    least_s = rates.best_s_per_flop if is_curve else rates.peak_s_per_flop
    return np.asarray(1.0 / least_s)


def _is_late(engine: Engine, columns: Mapping[str, Any], accelerator: str) -> Masks:
    days = engine.study.limits.get("days")
    if days is None or is_step_given(engine.study):
        return np.zeros(len(columns["devices"]), dtype=bool)
    is_late: Masks = least_days(engine, columns, accelerator) > days * (1.0 + ROUNDING)
    return is_late


def _lacks_kernels(engine: Engine, columns: Mapping[str, Any], accelerator: str) -> Masks:
    plans = training_plans(engine, columns)
    lacks: Masks = engine.unsupported(accelerator)[plans.precision_code] > 0
    return lacks


BOUNDS: Mapping[str, tuple[Bound, ...]] = MappingProxyType(
    {
        "train": (
            Bound(
                "kernels",
                "the limit itself: chip and precision alone say which kernels are not there",
                _lacks_kernels,
            ),
            Bound(
                "days",
                "days >= 6 x parameters met x tokens / (devices x best product rate x goodput)",
                _is_late,
            ),
        ),
    }
)
"""Bounds of each kind of study."""
