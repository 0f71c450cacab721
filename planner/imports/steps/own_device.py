"""The device that a trace was recorded on, as a chip of our own physics: known by the trace alone.

Its curves are flat at the best that a product of the trace reaches; every product and part of the
step is then held against them, as on a chip of the catalogue. What its memory can do is inside
the times, so nothing is bounded by it. Good for one device and the software that was recorded;
links, memory size and watts are not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.imports.steps.model_work import Work, part_seconds, part_work
from planner.imports.steps.recognised import Batch, Recognised
from planner.imports.steps.sorting import HOST
from simkernel.candidates import plan_of
from simkernel.columns import Floats
from simkernel.errors import BadFile
from simkernel.hardware import (
    OPERATIONS,
    PRECISIONS,
    AttentionCurve,
    Chips,
    GemmCurve,
    LinkCurve,
    PowerCurve,
    StreamCurve,
)
from simkernel.memory import Reserve
from simkernel.models import Model
from simkernel.timed_over_curves import MessageTimes, ProductTimes, timed_of
from simkernel.timed_parts import PARTS, PartTimes, part_lines
from simkernel.train import Step, training_step
from simkernel.workload import TrainingJob

UNBOUND_BYTES_PER_S = 1e18
"""Of a memory that never binds by itself."""


def own_device(step: Recognised, batch: Batch, model: Model) -> Chips:
    """One row: the device of a step that trained the whole model.

    Raises
    ------
    BadFile : the step ran no product
    """
    products = _products(step)
    if not len(products):
        raise BadFile(
            "the step has no product of matrices with its shape; record it with record_shapes=True"
        )
    flop = 2.0 * products.rows * products.inner * products.columns
    peak = float(np.max(flop / products.seconds))
    work, seconds = part_work(_flat(peak, UNBOUND_BYTES_PER_S, 0.0), model, batch), _seconds(step)
    host_s = step.usual(HOST) / max(batch.micro_batches, 1.0) / (2.0 * model.layers)
    plain = _flat(peak, _stream_bytes_per_s(step, work), host_s)
    rows = [
        (0, PARTS.index(part), batch.sequence_tokens, *work[part], seconds[part])
        for part in PARTS
        if part in seconds and part in work
    ]
    columns = np.array(rows, dtype=float).reshape(len(rows), -1).T
    codes = columns[:2].astype(np.int64)
    times = PartTimes(codes[0], codes[1], *columns[2:])
    no_codes, nothing = np.empty(0, dtype=np.int64), np.empty(0)
    messages = MessageTimes(no_codes, no_codes, no_codes, no_codes, nothing, nothing)
    timed = timed_of(plain, products, messages)
    return replace(plain, timed=replace(timed, parts=part_lines(plain, times)))


def step_on(chips: Chips, model: Model, batch: Batch) -> Step:
    """One optimiser step of a whole model on one device.

    Parameters
    ----------
    batch : sequences of a micro-batch, micro-batches of the step, tokens of a sequence
    """
    job = TrainingJob(1.0, batch.sequence_tokens, np.inf)
    times = int(max(batch.micro_batches, 1.0))
    plan = plan_of(
        devices=1, supernode_devices=1, micro_batch_sequences=batch.sequences,
        global_batch_sequences=batch.sequences * times,
    )  # fmt: skip
    return training_step(job, model, chips, plan, Reserve(0.0, 0.0))


def _products(step: Recognised) -> ProductTimes:
    """Kinds of products of a step; of two types of one shape the mean."""
    known = [ran for ran in step.products if ran.shape.groups == 1 and ran.seconds > 0.0]
    by_shape: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    for ran in known:
        by_shape.setdefault(ran.shape[:3], []).append((ran.seconds, ran.per_step))
    seconds = [
        sum(s * c for s, c in all_ran) / sum(c for _, c in all_ran)
        for all_ran in by_shape.values()
    ]
    rows, inner, columns = np.array(list(by_shape), dtype=float).reshape(-1, 3).T
    codes, in_step = np.zeros(len(seconds), dtype=np.int64), np.ones(len(seconds))
    return ProductTimes(codes, codes, rows, inner, columns, in_step, np.array(seconds))


def _seconds(step: Recognised) -> dict[str, float]:
    """Seconds of each part; element-wise ones with what the host takes around all kernels [s]."""
    found = part_seconds(step)
    for part, back in (("elementwise_forward", False), ("elementwise_backward", True)):
        if part in found:
            found[part] += step.usual(HOST, backward=back)
    return found


def _stream_bytes_per_s(step: Recognised, work: Mapping[str, Work]) -> float:
    """Rate of element-wise kernels, without the host [bytes/s]."""
    seconds = part_seconds(step)
    both = [part for part in ("elementwise_forward", "elementwise_backward") if part in seconds]
    moved = sum(work[part].moved_bytes for part in both)
    return moved / sum(seconds[part] for part in both) if both else UNBOUND_BYTES_PER_S


def _flat(peak_flop_per_s: float, stream_bytes_per_s: float, host_s: float) -> Chips:
    """A chip whose curves are its peak; element-wise passes wait for the host."""
    one, precisions, links = (
        np.ones(1),
        np.ones((1, len(PRECISIONS))),
        np.ones((1, len(OPERATIONS))),
    )
    none: Floats = precisions * 0.0
    return Chips(
        name=np.array(["device of a trace"]),
        memory_bytes=one * np.inf,
        hbm_bytes_per_s=one * UNBOUND_BYTES_PER_S,
        peak_flop_per_s=precisions * peak_flop_per_s,
        scaleup_bytes_per_s=one,
        scaleup_peer_bytes_per_s=one,
        scaleup_topology_code=np.zeros(1, dtype=np.int64),
        scaleout_bytes_per_s=one,
        host_link_bytes_per_s=one,
        host_memory_bytes=one,
        host_memory_bytes_per_s=one,
        pool_memory_bytes=one,
        pool_bytes_per_s=one,
        devices_per_host=np.ones(1, dtype=np.int64),
        gemm=GemmCurve(precisions, none, none, none, precisions, none, precisions),
        attention=AttentionCurve(one, one * 0.0, one, one * 0.0, one),
        stream=StreamCurve(one * stream_bytes_per_s / UNBOUND_BYTES_PER_S, one * host_s),
        scaleup=LinkCurve(links, links, links, links, links),
        scaleout=LinkCurve(links, links, links, links, links),
        power=PowerCurve(*(one,) * 12),
    )
