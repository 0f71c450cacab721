"""Mixed studies: every block size and reserve on one cluster, and on two clusters apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.costing.second_pass import Costed, front_of, limits_on
from planner.mixed.troughs import (
    HOURS_PER_DAY,
    lost_device_hours,
    rest_device_hours,
    sine_need,
    split,
    stops,
    unified,
)
from planner.search.sweep import BillResult
from planner.space.plan_keys import plan_name
from planner.study.mixed import NONE, Wave
from planner.study.read import Study
from simkernel.columns import Floats
from simkernel.errors import BadStudy

ARRANGEMENTS = MappingProxyType({"unified": unified, "split": split})


@dataclass(frozen=True)
class MixedSpace:
    """Arrangements of a day: on one cluster or two, by block size and reserve."""

    options: tuple[tuple[str, int, float], ...]

    @property
    def enumerated(self) -> int:
        """How many."""
        return len(self.options)

    @property
    def bill_codes(self) -> range:
        """All are one bill: the devices are the same."""
        return range(1)


@dataclass(frozen=True)
class MixedEngine:
    """A mixed study made ready."""

    study: Study
    catalog: Catalog
    space: MixedSpace
    missing: Mapping[str, str]


def prepare(study: Study, catalog: Catalog | None = None) -> MixedEngine:
    """The engine of a mixed study.

    Raises
    ------
    BadStudy : a study without the table [mixed]
    """
    if study.mixed is NONE:
        raise BadStudy("a mixed study has no [mixed]; wanted devices, serving and block_devices")
    mixed = study.mixed
    options = tuple(
        (name, block, reserve)
        for name in ARRANGEMENTS
        for block in mixed.block_devices
        for reserve in mixed.reserve_frac
    )
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    return MixedEngine(study, catalog, MixedSpace(options), MappingProxyType({}))


def need_of(study: Study) -> Floats:
    """Devices that serving needs in each hour of a day; (h,)."""
    serving = study.mixed.serving
    return (
        sine_need(serving.mean, serving.swing) if isinstance(serving, Wave) else np.array(serving)
    )


def sweep(
    engine: MixedEngine,
    workers: object,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """All arrangements at once."""
    if 0 in done or is_stopped():
        return
    started = time.process_time()
    rows = [_row(engine.study, key, *option) for key, option in enumerate(engine.space.options)]
    result = BillResult(0, evaluated=len(rows))
    result.front = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    result.seconds = time.process_time() - started
    yield result


def _row(study: Study, key: int, name: str, block: int, reserve: float) -> dict[str, Any]:
    """One arrangement over a day."""
    mixed, need = study.mixed, need_of(study)
    day = ARRANGEMENTS[name](mixed.devices, need, mixed.node_devices, block, reserve)
    hours = HOURS_PER_DAY / len(need)
    trained, rest = day.training.sum() * hours, rest_device_hours(
        mixed.devices, need, mixed.node_devices)  # fmt: skip
    stopped = stops(day.training, block)
    lost = lost_device_hours(stopped, block, mixed.stop_hours)
    held = day.serving + day.reserve + day.training
    return {
        "key": key,
        "plan": plan_name(key),
        "arrangement": name,
        "accelerator": "any",
        "devices": mixed.devices,
        "block_devices": block,
        "reserve_frac": reserve,
        "stop_hours": mixed.stop_hours,
        "train_device_hours_per_day": trained,
        "useful_device_hours_per_day": max(trained - lost, 0.0),
        "rest_device_hours_per_day": rest,
        "trained_frac": trained / rest if rest else np.nan,
        "lost_device_hours_per_day": lost,
        "stops_per_day": stopped,
        "serve_device_hours_per_day": day.serving.sum() * hours,
        "reserve_device_hours_per_day": day.reserve.sum() * hours,
        "idle_device_hours_per_day": (mixed.devices - held).sum() * hours,
        "least_training_devices": day.training.min(),
        "most_training_devices": day.training.max(),
        "unverified_facts": 0,
    }


def cost(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Costed:
    """Arrangements with the front among them; devices are the same, so money decides nothing."""
    columns = {name: np.asarray(column) for name, column in plans.items()}
    columns["site"] = np.full(len(columns["plan"]), study.costing.site[0], dtype=object)
    limits = limits_on(study, columns)
    allowed = np.ones(len(columns["plan"]), dtype=bool)
    for limit in limits.values():
        allowed &= limit.excess <= 0
    rejected = {name: int((limit.excess > 0).sum()) for name, limit in limits.items()}
    front = front_of(study, columns, allowed)
    return Costed(columns, {}, front, limits, rejected, {}, ())


def refuse(study: Study) -> None:
    """A mixed study has no prices to change."""
    raise BadStudy("a mixed study compares arrangements of the same devices; it has no prices")


def notes(study: Study, catalog: Catalog) -> dict[str, str]:
    """What a reader of the front has to know."""
    mixed, need = study.mixed, need_of(study)
    return {
        "basis": "serving first, sampled at whole hours and rounded up to whole nodes of "
        f"{mixed.node_devices}; training in whole blocks of what is left; a block that stops "
        f"loses {mixed.stop_hours:g} h of its work; reserve_frac of serving's need is kept free "
        "for a rise within the hour; split: serving keeps what its busiest hour needs",
        "traffic": f"serving needs {need.min():,.0f} to {need.max():,.0f} devices, "
        f"{need.mean():,.0f} in the mean",
    }
