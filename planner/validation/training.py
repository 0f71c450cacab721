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
from planner.bands import bands, regime_of_model
from planner.validation.models import model_of_row
from planner.validation.plans import Decisions, is_as_stated, plans_of_row
from planner.validation.rows import TruthRow
from planner.validation.stacks import (
    is_one_graph,
    overlaps_data,
    overlaps_tensor,
    release_year,
    routes_freely,
    stack_kind,
)
from planner.validation.units import implied_tokens_per_s, is_run, is_speed, memory_terms
from simkernel.candidates import TrainingPlans, plan_of
from simkernel.columns import Codes, Floats
from simkernel.errors import MissingFact, PlanError
from simkernel.hardware import Chips
from simkernel.keeping import Keeping
from simkernel.memory import Reserve
from simkernel.models import Model
from simkernel.stack import Stack
from simkernel.train import Step, training_step
from simkernel.workload import TrainingJob

GIB = 2.0**30


@dataclass(frozen=True)
class Case:
    """A row made ready: model, chip, stack and plans in order of preference.

    `kind` names the profile; `release` is the vendor's, in years after 2000, 0 where none is;
    `imbalance` is the load of the busiest expert rank over evenly random routing's.
    """

    row: TruthRow
    model: Model
    accelerator: str
    architecture: str
    kind: str
    release: float
    stack: Stack
    keeping: Keeping
    imbalance: float
    plans: Sequence[Decisions]

    @property
    def overlaps(self) -> tuple[bool, bool, bool]:
        """Whether data and tensor traffic run beside products, and a step is one graph."""
        return self.stack.overlaps_data, self.stack.overlaps_tensor, self.stack.is_one_graph

    @property
    def regime(self) -> str:
        """Whose error of speed the model has."""
        return regime_of_model(self.model)

    @property
    def job(self) -> TrainingJob:
        """The run, as far as one step depends on it."""
        return TrainingJob(
            tokens=1.0,
            tokens_per_sequence=self.row.count("seq_len") or 1,
            max_global_batch_tokens=np.inf,
            has_draft_layers=self.row.number("mtp") == 1,
            expert_imbalance=self.imbalance,
            stack=self.stack,
            keeping=self.keeping,
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

    `overlaps` are those of the case, `rows` (n,) their places among all speeds, `tokens` (n,) of
    one step.
    """

    kind: str
    release: float
    overlaps: tuple[bool, bool, bool]
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
        groups.setdefault((*key, case.kind, case.release, case.overlaps), []).append(i)
    return tuple(
        _block([predictions[i] for i in g], np.array(g), catalog) for g in groups.values()
    )


def _block(members: Sequence[Prediction], rows: Codes, catalog: Catalog) -> Block:
    first = members[0].case
    plans = _joined([p.plan for p in members])
    return Block(
        kind=first.kind,
        release=first.release,
        overlaps=first.overlaps,
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
    model, facts, chip = model_of_row(row), catalog.accelerator(name), catalog.chips([name])
    has_host = bool(np.isfinite(chip.host_link_bytes_per_s * chip.host_memory_bytes)[0])
    kind = stack_kind(row, facts.architecture)
    release = release_year(row) if kind == VENDOR else None
    stack = _stack(row, catalog.stack(kind, name, release_year=release))
    return Case(
        row=row,
        model=model,
        accelerator=name,
        architecture=facts.architecture,
        kind=kind,
        release=release or 0.0,
        stack=stack,
        keeping=catalog.keeping(kind, name),
        imbalance=catalog.planning("expert_imbalance") if routes_freely(row) else 1.0,
        plans=plans_of_row(
            row, model, facts.domain_options, has_host=has_host, is_one_graph=stack.is_one_graph
        ),
    )


def _stack(row: TruthRow, stack: Stack) -> Stack:
    """A kind's stack with what the row itself says of it."""
    return replace(
        stack,
        overlaps_data=stack.overlaps_data and overlaps_data(row),
        overlaps_tensor=stack.overlaps_tensor or overlaps_tensor(row),
        is_one_graph=stack.is_one_graph or is_one_graph(row),
    )


def _alike(cases: Mapping[int, Case]) -> dict[Any, list[int]]:
    """Cases that one call can price: same model and job."""
    groups: dict[Any, list[int]] = {}
    for i, case in cases.items():
        groups.setdefault((case.model, case.job), []).append(i)
    return groups


def _predicted(cases: Mapping[int, Case], catalog: Catalog) -> dict[int, Prediction]:
    """All plans of all cases in one block; of each case the first that fits, else the last.

    A plan as stated is taken at its word if it fits at the low end of the band on memory. A case
    without a plan that fits is still predicted, and told to be infeasible if it is a run.
    """
    first = next(iter(cases.values()))
    owners = np.array([i for i, case in cases.items() for _ in case.plans])
    plans = _joined([plan for case in cases.values() for plan in case.plans])
    chips = _chips([cases[i] for i in owners], catalog)
    reserve = _reserve([cases[i] for i in owners], catalog)
    with np.errstate(invalid="ignore"):  # NaN of a precision the chip lacks: told as unsupported
        step = training_step(first.job, first.model, chips, plans, reserve)
    resident_bytes = np.asarray(step.resident.total)
    has_host = step.host_bytes <= np.nan_to_num(chips.host_memory_bytes)
    fits = has_host & (resident_bytes <= chips.memory_bytes)
    might_fit = has_host & (resident_bytes * _memory_low_frac() <= chips.memory_bytes)
    out = {}
    for i, case in cases.items():
        mine = np.flatnonzero(owners == i)
        fitting = mine[fits[mine]] if is_run(case.row) else mine
        at = int(fitting[0] if len(fitting) else mine[-1])
        stated = np.array([is_as_stated(case.row, plan) for plan in case.plans])
        at = int(min([at, *mine[stated & might_fit[mine]]]))
        plan = case.plans[at - int(mine[0])]
        out[i] = _prediction(case, chips, step, at, plan, is_infeasible=not len(fitting))
    return out


def _memory_low_frac() -> float:
    """The low end of the band on memory, over its middle."""
    return bands()["resident_bytes"][0]


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


def _reserve(cases: Sequence[Case], catalog: Catalog) -> Reserve:
    """Memory no tensor owns, one row per plan."""
    by_name = {name: catalog.reserve(name) for name in {case.accelerator for case in cases}}
    found = [by_name[case.accelerator] for case in cases]
    return Reserve(
        np.array([each.framework_bytes for each in found]),
        np.array([each.fragmentation_frac for each in found]),
    )


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
