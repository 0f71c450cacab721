"""A training step replayed: walked through alone, or on shared links, with what was drawn.

Symmetry keeps it small. Ranks of a stage that do the same at the same time are replayed once, so a
step of 1,024 devices is one pipeline. Where devices differ, pipelines that exchange between
experts keep step and are one class with the slowest device of each stage; classes meet only where
gradients are reduced, so the slowest of them ends the step. Of many classes those are replayed
whose slowest device promises the longest step.

Where a schedule lets steps run on, a step is as long as the longest of any device, from its first
pass to its last: at most 3% too long where stages are as uneven as 1 to 3, else exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.errors import ReplayStuck
from simkernel.replay.contended import (
    NO_OUTAGES,
    Outages,
    Phases,
    Played,
    Stage,
    opened_play,
)
from simkernel.replay.draws import Draw
from simkernel.replay.phases import CHIP, INSIDE, OUTSIDE, OWN_LINKS, Uplinks, phases_of
from simkernel.replay.program import NOTHING
from simkernel.replay.training import Pipeline
from simkernel.replay.walk import Paces, Walked, opened_walk
from simkernel.stack import Stack
from simkernel.wiring.links import Routes

CLASSES_MOST = 16
"""Classes of pipelines that are replayed; of more, those that promise the longest step."""


@dataclass(frozen=True)
class StepReplay:
    """One step as replayed, of the class of pipelines that ends last.

    Parameters
    ----------
    pipeline : what was replayed
    walked : start, end and cause of every item
    passes_s : from the first pass to the last
    begun_s : (devices,) when a device began this step: 0 unless its schedule lets steps run on
    done_s : (devices,) when it has reduced its gradients
    slower_frac : (devices,) how much longer it took than the mean device, over one
    step_s : with the update of the weights
    events : passes, or phases of them, that were replayed
    """

    pipeline: Pipeline
    walked: Walked
    passes_s: float
    begun_s: Floats
    done_s: Floats
    slower_frac: Floats
    step_s: float
    events: int

    @property
    def last_device(self) -> int:
        """The device whose step is the longest."""
        return int(np.argmax(self.done_s - self.begun_s))


@dataclass(frozen=True)
class Contended:
    """The same on shared links.

    Parameters
    ----------
    step : the step
    phases, played : phases of the items, and those that were logged
    routes : over links, of which each device has OWN_LINKS
    busy_frac : (devices, 3) of the step that chip, port in the domain and port outside are busy
    uplink_frac : (uplinks,) of the step, of what they can carry
    """

    step: StepReplay
    phases: Phases
    played: Played
    routes: Routes
    busy_frac: Floats
    uplink_frac: Floats


def walked_step(pipeline: Pipeline, draw: Draw | None = None, *, syncs: bool = True) -> StepReplay:
    """A step without contention.

    Parameters
    ----------
    draw : loads and speeds; none for even ones
    syncs : gathers and reductions of the step take place
    """
    load = None if draw is None else draw.load_frac
    found = [_walked(pipeline, load, slower, syncs) for slower in _classes(pipeline, draw)]
    return max(found, key=lambda one: one.step_s)


def contended_step(
    pipeline: Pipeline,
    stack: Stack,
    uplinks: Uplinks,
    step: StepReplay,
    draw: Draw,
    logged: int = 0,
    outages: Outages = NO_OUTAGES,
) -> Contended:
    """The class of pipelines that ended last when walked, on shared links.

    Parameters
    ----------
    step : as `walked_step` found it, with the same draw
    logged : phases to keep for a timeline
    outages : of links of the pipeline's devices, see `phases`; capacities there are 1
    """
    from simkernel.replay.compiled import (
        contend_lent,
        machine_code,
    )  # numba takes a second to load

    program = pipeline.program
    phases, net = phases_of(pipeline, stack, uplinks)
    walked, played = opened_walk(program), opened_play(program.devices, logged)
    from_s = np.zeros(program.devices) if stack.overlaps_data else pipeline.gather_s
    paces = pipeline.paces(draw.load_frac, step.slower_frac)._replace(from_s=from_s)
    machine_code(contend_lent)(Stage(program, paces, phases, net, walked, played, outages))
    taken = int(played.counts[0])
    again = _step(pipeline, walked, played.done_s, step.slower_frac, taken, from_s)
    carried = np.asarray(net.links.carried_bytes) / again.step_s
    own = carried[: OWN_LINKS * program.devices].reshape(program.devices, OWN_LINKS)
    up = carried[OWN_LINKS * program.devices :] / np.maximum(uplinks.ports_frac, 1e-30)
    return Contended(
        step=again,
        phases=phases,
        played=played,
        routes=Routes(net.route_start, net.route_links, net.route_weights, net.route_latency_s),
        busy_frac=own[:, [CHIP, INSIDE, OUTSIDE]],
        uplink_frac=up,
    )


def critical_items(step: StepReplay) -> Codes:
    """Items of the chain that ends the step, first to last."""
    device = step.last_device
    item = int(step.pipeline.program.first[device + 1]) - 1
    chain = []
    while item != NOTHING:
        chain.append(item)
        item = int(step.walked.cause[item])
    return np.array(chain[::-1])


def device_of(step: StepReplay, items: Codes) -> Codes:
    """Which device runs each item."""
    return np.searchsorted(step.pipeline.program.first, items, side="right") - 1


def _classes(pipeline: Pipeline, draw: Draw | None) -> Floats:
    """Speeds of the classes worth a replay; (classes, devices)."""
    if draw is None:
        return np.zeros((1, pipeline.devices))
    promise = draw.slower_frac.max(axis=1)
    return draw.slower_frac[np.argsort(-promise, kind="stable")[:CLASSES_MOST]]


def _walked(pipeline: Pipeline, load: Floats | None, slower: Floats, syncs: bool) -> StepReplay:
    from simkernel.replay.compiled import machine_code, walk_lent  # numba takes a second to load

    program, walked = pipeline.program, opened_walk(pipeline.program)
    paces: Paces = pipeline.paces(load, slower)
    if not syncs:
        paces = paces._replace(from_s=np.zeros(program.devices))
    machine_code(walk_lent)(program, paces, walked)
    ends = walked.end_s[program.first[1:] - 1] + (pipeline.reduce_s if syncs else 0.0)
    return _step(pipeline, walked, ends, slower, len(walked.end_s), paces.from_s)


def _step(
    pipeline: Pipeline,
    walked: Walked,
    done_s: Floats,
    slower: Floats,
    events: int,
    from_s: Floats,
) -> StepReplay:
    if walked.counts[0] < len(walked.end_s):
        raise ReplayStuck(
            f"{len(walked.end_s) - walked.counts[0]} of {len(walked.end_s)} passes of a step "
            "never started: its schedule waits for itself; please report it with the study"
        )
    first = pipeline.program.first
    own_s = np.maximum(walked.start_s[first[:-1]] - from_s, 0.0)
    begun_s = own_s if pipeline.runs_on else np.zeros(len(done_s))
    return StepReplay(
        pipeline=pipeline,
        walked=walked,
        passes_s=float((walked.end_s[first[1:] - 1] - begun_s).max()),
        begun_s=begun_s,
        done_s=done_s,
        slower_frac=slower,
        step_s=float((done_s - begun_s).max()) + pipeline.optimiser_s,
        events=events,
    )
