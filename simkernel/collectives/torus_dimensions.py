"""Rings along the axes of a torus, one axis after another, both ways round.

The message is cut into as many parts as axes; each part begins along another axis, so every link
is busy all the time. Between domains equal members form a ring. Without a torus it is two levels.

References
----------
Sack and Gropp, Collective algorithms for multiported torus networks, TOPC 2015 (multiport rings);
axis after axis: Jain and Sabharwal, Optimal bucket algorithms for large MPI collectives on torus
interconnects, ICS 2010.
"""

from __future__ import annotations

from simkernel.collectives._flows import PLAIN, Flow, Phase, Way, across, in_order
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_levels
from simkernel.wiring.description import torus_sides

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: bytes of two levels; steps of a ring along each axis, not round all members.

    Parameters
    ----------
    wires : `inside_axes` that the group spans, as a square or a cube; 1 without a torus
    """
    axes = wires.inside_axes
    steps = axes * (group.inside ** (1.0 / axes) - 1)
    return two_levels(operation, wires, group, payload_bytes, steps, group.domains - 1)


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """Steps along the axes, every part of the message along another; then between domains."""
    domains = members // domain_size
    once = _along(domains, torus_sides(domain_size, way.axes), payload_bytes)
    over = across(domains, domain_size, payload_bytes / members)
    return in_order(operation, once + over, over + once[::-1])


def _along(domains: int, sides: tuple[int, ...], payload_bytes: float) -> list[Phase]:
    """Scattering steps: in turn k, part p goes round axis p + k."""
    axes, found = len(sides), []
    left = [payload_bytes / axes] * axes
    for turn in range(axes):
        steps = [[] for _ in range(max(sides) - 1)]  # type: list[Phase]
        for part in range(axes):
            axis = (part + turn) % axes
            left[part] /= sides[axis]
            for step in steps[: sides[axis] - 1]:
                step += _round(domains, sides, axis, left[part] / 2.0)
        found += [step for step in steps if step]
    return found


def _round(domains: int, sides: tuple[int, ...], axis: int, sent: float) -> list[Flow]:
    """Every device to both its neighbours along an axis; the last axis counts fastest."""
    stride, side, held = 1, sides[axis], 1
    for one in sides[axis + 1 :]:
        stride *= one
    for one in sides:
        held *= one
    flows = []
    for device in range(domains * held):
        at = device // stride % side
        flows += [(device, device + ((at + way) % side - at) * stride, sent) for way in (1, -1)]
    return flows
