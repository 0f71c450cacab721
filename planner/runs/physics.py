"""How candidates of each kind of work are prepared, evaluated and told: one row per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from planner.explain.napkins import Lines, serve_napkin, train_napkin
from planner.serving import engine as serve
from planner.serving import evaluate as serve_evaluate
from planner.serving.rules import serve_bill_rules, serve_rules
from planner.space.rule import Rule
from planner.space.rules import bill_rules, train_rules
from planner.study.read import Study
from planner.training import engine as train
from planner.training import evaluate as train_evaluate
from planner.training.evaluate import Evaluated


@dataclass(frozen=True)
class Physics:
    """One kind of work.

    Parameters
    ----------
    prepare : the engine of a study
    evaluate : (engine, columns, accelerator) to rows after physics
    napkin : (engine, metrics of one plan) to hand arithmetic beside them
    """

    prepare: Callable[[Study], Any]
    evaluate: Callable[[Any, Mapping[str, Any], str], Evaluated]
    napkin: Callable[[Any, Mapping[str, float]], Lines]


PHYSICS: Mapping[str, Physics] = MappingProxyType(
    {
        "train": Physics(train.prepare, train_evaluate.evaluate, train_napkin),
        "serve": Physics(serve.prepare, serve_evaluate.evaluate, serve_napkin),
    }
)
"""Kinds of study whose candidates run on a cluster."""


def every_rule() -> tuple[Rule, ...]:
    """Rules of all kinds of work, for their reasons."""
    return (*bill_rules(), *train_rules(), *serve_bill_rules(), *serve_rules())
