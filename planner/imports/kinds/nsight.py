"""Exports of Nsight Systems (nsys export --type sqlite): how the time of a device splits.

They name kernels and not the shapes they worked on, so nothing is kept: the split is told. Tables
are those of the exporter (CUPTI_ACTIVITY_KIND_KERNEL, StringIds); a database is opened to be read
alone, and nothing that a schema defines is trusted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from planner.imports.device_time import time_split
from planner.imports.found import Found, Given, told_later
from planner.imports.kernel_kinds import KINDS, kind_of
from simkernel.errors import BadFile

SETTINGS: dict[str, str] = {}

KERNELS = (
    "select k.start, k.end, k.deviceId, s.value from CUPTI_ACTIVITY_KIND_KERNEL k "
    "left join StringIds s on s.id = k.shortName order by k.start"
)
MOST_KERNELS = 20_000_000
"""Of one file; own choice: memory of a gigabyte."""


def read(paths: Sequence[Path], given: Given) -> Found:
    """The split of every device in some exports.

    Raises
    ------
    BadFile : every fault of all files
    """
    faults: list[str] = []
    told: list[dict[str, Any]] = []
    for path in paths:
        with told_later(faults):
            told += _split(path)
    if faults:
        raise BadFile(*faults)
    return Found({}, f"{len(told)} devices in {len(paths)} exports", {"devices": told})


def _split(path: Path) -> list[dict[str, Any]]:
    rows = _rows(path)
    if not rows:
        raise BadFile(f"{path.name} has no kernels; record it with --trace=cuda")
    starts, ends, devices, names = zip(*rows, strict=True)
    if not all(isinstance(x, int) for column in (starts, ends, devices) for x in column):
        raise BadFile(f"{path.name} has kernels without a time or a device; export it again")
    begin, end = np.array(starts, dtype=float), np.array(ends, dtype=float)
    if np.any(end < begin):
        raise BadFile(
            f"{path.name}: {int(np.sum(end < begin)):,} kernels end before they begin; record it "
            "again"
        )
    known = {name: KINDS.index(kind_of(str(name), "")) for name in set(names)}
    kinds = np.array([known[name] for name in names])
    found = []
    for device in sorted(set(devices)):
        here = np.array(devices) == device
        split = time_split(begin[here] * 1e-9, (end - begin)[here] * 1e-9, kinds[here], _NONE)
        split = {name: value for name, value in split.items() if name != "step_s"}
        found.append({"file": path.name, "device": device, "kernels": int(here.sum()), **split})
    return found


_NONE = np.empty(0)


def _rows(path: Path) -> list[tuple[Any, ...]]:
    if not path.is_file():
        raise BadFile(f"{path.name} cannot be read; name a file")
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("pragma trusted_schema = off")
            kinds = dict(database.execute("select name, type from sqlite_master").fetchall())
            for name in ("CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"):
                if kinds.get(name) != "table":
                    raise BadFile(
                        f"{path.name} has no table {name}; export it (nsys export --type sqlite)"
                    )
            rows = database.execute(KERNELS).fetchmany(MOST_KERNELS + 1)
    except sqlite3.Error as error:
        raise BadFile(
            f"{path.name} is no export of Nsight Systems ({error}); export it (nsys export --type "
            "sqlite)"
        ) from error
    if len(rows) > MOST_KERNELS:
        raise BadFile(f"{path.name} has more than {MOST_KERNELS:,} kernels; record fewer steps")
    return rows
