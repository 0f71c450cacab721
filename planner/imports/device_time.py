"""How the time of a device in a trace splits: kinds of kernels, idle between them, steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.imports.kernel_kinds import KINDS, OTHER
from simkernel.columns import Floats


def time_split(
    starts_s: Floats, seconds: Floats, kinds: Floats, steps_s: Floats
) -> Mapping[str, float]:
    """Shares of the device's time by kind, and what is left between kernels.

    Parameters
    ----------
    starts_s, seconds : (n,) of kernels of one device [s]
    kinds : (n,) index in KINDS
    steps_s : (m,) length of the steps that are marked, may be empty [s]

    Returns
    -------
    `kernel_s` all kernels together, `busy_s` in which at least one ran, `span_s` from the first to
    the last, `idle_frac` of the span, `recognised_frac` of the kernels' time, one share a kind,
    `step_s` median of the steps, NaN without any
    """
    order = np.argsort(starts_s)
    begin, end = starts_s[order], (starts_s + seconds)[order]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([[begin[0]], reached[:-1]])
    busy_s = float(np.sum(np.maximum(end - np.maximum(begin, before), 0.0)))
    span_s = float(reached[-1] - begin[0])
    total_s = float(seconds.sum())
    by_kind = np.bincount(kinds, weights=seconds, minlength=len(KINDS)) / total_s
    shares = {f"{kind.replace(' ', '_')}_frac": float(by_kind[i]) for i, kind in enumerate(KINDS)}
    return {
        "kernel_s": total_s,
        "busy_s": busy_s,
        "span_s": span_s,
        "idle_frac": 1.0 - busy_s / span_s if span_s > 0 else 0.0,
        "recognised_frac": 1.0 - float(by_kind[KINDS.index(OTHER)]),
        **shares,
        "step_s": float(np.median(steps_s)) if len(steps_s) else float("nan"),
    }
