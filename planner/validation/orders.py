"""Whether predictions rank published runs that differ in one thing, and scale as they do.

A factorial group has one source, model, chip and metric, and rows that differ in exactly one
stated setting, of which there are at least three values. Scaling pairs are those of `scaling`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from planner.validation.power_protocols import NodePrediction
from planner.validation.scaling import OWNERS, SETTINGS, keyed, scaling_pairs
from planner.validation.serving_protocols import ServingPrediction
from planner.validation.training import Prediction

Scored = Prediction | ServingPrediction | NodePrediction
"""A figure of training, of serving or of a metered node, predicted and measured."""

AnyScored = TypeVar("AnyScored", bound=Scored)

SERVING_SETTINGS = (
    "parallel", "isl", "osl", "concurrency", "precision", "backend_version", "input_len",
    "output_len", "batch_or_concurrency", "engine",
)  # fmt: skip
"""Settings of serving rows; only the parallel layout is varied, as a whole."""

PER_REQUEST = (
    "ttft_s", "tpot_s", "device_mean_w", "j_per_token", "node_mean_w", "node_peak_w"
)  # fmt: skip
"""Metrics that more devices do not share out."""

FEWEST_TO_RANK = 3

WANTED_TAU = 0.85
WANTED_LOG = 0.08
"""How well a group has to be ranked, and how near the logarithm of a scaling ratio has to come."""


@dataclass(frozen=True)
class Order:
    """One factorial group: what varies, how many rows, and Kendall's tau of speed per device."""

    name: str
    setting: str
    rows: int
    tau: float


@dataclass(frozen=True)
class Scaling:
    """One configuration on few and on many devices: speed per device, many over few."""

    name: str
    few: int
    many: int
    measured: float
    predicted: float

    @property
    def log_error(self) -> float:
        """Logarithm of predicted over measured."""
        return float(np.log(self.predicted / self.measured))


def orders(predictions: Sequence[Scored]) -> list[Order]:
    """Every factorial group with its tau.

    References
    ----------
    Kendall 1938, A New Measure of Rank Correlation, Biometrika 30: (concordant - discordant) /
    pairs; pairs with equal measurements or the same value of the setting are left out.
    """
    found = []
    is_serving = any(isinstance(p, ServingPrediction) for p in predictions)
    for setting in SERVING_SETTINGS[:1] if is_serving else SETTINGS:
        named = SERVING_SETTINGS if is_serving else SETTINGS
        fixed = [name for name in named if name != setting]
        for group in keyed(predictions, partial(_cells, settings=fixed)).values():
            if len({p.row.text(setting) for p in group}) < FEWEST_TO_RANK:
                continue
            tau = _tau(group, setting)
            if tau is not None:
                found.append(Order(_name(group[0]), setting, len(group), tau))
    return found


def scalings(predictions: Sequence[Scored]) -> list[Scaling]:
    """Every scaling pair of training; a configuration with several stacks has one per stack."""
    trained = [p for p in predictions if isinstance(p, Prediction)]
    return [
        _scaling([trained[i] for i in few], [trained[i] for i in many])
        for few, many in scaling_pairs(trained)
    ]


def order_scores(predictions: Sequence[Scored]) -> dict[str, Any]:
    """Both as entries of the JSON document: how many, the worst, and those not good enough."""
    ranked, scaled = orders(predictions), scalings(predictions)
    bad = [o for o in ranked if o.tau < WANTED_TAU]
    far = [s for s in scaled if abs(s.log_error) > WANTED_LOG]
    return {
        "factorial": {
            "groups": len(ranked),
            "tau_least": min((o.tau for o in ranked), default=None),
            "below": [
                {"group": o.name, "setting": o.setting, "n": o.rows, "tau": o.tau} for o in bad
            ],
        },
        "scaling": {
            "pairs": len(scaled),
            "log_error_most": max((abs(s.log_error) for s in scaled), default=None),
            "beyond": [
                {"group": s.name, "few": s.few, "many": s.many, "log_error": s.log_error}
                for s in far
            ],
        },
    }


def rank_tau(predictions: Sequence[Scored]) -> float | None:
    """Kendall's tau, mean over the factorial groups; None where there is no such group."""
    taus = [order.tau for order in orders(predictions)]
    return float(np.mean(taus)) if taus else None


def _cells(prediction: Scored, settings: Iterable[str]) -> tuple[str, ...]:
    return tuple(prediction.row.text(name) for name in (*OWNERS, *settings))


def _name(prediction: Scored) -> str:
    return " ".join(prediction.row.text(n) for n in ("source_group", "model", "accelerator"))


def _tau(group: Sequence[Scored], setting: str) -> float | None:
    shares = [1.0 if p.metric in PER_REQUEST else 1.0 / p.plan["devices"] for p in group]
    per_device = [
        (p.measured * share, p.predicted * share, p.row.text(setting))
        for p, share in zip(group, shares, strict=True)
    ]
    signs = [
        np.sign((a[0] - b[0]) * (a[1] - b[1]))
        for a, b in combinations(per_device, 2)
        if a[0] != b[0] and a[2] != b[2]
    ]
    return float(np.mean(signs)) if signs else None


def _scaling(few: Sequence[Prediction], many: Sequence[Prediction]) -> Scaling:
    """From the runs on few devices to those on many, each the middle one if there are several."""

    def devices(group: Sequence[Prediction]) -> int:
        return int(group[0].plan["devices"])

    def ratio(field: str) -> float:
        each = [np.median([getattr(p, field) for p in g]) / devices(g) for g in (few, many)]
        return float(each[1] / each[0])

    return Scaling(
        name=_name(few[0]),
        few=devices(few),
        many=devices(many),
        measured=ratio("measured"),
        predicted=ratio("predicted"),
    )
