"""Whether predictions rank published runs that differ in one thing, and scale as they do.

A factorial group has one source, model, chip and metric, and rows that differ in exactly one
stated setting, of which there are at least three values. A scaling pair is the smallest and the
largest run of one configuration, at the same global batch or at the same batch per device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from planner.validation.power_protocols import NodePrediction
from planner.validation.serving_protocols import ServingPrediction
from planner.validation.training import Prediction

Scored = Prediction | ServingPrediction | NodePrediction
"""A figure of training, of serving or of a metered node, predicted and measured."""

AnyScored = TypeVar("AnyScored", bound=Scored)

SETTINGS = (
    "n_accel", "tp", "pp", "vpp", "cp", "ep", "seq_len", "global_batch_seqs", "micro_batch",
    "recompute", "zero_stage", "precision", "software_release", "stack",
)  # fmt: skip
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
        for group in _keyed(predictions, partial(_cells, settings=fixed)).values():
            if len({p.row.text(setting) for p in group}) < FEWEST_TO_RANK:
                continue
            tau = _tau(group, setting)
            if tau is not None:
                found.append(Order(_name(group[0]), setting, len(group), tau))
    return found


def scalings(predictions: Sequence[Scored]) -> list[Scaling]:
    """Every scaling pair of training; a configuration with several stacks has one per stack."""
    fixed = [name for name in SETTINGS if name not in ("n_accel", "global_batch_seqs")]

    def key(p: Prediction) -> tuple[Any, ...]:
        return (*_cells(p, fixed), p.case.overlaps)

    found = []
    trained = [p for p in predictions if isinstance(p, Prediction)]
    for group in _keyed(trained, key).values():
        for batch in (_batch, _batch_per_device):
            for same in _keyed(group, batch).values():
                sizes = [int(p.plan["devices"]) for p in same]
                if min(sizes) < max(sizes):
                    found.append(_scaling(same, min(sizes), max(sizes)))
    return found


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
    names = ("source_group", "model", "accelerator", "metric", *settings)
    return tuple(prediction.row.text(name) for name in names)


def _name(prediction: Scored) -> str:
    return " ".join(prediction.row.text(n) for n in ("source_group", "model", "accelerator"))


def _batch(prediction: Prediction) -> tuple[float]:
    return (prediction.plan["global_batch_sequences"],)


def _batch_per_device(prediction: Prediction) -> tuple[float]:
    return (prediction.plan["global_batch_sequences"] / prediction.plan["devices"],)


def _keyed(
    predictions: Iterable[AnyScored], key: Callable[[AnyScored], tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[AnyScored]]:
    groups: dict[tuple[Any, ...], list[AnyScored]] = {}
    for prediction in predictions:
        groups.setdefault(key(prediction), []).append(prediction)
    return groups


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


def _scaling(group: Sequence[Prediction], few: int, many: int) -> Scaling:
    """From the runs on few devices to those on many, each the middle one if there are several."""

    def middle(devices: int, field: str) -> float:
        own = [getattr(p, field) for p in group if p.plan["devices"] == devices]
        return float(np.median(own)) / devices

    return Scaling(
        name=_name(group[0]),
        few=few,
        many=many,
        measured=middle(many, "measured") / middle(few, "measured"),
        predicted=middle(many, "predicted") / middle(few, "predicted"),
    )
