"""Rows of a table after physics, before any price: metrics, limits, ledgers; of any study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.ledger import Ledger

CLOSED_FORM, REPLAY = "closed_form", "replay"
"""Values of the column `fidelity`: rows of one are never compared with rows of the other."""


@dataclass(frozen=True)
class Limit:
    """One limit over a table: what each row has and needs; violated where have is beyond need."""

    have: Floats
    need: Floats
    unit: str
    at_least: bool = False

    @property
    def excess(self) -> Floats:
        """g: positive where violated, 1 = 100% over; (n,)."""
        sign = -1.0 if self.at_least else 1.0
        size = np.where(self.need == 0, 1.0, np.abs(self.need))  # a count against none: per piece
        return sign * (self.have - self.need) / size


@dataclass(frozen=True)
class Evaluated:
    """Rows of one hardware bill after physics.

    Parameters
    ----------
    metrics : metric name to (n,)
    limits : limit name to what is had and needed
    ledgers : "step_s", "resident_bytes", "it_w", over the same rows
    traffic : bytes per device and step inside and outside the scale-up domain, (n,)
    """

    metrics: dict[str, Floats]
    limits: dict[str, Limit]
    ledgers: dict[str, Ledger]
    traffic: dict[str, Floats]

    def take(self, rows: slice) -> Evaluated:
        """The same for some rows."""
        limits = {
            name: replace(limit, have=limit.have[rows], need=limit.need[rows])
            for name, limit in self.limits.items()
        }
        return Evaluated(
            metrics={name: value[rows] for name, value in self.metrics.items()},
            limits=limits,
            ledgers={name: ledger.take(rows) for name, ledger in self.ledgers.items()},
            traffic={name: value[rows] for name, value in self.traffic.items()},
        )

    def put(self, rows: Codes, part: Evaluated) -> Evaluated:
        """The same with some rows in the place of its own; both know the same quantities."""

        def laid(own: Column, other: Column) -> Floats:
            found = np.array(np.broadcast_to(own, len(self.metrics["devices"])), dtype=float)
            found[rows] = other
            return found

        limits = {
            name: replace(
                limit,
                have=laid(limit.have, part.limits[name].have),
                need=laid(limit.need, part.limits[name].need),
            )
            for name, limit in self.limits.items()
        }
        ledgers = {
            name: Ledger(
                ledger.name,
                ledger.unit,
                {
                    term: laid(own, part.ledgers[name].terms[term])
                    for term, own in ledger.terms.items()
                },
            )
            for name, ledger in self.ledgers.items()
        }
        return Evaluated(
            metrics={name: laid(own, part.metrics[name]) for name, own in self.metrics.items()},
            limits=limits,
            ledgers=ledgers,
            traffic={name: laid(own, part.traffic[name]) for name, own in self.traffic.items()},
        )

    @property
    def is_feasible(self) -> Masks:
        """Rows that violate no limit."""
        return keeps(self.limits, len(self.metrics["devices"]))


def keeps(limits: Mapping[str, Limit], count: int) -> Masks:
    """Of so many rows, those that violate no limit; (n,)."""
    ok = np.ones(count, dtype=bool)
    for limit in limits.values():
        ok &= limit.excess <= 0
    return ok


@dataclass(frozen=True)
class Replay:
    """One plan as its replay finds it.

    Parameters
    ----------
    found : one row, with what was replayed in the place of the closed form's; limits too
    told : further figures for a reader, by name
    """

    found: Evaluated
    told: Mapping[str, float | str]
