"""A whole fabric with its links, and the way between any two devices.

Inside a domain a flow stays on scale-up links. Between domains it takes host ports; where leaves
serve one rail each, it first goes inside its domain to a device of the target's rail (NCCL's PXN),
so that it never climbs to another rail. Routes are made when they are asked for, and kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from simkernel.columns import Floats
from simkernel.wiring.description import Fabric
from simkernel.wiring.links import Links, Route, Routes, routes_of
from simkernel.wiring.scaleout import Trunks, crossing, host_port, port_link
from simkernel.wiring.scaleup import domain_links, domain_route


@dataclass
class Wiring:
    """Links of a fabric and the routes asked for so far.

    Parameters
    ----------
    fabric : what is wired
    spread : "spray" over equal-cost paths, or "ecmp": a hash picks one
    """

    fabric: Fabric
    spread: str = "spray"
    numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    made: list[Route] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.domain = domain_links(self.fabric.scaleup)
        self.inside = len(self.domain) * self.fabric.domains
        self.trunks = Trunks(self.fabric.scaleout, self.spread)

    @property
    def links(self) -> Links:
        """Of every domain, one after another, then what the routes between domains use."""
        own, across = self.domain, self.trunks.links
        count = self.fabric.domains
        names = [f"domain {d}: {name}" for d in range(count) for name in own.name]
        return Links(
            np.concatenate([np.tile(own.bytes_per_s, count), across.bytes_per_s]),
            np.concatenate([np.tile(own.latency_s, count), across.latency_s]),
            (*names, *across.name),
        )

    @property
    def bytes_per_s(self) -> Floats:
        """Capacity of every link, (l,)."""
        return self.links.bytes_per_s

    @property
    def routes(self) -> Routes:
        """All routes so far, in the order of their numbers."""
        return routes_of(self.made)

    def route(self, source: int, target: int, key: int = 0) -> int:
        """The number of the route between two devices; `key` tells its flows apart for a hash."""
        asked = (source, target, key if self.spread == "ecmp" else 0)
        return self._number(asked, lambda: self._way(*asked))

    def bundle(self, pairs: Iterable[tuple[int, int]]) -> int:
        """One route for like flows between several pairs: a byte of it is a byte of each.

        On each link it weighs what all of them would, and takes as many shares. Right where the
        pairs are alike (an exchange within or between whole domains); its pace is the slowest's.
        """
        asked = tuple(end for pair in pairs for end in pair)
        return self._number((*asked, -1), lambda: self._sum(asked))

    def to_network(self, device: int) -> int:
        """The way of bytes that the first switch takes in: a sum that is made there."""
        return self._number((device, -1, -2), lambda: self._port(device, "out"))

    def from_network(self, device: int) -> int:
        """The way of bytes that the last switch sends: a sum, or a copy for each port."""
        return self._number((-1, device, -2), lambda: self._port(device, "in"))

    def _port(self, device: int, way: str) -> Route:
        return [self.inside + port_link(self.trunks, device, way)], [1.0], 0.0

    def link(self, name: str) -> int:
        """The number of a link by its name, to degrade it or to read what it carried."""
        return self.links.name.index(name)

    def _number(self, key: tuple[int, ...], way: Callable[[], Route]) -> int:
        if key not in self.numbers:
            made = way()
            self.numbers[key] = len(self.made)
            self.made.append(made)
        return self.numbers[key]

    def _sum(self, ends: tuple[int, ...]) -> Route:
        weights: dict[int, float] = defaultdict(float)
        latency_s = 0.0
        for source, target in zip(ends[::2], ends[1::2], strict=True):
            links, shares, wait_s = self.made[self.route(source, target)]
            latency_s = max(latency_s, wait_s)
            for link, share in zip(links, shares, strict=True):
                weights[link] += share
        return list(weights), list(weights.values()), latency_s

    def _way(self, source: int, target: int, key: int) -> Route:
        held = self.fabric.scaleup.devices
        if source // held == target // held:
            return self._inside(source, target)
        sender = self._sender(source, target)
        links, weights, latency_s = crossing(self.trunks, sender, target, key)
        across = [self.inside + link for link in links]
        first, own, wait_s = self._inside(source, sender)
        return [*first, *across], [*own, *weights], wait_s + latency_s

    def _inside(self, source: int, target: int) -> Route:
        held = self.fabric.scaleup.devices
        domain = source // held
        links, weights, latency_s = domain_route(self.fabric.scaleup, source % held, target % held)
        return [domain * len(self.domain) + link for link in links], weights, latency_s

    def _sender(self, source: int, target: int) -> int:
        """The device of the source's domain and host that has a port on the target's rail."""
        out, held = self.fabric.scaleout, self.fabric.scaleup.devices
        (host, own), (_, rail) = host_port(out, source), host_port(out, target)
        if out.shape != "rail_fat_tree" or own == rail:
            return source
        share = out.devices_per_host // out.rails
        other = host * out.devices_per_host + -(-rail * out.devices_per_host // out.rails)
        other += source % max(share, 1)
        return other if other // held == source // held else source
