"""A serving study made ready to evaluate: model, load, chips, engine and space, looked up once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from costdata.configs import read_model
from costdata.engines import ANY_ENGINE
from planner.axes import AFTER_PREFILL, ALL, ROOFLINE
from planner.costing.null_objectives import refuse_compared
from planner.runs.prepared import Prepared
from planner.serving.load import ServeLoad, serve_load
from planner.serving.metrics import is_computed
from planner.serving.operations import operations_faults, operations_notes
from planner.serving.rules import serve_bill_rules, serve_rules
from planner.serving.speculation import Drafting, draftings, with_drafters
from planner.space.blocks import make_space
from planner.space.rules import model_counts
from planner.study.read import Study
from planner.training.engine import (
    chassis_notes,
    sizes_of_chips,
    with_accelerators,
    with_what_if_sizes,
)
from simkernel.errors import BadStudy, MissingFact, unknown
from simkernel.serving_engine import Engine, EngineCurves

LOCKSTEP = (
    "copies of attention that share experts step together: every step is as long as that of the "
    "fullest copy; held to the replay, not to measured runs: validated is 0"
)

PERIOD_DAYS = 365.0
"""What sums of a serving study are over: a year of service."""


@dataclass(frozen=True)
class ServeEngine(Prepared):
    """What every candidate of a serving study shares; `load` as read."""

    load: ServeLoad

    def host(self, name: str) -> Engine:
        """What the serving engine adds to the kernels of one chip."""
        return self._hosts[name]

    def curves(self, name: str) -> EngineCurves:
        """What the engine's own kernels reach on one chip; one row."""
        return self._curves[name]

    def measured(self, name: str) -> bool:
        """The engine's products were timed on this very chip."""
        return (self.study.serving.engine, name) in self._timed

    @cached_property
    def draftings(self) -> tuple[Drafting, ...]:
        """What each level of the axis `speculative` means."""
        levels = self.space.levels["speculative"]
        return draftings(levels, self.study.serving, self.catalog)

    @cached_property
    def _timed(self) -> frozenset[tuple[str, ...]]:
        return frozenset(key[:2] for key in self.catalog.tables["engine_curves"])

    @cached_property
    def _hosts(self) -> dict[str, Engine]:
        engine = self.study.serving.engine
        return {
            name: self.catalog.engine(engine, self.catalog.accelerator(name).architecture)
            for name in self.space.chips
        }

    @cached_property
    def _curves(self) -> dict[str, EngineCurves]:
        engine = self.study.serving.engine
        return {name: self.catalog.engine_curves(engine, [name]) for name in self.space.chips}


def prepare(study: Study, catalog: Catalog | None = None) -> ServeEngine:
    """The engine of a serving study.

    Raises
    ------
    BadStudy : a metric, a pin or a pool of its own that this version does not compute
    UnknownName : no such serving engine
    MissingFact : no chip of the study can be evaluated
    """
    refuse_unknown_metrics(study)
    _refuse_what_is_not_served(study)
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    _check_engine(study, catalog)
    model = read_model(study.serving.model)
    model = with_drafters(model, study.axes["speculative"], study.serving)
    named = study.axes["accelerator"]
    names = catalog.accelerators if named == (ALL,) else tuple(str(n) for n in named)
    sizes, missing = sizes_of_chips(catalog, names)
    sizes = with_what_if_sizes(study, sizes)
    if not sizes:
        raise MissingFact(*(f"{name}: {why}" for name, why in missing.items()))
    chosen = with_accelerators(study, tuple(sizes))
    counts = model_counts(model)
    return ServeEngine(
        study=study,
        catalog=catalog,
        model=model,
        load=serve_load(study),
        space=make_space(chosen, counts, sizes, serve_rules(), serve_bill_rules()),
        missing=MappingProxyType(missing),
    )


def refuse_unknown_metrics(study: Study) -> None:
    """Every limit and objective that this version does not compute, or no plan has, in one error.

    Raises
    ------
    BadStudy : there is one
    """
    refuse_compared(study, is_computed, "for serving in this version")


def serving_notes(study: Study, catalog: Catalog) -> dict[str, str]:
    """What a reader of the front has to know that no figure shows."""
    copies = study.axes["attention_data_parallel"]
    notes = {"lockstep": LOCKSTEP} if any(int(n) > 1 for n in copies) else {}
    return {
        **notes,
        **chassis_notes(study),
        "period": (
            "usd, kgco2e, facility_mwh and water_l, and limits on them, are of one year of "
            "service at the mean load of the stream; a million tokens are of that year; capital "
            "is spread over the life of the hardware"
        ),
        "latencies": (
            "of the busiest window, in closed form: bands are wide; replay a plan for its tails"
        ),
        **operations_notes(study),
        **serve_load(study).words(),
    }


def _check_engine(study: Study, catalog: Catalog) -> None:
    known = sorted({key[0] for key in catalog.tables["engines"]} - {ANY_ENGINE})
    if study.serving.engine not in known:
        raise unknown("serving engine", study.serving.engine, known)


def _refuse_what_is_not_served(study: Study) -> None:
    """What can be written in a serving study and has no effect yet."""
    faults = [
        f"axes.{name}: pools of their own for prefill and decode are not evaluated here; remove it"
        for name in study.axes
        if "." in name
    ]
    if study.axes.get("kv_transfer", (AFTER_PREFILL,)) != (AFTER_PREFILL,):
        faults.append(
            "axes.kv_transfer has no effect where one pool does both; give axes to a pool, e.g. "
            "prefill.tensor_parallel = 4, or remove it"
        )
    faults += [
        f"pin.{name} has no effect on serving in this version; remove it" for name in study.pin
    ]
    faults += operations_faults(study)
    if study.axes["compute"] != (ROOFLINE,):
        faults.append(
            "axes.compute: serving takes the curves of its engine in this version; remove it, or "
            'write "roofline"'
        )
    if faults:
        raise BadStudy(*faults)
