"""How good predictions are: error, bias, coverage of the shipped bands and order within groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from planner.bands import Band, bands, regime_of_model, serving_bands
from planner.serving_protocols import ServingPrediction
from planner.validate import Prediction

Scored = Prediction | ServingPrediction
"""A figure of training or of serving, predicted and measured."""

GROUPS: Mapping[str, str] = {
    "source_group": "source_group",
    "model": "model",
    "accelerator": "accelerator",
    "engine": "engine",
}
"""Groups of the report, and the column of the truth file each is read from."""

BAND_OF = {"throughput": "tokens_per_s", "memory_bytes": "resident_bytes"}
"""Which row of bands.csv a metric of the report is held to."""

INNER_OVER_OUTER = 1.2816 / 1.6449
"""Logarithm of an 80% band over that of a 90% one, for a normal distribution (its quantiles)."""

SERVING_SETTINGS = (
    "parallel", "isl", "osl", "concurrency", "precision", "backend_version", "input_len",
    "output_len", "batch_or_concurrency", "engine",
)  # fmt: skip
"""Settings of serving rows; only the parallel layout is varied, as a whole."""

SETTINGS = (
    "n_accel", "tp", "pp", "vpp", "cp", "ep", "seq_len", "global_batch_seqs", "micro_batch",
    "recompute", "zero_stage", "precision", "software_release", "stack",
)  # fmt: skip
PER_REQUEST = ("ttft_s", "tpot_s")
"""Metrics that more devices do not share out."""

FEWEST_TO_RANK = 3


def scores(predictions: Iterable[Scored]) -> dict[str, Any]:
    """Scores per metric, over all rows and by group.

    Returns
    -------
    metric to {n, mape, median_ape, p90_ape, bias, coverage_80, coverage_90, rank_tau, groups}

    Notes
    -----
    APE = |predicted / measured - 1|, bias = mean(predicted / measured) - 1.
    """
    by_metric: dict[str, list[Scored]] = {}
    for prediction in predictions:
        by_metric.setdefault(prediction.metric, []).append(prediction)
    return {
        metric: {
            **score(found),
            "groups": {
                group: {value: score(part) for value, part in _by(found, column).items()}
                for group, column in GROUPS.items()
                if any(column in prediction.row.cells for prediction in found)
            },
        }
        for metric, found in sorted(by_metric.items(), reverse=True)
    }


def score(predictions: Sequence[Scored]) -> dict[str, float | None]:
    """Scores of some rows of one metric."""
    ratio = np.array([prediction.ratio for prediction in predictions])
    ape = np.abs(ratio - 1.0)
    log_low, log_high = np.log([_band(prediction) for prediction in predictions]).T
    needed = -np.log(ratio)
    inner = INNER_OVER_OUTER
    return {
        "n": len(ratio),
        "mape": float(ape.mean()),
        "median_ape": float(np.median(ape)),
        "p90_ape": float(np.quantile(ape, 0.9)),
        "bias": float(ratio.mean() - 1.0),
        "coverage_80": float(np.mean((needed >= log_low * inner) & (needed <= log_high * inner))),
        "coverage_90": float(np.mean((needed >= log_low) & (needed <= log_high))),
        "rank_tau": rank_tau(predictions),
    }


def _band(prediction: Scored) -> Band:
    """The shipped 90% band of a prediction."""
    if prediction.metric not in BAND_OF:
        return serving_bands(regime_of_model(prediction.case.model))[prediction.metric]
    regime = regime_of_model(prediction.case.model)
    return bands(regime)[BAND_OF[prediction.metric]]


def rank_tau(predictions: Sequence[Scored]) -> float | None:
    """Kendall's tau, mean over the groups of rows that differ in exactly one setting.

    A group has one source, model and chip and at least three values of the setting; per device.
    None where there is no such group.

    References
    ----------
    Kendall 1938, A New Measure of Rank Correlation, Biometrika 30: (concordant - discordant) /
    pairs; pairs with equal measurements are left out.
    """
    taus = [tau for group in _factorial(predictions) if (tau := _tau(group)) is not None]
    return float(np.mean(taus)) if taus else None


def _by(predictions: Iterable[Scored], column: str) -> dict[str, list[Scored]]:
    groups: dict[str, list[Scored]] = {}
    for prediction in predictions:
        groups.setdefault(prediction.row.text(column), []).append(prediction)
    return dict(sorted(groups.items()))


def _factorial(predictions: Sequence[Scored]) -> list[list[Scored]]:
    """Groups of rows in which exactly one setting varies, with at least three values of it."""
    if predictions and predictions[0].metric not in BAND_OF:
        fixed = _fixed([name for name in SERVING_SETTINGS if name != "parallel"])
        groups = _keyed(predictions, fixed).values()
        return [g for g in groups if len({p.row.text("parallel") for p in g}) >= FEWEST_TO_RANK]
    return [
        group
        for setting in SETTINGS
        for group in _keyed(predictions, _fixed([n for n in SETTINGS if n != setting])).values()
        if len({p.row.text(setting) for p in group}) >= FEWEST_TO_RANK
    ]


def _fixed(settings: Sequence[str]) -> Callable[[Scored], tuple[str, ...]]:
    names = ("source_group", "model", "accelerator", "metric", *settings)
    return lambda p: tuple(p.row.text(name) for name in names)


def _keyed(
    predictions: Iterable[Scored], key: Callable[[Scored], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Scored]]:
    groups: dict[tuple[str, ...], list[Scored]] = {}
    for prediction in predictions:
        groups.setdefault(key(prediction), []).append(prediction)
    return groups


def _tau(group: Sequence[Scored]) -> float | None:
    shares = [1.0 if p.metric in PER_REQUEST else 1.0 / p.plan["devices"] for p in group]
    per_device = [
        (p.measured * share, p.predicted * share) for p, share in zip(group, shares, strict=True)
    ]
    signs = [
        np.sign((a[0] - b[0]) * (a[1] - b[1]))
        for a, b in combinations(per_device, 2)
        if a[0] != b[0]
    ]
    return float(np.mean(signs)) if signs else None
