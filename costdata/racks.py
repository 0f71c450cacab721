"""Racks: how many a number of servers takes, and what each of them draws.

A server that is a rack, or several, stands alone; smaller ones share a rack by height and by the
power a rack may have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats

RACK_UNITS = 48.0  # of an NVL72 rack (servers.csv); usual racks have 42 to 52 (EIA-310)


@dataclass(frozen=True)
class Racks:
    """Racks of each row, and IT power of a full one; (m,) each [W]."""

    racks: Floats
    rack_w: Floats


def racks(units: Column, rack_units: Column, unit_w: Column, most_w: Column = np.inf) -> Racks:
    """Racks for some servers.

    Parameters
    ----------
    units : (m,) servers or racks bought
    rack_units : (m,) height of one
    unit_w : (m,) IT power to provide for one [W]
    most_w : (m,) power that a rack may have [W]

    Notes
    -----
    One server stands in a rack even where it draws more than the rack may: the row is over its
    limit then, it does not vanish.
    """
    spread = np.ceil(rack_units / RACK_UNITS)
    fitting = np.minimum(np.floor(RACK_UNITS / rack_units), np.floor(most_w / unit_w))
    each = np.where(spread > 1.0, 1.0, np.maximum(fitting, 1.0))
    return Racks(np.ceil(units / each) * spread, np.asarray(unit_w * each / spread))
