"""How far collectives and exchanges between experts lie from what was measured, chip by chip.

`python -m planner.calibration.wire_errors tests/truth/microbench.csv` prints it. Two answers: with
the one curve that "best" uses, and as `collective = "two_protocols"`. Nothing is fitted here, and
no row is known to the curves as such. Ring terms for bus bandwidth: bytes that a ring would send
per device, over the time; above the wire it would be a wrong curve or a sum made in the switch.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costdata.catalog import Catalog, load
from planner.calibration.measured import Exchange, Timing, read_collectives, read_exchanges
from simkernel import plugins
from simkernel.placement import Group
from simkernel.traffic import Wires, network

ONE_CURVE = {"all_to_all": "direct"}
"""What "best" comes to inside one domain where it is not hierarchical."""

MODELS = ("one curve", "two_protocols")


@dataclass(frozen=True)
class WireErrors:
    """Of one chip, what was measured on it and by which model.

    Parameters
    ----------
    median_frac, p90_frac : of |predicted / measured - 1|
    bias_frac : mean of predicted / measured - 1
    bus_over_wire_frac : highest predicted rate in ring terms over the wire's; NaN for exchanges
    """

    chip: str
    kind: str
    model: str
    rows: int
    median_frac: float
    p90_frac: float
    bias_frac: float
    bus_over_wire_frac: float


def wire_errors(timings: Sequence[Path], catalog: Catalog) -> list[WireErrors]:
    """Every chip with measurements, collectives and exchanges between experts apart."""
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for timing in read_collectives(timings):
        for model, seconds, bus in _collective(timing, catalog):
            found[timing.chip, "collectives", model].append((seconds / timing.seconds - 1, bus))
    for exchange in read_exchanges(timings):
        for model, seconds in _exchange(exchange, catalog):
            error = (seconds / exchange.seconds - 1, np.nan)
            found[exchange.chip, "expert exchange", model].append(error)
    return [_summary(key, np.array(errors)) for key, errors in sorted(found.items())]


def _summary(key: tuple[str, str, str], errors: np.ndarray) -> WireErrors:
    """Errors and bus rates, (rows, 2)."""
    size = np.abs(errors[:, 0])
    return WireErrors(
        *key,
        rows=len(errors),
        median_frac=float(np.median(size)),
        p90_frac=float(np.quantile(size, 0.9)),
        bias_frac=float(errors[:, 0].mean()),
        bus_over_wire_frac=float(errors[:, 1].max()),
    )


def _wires(catalog: Catalog, chip: str, operation: str, group: Group, domain: int) -> Wires:
    chips = catalog.chips([chip])
    return network(chips, np.array([domain]), np.ones(1)).wires(operation, group)


def _collective(timing: Timing, catalog: Catalog) -> Iterator[tuple[str, float, float]]:
    """Predicted seconds and bus rate over wire rate, by model; the group fills a domain."""
    group = Group(np.array([timing.ranks]), np.array([timing.ranks]))
    wires = _wires(catalog, timing.chip, timing.operation, group, timing.ranks)
    for model in MODELS:
        name = model if model in plugins.names("collectives") else "hierarchical"
        name = ONE_CURVE.get(timing.operation, name) if model == MODELS[0] else name
        module = plugins.find("collectives", name)
        traffic = module.traffic(timing.operation, wires, group, timing.payload_bytes)
        seconds = float(traffic.elapsed_s[0])
        rate = float(traffic.inside_bytes[0]) / seconds
        yield model, seconds, rate / float(np.max(wires.inside_bytes_per_s))


def _exchange(exchange: Exchange, catalog: Catalog) -> Iterator[tuple[str, float]]:
    """Predicted seconds, by model."""
    group = Group(np.array([exchange.ranks]), np.array([min(exchange.ranks, exchange.domain)]))
    wires = _wires(catalog, exchange.chip, "all_to_all", group, exchange.domain)
    for model, name in zip(MODELS, ("direct", "two_protocols"), strict=True):
        module = plugins.find("collectives", name)
        traffic = module.traffic("all_to_all", wires, group, exchange.payload_bytes)
        yield model, float(traffic.elapsed_s[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: one line for each chip, kind and model."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.wire_errors", description=__doc__
    )
    parser.add_argument("timings", nargs="+", type=Path, help="kernel timing files")
    given = parser.parse_args(arguments)
    print(f"{'chip':<20}{'measured':<17}{'model':<15}rows median   p90  bias  bus/wire")
    for one in wire_errors(given.timings, load()):
        figures = f"{one.rows:>4}{one.median_frac:>7.1%}{one.p90_frac:>6.0%}{one.bias_frac:>+6.0%}"
        bus = "" if np.isnan(one.bus_over_wire_frac) else f"{one.bus_over_wire_frac:>10.2f}"
        print(f"{one.chip:<20}{one.kind:<17}{one.model:<15}{figures}{bus}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
