"""Watts of a device over a step, and what a power cap does to the step.

Which share of the work stretches as the clock falls is measured elsewhere (clock_following.csv).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from simkernel.candidates import TrainingPlans
from simkernel.columns import Floats
from simkernel.hardware import Chips
from simkernel.ledger import Ledger
from simkernel.power import device_w, host_w, mean_device_w
from simkernel.power_cap import capped_slowdown_frac, following_frac, held_clock_frac
from simkernel.train import Step

PHASES = {
    "compute": ("gemm", "attention", "embedding_and_head", "recompute"),
    "memory": ("elementwise", "optimiser"),
}
"""Terms of a step by what they wait for; of the rest, messages and the host, nothing stretches."""

WAITING_TERMS = (
    "bubble",
    "pipeline_send",
    "data_parallel",
    "data_parallel_per_micro_batch",
    "offload",
)

MESSAGE_TERMS = ("tensor_parallel", "expert_parallel", "stragglers", "host")
"""Terms in which a device waits for messages, for others or for its host: it draws context power
(a metered job that lost 22 to 32% of its rate to messages lost 25% of its power above idle)."""


@dataclass(frozen=True)
class DeviceWatts:
    """Watts of one device and its host share, mean over a step and in its busiest passes; (n,).

    `busy_frac` of the step the host has work.
    """

    mean_w: Floats
    peak_w: Floats
    host_mean_w: Floats
    host_peak_w: Floats
    busy_frac: Floats


def at_another_pace(chip: Chips, watts: DeviceWatts, faster: Floats) -> DeviceWatts:
    """Watts when the study gives a step that is `faster` times our own.

    The same work in another time draws the same energy above the context, so mean watts above it
    grow with the pace, up to the busiest watts and from there to the cap.
    """
    power = chip.power
    mean_w = power.context_w + (watts.mean_w - power.context_w) * faster
    mean_w = np.minimum(mean_w, power.cap_w)
    return replace(watts, mean_w=mean_w, peak_w=np.maximum(watts.peak_w, mean_w))


def capped(
    chip: Chips, plans: TrainingPlans, step: Step, follow_frac: Mapping[str, float]
) -> tuple[Step, DeviceWatts]:
    """The step under a power cap: a lower clock stretches each phase by what follows it.

    The cap is a share of the chip's rated power; below what the device draws it binds.
    """
    power, step_s = chip.power, np.asarray(step.time.total)
    waiting_s = sum((step.time.terms[n] for n in WAITING_TERMS), start=0.0 * step_s)
    busy_frac = np.maximum(1.0 - waiting_s / step_s, 1e-6)
    messages_s = sum((step.time.terms.get(n, 0.0) for n in MESSAGE_TERMS), start=0.0 * step_s)
    working_frac = np.maximum(busy_frac - messages_s / step_s, 1e-6)
    link_frac = step.inside_bytes / chip.scaleup_bytes_per_s / step_s
    shares = [step.memory_frac, step.compute_frac, link_frac]
    busy_w = device_w(power, *(np.minimum(share / working_frac, 1.0) for share in shares))
    cap_w = power.cap_w * plans.power_cap_frac
    clock = held_clock_frac(cap_w, power.context_w, busy_w)
    slower = np.asarray(capped_slowdown_frac(clock, _following(step, busy_frac, follow_frac)))
    terms = {**step.time.terms, "power_cap": step_s * slower}
    scale = 1.0 / (1.0 + slower)
    slowed = replace(
        step,
        time=Ledger("step_s", "s", terms),
        compute_frac=step.compute_frac * scale,
        memory_frac=step.memory_frac * scale,
        network_frac=step.network_frac * scale,
    )
    peak_w = np.minimum(busy_w, cap_w)
    busy, working = (1.0 - (1.0 - frac) * scale for frac in (busy_frac, working_frac))
    watts = DeviceWatts(
        mean_w=np.asarray(mean_device_w(power, working, peak_w)),
        peak_w=peak_w,
        host_mean_w=np.asarray(host_w(power, busy)),
        host_peak_w=np.asarray(host_w(power, 1.0)) + 0.0 * step_s,
        busy_frac=busy,
    )
    return slowed, watts


def _following(step: Step, busy_frac: Floats, follow_frac: Mapping[str, float]) -> Floats:
    """Share of a step that stretches as the clock falls; a bubble as the passes it waits for."""
    step_s = np.asarray(step.time.total)
    phases = {
        phase: sum((step.time.terms.get(n, 0.0) for n in names), start=0.0 * step_s) / step_s
        for phase, names in PHASES.items()
    }
    bubble_frac = step.time.terms["bubble"] / step_s
    return np.asarray(following_frac(phases, follow_frac) * (1.0 + bubble_frac / busy_frac))
