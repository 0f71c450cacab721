"""Where a training plan stands under the roof of its chip: flop per byte of memory, and flop/s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.training.engine import Engine
from planner.training.evaluate import chip_of, training_plans
from simkernel.train import training_step


@dataclass(frozen=True)
class Roofline:
    """One device over one step, as the closed form has it before a power cap or a given pace.

    Parameters
    ----------
    peak_flop_per_s : dense peak of the plan's precision
    hbm_bytes_per_s : peak rate of device memory
    compute_frac, memory_frac, network_frac : shares of the peak of products, memory and wires that
        the step uses, recomputing counted
    """

    peak_flop_per_s: float
    hbm_bytes_per_s: float
    compute_frac: float
    memory_frac: float
    network_frac: float

    @property
    def flop_per_s(self) -> float:
        """What is computed, recomputing counted."""
        return self.compute_frac * self.peak_flop_per_s

    @property
    def flop_per_byte(self) -> float:
        """Arithmetic intensity: work over bytes moved between memory and the cores."""
        return self.flop_per_s / (self.memory_frac * self.hbm_bytes_per_s)

    @property
    def ridge_flop_per_byte(self) -> float:
        """Below this memory is the roof, above it the products are."""
        return self.peak_flop_per_s / self.hbm_bytes_per_s

    @property
    def roof_flop_per_s(self) -> float:
        """The most that the chip reaches at the intensity of the step."""
        return min(self.peak_flop_per_s, self.flop_per_byte * self.hbm_bytes_per_s)


def roofline(engine: Engine, key: int, peak_flop_per_s: float) -> Roofline:
    """The roofline of one plan.

    Parameters
    ----------
    key : design key of the plan in the engine's space
    peak_flop_per_s : dense peak of one device in the plan's precision

    References
    ----------
    Williams, Waterman and Patterson, Communications of the ACM 52, 2009.
    """
    codes = codes_of(engine.space, np.array([key]))
    columns = values_of(engine.space, codes)
    name = str(engine.space.levels["accelerator"][codes[0, 0]])
    chip = chip_of(engine, columns, name)
    plans = training_plans(engine, columns)
    step = training_step(engine.job_on(name), engine.model, chip, plans, engine.reserve(name))
    return Roofline(
        peak_flop_per_s=peak_flop_per_s,
        hbm_bytes_per_s=float(np.asarray(chip.hbm_bytes_per_s).reshape(-1)[0]),
        compute_frac=float(step.compute_frac[0]),
        memory_frac=float(step.memory_frac[0]),
        network_frac=float(step.network_frac[0]),
    )
