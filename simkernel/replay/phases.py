"""What a pipeline's items ask of links: work, collectives, send, in shares of the time they take.

Every share is busy seconds of a resource over seconds of the phase, both as `passes` made them.
Devices along the pipeline stand for all ranks of their stage: these do the same at the same time,
so each has its own chip and ports, and a link that many ranks share is theirs in equal parts. An
exchange between experts is one flow of what a rank sends to all other domains together.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from simkernel.columns import Codes, Column, Floats
from simkernel.passes import Pass
from simkernel.replay.contended import Phases
from simkernel.replay.net import Net, opened_net
from simkernel.replay.program import BACKWARD, FORWARD, INPUT, PAIR, WEIGHT
from simkernel.replay.training import Pipeline
from simkernel.stack import Stack
from simkernel.wiring.links import Route, routes_of

CHIP, INSIDE, OUTSIDE, BESIDE, OWN_LINKS = range(5)
"""Links of a device: its chip, its port in the domain, its port to others, and what keeps a
collective that runs beside passes from going faster than alone; the shared uplinks come after."""

MOST_PHASES = 2_000_000
"""Of a replay: beyond it layers are taken together, so that it ends in seconds."""

NEVER = 1e-9
"""Of a phase: a share of a link below this is none."""


@dataclass(frozen=True)
class Uplinks:
    """Links above the domains that several devices of a pipeline share.

    Parameters
    ----------
    of_device : (devices,) the uplink of a device's domain, numbered from 0
    ports_frac : (uplinks,) what it carries at once, over what one port does
    """

    of_device: Codes
    ports_frac: Floats


@dataclass(frozen=True)
class Demand:
    """One kind of item on one stage: seconds alone, and what of them goes to links.

    Of `tensor`, `exchange` and `send` nothing else of the item runs beside; each has its seconds,
    and shares of the port inside and outside. `other_s` keeps the ports busy beside the rest.
    """

    seconds: float
    exchange_s: float
    send_s: float
    exchange: tuple[float, float]
    send: tuple[float, float]
    other_s: tuple[float, float]
    tensor_s: float = 0.0
    tensor: tuple[float, float] = (0.0, 0.0)


def no_uplinks(pipeline: Pipeline) -> Uplinks:
    """Nothing is shared above the ports."""
    return Uplinks(np.full(pipeline.devices, -1), np.zeros(0))


def phases_of(pipeline: Pipeline, stack: Stack, uplinks: Uplinks) -> tuple[Phases, Net]:
    """Phases of every item of a pipeline, and the network they run on."""
    scribe = _Scribe(pipeline, uplinks)
    program = pipeline.program
    device = np.repeat(np.arange(program.devices), np.diff(program.first))
    keys = (device * pipeline.stages + program.stage) * 5 + program.cost
    found, combination = np.unique(keys, return_inverse=True)
    pieces = _pieces(pipeline, len(program.stage))
    first = [0]
    for key in found.tolist():
        scribe.write(key // 5 // pipeline.stages, key // 5 % pipeline.stages, key % 5, pieces)
        first.append(len(scribe.seconds))
    beside = _beside(pipeline, stack, scribe)
    nominal = np.add.reduceat(np.array(scribe.seconds), first[:-1])
    links = np.concatenate([np.ones(OWN_LINKS * program.devices), uplinks.ports_frac])
    phases = Phases(
        combination=combination.reshape(-1).astype(np.int64),
        first=np.array(first, dtype=np.int64),
        route=np.array(scribe.route, dtype=np.int64),
        seconds=np.array(scribe.seconds),
        nominal_s=nominal,
        **beside,
    )
    return phases, opened_net(links, routes_of(scribe.routes), 4 * program.devices)


class _Scribe:
    """Phases and routes as they are written."""

    def __init__(self, pipeline: Pipeline, uplinks: Uplinks) -> None:
        self.pipeline, self.uplinks = pipeline, uplinks
        self.routes: list[Route] = []
        self.route: list[int] = []
        self.seconds: list[float] = []

    def write(self, device: int, stage: int, kind: int, pieces: int) -> None:
        """The phases of an item: work and its collectives in turns, then the send."""
        one = demand(self.pipeline, stage, kind)
        layers = max(int(self.pipeline.expert_layers[stage]), 1)
        turns = min(layers, pieces) if one.exchange_s > 0 else 1
        work_s = max(one.seconds - one.tensor_s - one.exchange_s - one.send_s, 0.0)
        work = self.way(device, {CHIP: 1.0}, *_shares(one.other_s, work_s))
        tensor = self.way(device, {CHIP: 1.0}, *one.tensor)
        exchange = self.way(device, {CHIP: 1.0}, *one.exchange)
        for _ in range(turns):
            self.add(work, work_s / turns)
            if one.tensor_s > 0:
                self.add(tensor, one.tensor_s / turns)
            if one.exchange_s > 0:
                self.add(exchange, one.exchange_s / turns)
        if one.send_s > 0:
            self.add(self.way(device, {CHIP: 1.0}, *one.send), one.send_s)

    def add(self, route: int, seconds: float) -> None:
        """One more phase."""
        self.route.append(route)
        self.seconds.append(seconds)

    def way(self, device: int, own: dict[int, float], inside: float, outside: float) -> int:
        """A route over a device's links, and over its uplink as far as it leaves the domain."""
        shares = {**own, INSIDE: inside, OUTSIDE: outside}
        held = {OWN_LINKS * device + link: share for link, share in shares.items()}
        up = int(self.uplinks.of_device[device])
        if up >= 0:
            held[OWN_LINKS * self.pipeline.devices + up] = outside
        kept = {link: share for link, share in held.items() if share > NEVER}
        self.routes.append((list(kept), list(kept.values()), 0.0))
        return len(self.routes) - 1


def demand(pipeline: Pipeline, stage: int, kind: int) -> Demand:
    """What an item of one chunk asks for.

    A pair hides its exchange, chunks send beside their work: then the whole item asks evenly.
    """
    seconds = float(pipeline.seconds[stage, kind])
    i, row = int(pipeline.stage_kind[stage]), int(pipeline.stage_row[stage])
    chunks = pipeline.program.places // pipeline.stages
    work, send = pipeline.layout.work[i], pipeline.layout.send
    mirror = pipeline.layout.work[-1 - i] if pipeline.is_folded else work
    busy = {
        FORWARD: work.forward + pipeline.each_gather[i],
        BACKWARD: work.backward + pipeline.each_gather[i] + pipeline.each_reduce[i],
        INPUT: work.backward,
        WEIGHT: Pass(),
        PAIR: work.forward + mirror.backward,
    }[kind]
    of_tensor = work.tensor + mirror.tensor if kind == PAIR else work.tensor
    passes = (busy, send, work.exchange, of_tensor)
    busy, send, moved, tensor = (_of_row(one, row) for one in passes)
    busy, moved, tensor = (one.times(1.0 / chunks) for one in (busy, moved, tensor))
    if kind == WEIGHT:
        return Demand(seconds, 0.0, 0.0, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    tensor_s = min(_number(tensor.floor_s), seconds)
    alone = (tensor_s, _shares(_ports_s(tensor), tensor_s))
    if kind == PAIR or chunks > 1:
        busy = busy + send.times(2.0 if kind == PAIR else 1.0)
        if kind == PAIR:
            rest = _left_s(busy, *alone)
            return Demand(seconds, 0.0, 0.0, (0.0, 0.0), (0.0, 0.0), rest, *alone)
        send = Pass()
    exchange_s = min(_number(moved.floor_s), seconds - tensor_s)
    send_s = min(_number(send.floor_s), seconds - tensor_s - exchange_s)
    return Demand(
        seconds,
        exchange_s,
        send_s,
        _shares(_ports_s(moved), _number(moved.floor_s)),
        _shares(_ports_s(send), send_s),
        _left_s(busy.without(moved), *alone),
        *alone,
    )


def _ports_s(one: Pass) -> tuple[float, float]:
    """Seconds that a pass keeps the ports busy, in the domain and outside."""
    return max(_number(one.inside_s), 0.0), max(_number(one.outside_s), 0.0)


def _left_s(busy: Pass, alone_s: float, shares: tuple[float, float]) -> tuple[float, float]:
    """Of them, what a phase of its own does not take: pieces of tensor traffic beside products."""
    inside, outside = _ports_s(busy)
    return max(inside - alone_s * shares[0], 0.0), max(outside - alone_s * shares[1], 0.0)


def _of_row(one: Pass, row: int) -> Pass:
    """A pass of one of several layouts; what is one number for all stays so."""
    columns = {f.name: np.reshape(getattr(one, f.name), -1) for f in fields(one)}
    return Pass(**{n: float(c[row if len(c) > 1 else 0]) for n, c in columns.items()})


def _number(column: Column) -> float:
    return float(np.reshape(np.asarray(column, dtype=float), -1)[0])


def _shares(busy_s: tuple[float, float], seconds: float) -> tuple[float, float]:
    """Busy seconds over those of a phase; no link is busy for longer than the phase alone."""
    if seconds <= 0.0:
        return 0.0, 0.0
    return min(busy_s[0] / seconds, 1.0), min(busy_s[1] / seconds, 1.0)


def _pieces(pipeline: Pipeline, items: int) -> int:
    """Turns of work and exchange in an item: one per layer of experts, fewer in a long replay."""
    return max(min(int(pipeline.expert_layers.max(initial=1.0)), MOST_PHASES // (2 * items)), 1)


def _beside(pipeline: Pipeline, stack: Stack, scribe: _Scribe) -> dict[str, Codes | Floats]:
    """Gathers and reductions of a step: routes, seconds, and the passes they run beside."""
    from_chip = {BESIDE: 1.0, CHIP: _number(stack.contention_frac)}
    found: dict[str, list[float]] = {
        name: [] for name in ("gather_route", "reduce_route", "gather_s", "reduce_s", "tail_s")
    }
    for device, i in enumerate(pipeline.device_kind.tolist()):
        one = pipeline.exposed[i]
        for name, moved in (("gather", one.gather), ("reduce", one.reduce)):
            floor_s = _number(moved.floor_s)
            shares = _shares((_number(moved.inside_s), _number(moved.outside_s)), floor_s)
            found[f"{name}_route"].append(scribe.way(device, from_chip, *shares))
            found[f"{name}_s"].append(floor_s if stack.overlaps_data else 0.0)
        alone_s = _number(one.exposed_s) - pipeline.gather_s[device]
        tail_s = _number(one.gather.floor_s + one.reduce.floor_s) / pipeline.device_layers[i]
        tail_s = max(tail_s - pipeline.gather_s[device], 0.0)
        found["tail_s"].append(tail_s if stack.overlaps_data else alone_s)
    codes = {
        name: np.array(found[name], dtype=np.int64) for name in ("gather_route", "reduce_route")
    }
    floats = {name: np.array(found[name]) for name in ("gather_s", "reduce_s", "tail_s")}
    until, since = _beside_items(pipeline)
    return {**codes, **floats, "gather_until": until, "reduce_from": since}


def _beside_items(pipeline: Pipeline) -> tuple[Codes, Codes]:
    """Items by whose end a device has its weights, and with which its last reduction starts.

    As many as make up one micro-batch on the device, forward and backward: the closed form lets
    collectives run beside so much.
    """
    program = pipeline.program
    until, since = [], []
    for device, i in enumerate(pipeline.device_kind.tolist()):
        own = slice(program.first[device], program.first[device + 1])
        took_s = pipeline.seconds[program.stage[own], program.cost[own]]
        one = pipeline.exposed[i]
        ahead, back = np.cumsum(took_s), np.cumsum(took_s[::-1])
        until.append(own.start + _reached(ahead, _number(one.forward_s)))
        since.append(own.stop - 1 - _reached(back, _number(one.backward_s)))
    return np.array(until), np.array(since)


def _reached(sums_s: Floats, wanted_s: float) -> int:
    """The first place at which a sum reaches what is wanted, but for rounding."""
    return min(int(np.searchsorted(sums_s, wanted_s * (1.0 - 1e-9))), len(sums_s) - 1)
