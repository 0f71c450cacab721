"""Latencies that a serving study bounds: one class of requests, or several with their shares."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.study.faults import Faults
from planner.study.lines import Path
from simkernel.workload import percentile_frac

MOST_S = 1e9  # our choice: beyond thirty years it is no bound

_BOUND = re.compile(r"(ttft_s|tpot_s|e2e_s)_(mean|max|p[1-9]\d?|p99[1-9])")
_LATENCIES = ("ttft_s_p95", "tpot_s_p95", "e2e_s_p95", "ttft_s_mean", "tpot_s_p99", "ttft_s_p999")


@dataclass(frozen=True)
class Bound:
    """One latency and the most it may be.

    Parameters
    ----------
    latency : ttft_s, tpot_s or e2e_s
    statistic : mean, max or a percentile as p95; p999 is 99.9
    most_s : bound [s]
    """

    latency: str
    statistic: str
    most_s: float

    @property
    def percentile(self) -> float:
        """0 to 100; of the mean NaN: it is no percentile."""
        if self.statistic in ("mean", "max"):
            return 100.0 if self.statistic == "max" else math.nan
        return 100.0 * percentile_frac(self.statistic)


@dataclass(frozen=True)
class SloClass:
    """One class of requests, its share of them and every bound they must meet together."""

    name: str
    share_frac: float
    bounds: tuple[Bound, ...]


def slo_classes(slo: Mapping[str, object]) -> tuple[SloClass, ...]:
    """The classes of a checked workload; none where nothing is bounded.

    Raises
    ------
    BadStudy : the table was not checked and is wrong
    """
    faults = Faults(lambda path: "slo")
    found = check_slo(slo, ("slo",), faults)
    faults.raise_if_any()
    return found


def check_slo(slo: Any, path: Path, faults: Faults) -> tuple[SloClass, ...]:
    """The classes of a table as far as they are right; every fault noted.

    Parameters
    ----------
    slo : the table as read
    path : where it stands in the study
    """
    if not isinstance(slo, Mapping):
        faults.add(path, slo, "is a value", "wanted a table, e.g. { ttft_s_p95 = 2.0 }")
        return ()
    tables = {key: value for key, value in slo.items() if isinstance(value, Mapping)}
    if not tables:
        bounds = _bounds(slo, path, faults)
        return (SloClass("all", 1.0, bounds),) if bounds else ()
    for key in slo:
        if key not in tables:
            faults.add((*path, key), slo[key], "stands beside classes", "wanted it inside a class")
    shares = _shares(tables, path, faults)
    return tuple(
        SloClass(name, shares.get(name, 0.0), _class_bounds(name, table, path, faults))
        for name, table in tables.items()
    )


def is_number(given: Any) -> bool:
    """A finite number, and no flag."""
    is_one = isinstance(given, int | float) and not isinstance(given, bool)
    return is_one and (isinstance(given, int) or math.isfinite(given))


def _class_bounds(
    name: str, table: Mapping[str, Any], path: Path, faults: Faults
) -> tuple[Bound, ...]:
    bounded = {key: value for key, value in table.items() if key != "share_frac"}
    if not bounded:
        faults.missing((*path, name), "a bound, e.g. ttft_s_p95 = 2.0")
    return _bounds(bounded, (*path, name), faults)


def _bounds(table: Mapping[str, Any], path: Path, faults: Faults) -> tuple[Bound, ...]:
    found = []
    for key, value in table.items():
        match = _BOUND.fullmatch(str(key))
        if match is None:
            faults.unknown_key((*path, key), _LATENCIES, "latency with a statistic")
        elif not (is_number(value) and 0 < value <= MOST_S):
            faults.add((*path, key), value, "is no bound", "wanted seconds above 0")
        else:
            found.append(Bound(match.group(1), match.group(2), float(value)))
    _check_order(found, path, faults)
    return tuple(found)


def _check_order(bounds: list[Bound], path: Path, faults: Faults) -> None:
    """A higher percentile with a smaller bound leaves the lower one without a meaning."""
    ranked = sorted(
        (b for b in bounds if b.statistic != "mean"), key=lambda b: (b.latency, b.percentile)
    )
    for low, high in zip(ranked, ranked[1:], strict=False):
        if low.latency == high.latency and high.most_s < low.most_s:
            faults.add(
                (*path, f"{low.latency}_{low.statistic}"), low.most_s,
                f"can never bind beside {high.latency}_{high.statistic} = {high.most_s:g}",
                "are they exchanged? Remove it, or give it the smaller bound",
            )  # fmt: skip


def _shares(
    tables: Mapping[str, Mapping[str, Any]], path: Path, faults: Faults
) -> dict[str, float]:
    """Share of every class: as given, one left out takes what is left of 1."""
    found: dict[str, float] = {}
    for name, table in tables.items():
        share = table.get("share_frac")
        if share is not None and not (is_number(share) and 0 < share <= 1):
            faults.add((*path, name, "share_frac"), share, "is no share", "wanted above 0, to 1")
            return {}
        if share is not None:
            found[name] = float(share)
    silent = [name for name in tables if name not in found]
    rest = 1.0 - sum(found.values())
    if len(silent) > 1:
        faults.missing((*path, silent[0], "share_frac"), "the share of all classes but one")
    elif silent and rest > 0:
        found[silent[0]] = rest
    elif silent or abs(rest) > 1e-9:  # 1e-9: float order of a few decimals only
        faults.say(
            path, f"the shares of the classes sum to {1.0 - rest:g}", "wanted 1; leave one out to "
            "give it the rest",
        )  # fmt: skip
    return found
