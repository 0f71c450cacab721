"""How candidates of each kind of work are prepared, evaluated and told: one row per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from planner.evaluated import Evaluated, Replay
from planner.explain.napkins import Lines, serve_napkin, train_napkin
from planner.serving import engine as serve
from planner.serving import evaluate as serve_evaluate
from planner.serving.rules import serve_bill_rules, serve_rules
from planner.serving.survivors import replayed_plan
from planner.space.rule import Rule
from planner.space.rules import bill_rules, train_rules
from planner.study.read import Study
from planner.training import engine as train
from planner.training import evaluate as train_evaluate
from planner.training import replay as train_replay

REPLAYS = 3  # our choice: some ten seconds each at a million requests


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
    """

    prepare: Callable[[Study], Any]
    evaluate: Callable[[Any, Mapping[str, Any], str], Evaluated]
    napkin: Callable[[Any, Mapping[str, float]], Lines]
    replay: Callable[[Any, Mapping[str, Any], str], Replay] | None = None
    replays: int = 0


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


def replays_of(study: Study) -> int:
    """Plans of a study that are replayed at most."""
    kind = PHYSICS.get(study.kind)
    if kind is None or kind.replay is None:
        return 0
    return kind.replays if study.search.replay is None else study.search.replay


def every_rule() -> tuple[Rule, ...]:
    """Rules of all kinds of work, for their reasons."""
    return (*bill_rules(), *train_rules(), *serve_bill_rules(), *serve_rules())
