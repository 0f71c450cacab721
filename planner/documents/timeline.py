"""A replayed training step as Chrome trace events, which Perfetto and chrome://tracing open.

One process for the stages, one for their links, one for the critical path; times in microseconds.
The step is that of one pipeline: its stages stand for all ranks that do the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from planner.training.replay import TrainingReplay
from simkernel.replay.contended import LOGGED
from simkernel.replay.phases import INSIDE, OUTSIDE, OWN_LINKS
from simkernel.replay.program import KINDS
from simkernel.replay.step import critical_items, device_of

MICROSECONDS = 1e6
"""Unit of times in Chrome's trace event format."""

STAGES, LINKS, CRITICAL = range(3)
"""Process numbers of the three groups of rows."""

MOST_ITEMS = 40_000
"""Passes written: of more the first, so that a viewer still opens the file."""

PORTS = {INSIDE: "domain port", OUTSIDE: "scale-out port"}

LANES = ("", "gather", "reduce")
"""Rows of a port: phases of passes, and what a step gathers and reduces beside them; bars of one
row have to nest (Trace Event Format), and these overlap."""

Event = dict[str, Any]


def write_timeline(found: TrainingReplay, path: Path) -> dict[str, Any]:
    """The first replay of a plan written as a file of complete events.

    Returns
    -------
    the file and how many events it has
    """
    events = [*_names(found), *stage_events(found), *link_events(found), *critical_events(found)]
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return {"file": str(path), "events": len(events)}


def stage_events(found: TrainingReplay) -> Iterator[Event]:
    """One bar per pass, in the row of its stage; those of the critical path say so."""
    step = found.first.step
    critical = set(critical_items(step).tolist())
    for item in range(min(len(step.walked.end_s), MOST_ITEMS)):
        event = _item(found, item)
        event["args"]["critical"] = item in critical
        yield event
    for device, done_s in enumerate(step.done_s.tolist()):
        last_s = float(step.walked.end_s[step.pipeline.program.first[device + 1] - 1])
        yield _event("gradients", STAGES, device, last_s, done_s)
        update_s = step.pipeline.optimiser_s
        from_s = done_s if step.pipeline.runs_on else step.step_s - update_s
        yield _event("optimiser", STAGES, device, from_s, from_s + update_s)


def link_events(found: TrainingReplay) -> Iterator[Event]:
    """One bar per exchange, send, gather or reduction, in the row of a port that it keeps busy."""
    first, net = found.first, found.first.routes
    played, phases = first.played, first.phases
    kept = slice(int(played.counts[LOGGED]))
    whose, when_s = played.logged[kept].tolist(), played.logged_s[kept].tolist()
    for (device, phase), (start_s, end_s) in zip(whose, when_s, strict=True):
        yield from _on_ports(net, int(phases.route[phase]), device, start_s, end_s)
    spans = (
        ("gather", phases.gather_route, played.gathered_s),
        ("reduce", phases.reduce_route, played.reduced_s),
    )
    for name, routes, when in spans:
        for device, (start_s, end_s) in enumerate(when.tolist()):
            if end_s > start_s:
                yield from _on_ports(net, int(routes[device]), device, start_s, end_s, name)


def critical_events(found: TrainingReplay) -> Iterator[Event]:
    """The chain that ends the step, in one row."""
    step = found.first.step
    for item in critical_items(step).tolist()[:MOST_ITEMS]:
        event = _item(found, item)
        yield {**event, "pid": CRITICAL, "tid": 0}


def _on_ports(
    routes: Any, route: int, device: int, start_s: float, end_s: float, name: str = ""
) -> Iterator[Event]:
    """A bar on every port that a route keeps busy, with the share of the time."""
    for at in range(routes.start[route], routes.start[route + 1]):
        port = int(routes.links[at]) - OWN_LINKS * device
        if port in PORTS:
            row = _row(device, port, LANES.index(name))
            event = _event(name or "phase", LINKS, row, start_s, end_s)
            event["args"] = {"busy_frac": float(routes.weights[at])}
            yield event


def _row(device: int, port: int, lane: int) -> int:
    """Row of a lane of a port."""
    return (2 * device + (port == OUTSIDE)) * len(LANES) + lane


def port_row(row: int) -> str:
    """What a row of links is called: the stage, its port, and what goes there."""
    place, lane = divmod(row, len(LANES))
    device, is_outside = divmod(place, 2)
    return f"stage {device} {PORTS[OUTSIDE if is_outside else INSIDE]} {LANES[lane]}".strip()


def _item(found: TrainingReplay, item: int) -> Event:
    step = found.first.step
    program, walked = step.pipeline.program, step.walked
    kinds = [KINDS[kind] for kind in program.kinds[item].tolist() if kind >= 0]
    batch = int(program.tokens[item, 0] % program.micro_batches)
    device = int(device_of(step, np.array([item]))[0])
    start_s, end_s = float(walked.start_s[item]), float(walked.end_s[item])
    event = _event(" + ".join(kinds), STAGES, device, start_s, end_s)
    event["args"] = {"micro_batch": batch, "model_stage": int(program.stage[item])}
    return event


def _event(name: str, process: int, row: int, start_s: float, end_s: float) -> Event:
    return {
        "name": name,
        "ph": "X",
        "ts": start_s * MICROSECONDS,
        "dur": (end_s - start_s) * MICROSECONDS,
        "pid": process,
        "tid": row,
        "args": {},
    }


def _names(found: TrainingReplay) -> Iterator[Event]:
    """Names of processes and rows, as metadata events."""
    groups = {STAGES: "stages", LINKS: "links", CRITICAL: "critical path"}
    for process, name in groups.items():
        yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}}
    for device in range(found.first.step.pipeline.devices):
        rows = {(STAGES, device): f"stage {device}"}
        rows |= {
            (LINKS, row): port_row(row)
            for row in (_row(device, port, i) for port in PORTS for i in range(len(LANES)))
        }
        for (process, row), name in rows.items():
            event = {"name": "thread_name", "ph": "M", "pid": process, "tid": row}
            yield {**event, "args": {"name": name}}
