"""State kept in host memory or a pool: what leaves the device, where it is, how long copies take.

Copies run on engines of their own: they take no processor and no network from a pass, and are in
the way only where the link to the host is slower than the pass beside them. Which pages the host
has free, and what other jobs copy, is not known here. A pool (CXL, fabric-attached memory) is one
more place, with a size and a rate of its own; who else uses it is in its rate.
"""

from __future__ import annotations

import numpy as np

from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Column, Floats
from simkernel.keeping import WIDE_BYTES
from simkernel.passes import Pass

LAYERS_IN_WORK = 2.0
"""Layers whose offloaded activations are on the device: one in work, one on its way. Twice as many
where a forward pass runs beside a backward pass."""


def staying(
    plans: TrainingPlans, kept_bytes: Floats, each_bytes: Floats, layers: Floats
) -> Floats:
    """Bytes of activations that stay on the device; (n, stages).

    Parameters
    ----------
    kept_bytes : (n, devices) of all micro-batches in flight
    each_bytes : (n, devices) of one micro-batch, on all stages that a device serves
    layers : (n, devices) on these stages

    Notes
    -----
    Whole layers are offloaded, as in Megatron-LM's cpu_offloading_num_layers; of those the layer
    in work and the one on its way are still there.
    """
    if not plans.offload_code.any():
        return kept_bytes
    frac = plans.offloaded_activation_frac
    in_work = LAYERS_IN_WORK * (1.0 + plans.runs_pairs)[:, None] / np.maximum(layers, 1.0)
    in_work = np.minimum(in_work * each_bytes, kept_bytes)
    return kept_bytes * (1.0 - frac[:, None]) + in_work * frac[:, None]


def on_device(plans: TrainingPlans, optimiser_bytes: Floats) -> Floats:
    """Bytes of the optimiser's state that are not in the host; (n, stages)."""
    if not plans.offload_code.any():
        return optimiser_bytes
    return np.where(plans.is_optimiser_on_host[:, None], 0.0, optimiser_bytes)


def where_kept(plans: TrainingPlans, host_s: Column, pool_s: Column) -> Column:
    """One of two figures by whether a plan offloads to its host or to a pool; (n,)."""
    if not plans.offload_code.any() or not np.any(plans.is_in_pool):
        return host_s
    return np.where(plans.is_in_pool, pool_s, host_s)


def host_bytes(plans: TrainingPlans, kept_bytes: Floats, updated_bytes: Floats) -> Floats:
    """Bytes that one device's share takes of host memory or the pool, on the fullest stage; (n,).

    Parameters
    ----------
    kept_bytes : (n, stages) activations of all micro-batches in flight
    updated_bytes : (n, stages) state of the optimiser, wherever it is, and the gradients that it
        is updated with, which wait beside it (Ren et al. 2021, ZeRO-Offload, section 4)
    """
    if not plans.offload_code.any():
        return np.zeros(len(plans))
    held = kept_bytes * plans.offloaded_activation_frac[:, None]
    held = held + updated_bytes * plans.is_optimiser_on_host[:, None]
    return np.asarray(held.max(axis=1))


def activation_copies(
    plans: TrainingPlans, each_bytes: Floats, host_s_per_byte: Floats
) -> list[Pass] | None:
    """One micro-batch's activations to the host, or back; a pass per stage, None if none moves.

    Parameters
    ----------
    each_bytes : (n, stages) bytes that one micro-batch keeps
    host_s_per_byte : (n,) of the link between a device and its host
    """
    frac = plans.offloaded_activation_frac
    if not np.any(frac):
        return None
    seconds = np.where(frac > 0, frac * host_s_per_byte, 0.0)[:, None] * each_bytes
    return [Pass(host_link_s=one, floor_s=one) for one in seconds.T]


def update_s(
    gradient_bytes: Column,
    update_bytes: Column,
    link_s_per_byte: Floats,
    memory_s_per_byte: Floats,
) -> Floats:
    """Seconds in which a host updates one parameter; (n,).

    Parameters
    ----------
    gradient_bytes : of one gradient as it is copied out
    update_bytes : read and written in host memory
    link_s_per_byte, memory_s_per_byte : (n,) a device's link to the host and share of its memory

    Notes
    -----
    The gradient out, the update, the weight back, one after another: nothing hides it. An upper
    bound for stacks that copy in pieces.

    References
    ----------
    Ren et al. 2021, ZeRO-Offload (arXiv 2101.06840), section 4.
    """
    copied = (gradient_bytes + WIDE_BYTES) * link_s_per_byte
    return copied + update_bytes * memory_s_per_byte


def where_on_host(plans: TrainingPlans, host_s: Column, device_s: Column) -> Column:
    """One of two times by where the optimiser runs; (n,)."""
    is_there: Codes = plans.is_optimiser_on_host
    return np.where(is_there, host_s, device_s) if np.any(is_there) else device_s
