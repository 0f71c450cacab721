"""Columns of a space as a person reads them: names for codes, a chip's own rate for none given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

BYTES_PER_GBYTE = 1e9
CHIP_RATES = {
    "scaleup_gbytes_per_s": "scaleup_bytes_per_s",
    "scaleout_gbytes_per_s": "scaleout_bytes_per_s",
}

WHOLE = (
    "devices", "stranded_devices", "nodes", "supernodes", "purchase_units", "fabric_tiers",
    "used_per_domain", "validated",
)  # fmt: skip
"""Metrics that are counts, and are stored as such."""


def named_axis(engine: Any, name: str, rows: Mapping[str, Any]) -> Any:
    """One axis of a block: names where the column holds codes, the chip's own rate for NaN."""
    column, levels = rows[name], engine.space.levels[name]
    if name in CHIP_RATES:
        accelerator = str(engine.space.levels["accelerator"][rows["accelerator"][0]])
        own = getattr(engine.chip(accelerator), CHIP_RATES[name])[0] / BYTES_PER_GBYTE
        return np.where(np.isnan(column), own, column)
    if name != "data_parallel" and all(isinstance(level, str) for level in levels):
        return np.array(levels, dtype=object)[column]
    return column
