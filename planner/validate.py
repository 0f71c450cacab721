"""Predicted against published: each training measurement through the same physics as a study.

Speeds are compared as tokens per second, whatever the row states (step time, TFLOP/s, MFU),
memory as bytes of the fullest device. Which profile a run had is read from its row; the figures
of the profile are the shipped ones unless a protocol refits them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np

from costdata.catalog import Catalog
from costdata.profiles import VENDOR
from planner.truth_models import model_of_row
from planner.truth_plans import (
    SELECTIVE,
    SELECTIVE_MEMORY_FRAC,
    Decisions,
    plans_of_row,
)
from planner.truth_rows import TruthRow
from planner.truth_stacks import release_year, stack_kind
from planner.truth_units import implied_tokens_per_s, is_speed, memory_terms
from simkernel.candidates import TrainingPlans, plan_of
from simkernel.columns import Codes, Floats
from simkernel.errors import MissingFact, PlanError
from simkernel.hardware import Chips
from simkernel.memory import Reserve
from simkernel.models import Model
from simkernel.stack import Stack
from simkernel.train import Step, training_step
from simkernel.workload import TrainingJob

GIB = 2.0**30


@dataclass(frozen=True)
class Case:
    """A row made ready: model, chip, stack and plans in order of preference.

    `kind` names the profile; `release` is the vendor's, in years after 2000, 0 where none is.
    """

    row: TruthRow
    model: Model
    accelerator: str
    architecture: str
    kind: str
    release: float
    stack: Stack
    plans: Sequence[Decisions]

    @property
    def job(self) -> TrainingJob:
        """The run, as far as one step depends on it."""
        return TrainingJob(
            tokens=1.0,
            tokens_per_sequence=self.row.count("seq_len") or 1,
            max_global_batch_tokens=np.inf,
            has_draft_layers=self.row.text("mtp") == "1",
            stack=self.stack,
        )


@dataclass(frozen=True)
class Prediction:
    """One row with its predicted value; `metric` "throughput" [tokens/s] or "memory_bytes".

    `plan` is what was predicted, stated settings and those the rule filled; `terms_s` the step.
    """

    case: Case
    metric: str
    measured: float
    predicted: float
    is_infeasible: bool
    plan: Decisions
    terms_s: Mapping[str, float]

    @property
    def row(self) -> TruthRow:
        """The measurement."""
        return self.case.row

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


P = TypeVar("P")


@dataclass(frozen=True)
class Validation(Generic[P]):
    """All rows that were looked at: predicted, or not and why."""

    predictions: tuple[P, ...]
    unsupported: tuple[tuple[str, str], ...] = field(default=())


def joined(first: Validation[Any], second: Validation[Any]) -> Validation[Any]:
    """Both, one after the other."""
    return Validation(
        first.predictions + second.predictions, first.unsupported + second.unsupported
    )


@dataclass(frozen=True)
class Block:
    """Speeds that one call prices: same model, job, chip, kind of stack and release.

    `rows` (n,) are their places among all speeds, `tokens` (n,) of one step.
    """

    kind: str
    release: float
    accelerator: str
    architecture: str
    job: TrainingJob
    model: Model
    plans: TrainingPlans
    chips: Chips
    rows: Codes
    tokens: Floats

    def repeated(self, times: int) -> Block:
        """The same rows several times over, one whole block after another."""
        again = np.tile(np.arange(len(self.rows)), times)
        return replace(
            self,
            plans=self.plans.take(again),
            chips=self.chips.take(again),
            tokens=self.tokens[again],
        )


NO_RESERVE = Reserve(0.0, 0.0)


def speeds(block: Block, stack: Stack) -> Floats:
    """Tokens per second of every row of a block on a stack; (n,)."""
    job = replace(block.job, stack=stack)
    step = training_step(job, block.model, block.chips, block.plans, NO_RESERVE)
    return block.tokens / np.asarray(step.time.total)


def validate(rows: Iterable[TruthRow], catalog: Catalog) -> Validation[Prediction]:
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


def blocks_of(predictions: Sequence[Prediction], catalog: Catalog) -> tuple[Block, ...]:
    """Predicted speeds in blocks, each row with the plan that was predicted."""
    groups: dict[Any, list[int]] = {}
    for i, prediction in enumerate(predictions):
        case = prediction.case
        key = (case.model, replace(case.job, stack=Stack()), case.accelerator)
        groups.setdefault((*key, case.kind, case.release), []).append(i)
    return tuple(
        _block([predictions[i] for i in g], np.array(g), catalog) for g in groups.values()
    )


def _block(members: Sequence[Prediction], rows: Codes, catalog: Catalog) -> Block:
    first = members[0].case
    plans = _joined([p.plan for p in members])
    return Block(
        kind=first.kind,
        release=first.release,
        accelerator=first.accelerator,
        architecture=first.architecture,
        job=first.job,
        model=first.model,
        plans=plans,
        chips=_chips([p.case for p in members], catalog),
        rows=rows,
        tokens=plans.global_batch_sequences * float(first.job.tokens_per_sequence),
    )


def _case(row: TruthRow, catalog: Catalog) -> Case:
    """A row's model, chip and plans; raises PlanError with what is missing."""
    name = catalog.accelerator_name(row.text("accelerator"))
    if not (is_speed(row) or memory_terms(row)):
        raise MissingFact(f"metric {row.text('metric')} is not one that is predicted")
    is_unsharded = row.text("sp") == "0" and (row.count("tp") or 1) > 1
    if memory_terms(row) and is_unsharded and "activation" in row.text("metric"):
        raise MissingFact("tensor parallelism without sequence parallelism is not modelled")
    model, facts = model_of_row(row), catalog.accelerator(name)
    kind = stack_kind(row, facts.architecture)
    release = release_year(row) if kind == VENDOR else None
    return Case(
        row=row,
        model=model,
        accelerator=name,
        architecture=facts.architecture,
        kind=kind,
        release=release or 0.0,
        stack=catalog.stack(kind, name, release_year=release),
        plans=plans_of_row(row, model, facts.domain_options),
    )


def _alike(cases: Mapping[int, Case]) -> dict[Any, list[int]]:
    """Cases that one call can price: same model and job."""
    groups: dict[Any, list[int]] = {}
    for i, case in cases.items():
        groups.setdefault((case.model, case.job), []).append(i)
    return groups


def _predicted(cases: Mapping[int, Case], catalog: Catalog) -> dict[int, Prediction]:
    """All plans of all cases in one block; of each case the first plan that fits, else the last.

    A case without a plan that fits is still predicted, and told to be infeasible. A stated
    selective recompute is taken at its word up to SELECTIVE_MEMORY_FRAC of the memory.
    """
    first = next(iter(cases.values()))
    owners = np.array([i for i, case in cases.items() for _ in case.plans])
    plans = _joined([plan for case in cases.values() for plan in case.plans])
    chips = _chips([cases[i] for i in owners], catalog)
    reserve = Reserve(catalog.planning("framework_bytes"), catalog.planning("fragmentation_frac"))
    with np.errstate(invalid="ignore"):  # NaN of a precision the chip lacks: told as unsupported
        step = training_step(first.job, first.model, chips, plans, reserve)
    resident_bytes = np.asarray(step.resident.total)
    fits = resident_bytes <= chips.memory_bytes
    out = {}
    for i, case in cases.items():
        mine = np.flatnonzero(owners == i)
        most = SELECTIVE_MEMORY_FRAC if case.row.text("recompute") == SELECTIVE else 1.0
        fitting = mine[resident_bytes[mine] <= most * chips.memory_bytes[mine]]
        at = int(fitting[0] if len(fitting) else mine[-1])
        plan = case.plans[at - int(mine[0])]
        out[i] = _prediction(case, chips, step, at, plan, is_infeasible=not fits[at])
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
    return Prediction(case, metric, measured, predicted, is_infeasible, plan, terms_s)


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
