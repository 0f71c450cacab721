"""90% bands on what is predicted, from the table of measured and estimated spreads."""

from __future__ import annotations

import csv
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import costdata
from costdata.configs import read_model
from planner.metrics import find_metric, metrics_of
from planner.study.read import Study
from simkernel.columns import Floats, Masks
from simkernel.models import Model

TABLE = Path(costdata.__file__).parent / "tables" / "bands.csv"
SERVING_TABLE = TABLE.with_name("serving_bands.csv")
POWER_TABLE = TABLE.parent / "rules" / "power_bands.csv"


Band = tuple[float, float]

DENSE, EXPERTS, EITHER = "dense", "moe", "any"
"""Regimes of the error of a speed: models of experts are predicted less well."""


@cache
def bands(regime: str = DENSE) -> dict[str, Band]:
    """Quantity to the factors (low, high) that a prediction is multiplied by for its 90% band.

    Parameters
    ----------
    regime : whose rows are taken beside those that hold for all
    """
    return _read(TABLE, regime)


@cache
def serving_bands(regime: str = DENSE) -> dict[str, Band]:
    """The same for what is predicted of serving."""
    return _read(SERVING_TABLE, regime)


@cache
def power_bands(regime: str = DENSE) -> dict[str, Band]:
    """The same for watts and joules per token of metered serving."""
    return _read(POWER_TABLE, regime)


def _read(path: Path, regime: str) -> dict[str, Band]:
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["quantity"]: (float(row["low_frac"]), float(row["high_frac"]))
            for row in csv.DictReader(file)
            if row["regime"] in (EITHER, regime)
        }


def regime_of_model(model: Model) -> str:
    """The regime of the error of a model's speed."""
    return EXPERTS if any(kind.mlp == "moe" for kind in model.kinds) else DENSE


def regime_of(study: Study) -> str:
    """The regime of a study: that of its model."""
    if study.kind not in ("train", "serve"):
        return DENSE
    work = study.training if study.kind == "train" else study.serving
    return regime_of_model(read_model(work.model))


SAME_BAND = MappingProxyType(
    {
        "provisioned_w": "it_peak_w",
        "peak_facility_mw": "facility_peak_w",
        "usd_per_mtoken": "usd",
        "kgco2e_per_mtoken": "kgco2e",
    }
)
"""Fixed multiples of a banded quantity."""


FROM_MEMORY = "headroom_bytes"
"""Its band is the memory less the band of what is resident."""


def band_of(name: str, regime: str = DENSE) -> Band | None:
    """Factors (low, high) of a metric's band; None where no spread is known."""
    return bands(regime).get(SAME_BAND.get(name, name))


def is_computed(name: str) -> bool:
    """True for a metric, or end of a band, that costed plans of this version have."""
    owner = find_metric(name).name
    return name == owner or owner == FROM_MEMORY or band_of(owner) is not None


AT_A_GIVEN_PRICE = MappingProxyType({"capex_usd": "", "usd": "days", "usd_per_mtoken": "days"})
"""Whose band is left where the study gives the price of everything: nobody's, or that of the time
alone, as the bands of these metrics join time and prices."""


GAP_LOW, GAP_HIGH = "replay_gap_low_frac", "replay_gap_high_frac"
"""Columns of plans of a run that replayed some: how far the closed form's steps were off."""

AS_STEP = (
    *("step_s", "days", "device_hours", "facility_mwh", "usd", "usd_per_mtoken", "water_l"),
    *("operational_kgco2e", "embodied_kgco2e"),
)
"""Metrics that are as much longer, or more, as a step is."""

AS_RATE = ("tokens_per_s", "tokens_per_s_per_device", "model_flop_per_s_per_device", "mfu_frac")
"""Those that are as much less."""

OF_PRICES = ("capex_usd",)
"""Metrics that rest on prices alone where the size of a plan is decided: no curve of a chip moves
them, so that a chip without measurements has no wider band in them."""

UNVALIDATED_WIDTH = 1.5
"""Bands of chips whose curves are transferred are so many times as wide, as logarithms: our
choice, since no published run of such a chip says how wide they are."""


def with_bands(
    kind: str,
    columns: Mapping[str, Any],
    given: Container[str] = (),
    is_priced: Masks | bool = False,
    regime: str = DENSE,
) -> dict[str, Any]:
    """The columns with X_low and X_high beside every predicted metric that has a band.

    Parameters
    ----------
    given : metrics that the study pins: they are what they are, without a band
    is_priced : rows of which the study gives the price of everything bought or rented
    regime : whose speeds the bands are of
    """
    found = dict(columns)
    is_known = np.asarray(found.get("validated", 1)) > 0
    width = np.where(is_known, 1.0, UNVALIDATED_WIDTH)
    for metric in metrics_of(kind):
        band = _band_of_kind(kind, metric.name, regime)
        if metric.is_predicted and metric.name in found and band:
            own = _at_price(metric.name, band, is_priced, regime)
            low, high = (1.0, 1.0) if metric.name in given else _replayed(metric.name, own, found)
            value = np.asarray(found[metric.name], float)
            wide = 1.0 if kind == "train" and metric.name in OF_PRICES else width
            most = 1.0 if metric.name.endswith("_frac") else np.inf
            found[f"{metric.name}_low"] = value * low**wide
            found[f"{metric.name}_high"] = np.minimum(value * high**wide, most)
    return found | _headroom(found) | _all_carbon(found) | _means_below_peaks(found)


def _band_of_kind(kind: str, name: str, regime: str) -> Band | None:
    """The band of a metric as a kind of study predicts it."""
    if kind != "serve":
        return band_of(name, regime)
    from planner.serving.bands import serve_band_of  # which stands on this room

    return serve_band_of(name, regime)


def _at_price(name: str, band: Band, is_priced: Masks | bool, regime: str) -> tuple[Any, Any]:
    """The band of a metric, narrower in rows whose price is given."""
    if name not in AT_A_GIVEN_PRICE or not np.any(is_priced):
        return band
    ends = bands(regime).get(AT_A_GIVEN_PRICE[name], (1.0, 1.0))
    low, high = (np.where(is_priced, end, own) for end, own in zip(ends, band, strict=True))
    return low, high


def joined(*bands: tuple[Any, Any]) -> tuple[Any, Any]:
    """The band of a product of independent factors: logarithms add as squares, side by side.

    Ends are numbers or (n,) each.
    """
    low = np.sqrt(sum(np.log(band[0]) ** 2 for band in bands))
    high = np.sqrt(sum(np.log(band[1]) ** 2 for band in bands))
    return np.exp(-low), np.exp(high)


def gap_band(gaps: Floats) -> Band:
    """90% band of a replayed step over that of the closed form, one inside.

    Parameters
    ----------
    gaps : (n,) closed form over replay, less one, of plans that were replayed
    """
    low, high = np.quantile(1.0 / (1.0 + gaps), (0.05, 0.95))
    return min(float(low), 1.0), max(float(high), 1.0)


def _replayed(name: str, own: Any, columns: Mapping[str, Any]) -> Any:
    """The band of a metric, wider by what the replays of its run say of the closed form."""
    if GAP_LOW not in columns or name not in (*AS_STEP, *AS_RATE):
        return own
    low, high = (np.asarray(columns[end], dtype=float) for end in (GAP_LOW, GAP_HIGH))
    return joined(own, (1.0 / high, 1.0 / low) if name in AS_RATE else (low, high))


def _all_carbon(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Ends of all carbon: the ends of its parts together, so that the sum is inside."""
    parts = ("operational_kgco2e", "embodied_kgco2e")
    if not all(f"{part}_low" in columns for part in parts):
        return {}
    found = {}
    for end in ("low", "high"):
        found[f"kgco2e_{end}"] = sum(columns[f"{part}_{end}"] for part in parts)
        if "kgco2e_per_mtoken" in columns:
            share = found[f"kgco2e_{end}"] / np.asarray(columns["kgco2e"], float)
            found[f"kgco2e_per_mtoken_{end}"] = columns["kgco2e_per_mtoken"] * share
    return found


def _means_below_peaks(columns: Mapping[str, Any]) -> dict[str, Any]:
    """High ends of mean watts: a mean is never above the peak of the same scope."""
    return {
        f"{scope}_mean_w_high": np.minimum(columns[high], columns[f"{scope}_peak_w_high"])
        for scope in ("device", "it", "facility")
        if (high := f"{scope}_mean_w_high") in columns and f"{scope}_peak_w_high" in columns
    }


def given_by(pin: Container[str]) -> frozenset[str]:
    """Metrics that the pins of a study fix."""
    speeds = (
        "step_s", "tokens_per_s", "tokens_per_s_per_device", "model_flop_per_s_per_device",
        "mfu_frac",
    )  # fmt: skip
    found = {name for name in ("goodput_frac", "device_mean_w", "device_peak_w") if name in pin}
    if "mfu_frac" in pin or "step_s" in pin:
        found.update(speeds)
        found.update(("days", "device_hours") if "goodput_frac" in pin else ())
    return frozenset(found)


def _headroom(columns: Mapping[str, Any]) -> dict[str, Any]:
    """What is free on the fullest device when it holds the most, and the least, of its band."""
    if FROM_MEMORY not in columns or "resident_bytes_low" not in columns:
        return {}
    memory_bytes = columns[FROM_MEMORY] + columns["resident_bytes"]
    return {
        "headroom_bytes_low": memory_bytes - columns["resident_bytes_high"],
        "headroom_bytes_high": memory_bytes - columns["resident_bytes_low"],
    }
