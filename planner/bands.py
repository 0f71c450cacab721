"""90% bands on what is predicted, from the table of measured and estimated spreads."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import costdata
from planner.metrics import metrics_of

TABLE = Path(costdata.__file__).parent / "tables" / "bands.csv"


@cache
def bands() -> dict[str, tuple[float, float]]:
    """Quantity to the factors (low, high) that a prediction is multiplied by for its 90% band."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {
            row["quantity"]: (float(row["low_frac"]), float(row["high_frac"]))
            for row in csv.DictReader(file)
        }


def with_bands(kind: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with X_low and X_high beside every predicted metric that has a band."""
    found = dict(columns)
    for metric in metrics_of(kind):
        if metric.is_predicted and metric.name in found and metric.name in bands():
            low, high = bands()[metric.name]
            value = np.asarray(found[metric.name], float)
            found[f"{metric.name}_low"] = value * low
            found[f"{metric.name}_high"] = value * high
    return found
