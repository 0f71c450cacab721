"""Predicted against published: each training measurement through the same physics as a study.

Nothing is fitted: the profiles are the shipped ones. Speeds are compared as tokens per second,
whatever the row states (step time, TFLOP/s, MFU), memory as bytes of the fullest device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.engine import host_floors
from planner.truth_models import model_of_row
from planner.truth_plans import Decisions, plans_of_row
from planner.truth_rows import TruthRow
from planner.truth_units import implied_tokens_per_s, is_speed, memory_terms
from simkernel.candidates import TrainingPlans, plan_of
from simkernel.columns import Codes, Floats
from simkernel.errors import MissingFact, PlanError
from simkernel.hardware import Chips
from simkernel.memory import Reserve
from simkernel.models import Model
from simkernel.train import Step, training_step
from simkernel.workload import TrainingJob

GIB = 2.0**30
UNFUSED = "2020-22 unfused attention"
LAST_UNFUSED_YEAR = 2022
"""Year of FlashAttention (arXiv 2205.14135); stacks of published runs took it up after it."""
YEAR = re.compile(r"\b20[12]\d\b")


@dataclass(frozen=True)
class Case:
    """A row made ready: model, chip and plans in order of preference."""

    row: TruthRow
    model: Model
    accelerator: str
    plans: Sequence[Decisions]
    host_floors: Mapping[str, float]

    @property
    def job(self) -> TrainingJob:
        """The run, as far as one step depends on it."""
        return TrainingJob(
            tokens=1.0,
            tokens_per_sequence=self.row.count("seq_len") or 1,
            max_global_batch_tokens=np.inf,
            is_attention_fused=is_attention_fused(self.row),
            has_draft_layers=self.row.text("mtp") == "1",
            **self.host_floors,
        )


@dataclass(frozen=True)
class Prediction:
    """One row with its predicted value; `metric` "throughput" [tokens/s] or "memory_bytes".

    `plan` is what was predicted, stated settings and those the rule filled; `terms_s` the step.
    """

    row: TruthRow
    metric: str
    measured: float
    predicted: float
    is_infeasible: bool
    plan: Decisions
    terms_s: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


@dataclass(frozen=True)
class Validation:
    """All rows that were looked at: predicted, or not and why."""

    predictions: tuple[Prediction, ...]
    unsupported: tuple[tuple[str, str], ...] = field(default=())


def validate(rows: Iterable[TruthRow], catalog: Catalog) -> Validation:
    """Predict every row that can be predicted.

    Parameters
    ----------
    rows : training measurements
    catalog : facts of the chips

    Returns
    -------
    Predictions in the order of the rows, and the case of every other row with the reason
    """
    unsupported: list[tuple[str, str]] = []
    cases: dict[int, Case] = {}
    for i, row in enumerate(rows):
        try:
            cases[i] = _case(row, catalog)
        except PlanError as error:
            unsupported.append((row.case_id, " ".join(error.faults)))
    found: dict[int, Prediction] = {}
    for members in _alike(cases).values():
        found |= _predicted({i: cases[i] for i in members}, catalog)
    for i in sorted(found):
        if not np.isfinite(found[i].predicted):
            why = "no finite prediction: a fact of the chip or its precision is missing"
            unsupported.append((found.pop(i).row.case_id, why))
    return Validation(tuple(found[i] for i in sorted(found)), tuple(unsupported))


def is_attention_fused(row: TruthRow) -> bool:
    """Whether the run had flash-type attention: `stack`, else by the year its source names."""
    if row.text("stack"):
        return not row.text("stack").startswith(UNFUSED)
    years = [int(year) for year in YEAR.findall(row.text("source"))]
    return not years or max(years) > LAST_UNFUSED_YEAR


def _case(row: TruthRow, catalog: Catalog) -> Case:
    """A row's model, chip and plans; raises PlanError with what is missing."""
    name = catalog.accelerator_name(row.text("accelerator"))
    if not (is_speed(row) or memory_terms(row)):
        raise MissingFact(f"metric {row.text('metric')} is not one that is predicted")
    is_unsharded = row.text("sp") == "0" and (row.count("tp") or 1) > 1
    if memory_terms(row) and is_unsharded and "activation" in row.text("metric"):
        raise MissingFact("tensor parallelism without sequence parallelism is not modelled")
    model = model_of_row(row)
    plans = plans_of_row(row, model, catalog.accelerator(name).domain_options)
    floors = host_floors(catalog, is_fused=is_attention_fused(row))
    return Case(row, model, name, plans, floors)


def _alike(cases: Mapping[int, Case]) -> dict[Any, list[int]]:
    """Cases that one call can price: same model and job."""
    groups: dict[Any, list[int]] = {}
    for i, case in cases.items():
        groups.setdefault((case.model, case.job), []).append(i)
    return groups


def _predicted(cases: Mapping[int, Case], catalog: Catalog) -> dict[int, Prediction]:
    """All plans of all cases in one block; of each case the first plan that fits, else the last.

    A case without a plan that fits is still predicted, and told to be infeasible.
    """
    first = next(iter(cases.values()))
    owners = np.array([i for i, case in cases.items() for _ in case.plans])
    plans = _joined([plan for case in cases.values() for plan in case.plans])
    chips = _chips([cases[i] for i in owners], catalog)
    reserve = Reserve(catalog.planning("framework_bytes"), catalog.planning("fragmentation_frac"))
    with np.errstate(invalid="ignore"):  # NaN of a precision the chip lacks: told as unsupported
        step = training_step(first.job, first.model, chips, plans, reserve)
    fits = np.asarray(step.resident.total) <= chips.memory_bytes
    out = {}
    for i, case in cases.items():
        mine = np.flatnonzero(owners == i)
        fitting = mine[fits[mine]]
        at = int(fitting[0] if len(fitting) else mine[-1])
        plan = case.plans[at - int(mine[0])]
        out[i] = _prediction(case, chips, step, at, plan, is_infeasible=not len(fitting))
    return out


def _prediction(
    case: Case, chips: Chips, step: Step, at: int, plan: Decisions, *, is_infeasible: bool
) -> Prediction:
    """Measured and predicted in the same unit."""
    row = case.row
    terms_s = {name: float(np.asarray(v)[at]) for name, v in step.time.terms.items()}
    names = memory_terms(row)
    if names:
        metric, measured = "memory_bytes", row.value * GIB
        predicted = sum(float(np.asarray(step.resident.terms[n])[at]) for n in names)
    else:
        peak = float(chips.peak_flop_per_s[at, int(plan["precision_code"])])
        metric, measured = "throughput", implied_tokens_per_s(row, case.model, peak)
        tokens = plan["global_batch_sequences"] * (row.count("seq_len") or 1)
        predicted = tokens / float(np.asarray(step.time.total)[at])
    return Prediction(row, metric, measured, predicted, is_infeasible, plan, terms_s)


def _joined(decisions: Sequence[Decisions]) -> TrainingPlans:
    """Plans as one table."""
    tables = [plan_of(**each) for each in decisions]
    names = [f.name for f in fields(TrainingPlans)]
    return TrainingPlans(**{n: np.concatenate([getattr(t, n) for t in tables]) for n in names})


def _chips(cases: Sequence[Case], catalog: Catalog) -> Chips:
    """One row per plan, with the network rate the row states in place of the catalogue's."""
    names = sorted({case.accelerator for case in cases})
    at: Codes = np.array([names.index(case.accelerator) for case in cases])
    chips = catalog.chips(names).take(at)
    stated: Floats = np.array(
        [case.row.number("scaleout_gbytes_per_s") or np.nan for case in cases]
    )
    rate = np.where(np.isnan(stated), chips.scaleout_bytes_per_s, stated * 1e9)
    return replace(chips, scaleout_bytes_per_s=rate)
