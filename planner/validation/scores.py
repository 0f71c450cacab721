"""How good predictions are: error, bias, coverage of the shipped bands and order within groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from planner.bands import Band, bands, power_bands, serving_bands
from planner.validation.orders import PER_REQUEST, Scored, order_scores, rank_tau

GROUPS: Mapping[str, str] = {
    "source_group": "source_group",
    "model": "model",
    "accelerator": "accelerator",
    "engine": "engine",
}
"""Groups of the report, and the column of the truth file each is read from."""

BAND_OF = {
    "throughput": "tokens_per_s",
    "memory_bytes": "resident_bytes",
    "node_mean_w": "it_mean_w",
    "node_peak_w": "it_peak_w",
}
"""Which row of bands.csv a metric of the report is held to."""

INNER_OVER_OUTER = 1.2816 / 1.6449
"""Logarithm of an 80% band over that of a 90% one, for a normal distribution (its quantiles)."""

METERED_RUNS = ("device_mean_w", "j_per_token")
"""Metrics of metered serving runs, with bands of their own."""


def scores(predictions: Iterable[Scored]) -> dict[str, Any]:
    """Scores per metric, over all rows and by group.

    Returns
    -------
    metric to {n, mape, median_ape, p90_ape, bias, coverage_80, coverage_90, rank_tau, factorial,
    scaling, groups}

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
            **order_scores(found),
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
    regime = prediction.case.regime
    if prediction.metric in METERED_RUNS:
        return power_bands(regime)[prediction.metric]
    if prediction.metric not in BAND_OF:
        return serving_bands(regime)[_latency(prediction.metric)]
    return bands(regime)[BAND_OF[prediction.metric]]


def _latency(metric: str) -> str:
    """The latency that a statistic is one of; other metrics as they are."""
    return next((name for name in PER_REQUEST if metric.startswith(name)), metric)


def _by(predictions: Iterable[Scored], column: str) -> dict[str, list[Scored]]:
    groups: dict[str, list[Scored]] = {}
    for prediction in predictions:
        groups.setdefault(prediction.row.text(column), []).append(prediction)
    return dict(sorted(groups.items()))
