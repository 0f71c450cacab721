"""A pipeline replayed on shared links: passes and collectives that slow each other down.

Plain Python in the subset that numba compiles. A device runs its items as in `walk`, each cut into
phases: work, exchange between experts, the send. A phase is a flow whose payload is the seconds it
takes alone, over links of capacity 1: the chip, which it would keep busy all the time, and the
ports and uplinks, in the share of that time for which it needs them. So a phase alone takes what
`passes` says, and phases that want more of a link than there is share it max-min fairly. Gathers
and reductions of a step are flows of their own beside the first and the last passes; from the chip
they take the share that `passes.overlapped` says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.replay.flows import advance, next_s, set_capacity, start
from simkernel.replay.net import Net
from simkernel.replay.program import NOTHING, Program
from simkernel.replay.walk import Paces, Walked, is_ready, item_s, needed, tell

FOREGROUND, GATHER, REDUCE, OWNERS = range(4)
"""What a flow of a device is for; owners are numbered device x OWNERS + this."""

PHASES, LOGGED, ORDERED, COUNTS = range(4)
"""Places of the counts: phases that ended, phases logged, flows to be started."""


class Phases(NamedTuple):
    """What items do on links, and what a step does once.

    Parameters
    ----------
    combination : (items,) device, stage and kind of an item, numbered as they occur
    first : (combinations + 1,) phases of combination c are first[c] to first[c + 1]
    route : (phases,) of the network
    seconds : (phases,) alone [s]
    nominal_s : (combinations,) of all phases, as `Paces` has it without load and stragglers [s]
    gather_route, reduce_route : (devices,)
    gather_s, reduce_s : (devices,) alone [s]
    tail_s : (devices,) at least from the last pass to the end of the reduction [s]
    gather_until : (devices,) item by whose end the weights have to be there
    reduce_from : (devices,) item with which the reduction starts
    """

    combination: Codes
    first: Codes
    route: Codes
    seconds: Floats
    nominal_s: Floats
    gather_route: Codes
    reduce_route: Codes
    gather_s: Floats
    reduce_s: Floats
    tail_s: Floats
    gather_until: Codes
    reduce_from: Codes


class Played(NamedTuple):
    """A contended replay at hand and what it found.

    Parameters
    ----------
    phase : (devices,) the phase that runs, of the network's list; NOTHING between items
    is_gathering : (devices,) weights are on their way
    is_held : (devices,) an item is done but for the gather
    since_s : (devices,) when the phase that runs began
    done_s : (devices,) when a device has reduced its gradients
    gathered_s, reduced_s : (devices, 2) start and end of the step's gather and reduction
    logged, logged_s : (most, 2) device and phase, start and end of the first phases
    counts : (COUNTS,)
    order_owner, order_route, order_s, order_wait_s : (3 x devices,) flows to be started now
    """

    phase: Codes
    is_gathering: Codes
    is_held: Codes
    since_s: Floats
    done_s: Floats
    gathered_s: Floats
    reduced_s: Floats
    logged: Codes
    logged_s: Floats
    counts: Codes
    order_owner: Codes
    order_route: Codes
    order_s: Floats
    order_wait_s: Floats


class Outages(NamedTuple):
    """Links that are degraded, fail or are mended during a step, in the order of time.

    Parameters
    ----------
    at_s : (o,)
    link : (o,) of the network
    left_frac : (o,) of its capacity from then on
    """

    at_s: Floats
    link: Codes
    left_frac: Floats


NO_OUTAGES = Outages(np.zeros(0), np.zeros(0, np.int64), np.zeros(0))


class Stage(NamedTuple):
    """All that a contended replay works on."""

    program: Program
    paces: Paces
    phases: Phases
    net: Net
    walked: Walked
    played: Played
    outages: Outages


def opened_play(devices: int, logged: int = 0) -> Played:
    """A replay that has not begun, which keeps so many phases."""
    return Played(
        phase=np.full(devices, NOTHING, np.int64),
        is_gathering=np.zeros(devices, np.int64),
        is_held=np.zeros(devices, np.int64),
        since_s=np.zeros(devices),
        done_s=np.zeros(devices),
        gathered_s=np.zeros((devices, 2)),
        reduced_s=np.zeros((devices, 2)),
        logged=np.zeros((logged, 2), np.int64),
        logged_s=np.zeros((logged, 2)),
        counts=np.zeros(COUNTS, np.int64),
        order_owner=np.zeros(3 * devices, np.int64),
        order_route=np.zeros(3 * devices, np.int64),
        order_s=np.zeros(3 * devices),
        order_wait_s=np.zeros(3 * devices),
    )


def contend(stage: Stage) -> None:
    """Every pass and collective of a step on the network, until none is left."""
    program, phases, walked, played = stage.program, stage.phases, stage.walked, stage.played
    devices, net, now_s = len(program.first) - 1, stage.net, 0.0
    for device in range(devices):
        walked.position[device] = program.first[device]
        walked.stack[device] = device
        if phases.gather_s[device] > 0.0:
            played.is_gathering[device] = 1
            route, seconds = phases.gather_route[device], phases.gather_s[device]
            order(played, device * OWNERS + GATHER, route, seconds, 0.0)
    waiting, changed, outages = devices, 0, stage.outages
    while now_s < np.inf:
        for i in range(waiting):
            begin(stage, walked.stack[i], now_s)
        for i in range(played.counts[ORDERED]):
            route, seconds = played.order_route[i], played.order_s[i]
            start(net, now_s, route, seconds, played.order_wait_s[i], played.order_owner[i])
        played.counts[ORDERED] = 0
        now_s = next_s(net)
        waiting = 0
        if changed < len(outages.at_s) and outages.at_s[changed] <= now_s:
            now_s = outages.at_s[changed]
            left_frac, link = outages.left_frac[changed], outages.link[changed]
            set_capacity(net, now_s, link, left_frac)
            changed += 1
        elif now_s < np.inf:
            for i in range(advance(net, now_s)):
                waiting = ended(stage, net.ended[i], now_s, waiting)


def order(played: Played, owner: int, route: int, seconds: float, wait_s: float) -> None:
    """A flow to be started at this moment."""
    at = played.counts[ORDERED]
    played.order_owner[at] = owner
    played.order_route[at] = route
    played.order_s[at] = seconds
    played.order_wait_s[at] = wait_s
    played.counts[ORDERED] = at + 1


def begin(stage: Stage, device: int, now_s: float) -> None:
    """The device's next item starts, if none runs and what it needs is there."""
    program, phases, walked, played = stage.program, stage.phases, stage.walked, stage.played
    item = walked.position[device]
    is_busy = played.phase[device] != NOTHING
    if is_busy or item == program.first[device + 1]:
        return
    if not is_ready(program, walked, item, device):
        return
    walked.start_s[item] = now_s
    walked.cause[item] = cause_of(program, walked, item, device)
    if item == phases.reduce_from[device] and phases.reduce_s[device] > 0.0:
        played.reduced_s[device, 0] = now_s
        route, seconds = phases.reduce_route[device], phases.reduce_s[device]
        order(played, device * OWNERS + REDUCE, route, seconds, 0.0)
    is_first = item == program.first[device]
    wait_s = max(stage.paces.from_s[device] - now_s, 0.0) if is_first else 0.0
    start_phase(stage, device, phases.first[phases.combination[item]], now_s, wait_s)


def cause_of(program: Program, walked: Walked, item: int, device: int) -> int:
    """The item whose end it waited for last."""
    cause = item - 1 if item > program.first[device] else NOTHING
    for side in range(2):
        need = needed(program, walked, item, side)
        if need != NOTHING and (cause == NOTHING or walked.end_s[need] > walked.end_s[cause]):
            cause = need
    return cause


def start_phase(stage: Stage, device: int, phase: int, now_s: float, wait_s: float) -> None:
    """A phase of the item at hand starts, as long as load and stragglers make it."""
    phases, item = stage.phases, stage.walked.position[device]
    nominal_s = phases.nominal_s[phases.combination[item]]
    longer = 1.0
    if nominal_s > 0.0:
        longer = item_s(stage.program, stage.paces, item, device) / nominal_s
    stage.played.phase[device] = phase
    stage.played.since_s[device] = now_s
    seconds = phases.seconds[phase] * longer
    order(stage.played, device * OWNERS + FOREGROUND, phases.route[phase], seconds, wait_s)


def ended(stage: Stage, owner: int, now_s: float, waiting: int) -> int:
    """A flow has ended; how many devices are to be looked at then."""
    played, device, what = stage.played, owner // OWNERS, owner % OWNERS
    if what == REDUCE:
        played.reduced_s[device, 1] = now_s
        played.done_s[device] = max(played.done_s[device], now_s)
        return waiting
    if what == GATHER:
        played.is_gathering[device] = 0
        played.gathered_s[device, 1] = now_s
        if played.is_held[device] == 0:
            return waiting
        played.is_held[device] = 0
    elif not is_item_done(stage, device, now_s):
        return waiting
    return end_item(stage, device, now_s, waiting)


def is_item_done(stage: Stage, device: int, now_s: float) -> bool:
    """A phase has ended: the item has no other, and does not wait for weights."""
    phases, played, item = stage.phases, stage.played, stage.walked.position[device]
    phase = played.phase[device]
    note(played, device, phase, now_s)
    if phase + 1 < phases.first[phases.combination[item] + 1]:
        start_phase(stage, device, phase + 1, now_s, 0.0)
        return False
    if played.is_gathering[device] and item >= phases.gather_until[device]:
        played.is_held[device] = 1
        return False
    return True


def note(played: Played, device: int, phase: int, now_s: float) -> None:
    """The first phases are kept for a timeline."""
    played.counts[PHASES] += 1
    at = played.counts[LOGGED]
    if at < len(played.logged):
        played.logged[at, 0] = device
        played.logged[at, 1] = phase
        played.logged_s[at, 0] = played.since_s[device]
        played.logged_s[at, 1] = now_s
        played.counts[LOGGED] = at + 1


def end_item(stage: Stage, device: int, now_s: float, waiting: int) -> int:
    """An item is done: its device and those that waited for it are to be looked at."""
    walked, item = stage.walked, stage.walked.position[device]
    walked.end_s[item] = now_s
    walked.counts[0] += 1
    walked.position[device] = item + 1
    stage.played.phase[device] = NOTHING
    if item + 1 == stage.program.first[device + 1]:
        done_s = now_s + stage.phases.tail_s[device]
        stage.played.done_s[device] = max(stage.played.done_s[device], done_s)
    walked.stack[waiting] = device
    return tell(stage.program, walked, item, waiting + 1)
