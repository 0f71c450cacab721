"""What differs between kinds of study: how one is prepared, swept and costed, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from costdata.catalog import Catalog
from planner.costing.front import cost_front
from planner.costing.second_pass import Costed, cost_plans
from planner.fleet import study as fleet
from planner.hardware import study as hardware
from planner.mixed import study as mixed
from planner.pools import engine as pools
from planner.pools import fronts as pool_fronts
from planner.search import sweep as train_sweep
from planner.search.sweep import BillResult
from planner.search.workforce import Workforce
from planner.serving import engine as serve
from planner.study.pools import has_pools
from planner.study.read import Study
from planner.training import engine as train
from simkernel.errors import BadStudy

Costs = Callable[[Study, Catalog, Mapping[str, Any]], Costed]
Sweep = Callable[[Any, int | Workforce, Callable[[], bool], Container[int]], Iterator[BillResult]]


@dataclass(frozen=True)
class Kind:
    """One kind of study.

    Parameters
    ----------
    prepare : the engine of a study: `study`, `catalog`, `space`, `missing`
    sweep : results of its bills, given engine, workers, what asks to stop, and bills done already
    sweep_again : candidates that the sweep left out by a bound, where it found nothing feasible
    cost : a physical front at the sites of a study, as far as the answer needs it
    price : some plans at the sites of a study, on the front or not
    notes : what a reader of the front has to know, by name
    refuse : what a costing of the study could not be told, as BadStudy
    keeps_options : every costed row is an answer, not only the front; a sweep keeps all that
        limits allow, whatever is compared
    is_limited : the sweep of a study applies its physical limits, not costing
    is_searchable : its plans can be looked for by a driver, where a sweep would be too long
    nearest : what would have to give where nothing is feasible, of an engine; None where its
        limits are relaxed one by one by sweeping again
    kept : tables that are kept beside the front, of an engine; None for none
    """

    prepare: Callable[[Study], Any]
    sweep: Sweep
    cost: Costs
    price: Costs
    refuse: Callable[[Study], None]
    notes: Callable[[Study, Catalog], dict[str, str]]
    keeps_options: bool
    is_limited: Callable[[Study], bool]
    is_searchable: bool = False
    sweep_again: Sweep | None = None
    nearest: Callable[[Any], dict[str, Any]] | None = None
    kept: Callable[[Any], list[dict[str, Any]]] | None = None


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "train": Kind(
            prepare=train.prepare,
            sweep=train_sweep.sweep,
            cost=cost_front,
            price=cost_plans,
            refuse=train.refuse_unknown_metrics,
            notes=train.training_notes,
            keeps_options=False,
            is_limited=lambda study: True,
            is_searchable=True,
            sweep_again=train_sweep.sweep_left_out,
        ),
        "serve": Kind(
            prepare=serve.prepare,
            sweep=train_sweep.sweep,
            cost=cost_front,
            price=cost_plans,
            refuse=serve.refuse_unknown_metrics,
            notes=serve.serving_notes,
            keeps_options=False,
            is_limited=lambda study: True,
            is_searchable=True,
        ),
        "hardware": Kind(
            prepare=hardware.prepare,
            sweep=hardware.sweep,
            cost=hardware.cost,
            price=hardware.cost,
            refuse=hardware.refuse_unknown_metrics,
            notes=hardware.notes,
            keeps_options=True,
            is_limited=lambda study: not hardware.is_open(study),
        ),
        "mixed": Kind(
            prepare=mixed.prepare,
            sweep=mixed.sweep,
            cost=mixed.cost,
            price=mixed.cost,
            refuse=mixed.refuse,
            notes=mixed.notes,
            keeps_options=True,
            is_limited=lambda study: False,
        ),
        "fleet": Kind(
            prepare=fleet.prepare,
            sweep=fleet.sweep,
            cost=fleet.cost,
            price=fleet.cost,
            refuse=fleet.refuse,
            notes=fleet.notes,
            keeps_options=False,
            is_limited=lambda study: True,
            nearest=fleet.nearest,
            kept=fleet.kept,
        ),
    }
)
"""Kinds that this version evaluates."""

IN_POOLS = replace(
    KINDS["serve"],
    prepare=pools.prepare,
    sweep=pool_fronts.sweep,
    notes=pools.pools_notes,
    is_searchable=False,
)
"""Serving studies with pools of their own for prefill and decode."""


def prepare(study: Study) -> Any:
    """The engine of a study, whatever its kind.

    Raises
    ------
    BadStudy, MissingFact : the kind's own
    """
    return kind_of(study).prepare(study)


def sweep(
    engine: Any,
    workers: int | Workforce,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """Results of all bills of a prepared study but those done, in the order they are done."""
    return kind_of(engine.study).sweep(engine, workers, is_stopped, done)


def cost(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Costed:
    """A physical front at the sites of a study."""
    return kind_of(study).cost(study, catalog, plans)


def kind_of(study: Study) -> Kind:
    """How a study is answered.

    Raises
    ------
    BadStudy : a kind of study this version cannot evaluate
    """
    if study.kind not in KINDS:
        wanted = " or ".join(f'kind = "{name}"' for name in KINDS)
        raise BadStudy(
            f"study.kind = {study.kind!r} is read and checked but not evaluated in this version; "
            f"wanted {wanted}"
        )
    return IN_POOLS if study.kind == "serve" and has_pools(study) else KINDS[study.kind]
