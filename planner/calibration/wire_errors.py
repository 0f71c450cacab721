"""How far collectives and exchanges between experts lie from what was measured, chip by chip.

`python -m planner.calibration.wire_errors tests/truth/microbench.csv` prints it, with the curves
as shipped and no row known as such; with `--left-out` every message size is predicted by curves
fitted on the other sizes alone. Bus bandwidth in ring terms: bytes that a ring would send per
device, over the time; above the wire it would be a wrong curve or a sum made in the switch.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costdata.catalog import Catalog, load
from planner.calibration.curves import fit_link, link_s
from planner.calibration.kernels import TABLES, has_steps
from planner.calibration.measured import (
    Exchange,
    Timing,
    read_collectives,
    read_exchanges,
    read_messages,
    read_nameplates,
)
from simkernel import plugins
from simkernel.columns import Floats
from simkernel.placement import Group
from simkernel.traffic import Wires, network

BEST_INSIDE = {"all_to_all": "direct"}
"""What "best" comes to inside one domain where it is not hierarchical."""

ENGINE = "trtllm"
"""Whose own all-reduce the timings of engines are."""


@dataclass(frozen=True)
class WireErrors:
    """Of one chip and what was measured on it.

    Parameters
    ----------
    median_frac, p90_frac : of |predicted / measured - 1|
    bias_frac : mean of predicted / measured - 1
    bus_over_wire_frac : highest predicted rate in ring terms over the wire's; NaN for exchanges
    """

    chip: str
    kind: str
    rows: int
    median_frac: float
    p90_frac: float
    bias_frac: float
    bus_over_wire_frac: float


def wire_errors(timings: Sequence[Path], catalog: Catalog) -> list[WireErrors]:
    """Every chip with measurements: collectives, an engine's own, exchanges between experts."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for timing in read_collectives(timings):
        is_own = timing.kernel == "engine"
        seconds, bus = (_engine if is_own else _collective)(timing, catalog)
        kind = "engine's all-reduce" if is_own else "collectives"
        found[timing.chip, kind].append((seconds / timing.seconds - 1, bus))
    for exchange in read_exchanges(timings):
        error = (_exchange(exchange, catalog) / exchange.seconds - 1, np.nan)
        found[exchange.chip, "expert exchange"].append(error)
    return [_summary(*key, np.array(errors)) for key, errors in sorted(found.items())]


def left_out_errors(timings: Sequence[Path], folder: Path = TABLES) -> list[WireErrors]:
    """Collectives by curves that have seen no message of their size, by chip."""
    plates = read_nameplates(folder / "accelerators.csv")
    messages = read_messages(timings)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (chip, operation), rows in messages.items():
        if operation == "send":
            continue
        wire, sizes = plates[chip].scaleup_bytes_per_s, np.round(rows.wire_bytes + rows.own_bytes)
        for size in np.unique(sizes):
            fit = fit_link(rows.take(np.flatnonzero(sizes != size)), wire, has_steps(operation))
            left = rows.take(np.flatnonzero(sizes == size))
            seconds = link_s(np.array(list(fit.values.values())), left, wire)
            errors, buses = seconds / left.seconds - 1, left.wire_bytes / seconds / wire
            found[chip] += zip(errors.tolist(), buses.tolist(), strict=True)
    return [
        _summary(chip, "sizes left out", np.array(errors))
        for chip, errors in sorted(found.items())
    ]


def _summary(chip: str, kind: str, errors: Floats) -> WireErrors:
    """Errors and bus rates, (rows, 2)."""
    size = np.abs(errors[:, 0])
    return WireErrors(
        chip=chip,
        kind=kind,
        rows=len(errors),
        median_frac=float(np.median(size)),
        p90_frac=float(np.quantile(size, 0.9)),
        bias_frac=float(errors[:, 0].mean()),
        bus_over_wire_frac=float(errors[:, 1].max()),
    )


def _wires(catalog: Catalog, chip: str, operation: str, group: Group, domain: int) -> Wires:
    chips = catalog.chips([chip])
    return network(chips, np.array([domain]), np.ones(1)).wires(operation, group)


def _collective(timing: Timing, catalog: Catalog) -> tuple[float, float]:
    """Predicted seconds and bus rate over wire rate; the group fills a domain."""
    group = Group(np.array([timing.ranks]), np.array([timing.ranks]))
    wires = _wires(catalog, timing.chip, timing.operation, group, timing.ranks)
    module = plugins.find("collectives", BEST_INSIDE.get(timing.operation, "hierarchical"))
    traffic = module.traffic(timing.operation, wires, group, timing.payload_bytes)
    seconds = float(traffic.elapsed_s[0])
    rate = float(traffic.inside_bytes[0]) / seconds
    return seconds, rate / float(np.max(wires.inside_bytes_per_s))


def _engine(timing: Timing, catalog: Catalog) -> tuple[float, float]:
    """The same of the all-reduce that a serving engine brings: at once, or in a ring."""
    wire = float(catalog.chips([timing.chip]).scaleup_bytes_per_s[0])
    curves = catalog.engine_curves(ENGINE, [timing.chip])
    others, once, ring = timing.ranks - 1, curves.all_reduce_once, curves.all_reduce
    sent = 2 * others / timing.ranks * timing.payload_bytes
    at_once_s = once.base_s + others * timing.payload_bytes / (wire * once.wire_frac)
    ring_s = ring.base_s + 2 * others * ring.step_s + sent / (wire * ring.wire_frac)
    seconds = float(np.minimum(at_once_s, ring_s)[0])
    return seconds, sent / seconds / wire


def _exchange(exchange: Exchange, catalog: Catalog) -> float:
    """Predicted seconds."""
    group = Group(np.array([exchange.ranks]), np.array([min(exchange.ranks, exchange.domain)]))
    wires = _wires(catalog, exchange.chip, "all_to_all", group, exchange.domain)
    module = plugins.find("collectives", "direct")
    traffic = module.traffic("all_to_all", wires, group, exchange.payload_bytes)
    return float(traffic.elapsed_s[0])


def _lines(errors: Sequence[WireErrors]) -> Iterator[str]:
    yield f"{'chip':<21}{'measured':<21}rows median   p90  bias  bus/wire"
    for one in errors:
        figures = f"{one.rows:>4}{one.median_frac:>7.1%}{one.p90_frac:>6.0%}{one.bias_frac:>+6.0%}"
        bus = "" if np.isnan(one.bus_over_wire_frac) else f"{one.bus_over_wire_frac:>10.2f}"
        yield f"{one.chip:<21}{one.kind:<21}{figures}{bus}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: one line for each chip and kind."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.wire_errors", description=__doc__
    )
    parser.add_argument("timings", nargs="+", type=Path, help="kernel timing files")
    parser.add_argument("--left-out", action="store_true", help="every message size left out")
    given = parser.parse_args(arguments)
    found = (
        left_out_errors(given.timings) if given.left_out else wire_errors(given.timings, load())
    )
    print("\n".join(_lines(found)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
