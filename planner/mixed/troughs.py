"""What training gets of a cluster that serves first: whole blocks in the hours that are left.

Serving takes whole nodes, and a reserve above them that answers a rise within the hour. Training
takes the rest in blocks, since a parallel plan is of a given size; a block that stops loses the
work since its last checkpoint and what starting again takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats

HOURS_PER_DAY = 24
NOISE = 1e-9
"""Share of a node that float order may add to a need: 800.0000001 devices are 100 nodes of 8."""


@dataclass(frozen=True)
class Day:
    """A day of a cluster, hour by hour; (h,) each, in devices.

    Parameters
    ----------
    serving : held by serving
    reserve : kept free beside it
    training : at work in whole blocks
    """

    serving: Floats
    reserve: Floats
    training: Floats


def sine_need(mean: float, swing: float) -> Floats:
    """Devices that serving needs at each whole hour of a day; (24,).

    Parameters
    ----------
    mean, swing : of the wave, which is at its mean and rising at midnight
    """
    return mean + swing * np.sin(2.0 * np.pi * np.arange(HOURS_PER_DAY) / HOURS_PER_DAY)


def whole_nodes(devices: Column, node_devices: int) -> Floats:
    """A need rounded up to whole nodes; (h,)."""
    nodes = np.ceil(np.asarray(devices, float) / node_devices - NOISE)
    return np.asarray(nodes * node_devices)


def unified(
    devices: int, need: Floats, node_devices: int, block_devices: int, reserve_frac: float
) -> Day:
    """One cluster: serving first, training in whole blocks of what is left in each hour.

    Parameters
    ----------
    devices : in all
    need : of serving by hour; (h,)
    block_devices : that training takes or leaves at once
    reserve_frac : of the need of the hour, kept free for a rise within it [1]
    """
    serving = whole_nodes(need, node_devices)
    reserve = whole_nodes(need * reserve_frac, node_devices)
    blocks = np.floor(np.maximum(devices - serving - reserve, 0.0) / block_devices)
    return Day(serving, reserve, blocks * block_devices)


def split(
    devices: int, need: Floats, node_devices: int, block_devices: int, reserve_frac: float
) -> Day:
    """Two clusters: serving keeps what its busiest hour needs, training blocks of the rest.

    Parameters
    ----------
    devices, need, node_devices, block_devices, reserve_frac : as of `unified`
    """
    most = np.full(len(need), float(np.max(need)))
    day = unified(devices, most, node_devices, block_devices, reserve_frac)
    return Day(whole_nodes(need, node_devices), day.serving + day.reserve - whole_nodes(
        need, node_devices), day.training)  # fmt: skip


def stops(training: Floats, block_devices: int) -> float:
    """Blocks that are stopped in a day which is like the next one."""
    blocks = training / block_devices
    return float(np.maximum(blocks - np.roll(blocks, -1), 0.0).sum())


def lost_device_hours(stopped: float, block_devices: int, stop_hours: float) -> float:
    """Device-hours of a day that stops lose.

    Parameters
    ----------
    stopped : blocks in a day
    stop_hours : of a block's work, lost at each stop [h]
    """
    return stopped * block_devices * stop_hours


def rest_device_hours(devices: int, need: Floats, node_devices: int) -> float:
    """Device-hours of a day that training would have if any number of devices could train."""
    left = np.maximum(devices - whole_nodes(need, node_devices), 0.0)
    return float(left.sum() * HOURS_PER_DAY / len(need))
