"""Rows of product_times.csv and collective_times.csv from the seconds of one thing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def product_row(
    chip: str, precision: str, shape: tuple[int, int, int], timed: str, seconds: Sequence[float]
) -> dict[str, str]:
    """A product from all its timings.

    Parameters
    ----------
    shape : rows, inner and columns
    timed : "alone" or "in_step"
    """
    rows, inner, columns = shape
    return {
        "accelerator": chip,
        "precision": precision,
        "rows": str(rows),
        "inner": str(inner),
        "columns": str(columns),
        "timed": timed,
        **_spread(seconds),
    }


def collective_row(
    chip: str, operation: str, group: tuple[int, int], payload_bytes: int, seconds: Sequence[float]
) -> dict[str, str]:
    """A collective from all its timings.

    Parameters
    ----------
    group : members in a domain, and domains
    """
    inside, domains = group
    return {
        "accelerator": chip,
        "operation": operation,
        "inside": str(inside),
        "domains": str(domains),
        "payload_bytes": str(payload_bytes),
        **_spread(seconds),
    }


def _spread(seconds: Sequence[float]) -> dict[str, str]:
    low, middle, high = np.quantile(seconds, (0.25, 0.5, 0.75))
    return {
        "seconds": f"{middle:.6g}",
        "timings": str(len(seconds)),
        "spread_frac": f"{(high - low) / (2.0 * middle):.3g}",
    }
