"""Links inside one scale-up domain, and the way between two of its devices.

Link numbers are local to a domain. A switch that gives any pair the full rate, or many planes of
them, is one point: each device has one link up and one down, at the rate of all its ports.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simkernel.wiring.description import TORUS_AXES, ScaleUp
from simkernel.wiring.links import Links, Route

Named = tuple[str, float]
"""A link's name and its rate [bytes/s]."""


def domain_links(up: ScaleUp) -> Links:
    """Links of one domain, each of latency `hop_s`."""
    if up.shape == "full_mesh":
        named = list(_mesh(up))
    elif up.shape in TORUS_AXES:
        named = list(_torus(up))
    else:
        named = list(_switched(up))
    return Links(
        np.array([rate for _, rate in named]),
        np.full(len(named), up.hop_s),
        tuple(name for name, _ in named),
    )


def domain_route(up: ScaleUp, source: int, target: int) -> Route:
    """The way from one device of a domain to another; a torus halves what has two shortest ways.

    Notes
    -----
    Dimension order, shorter way round. A torus of side 2 has two links between neighbours.
    """
    if source == target:
        return (), (), 0.0
    if up.shape == "full_mesh":
        link = source * (up.devices - 1) + target - (target > source)
        return (link,), (1.0,), up.hop_s
    if up.shape in TORUS_AXES:
        return _torus_route(up, source, target)
    return _switched_route(up, source, target)


def _mesh(up: ScaleUp) -> Iterator[Named]:
    for source in range(up.devices):
        for target in range(up.devices):
            if source != target:
                yield f"{source}-{target}", up.peer_bytes_per_s


def _switched(up: ScaleUp) -> Iterator[Named]:
    """Up and down of every device; of two tiers also up and down of every first-level switch."""
    for device in range(up.devices):
        yield f"{device} up", up.device_bytes_per_s
        yield f"{device} down", up.device_bytes_per_s
    if up.shape == "two_tier":
        for group in range(-(-up.devices // up.group_devices)):
            held = min(up.group_devices, up.devices - group * up.group_devices)
            rate = held * up.device_bytes_per_s / up.oversubscription
            yield f"group {group} up", rate
            yield f"group {group} down", rate


def _switched_route(up: ScaleUp, source: int, target: int) -> Route:
    first, last = 2 * source, 2 * target + 1
    if up.shape != "two_tier" or source // up.group_devices == target // up.group_devices:
        return (first, last), (1.0, 1.0), 2 * up.hop_s
    trunks = 2 * up.devices
    over = trunks + 2 * (source // up.group_devices)
    under = trunks + 2 * (target // up.group_devices) + 1
    return (first, over, under, last), (1.0,) * 4, 4 * up.hop_s


def _torus(up: ScaleUp) -> Iterator[Named]:
    """Of every device, two links along every axis that is longer than 1."""
    for device in range(up.devices):
        for axis in range(len(up.sides)):
            for way in "+-":
                yield f"{device} {'xyz'[axis]}{way}", up.peer_bytes_per_s


def _torus_route(up: ScaleUp, source: int, target: int) -> Route:
    sides = up.sides
    here, there = list(_place(source, sides)), _place(target, sides)
    links: list[int] = []
    weights: list[float] = []
    hops = 0
    for axis, side in enumerate(sides):
        ahead = (there[axis] - here[axis]) % side
        ways = [(ahead, +1)] if 2 * ahead < side else [(side - ahead, -1)]
        if 2 * ahead == side:
            ways = [(ahead, +1), (ahead, -1)]
        for steps, way in ways if ahead else []:
            at = list(here)
            for _ in range(steps):
                links.append(torus_link(_number(at, sides), axis, way, len(sides)))
                weights.append(1.0 / len(ways))
                at[axis] = (at[axis] + way) % side
        hops += min(ahead, side - ahead)
        here[axis] = there[axis]
    return links, weights, hops * up.hop_s


def torus_link(device: int, axis: int, way: int, axes: int) -> int:
    """The link of a device along an axis, ahead (+1) or back (-1)."""
    return (device * axes + axis) * 2 + (way < 0)


def _place(device: int, sides: tuple[int, ...]) -> tuple[int, ...]:
    """Coordinates, the last axis fastest."""
    place = []
    for side in reversed(sides):
        place.append(device % side)
        device //= side
    return tuple(reversed(place))


def _number(place: list[int], sides: tuple[int, ...]) -> int:
    number = 0
    for at, side in zip(place, sides, strict=True):
        number = number * side + at
    return number
