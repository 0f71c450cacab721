"""How candidates of each kind of work are prepared, evaluated and told: one row per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from planner.evaluated import Evaluated, Replay
from planner.explain.napkins import Lines, pools_napkin, serve_napkin, train_napkin
from planner.pools import engine as pools
from planner.pools import one
from planner.serving import engine as serve
from planner.serving import evaluate as serve_evaluate
from planner.serving.rules import serve_bill_rules, serve_rules
from planner.serving.survivors import replayed_plan
from planner.space.bill_rules import bill_rules
from planner.space.blocks import Ints
from planner.space.rule import Rule
from planner.space.rules import train_rules
from planner.study.pools import has_pools
from planner.study.read import Study
from planner.training import engine as train
from planner.training import evaluate as train_evaluate
from planner.training import replay as train_replay

REPLAYS = 3  # our choice: some ten seconds each at a million requests


@dataclass(frozen=True)
class Pairs:
    """How plans of two pools are looked at one by one, which no block of columns holds.

    Parameters
    ----------
    rows : (engine, codes) to rows after physics, and their columns as a person reads them
    broken : (space, codes of one) to the rules that it breaks
    changes : (space, codes of one) to what differs on one axis
    single : the candidate of a study, as `planner.space.single` has it
    """

    rows: Callable[[Any, Ints], tuple[Evaluated, dict[str, Any]]]
    broken: Callable[[Any, Ints], tuple[str, ...]]
    changes: Callable[[Any, Ints], Iterator[tuple[str, Ints]]]
    single: Callable[[Study], Any]


@dataclass(frozen=True)
class Physics:
    """One kind of work.

    Parameters
    ----------
    prepare : the engine of a study
    evaluate : (engine, columns, accelerator) to rows after physics
    napkin : (engine, metrics of one plan) to hand arithmetic beside them
    replay : (engine, columns of one row, accelerator) to that plan event by event; the same plan
        gives the same replay. None where there is none
    replays : plans of a run that are replayed where the study does not say
    pairs : how plans of two pools are looked at; None where a plan is one row
    """

    prepare: Callable[[Study], Any]
    evaluate: Callable[[Any, Mapping[str, Any], str], Evaluated]
    napkin: Callable[[Any, Mapping[str, float]], Lines]
    replay: Callable[[Any, Mapping[str, Any], str], Replay] | None = None
    replays: int = 0
    pairs: Pairs | None = None


PHYSICS: Mapping[str, Physics] = MappingProxyType(
    {
        "train": Physics(
            train.prepare, train_evaluate.evaluate, train_napkin, train_replay.replayed_plan
        ),
        "serve": Physics(
            serve.prepare, serve_evaluate.evaluate, serve_napkin, replayed_plan, REPLAYS
        ),
    }
)
"""Kinds of study whose candidates run on a cluster."""

POOLED = Physics(
    pools.prepare,
    one.evaluate,
    pools_napkin,
    pairs=Pairs(one.rows, one.broken, one.changes, one.single_pair),
)
"""Serving studies with pools of their own for prefill and decode."""


def physics_of(study: Study) -> Physics:
    """How candidates of a study are prepared, evaluated and told.

    Raises
    ------
    KeyError : its candidates do not run on a cluster
    """
    return POOLED if study.kind == "serve" and has_pools(study) else PHYSICS[study.kind]


def has_replay(study: Study) -> bool:
    """Plans of the study can be replayed."""
    return study.kind in PHYSICS and physics_of(study).replay is not None


def replays_of(study: Study) -> int:
    """Plans of a study that are replayed at most."""
    if not has_replay(study):
        return 0
    kind = physics_of(study)
    return kind.replays if study.search.replay is None else study.search.replay


def every_rule() -> tuple[Rule, ...]:
    """Rules of all kinds of work, for their reasons."""
    return (*bill_rules(), *train_rules(), *serve_bill_rules(), *serve_rules())
