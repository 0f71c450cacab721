"""A request trace as a document: how it was read, how long its requests are, how bursty it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from costdata.traces import Trace, catalogue_trace, read_trace
from planner.study.traffic import is_trace_file
from simkernel.arrivals import index_of_dispersion
from simkernel.columns import Codes
from simkernel.peak import peak_window
from simkernel.workload import RequestStream

WINDOWS_S = (1.0, 10.0, 60.0)
LEAST_WINDOWS = 10  # our choice: fewer say nothing of a variance


def trace_document(name: str) -> dict[str, Any]:
    """Everything counted from a trace.

    Parameters
    ----------
    name : of the catalogue, or a file

    Raises
    ------
    UnknownName, BadFile : as `costdata.traces` does
    """
    trace = read_trace(Path(name)) if is_trace_file(name) else catalogue_trace(name)
    return {"kind": "trace", "name": Path(name).name, **_reading(trace), **_load(trace.requests)}


def _reading(trace: Trace) -> dict[str, Any]:
    return {
        "format": trace.format,
        "times": trace.times,
        "is_shuffled": trace.is_shuffled,
        "left_out": dict(trace.left_out),
    }


def _load(requests: RequestStream) -> dict[str, Any]:
    arrival_s, span_s = requests.arrival_s, requests.span_s
    minute = peak_window(arrival_s, np.ones(len(requests)), span_s, 60.0)
    mean_per_s = minute.mean_tokens_per_s
    return {
        "requests": len(requests),
        "span_s": span_s,
        "requests_per_s": requests.requests_per_s,
        "prompt_tokens": _lengths(requests.prompt_tokens),
        "output_tokens": _lengths(requests.output_tokens),
        "busiest_minute_at_s": minute.start_s,
        "busiest_minute_over_mean": minute.requests_per_s / mean_per_s,
        "index_of_dispersion": {
            f"{window_s:g} s": index_of_dispersion(arrival_s, window_s, span_s)
            for window_s in WINDOWS_S
            if span_s >= LEAST_WINDOWS * window_s
        },
        "repeated_prefix_frac": _repeated(requests),
    }


def _lengths(tokens: Codes) -> dict[str, float]:
    middle, high = np.percentile(tokens, [50, 95])
    return {
        "mean": float(tokens.mean()),
        "p50": float(middle),
        "p95": float(high),
        "max": float(tokens.max()),
    }


def _repeated(requests: RequestStream) -> float | None:
    """Share of prefix blocks that came before: what an endless cache would hold."""
    prefixes = requests.prefixes
    if prefixes is None or not len(prefixes.hashes):
        return None
    return 1.0 - len(np.unique(prefixes.hashes)) / len(prefixes.hashes)
