"""Power logs of nvidia-smi (--query-gpu=…,power.draw,… --format=csv): watts of devices over time.

Told are mean, median, 95th percentile and highest of every device. Kept are the idle watts, where
a log holds them: samples at no utilisation, below a gibibyte of memory in use (no context) or
above it (a context is open). A missing reading is left out, never counted as zero.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from costdata.facts import as_cells
from planner.imports.chip_named import chip_named
from planner.imports.found import Found, Given, told_later
from planner.imports.numbers import limits
from planner.imports.text_files import read_text
from simkernel.errors import BadFile

SETTINGS = {"accelerator": "chip, where the log does not name it or by another name"}

POWER, BUSY, MEMORY = "power.draw", "utilization.gpu", "memory.used"
DEVICE = ("index", "uuid", "pci.bus_id", "gpu_uuid", "gpu_bus_id")
READING = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\s*(?:W|%|MiB))?")
NO_READING = ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "")
CONTEXT_MIB = 1024.0
"""Memory in use from which a context counts as open; own choice: a driver alone takes less."""

LEAST_SAMPLES = 10
MOST_FAULTS = 20
"""Of lines that are told one by one."""

MOST_W = limits("accelerators", "tdp_w")[1]
"""Of one device, as our table holds it; more is milliwatts, or a sum."""

Sample = tuple[str, float, float | None, float | None]
"""Device, watts, utilisation [%] and memory in use [MiB]."""


def read(paths: Sequence[Path], given: Given) -> Found:
    """Watts of some logs of one kind of chip.

    Raises
    ------
    BadFile : every fault of all files
    """
    faults: list[str] = []
    samples: list[Sample] = []
    names: set[str] = set()
    missing = 0
    for path in paths:
        with told_later(faults):
            header, rows = as_cells(path.name, read_text(path))
            columns = {column.split(" [")[0]: column for column in header}
            if POWER not in columns:
                raise BadFile(
                    f"{path.name} has no column {POWER}; log it with --query-gpu=timestamp,name,"
                    "index,power.draw,utilization.gpu,memory.used --format=csv -l 1"
                )
            names |= {row[columns["name"]] for row in rows if "name" in columns}
            for line, row in enumerate(rows, start=2):
                with told_later(faults):
                    found = _sample(row, columns, f"{path.name} line {line}")
                    missing += found is None
                    samples += [found] if found else []
    if not faults and len(samples) < LEAST_SAMPLES:
        faults.append(
            f"{', '.join(path.name for path in paths)}: {len(samples)} readings of watts; wanted "
            f"{LEAST_SAMPLES} at least: log for longer"
        )
    if faults:
        more = [f"and {len(faults) - MOST_FAULTS:,} more"] if len(faults) > MOST_FAULTS else []
        raise BadFile(*faults[:MOST_FAULTS], *more)
    chip = chip_named(given, names - {""}, ", ".join(path.name for path in paths))
    kept, idle = _idle_row(chip, samples, given)
    notes = [f"{missing} lines without a reading are left out"] if missing else []
    told = {"devices": _by_device(samples), "idle": idle}
    tables = {"power_curves": [kept]} if kept else {}
    return Found(tables, f"{chip}: {len(samples)} readings of watts", told, notes)


def _sample(row: Mapping[str, str], columns: Mapping[str, str], where: str) -> Sample | None:
    """One line; None where the device gave no reading.

    Raises
    ------
    BadFile : watts that cannot be
    """
    watts = _reading(row[columns[POWER]], f"{where}, {POWER}")
    if watts is None:
        return None
    if watts > MOST_W:
        raise BadFile(
            f"{where}: {watts:g} W of one device, wanted at most {MOST_W:g}; milliwatts, or a sum?"
        )
    device = next((row[columns[name]] for name in DEVICE if name in columns), "0")
    busy, memory = (
        _reading(row[columns[name]], f"{where}, {name}") if name in columns else None
        for name in (BUSY, MEMORY)
    )
    return device, watts, busy, memory


def _reading(text: str, where: str) -> float | None:
    if text in NO_READING:
        return None
    match = READING.fullmatch(text)
    if not match:
        raise BadFile(f"{where}: {text[:40]!r} is no reading; wanted a number, as 640 or 640 W")
    return float(match[1])


def _by_device(samples: Sequence[Sample]) -> list[dict[str, object]]:
    watts: dict[str, list[float]] = defaultdict(list)
    for device, value, *_ in samples:
        watts[device].append(value)
    return [
        {
            "device": device,
            "samples": len(values),
            "mean_w": float(np.mean(values)),
            "median_w": float(np.median(values)),
            "p95_w": float(np.quantile(values, 0.95)),
            "most_w": float(np.max(values)),
        }
        for device, values in sorted(watts.items())
    ]


def _idle_row(
    chip: str, samples: Sequence[Sample], given: Given
) -> tuple[dict[str, str], dict[str, float]]:
    """Our row of the chip with the idle watts of the log in it; {} where it holds none."""
    still = [(watts, memory) for _, watts, busy, memory in samples if busy == 0.0]
    bare = [watts for watts, memory in still if memory is not None and memory < CONTEXT_MIB]
    held = [watts for watts, memory in still if memory is not None and memory >= CONTEXT_MIB]
    found = {
        name: float(np.median(values))
        for name, values in (("idle_w", bare), ("context_w", held))
        if len(values) >= LEAST_SAMPLES
    }
    ours = given.catalog.tables["power_curves"].get((chip,))
    if not found or ours is None:
        return {}, found
    both = {name: ours.need(name) for name in ("idle_w", "context_w")} | found
    if both["idle_w"] > both["context_w"]:
        raise BadFile(
            f"{chip}: {both['idle_w']:g} W idle, but {both['context_w']:g} W with a context open; "
            "log both on one machine"
        )
    own = {name: f"{value:.4g}" for name, value in found.items()}
    books = ("source", "as_of", "grade", "licence", "note", "unverified", "source_locator")
    cells = {name: text for name, text in ours.cells.items() if name not in books}
    told = {
        "grade": ours.text("grade"),
        "note": f"{', '.join(own)}: this log; the others as before ({ours.text('source')})",
    }
    return {**cells, **own, **told}, found
