"""What failures cost a run: how often it stops, its checkpoints, its useful time, when it ends.

The rate of failures is that of what the plan buys, component by component, or one figure that the
study gives for all of them. Who says it is not known gets no date.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costdata.failures import S_PER_HOUR, component_failures_per_s
from costdata.hardware_bill import HardwareBill
from planner.training.engine import Engine
from simkernel import reliability
from simkernel.columns import Floats
from simkernel.keeping import WIDE_BYTES
from simkernel.ledger import Ledger

SECONDS_PER_DAY = 86400.0
DEVIATES = {"days_p10": -1.2815515655446004, "days_p50": 0.0, "days_p90": 1.2815515655446004}
"""Shares of all runs that have ended by then, as standard normal deviates."""

PINNED = "goodput_frac"


@dataclass(frozen=True)
class Stops:
    """Failures of each row and what is done against them; (m,).

    Parameters
    ----------
    failures : "failures_per_day" of the job, by component
    checkpoint_s, recovery_s : training stands for one; from a failure to work again
    interval_s : of work between checkpoints, the availability-optimal one
    goodput_frac : useful share of the wall time
    """

    failures: Ledger
    checkpoint_s: Floats
    recovery_s: Floats
    interval_s: Floats
    goodput_frac: Floats

    @property
    def job_mtbf_s(self) -> Floats:
        """Time between failures of the job."""
        return SECONDS_PER_DAY / np.asarray(self.failures.total)


def stops(engine: Engine, bill: HardwareBill, accelerator: str) -> Stops:
    """Failures, checkpoints and goodput of rows on one accelerator.

    Parameters
    ----------
    bill : what each row buys, (m,)
    """
    failures = _failures(engine, bill, accelerator)
    checkpoint_s, recovery_s = checkpoint_and_recovery_s(engine, bill, accelerator)
    return stops_at(failures, checkpoint_s, recovery_s, engine.study.pin.get(PINNED))


def stops_at(
    failures: Ledger, checkpoint_s: Floats, recovery_s: Floats, pinned_frac: float | None = None
) -> Stops:
    """The same from the figures themselves; `pinned_frac` is a goodput that the study gives."""
    job_mtbf_s = SECONDS_PER_DAY / np.asarray(failures.total)
    interval_s = reliability.available_interval_s(job_mtbf_s, checkpoint_s, recovery_s)
    found = reliability.told_goodput_frac(job_mtbf_s, interval_s, checkpoint_s, recovery_s)
    goodput = found if pinned_frac is None else np.full(found.shape, pinned_frac)
    return Stops(failures, checkpoint_s, recovery_s, np.asarray(interval_s), goodput)


def stop_metrics(engine: Engine, found: Stops, useful_s: Floats) -> dict[str, Floats]:
    """Metrics of failures; dates of shares of runs unless the study pins the goodput.

    Parameters
    ----------
    useful_s : (m,) work of the run without any loss
    """
    metrics = {
        PINNED: found.goodput_frac,
        found.failures.name: np.asarray(found.failures.total),
        "job_mtbf_h": found.job_mtbf_s / S_PER_HOUR,
        "checkpoint_s": found.checkpoint_s,
        "recovery_s": found.recovery_s,
        "checkpoint_interval_s": found.interval_s,
    }
    if PINNED in engine.study.pin:
        return {PINNED: found.goodput_frac}
    times = (found.job_mtbf_s, found.interval_s, found.checkpoint_s, found.recovery_s)
    return metrics | {
        name: reliability.finish_s(useful_s, *times, deviate) / SECONDS_PER_DAY
        for name, deviate in DEVIATES.items()
    }


def stop_ledgers(engine: Engine, found: Stops) -> dict[str, Ledger]:
    """Failures a day by component, where they are known and count."""
    is_idle = PINNED in engine.study.pin or engine.study.reliability.is_mtbf_unknown
    return {} if is_idle else {found.failures.name: found.failures}


def checkpoint_and_recovery_s(
    engine: Engine, bill: HardwareBill, accelerator: str
) -> tuple[Floats, Floats]:
    """Time for which training stands for a checkpoint, and after a failure; (m,) each.

    A checkpoint is weights and optimiser state, once, over the storage of all hosts; it is read
    back when training starts again.
    """
    given, figure = engine.study.reliability, engine.catalog.planning
    keeping = engine.job_on(accelerator).keeping
    state_bytes = engine.parameters * (WIDE_BYTES + keeping.optimiser_bytes)
    ours = figure("storage_bytes_per_s_per_device") * bill.devices_working
    storage_gbytes_per_s = given.storage_gbytes_per_s
    rate = ours if storage_gbytes_per_s is None else storage_gbytes_per_s * 1e9 + 0.0 * ours
    waits = given.checkpoint == "storage"
    stood_s = reliability.checkpoint_s(state_bytes, rate, figure("checkpoint_wait_s"), waits)
    own_s = given.checkpoint_s or engine.catalog.own_planning("checkpoint_s")
    checkpoint_s = np.asarray(stood_s) if own_s is None else np.full(rate.shape, own_s)
    restart_s = given.recovery_s or figure("recovery_s") + state_bytes / rate
    return checkpoint_s, restart_s + 0.0 * checkpoint_s


def _failures(engine: Engine, bill: HardwareBill, accelerator: str) -> Ledger:
    """Failures a day, by component; unknown where the study says so."""
    given = engine.study.reliability.device_mtbf_h
    own_h = engine.catalog.own_planning("device_mtbf_h") if given is None else given
    hours = np.nan if own_h == "unknown" else own_h
    architecture = engine.catalog.accelerator(accelerator).architecture
    rates = component_failures_per_s(engine.catalog.tables, bill, hours, architecture)
    rates = rates.scaled(SECONDS_PER_DAY)
    return Ledger("failures_per_day", "1/day", rates.terms)
