"""Links between domains, and the way between two devices in different ones.

Switch layers above a leaf are one point each when traffic is sprayed over all paths (adaptive
routing, packet spraying); with equal-cost paths chosen by hash (ECMP) every uplink is a link of
its own and flows can collide on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simkernel.errors import BadStudy
from simkernel.wiring.description import TIERS_MOST, ScaleOut
from simkernel.wiring.links import Links, Route

SPREADS = ("spray", "ecmp")
"""How a flow uses equal-cost paths: over all of them, or over one that a hash picks."""

HASH_BITS = 64


@dataclass
class Trunks:
    """Links numbered in the order they are asked for: only those that some route uses exist."""

    out: ScaleOut
    spread: str = "spray"
    number: dict[str, int] = field(default_factory=dict)
    bytes_per_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.spread not in SPREADS:
            raise BadStudy(f"paths are spread by {self.spread!r}; give one of {SPREADS}")
        if self.out.tiers > TIERS_MOST:
            raise BadStudy(
                f"{self.out.hosts} hosts need {self.out.tiers} layers of {self.out.radix}-port "
                f"switches; {TIERS_MOST} can be wired: give switches of more ports"
            )

    def link(self, name: str, bytes_per_s: float, latency_s: float) -> int:
        """The number of a link, made when it is asked for first."""
        if name not in self.number:
            self.number[name] = len(self.bytes_per_s)
            self.bytes_per_s.append(bytes_per_s)
            self.latency_s.append(latency_s)
        return self.number[name]

    @property
    def links(self) -> Links:
        """All links so far."""
        return Links(np.array(self.bytes_per_s), np.array(self.latency_s), tuple(self.number))


def crossing(trunks: Trunks, source: int, target: int, key: int = 0) -> Route:
    """The way between two devices of different domains, from host port to host port.

    Parameters
    ----------
    key : tells flows of one pair apart where a hash picks their paths

    Notes
    -----
    Where no switch joins two rails a device sends through its host's port on the other one; what
    that takes inside the host is not known here.
    """
    out = trunks.out
    here, there = (host_port(out, device) for device in (source, target))
    if not out.rails_meet:
        here = (here[0], there[1])
    links = [_host_link(trunks, here, "out"), *_climb(trunks, here, there, key)]
    links.append(_host_link(trunks, there, "in"))
    return links, [1.0] * len(links), sum(trunks.latency_s[link] for link in links)


def host_port(out: ScaleOut, device: int) -> tuple[int, int]:
    """The host of a device, and which of its ports the device sends through."""
    host, place = divmod(device, out.devices_per_host)
    return host, place * out.rails // out.devices_per_host


def port_link(trunks: Trunks, device: int, way: str) -> int:
    """The link of a device's host port, "out" to its leaf or "in" from it."""
    return _host_link(trunks, host_port(trunks.out, device), way)


def _host_link(trunks: Trunks, port: tuple[int, int], way: str) -> int:
    host, rail = port
    return trunks.link(
        f"host {host} port {rail} {way}", trunks.out.port_bytes_per_s, trunks.out.hop_s
    )


def _climb(trunks: Trunks, here: tuple[int, int], there: tuple[int, int], key: int) -> list[int]:
    """Links above the leaves: none below one leaf, up and down to where the ways meet."""
    out = trunks.out
    (leaf, rail), (far, far_rail) = _leaf(out, *here), _leaf(out, *there)
    if (leaf, rail) == (far, far_rail):
        return []
    ends = ((f"rail {rail} leaf {leaf}", "up"), (f"rail {far_rail} leaf {far}", "down"))
    up_port = _draw((*here, *there, key, 1), out.up_ports)
    up, down = (_trunk(trunks, name, way, up_port) for name, way in ends)
    pod, far_pod = leaf // out.pod_leaves, far // out.pod_leaves
    if out.tiers < 3 or pod == far_pod:
        return [up, down]
    core = _draw((*here, *there, key, 2), out.pod_leaves)
    pods = ((f"rail {rail} pod {pod}", "up"), (f"rail {far_rail} pod {far_pod}", "down"))
    over, under = (_pod_trunk(trunks, name, way, up_port, core) for name, way in pods)
    return [up, over, under, down]


def _leaf(out: ScaleOut, host: int, rail: int) -> tuple[int, int]:
    """A leaf's number and the rail it serves; 0 where it serves all."""
    return host // out.leaf_hosts, rail if out.shape == "rail_fat_tree" else 0


def _trunk(trunks: Trunks, leaf: str, way: str, port: int) -> int:
    """From a leaf to the layer above or back: all uplinks as one, or the one that was drawn."""
    out, hop_s = trunks.out, trunks.out.hop_s + trunks.out.trunk_s
    if trunks.spread == "spray":
        return trunks.link(f"{leaf} {way}", out.leaf_up_bytes_per_s, hop_s)
    return trunks.link(f"{leaf} {way} {port}", out.leaf_up_bytes_per_s / out.up_ports, hop_s)


def _pod_trunk(trunks: Trunks, pod: str, way: str, port: int, core: int) -> int:
    """From the second layer to the third or back; nothing is oversubscribed there."""
    out = trunks.out
    if trunks.spread == "spray":
        return trunks.link(f"{pod} {way}", out.pod_leaves * out.leaf_up_bytes_per_s, out.hop_s)
    return trunks.link(f"{pod} {way} {port} {core}", out.port_bytes_per_s, out.hop_s)


def _draw(key: tuple[int, ...], choices: int) -> int:
    """One of some choices, the same every time (splitmix64 of the key)."""
    mask, state = (1 << HASH_BITS) - 1, 0
    for part in key:
        state = (state + part + 0x9E3779B97F4A7C15) & mask  # Steele et al., OOPSLA 2014, fig. 16
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state % choices
