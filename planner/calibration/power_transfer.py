"""Power curves of chips that nobody metered: a donor's, scaled to the chip's own limits.

Host, fans and links of every chip stand beside its curve. Ratings are those of accelerators.csv,
donors and host shares those of power_transfers.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.calibration.curves import Fit, rounded
from planner.calibration.kernels import Row
from planner.calibration.measured import Nameplate
from simkernel.errors import BadFile
from simkernel.hardware import PowerCurve

SHAPE = ("memory_w", "memory_exponent", "compute_w", "compute_exponent")
"""What is fitted of a curve, in this order."""

LINK_J_PER_BIT = 5.5e-12
"""Of a long-reach transceiver at 112 Gb/s, sent and received: 19.8 W at 3.6 Tb/s
(besthub.dev, "Why Nvidia's NVLink C2C is redefining GPU-CPU interconnects", 2026; on one board
1.3). No metered row has communication alone to tell it from: an estimate for every chip. Links
that draw it idle too are in the context's power, and then it is too much."""

METERED_IN_AIR = "H100-SXM"
"""Whose fans were metered; those of others draw the same share of the heat that air carries."""

FAN_FLOOR_FRAC = 0.5
"""Of their full load that fans draw in an idle server: (2,892 - 2,325) / 8 = 71 W between the
floors of H100 nodes in air and immersed (tests/anchors/training_power.toml), of about 140 W."""

CONTEXT_EXTRA_W = 46.0  # middle of +26..66 W once a context exists (arXiv 2605.23918)
IDLE_OF_TDP = 0.12  # between H100 (0.10) and B200 (0.14) in accelerators.csv

SOURCE = (
    "ML.ENERGY benchmark v3, H100 and B200 runs (fitted curve only; bytes and flop of passes), "
    "at the limit in MLPerf Training power logs"
)


@dataclass(frozen=True)
class PowerTransfer:
    """Whose curve a chip takes, and its share of the host."""

    donor: str
    assumed_tdp_w: float | None
    host_idle_w: float
    host_span_w: float
    has_fans_inside: bool
    source: str
    as_of: str
    grade: str
    licence: str


def read_power_transfers(path: Path) -> dict[str, PowerTransfer]:
    """Donors and host shares by chip."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row["accelerator"]: PowerTransfer(
                donor=row["donor"],
                assumed_tdp_w=float(row["assumed_tdp_w"]) if row["assumed_tdp_w"] else None,
                host_idle_w=float(row["host_idle_w"]),
                host_span_w=float(row["host_span_w"]),
                has_fans_inside=row["fans"] == "inside",
                source=row["source"],
                as_of=row["as_of"],
                grade=row["grade"],
                licence=row["licence"],
            )
            for row in csv.DictReader(file)
        }


def power_rows(
    plates: Mapping[str, Nameplate],
    fitted: Mapping[str, Fit],
    moved: Mapping[str, PowerTransfer],
    fan_w: float,
) -> list[Row]:
    """One row for every accelerator: its own curve or a donor's, scaled to its power limit.

    Parameters
    ----------
    fan_w : fans of an air-cooled H100 at full load, a device's share [W]
    """
    heat_w = _heat_w(METERED_IN_AIR, plates, moved)
    return [
        {"accelerator": name, **_cells(name, plates, fitted, moved, fan_w / heat_w)}
        for name in plates
    ]


def scaled_values(
    chip: str,
    donor: str,
    fit: Fit,
    plates: Mapping[str, Nameplate],
    moved: Mapping[str, PowerTransfer],
) -> dict[str, float]:
    """`SHAPE` of a donor's curve, stretched between context and limit of another chip.

    Parameters
    ----------
    fit : of the donor

    Raises
    ------
    BadFile : the limit of one of the two is not known
    """
    context_w, cap_w = limits_w(plates[chip], moved[chip])
    donor_context_w, donor_cap_w = limits_w(plates[donor], moved[donor])
    scale = (cap_w - context_w) / (donor_cap_w - donor_context_w)
    return {name: fit.values[name] * (scale if name.endswith("_w") else 1.0) for name in SHAPE}


def power_curve(
    values: Mapping[str, float], context_w: float, cap_w: float, link_w: float = 0.0
) -> PowerCurve:
    """The curve of one chip, without host and fans; columns of (1,).

    Parameters
    ----------
    values : by name, those of `SHAPE`
    context_w, cap_w : power with a context open, and the limit [W]
    link_w : of links at full rate [W]
    """
    zero = np.zeros(1)
    return PowerCurve(
        **{name: np.array([values[name]]) for name in SHAPE},
        idle_w=zero,
        context_w=np.array([context_w]),
        communication_w=np.array([link_w]),
        cap_w=np.array([cap_w]),
        host_idle_w=zero,
        host_span_w=zero,
        fan_idle_w=zero,
        fan_span_w=zero,
    )


def limits_w(plate: Nameplate, transfer: PowerTransfer) -> tuple[float, float]:
    """Power with a context open, and the limit [W].

    Raises
    ------
    BadFile : neither table states a limit
    """
    cap_w = plate.tdp_w or transfer.assumed_tdp_w
    if cap_w is None:
        raise BadFile(f"{plate.name} has no tdp_w; give assumed_tdp_w in power_transfers.csv")
    return plate.context_w or _idle_w(plate, cap_w) + CONTEXT_EXTRA_W * cap_w / 700.0, cap_w


def links_w(plate: Nameplate) -> float:
    """Links of the scale-up domain at their full rate [W]."""
    return 8.0 * plate.scaleup_bytes_per_s * LINK_J_PER_BIT


def _cells(
    name: str,
    plates: Mapping[str, Nameplate],
    fitted: Mapping[str, Fit],
    moved: Mapping[str, PowerTransfer],
    fans_of_heat: float,
) -> Row:
    """The curve of one chip; a transferred one keeps its shape between context and limit."""
    if name not in moved:
        raise BadFile(f"{name} has no power donor; add a row to power_transfers.csv")
    own, donor = moved[name], moved[name].donor
    context_w, cap_w = limits_w(plates[name], own)
    fit, is_own = fitted[donor], name == donor
    return {
        "idle_w": _idle_w(plates[name], cap_w),
        "context_w": context_w,
        **scaled_values(name, donor, fit, plates, moved),
        "communication_w": rounded(links_w(plates[name])),
        "cap_w": cap_w,
        "host_idle_w": own.host_idle_w,
        "host_span_w": own.host_span_w,
        **_fans(0.0 if own.has_fans_inside else fans_of_heat * _heat_w(name, plates, moved)),
        "median_error_frac": fit.median_error_frac + (0.0 if is_own else 0.1),
        "p90_error_frac": fit.p90_error_frac + (0.0 if is_own else 0.15),
        "basis": "measured" if is_own else f"transferred:{donor}",
        "source": f"{SOURCE}; host: {own.source}",
        "as_of": own.as_of,
        "grade": own.grade,
        "licence": own.licence,
    }


def _fans(full_w: float) -> Row:
    """Fans at idle, and what full load adds."""
    idle_w = full_w * FAN_FLOOR_FRAC
    return {"fan_idle_w": rounded(idle_w), "fan_span_w": rounded(full_w - idle_w)}


def _heat_w(
    name: str, plates: Mapping[str, Nameplate], moved: Mapping[str, PowerTransfer]
) -> float:
    """What air carries away at full load, a device's share."""
    own = moved[name]
    return limits_w(plates[name], own)[1] + own.host_idle_w + own.host_span_w


def _idle_w(plate: Nameplate, cap_w: float) -> float:
    return plate.idle_w or IDLE_OF_TDP * cap_w
