"""Output of nccl-tests and rccl-tests: seconds of collectives by the size of their message.

`size` is the whole message: what is gathered or scattered in all, reduced, or sent by one rank
(NVIDIA/nccl-tests, doc/PERFORMANCE.md and src/sendrecv.cu), as our payloads are. Of the two
timings of a size, out of place and in place, the faster one counts: what disturbs a run only ever
adds to it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from planner.imports.chip_named import chip_named, inside_domain
from planner.imports.found import Found, Given, told_later
from planner.imports.left_out import message_errors
from planner.imports.numbers import whole_number
from planner.imports.text_files import read_lines
from planner.imports.timed_rows import collective_row
from simkernel.errors import BadFile, BadStudy

SETTINGS = {
    "accelerator": "chip, where the file's name of it is not in the catalogue",
    "operation": "all_reduce, all_gather, reduce_scatter, all_to_all or send, where no line says",
    "domain_devices": "devices in a scale-up domain, where one is larger than a host",
}

OPERATION_OF = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send",
}
"""Programs of the suite and our operations; the others time what no plan of ours does."""

PROGRAM = re.compile(r"\b(\w+?)_perf(?:_mpi)?\b")
RANK = re.compile(r"#\s+Rank\s+(\d{1,18})\s.*?\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.+?)\s*$")
TAG = re.compile(r"^\s*\[[\d,]+\]\s*(?:<\w+>)?:?\s*")
"""What mpirun --tag-output puts before each line."""

CLOSING = ("# Out of bounds values", "# Avg bus bandwidth")
"""Lines that a program writes last; without them it was stopped, or its output was cut."""

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
NOTHING = ("N/A", "nan")
OLD_ERROR = re.compile(r"0e[+]00|\d(?:\.\d+)?e-0[3-9]")
"""Largest error that versions before the count of wrong values print, as far as rounding goes."""

BUS_FRAC = 0.05
"""Between the bus bandwidth of a row and the one its operation would have: printed to two
decimals; rows below `LEAST_RATE` are too coarse to tell."""

LEAST_RATE = 1.0


@dataclass
class _Run:
    """One run of one program, as its lines come in."""

    where: str
    program: str = ""
    ranks: dict[int, str] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)
    twice: bool = False
    rows: list[tuple[int, int, float, float]] = field(default_factory=list)
    """Line, size [bytes], seconds, bus over algorithm bandwidth (NaN where too small to tell)."""
    closing: set[str] = field(default_factory=set)
    """Of `CLOSING`, those that have come since the last row."""


def read(paths: Sequence[Path], given: Given) -> Found:
    """Collective times of some files.

    Raises
    ------
    BadFile : every fault of all files
    """
    faults: list[str] = []
    timed: dict[tuple[str, str, int, int, int], list[float]] = defaultdict(list)
    for path in paths:
        with told_later(faults):
            for run in _runs(path, faults):
                with told_later(faults):
                    _add(timed, run, given)
    if not timed and not faults:
        faults.append(f"{', '.join(p.name for p in paths)}: no row of nccl-tests output was found")
    if faults:
        raise BadFile(*faults)
    rows = [
        collective_row(chip, operation, (inside, domains), size, seconds)
        for (chip, operation, inside, domains, size), seconds in sorted(timed.items())
    ]
    groups = sorted({(key[0], key[1], key[2] * key[3]) for key in timed})
    summary = "; ".join(f"{chip} {operation} of {ranks}" for chip, operation, ranks in groups)
    errors = {
        chip: message_errors(given.catalog, chip, [r for r in rows if r["accelerator"] == chip])
        for chip in sorted({key[0] for key in timed})
    }
    told = {"groups": summary, "sizes": len(rows), "errors": errors}
    return Found({"collective_times": rows}, summary, told)


def _runs(path: Path, faults: list[str]) -> list[_Run]:
    """The runs in a file, those without a row too: each list of devices begins a new one."""
    runs: list[_Run] = [_Run(path.name)]
    for number, raw in enumerate(read_lines(path), start=1):
        line = TAG.sub("", raw)
        run = runs[-1]
        if line.lstrip().startswith("#") and "Rank" in line:
            if match := RANK.match(line.strip()):
                if run.rows:
                    run = _Run(path.name)
                    runs.append(run)
                run.twice |= int(match[1]) in run.ranks
                run.ranks[int(match[1])] = match[2]
                run.devices.add(match[3])
            continue
        if found := PROGRAM.search(line):
            if run.rows:
                run = _Run(path.name)
                runs.append(run)
            run.program = found[1]
        elif line.lstrip().startswith("#"):
            run.closing |= {end for end in CLOSING if line.lstrip().startswith(end)}
        else:
            _read_row(run, number, line.split(), faults)
    return [run for run in runs if run.rows or run.ranks]


def _read_row(run: _Run, number: int, cells: list[str], faults: list[str]) -> None:
    """A row of the table; lines of other programs in between are passed over."""
    if not all(cell.isdecimal() for cell in cells[:2]) or not (cells and (cells[1:] or run.ranks)):
        return
    where = f"{run.where} line {number}"
    run.closing.clear()
    times = cells[2:]
    while times and not NUMBER.fullmatch(times[0]) or len(times) > 8:
        times = times[1:]
    if len(times) != 8:
        faults.append(f"{where} is cut short or no row of nccl-tests; wanted two timings of four")
        return
    size, seconds, ratios = whole_number(cells[0]), [], []
    if size is None:
        faults.append(
            f"{where}: {cells[0][:40]!r} is no size in bytes; give the output as written"
        )
        return
    for time, algbw, busbw, wrong in (times[:4], times[4:]):
        if time in NOTHING:
            continue
        numbers = [text for text in (time, algbw, busbw) if not NUMBER.fullmatch(text)]
        if numbers:
            faults.append(f"{where}: {numbers[0]!r} is no number")
            return
        if wrong not in (*NOTHING, "0") and not OLD_ERROR.fullmatch(wrong):
            faults.append(f"{where}: {wrong} values came out wrong; mend the run before its times")
            return
        if float(time) <= 0.0:
            faults.append(f"{where}: a time of {time} us; wanted one above zero")
            return
        seconds.append(float(time) * 1e-6)
        coarse = float(algbw) < LEAST_RATE or float(busbw) < LEAST_RATE
        ratios.append(float("nan") if coarse else float(busbw) / float(algbw))
    if size and seconds:
        run.rows.append((number, size, min(seconds), ratios[0]))


def _add(
    timed: dict[tuple[str, str, int, int, int], list[float]], run: _Run, given: Given
) -> None:
    """Check a run as a whole and put its rows with the others.

    Raises
    ------
    BadFile : no end, no devices, an operation that is not known, or rows that are another's
    """
    if lacking := [line for line in CLOSING if line not in run.closing]:
        raise BadFile(
            f"{run.where}: a run ends without {' and '.join(map(repr, lacking))}; it was stopped "
            "or its output was cut: give the whole of it"
        )
    chip = chip_named(given, run.devices, run.where)
    ranks, hosts = len(run.ranks), len(set(run.ranks.values()))
    if ranks < 2:
        raise BadFile(
            f"{run.where} lists {ranks} ranks; wanted the lines '#  Rank ...' of two at least"
        )
    if run.twice:
        raise BadFile(
            f"{run.where} lists a rank twice, as processes do that each run for themselves; build "
            "the tests with MPI"
        )
    operation = _operation(run, given)
    inside = inside_domain(given, chip, ranks, hosts, run.where)
    wanted = _bus_frac(operation, ranks)
    ratios = np.array([row[3] for row in run.rows])
    other = np.abs(ratios / wanted - 1.0) > BUS_FRAC
    if np.any(other):
        number, size = run.rows[int(np.argmax(other))][:2]
        raise BadFile(
            f"{run.where} line {number}: bus over algorithm bandwidth of {size} bytes is "
            f"{ratios[other][0]:.3f}, of {operation} on {ranks} ranks it is {wanted:.3f}; is it "
            "another program, or are ranks missing from the list?"
        )
    for _, size, seconds, _ in run.rows:
        timed[chip, operation, inside, ranks // inside, size].append(seconds)


def _operation(run: _Run, given: Given) -> str:
    if run.program in OPERATION_OF:
        return OPERATION_OF[run.program]
    if given.text("operation"):
        if given.text("operation") not in OPERATION_OF.values():
            raise BadStudy(
                f"operation = {given.text('operation')!r} is none of "
                f"{', '.join(OPERATION_OF.values())}"
            )
        return given.text("operation")
    if run.program:
        raise BadFile(
            f"{run.where}: {run.program}_perf times what no plan does; wanted one of "
            f"{', '.join(f'{name}_perf' for name in OPERATION_OF)}"
        )
    raise BadFile(
        f"{run.where} does not say which collective it timed; give --set operation=all_reduce or "
        "another"
    )


def _bus_frac(operation: str, ranks: int) -> float:
    """Bus over algorithm bandwidth (NVIDIA/nccl-tests, doc/PERFORMANCE.md, summary)."""
    if operation == "send":
        return 1.0
    return (2.0 if operation == "all_reduce" else 1.0) * (ranks - 1) / ranks
