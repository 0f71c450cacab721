"""What the planner's own passes count for the parts of a step that a trace has seconds for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from planner.imports.kernel_kinds import ATTENTION, ELEMENTWISE, EXPERTS, LOSS, NORM, OPTIMISER
from planner.imports.steps.recognised import Batch, Recognised
from planner.imports.steps.sorting import EMBEDDING
from simkernel.candidates import plan_of
from simkernel.hardware import PRECISIONS, Chips
from simkernel.keeping import PLAIN
from simkernel.models import Model, layer_counts, parameters
from simkernel.ops import embedding_pass, layer_backward, layer_forward, loss_passes
from simkernel.passes import Pass
from simkernel.placement import place
from simkernel.roofline import attention_rates
from simkernel.share import share_of
from simkernel.timed_parts import CORES
from simkernel.traffic import network
from simkernel.workload import TrainingJob

SECONDS_OF: Mapping[str, tuple[tuple[str, ...], bool | None]] = {
    "attention_forward": ((ATTENTION,), False),
    "attention_backward": ((ATTENTION,), True),
    "elementwise_forward": ((NORM, ELEMENTWISE, EXPERTS), False),
    "elementwise_backward": ((NORM, ELEMENTWISE, EXPERTS), True),
    "embedding": ((EMBEDDING,), None),
    "loss_forward": ((LOSS,), False),
    "loss_backward": ((LOSS,), True),
    "optimiser": ((OPTIMISER,), None),
}
"""Parts as the physics has them, by parts and direction of a trace; the embedding is priced once
for both directions, and norms with what else is element-wise."""


class Work(NamedTuple):
    """Of one part in one step."""

    passes: float
    flop: float
    moved_bytes: float


def part_seconds(step: Recognised) -> dict[str, float]:
    """Seconds of a step in each part, those of which a trace has any [s]."""
    found = {
        part: step.usual(*names, backward=backward)
        for part, (names, backward) in SECONDS_OF.items()
    }
    return {part: seconds for part, seconds in found.items() if seconds > 0.0}


def part_work(chips: Chips, model: Model, batch: Batch) -> dict[str, Work]:
    """Flop and bytes of each part in a step of a whole model on one device.

    Parameters
    ----------
    chips : one row, without times of its own; its curves are not looked at
    batch : of the step
    """
    plan = plan_of(
        devices=1, supernode_devices=1, micro_batch_sequences=batch.sequences,
        global_batch_sequences=batch.sequences, precision_code=_wide(chips),
    )  # fmt: skip
    job = TrainingJob(1.0, batch.sequence_tokens, np.inf)
    wires = network(chips, plan.supernode_devices, 1.0)
    placed = place(plan.degrees, plan.supernode_devices, plan.placement_code)
    share = share_of(job, chips, plan, placed, wires)
    times = max(batch.micro_batches, 1.0)
    total: dict[str, Pass] = {}
    counts: dict[str, float] = {}

    def add(part: str, one: Pass, count: float, passes: float) -> None:
        total[part] = total.get(part, Pass()) + one.times(count * times)
        counts[part] = counts.get(part, 0.0) + passes * count * times

    for kind, layers in zip(model.kinds, layer_counts(model), strict=True):
        forward = layer_forward(share, model, kind)
        backward = layer_backward(share, model, kind, forward)
        for direction, parts in (("forward", forward), ("backward", backward)):
            add(f"elementwise_{direction}", parts["elementwise"], layers, 1.0)
            if "attention" in parts:
                add(f"attention_{direction}", parts["attention"], layers, len(kind.cores))
    for direction, one in zip(("forward", "backward"), loss_passes(share, model), strict=True):
        add(f"loss_{direction}", one, 1.0, 1.0)
    add("embedding", embedding_pass(share, model), 2.0, 1.0)
    if any(core.kind == "state" for kind in model.kinds for core in kind.cores):
        total = {part: one for part, one in total.items() if part not in CORES}
    per_flop = float(attention_rates(chips).peak_s_per_flop[0])
    found = {
        part: Work(
            counts[part],
            float(np.sum(one.peak_compute_s)) / per_flop,
            float(np.sum(one.peak_hbm_s)) * float(chips.hbm_bytes_per_s[0]),
        )
        for part, one in total.items()
    }
    updated = float(parameters(model).total) * float(PLAIN.update_bytes(PLAIN.gradient_bytes))
    return {**found, "optimiser": Work(1.0, 0.0, updated)}


def _wide(chips: Chips) -> int:
    """A precision in 16 bits that the chip has."""
    bf16, fp16 = PRECISIONS.index("bf16"), PRECISIONS.index("fp16")
    return bf16 if np.isfinite(chips.peak_flop_per_s[0, bf16]) else fp16
