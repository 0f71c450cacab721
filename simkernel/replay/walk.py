"""A pipeline walked through once, nothing shared: when every pass starts and ends, and why then.

Plain Python in the subset that numba compiles. A device runs on until it meets a pass whose input
is not there, and goes on when that pass is done: every pass is looked at once or twice, whatever
the depth, so a walk is linear in passes. Nothing is polled; a program that waits for itself is
told by the number of passes that ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.replay.program import BACKWARD, FORWARD, INPUT, NOTHING, WEIGHT, Program


class Paces(NamedTuple):
    """How long passes take.

    Parameters
    ----------
    seconds : (stages, 5) of one chunk by model stage and kind
    swing_s : (stages, 5) of it, what grows with the load of the busiest expert rank
    load_frac : (stages, batches) load of that rank over what `seconds` holds, less one; may have
        one row or one column for all
    slower_frac : (devices,) how much longer everything takes on a device, over one
    from_s : (devices,) before which a device cannot start
    """

    seconds: Floats
    swing_s: Floats
    load_frac: Floats
    slower_frac: Floats
    from_s: Floats


class Walked(NamedTuple):
    """What a walk found; arrays of one row per item of the program.

    Parameters
    ----------
    start_s, end_s : of every item
    cause : (items,) the item whose end it waited for, NOTHING for the first
    makers : (2, tokens) items that ended the forward and the input pass of a token
    counts : (1,) items that ended
    position, waiting : (devices,), (2, tokens) the walk at hand
    stack : (3 x devices,) devices that can go on
    """

    start_s: Floats
    end_s: Floats
    cause: Codes
    makers: Codes
    counts: Codes
    position: Codes
    waiting: Codes
    stack: Codes


def opened_walk(program: Program) -> Walked:
    """A walk that has not begun."""
    items, tokens = len(program.stage), program.walks * program.places * program.micro_batches
    devices = len(program.first) - 1
    return Walked(
        start_s=np.zeros(items),
        end_s=np.zeros(items),
        cause=np.full(items, NOTHING, np.int64),
        makers=np.full((2, tokens), NOTHING, np.int64),
        counts=np.zeros(1, np.int64),
        position=np.zeros(devices, np.int64),
        waiting=np.full((2, tokens), NOTHING, np.int64),
        stack=np.zeros(3 * devices, np.int64),
    )


def walk(program: Program, paces: Paces, walked: Walked) -> None:
    """Every item's start and end, in `walked`, which has to come with NOTHING in its codes."""
    devices = len(program.first) - 1
    for device in range(devices):
        walked.stack[devices - 1 - device] = device
        walked.position[device] = program.first[device]
    waiting = devices
    while waiting > 0:
        waiting = run_on(program, paces, walked, walked.stack[waiting - 1], waiting - 1)


def run_on(program: Program, paces: Paces, walked: Walked, device: int, waiting: int) -> int:
    """A device runs items until one has to wait; how many devices can go on then."""
    item, last = walked.position[device], program.first[device + 1]
    while item < last and is_ready(program, walked, item, device):
        begin_s = paces.from_s[device]
        cause = NOTHING
        if item > program.first[device]:
            begin_s, cause = walked.end_s[item - 1], item - 1
        for side in range(2):
            need = needed(program, walked, item, side)
            if need != NOTHING and walked.end_s[need] > begin_s:
                begin_s, cause = walked.end_s[need], need
        walked.start_s[item] = begin_s
        walked.end_s[item] = begin_s + item_s(program, paces, item, device)
        walked.cause[item] = cause
        waiting = tell(program, walked, item, waiting)
        item += 1
    walked.counts[0] += item - walked.position[device]
    walked.position[device] = item
    return waiting


def item_s(program: Program, paces: Paces, item: int, device: int) -> float:
    """How long an item takes on a device."""
    stage, cost = program.stage[item], program.cost[item]
    row = stage if paces.load_frac.shape[0] > 1 else 0
    batch = program.tokens[item, 0] % program.micro_batches
    more = paces.load_frac[row, batch if paces.load_frac.shape[1] > 1 else 0]
    took_s = paces.seconds[stage, cost] + paces.swing_s[stage, cost] * more
    return took_s * (1.0 + paces.slower_frac[device])


def place_of(program: Program, token: int) -> int:
    """Where in a walk through the model a token is."""
    return (token // program.micro_batches) % program.places


def missing(program: Program, item: int, side: int) -> tuple[int, int]:
    """The pass of another device, or of an earlier time, that one side waits for.

    Returns
    -------
    which half of `makers` (0 forward, 1 input), and the token; NOTHING twice where none
    """
    kind, token = program.kinds[item, side], program.tokens[item, side]
    if kind == FORWARD:
        if place_of(program, token) > 0:
            return 0, token - program.micro_batches
    elif kind in (BACKWARD, INPUT):
        if place_of(program, token) < program.places - 1:
            return 1, token + program.micro_batches
        return 0, token
    elif kind == WEIGHT:
        return 1, token
    return NOTHING, NOTHING


def needed(program: Program, walked: Walked, item: int, side: int) -> int:
    """The item that one side waited for, NOTHING where none."""
    half, token = missing(program, item, side)
    return walked.makers[half, token] if half != NOTHING else NOTHING


def is_ready(program: Program, walked: Walked, item: int, device: int) -> bool:
    """Both sides have what they need; else the device waits to be told."""
    for side in range(2):
        half, token = missing(program, item, side)
        if half != NOTHING and walked.makers[half, token] == NOTHING:
            walked.waiting[half, token] = device
            return False
    return True


def tell(program: Program, walked: Walked, item: int, waiting: int) -> int:
    """An item is done: who waited for it can go on; how many devices can."""
    for side in range(2):
        kind, token = program.kinds[item, side], program.tokens[item, side]
        if kind in (FORWARD, BACKWARD, INPUT):
            half = 0 if kind == FORWARD else 1
            walked.makers[half, token] = item
            device = walked.waiting[half, token]
            if device != NOTHING:
                walked.waiting[half, token] = NOTHING
                walked.stack[waiting] = device
                waiting += 1
    return waiting
