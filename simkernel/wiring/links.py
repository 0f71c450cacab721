"""Links of a fabric, one for each direction, and routes over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Floats


@dataclass(frozen=True)
class Links:
    """Directed links, (l,); `name` says between what, for people and for the timeline."""

    bytes_per_s: Floats
    latency_s: Floats
    name: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.bytes_per_s)


@dataclass(frozen=True)
class Routes:
    """Ways over links, one list for all: route r has the places start[r] to start[r + 1].

    Parameters
    ----------
    start : (r + 1,)
    links : (k,) which links, in the order they are crossed
    weights : (k,) bytes on the link for a byte of the flow
    latency_s : (r,) of all its links, the longest where it is sprayed [s]
    """

    start: Codes
    links: Codes
    weights: Floats
    latency_s: Floats

    def __len__(self) -> int:
        return len(self.latency_s)


Route = tuple[Sequence[int], Sequence[float], float]
"""Links, their weights, and the latency of the whole."""


def routes_of(routes: Sequence[Route]) -> Routes:
    """Single routes in one list."""
    hops = [len(links) for links, _, _ in routes]
    return Routes(
        start=np.concatenate([[0], np.cumsum(hops)]).astype(np.int64),
        links=np.array([one for links, _, _ in routes for one in links], dtype=np.int64),
        weights=np.array([one for _, weights, _ in routes for one in weights], dtype=float),
        latency_s=np.array([latency_s for _, _, latency_s in routes], dtype=float),
    )


def plain_routes(paths: Sequence[Sequence[int]], latency_s: Floats) -> Routes:
    """Routes that cross each of their links once; `latency_s` of each link, (l,)."""
    return routes_of(
        [(path, [1.0] * len(path), float(sum(latency_s[link] for link in path))) for path in paths]
    )
