"""Figures of a serving benchmark held against each other, and against the weights it reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from costdata.times import FASTER_FRAC
from planner.imports.numbers import is_number
from simkernel.errors import BadFile
from simkernel.hardware import PRECISION_BYTES, PRECISIONS
from simkernel.models import WEIGHT_BITS, Model, active_parameters

Run = Mapping[str, Any]

NEEDED = (
    "duration", "completed", "total_input_tokens", "total_output_tokens", "median_ttft_ms",
    "mean_tpot_ms",
)  # fmt: skip

AGREES_FRAC = 0.02
"""Between a rate of a file and its count over its duration; both are printed figures."""

RATES = {
    "request_throughput": ("completed",),
    "output_throughput": ("total_output_tokens",),
    "input_throughput": ("total_input_tokens",),
    "total_token_throughput": ("total_input_tokens", "total_output_tokens"),
    "total_throughput": ("total_input_tokens", "total_output_tokens"),
}
"""Rates that benchmarks print (the last under another name by SGLang), and what they count."""

ABOVE_FRAC = 0.1
"""By which the requests in flight may lie above the limit: where a file gives no mean of whole
latencies, they are made of means over requests of unlike lengths; own choice."""

LEAST_HELD_FRAC = 0.5
"""Of the limit, in flight in the mean: less is a run that was over before it was full, or that
did not hold its limit; own choice."""

SIGMAS = 3.0
"""Of the time that as many requests take to arrive by chance (a Poisson stream)."""


def number(run: Run, name: str) -> float | None:
    """A finite number of a run; None where it is none."""
    value = run.get(name)
    return float(value) if is_number(value) else None


def figure_faults(run: Run, where: str) -> list[str]:
    """What is wrong with the figures of a run, in words."""
    lacking = [name for name in NEEDED if (number(run, name) or 0.0) <= 0.0]
    if lacking:
        return [f"{where}: {', '.join(lacking)} not given or not above zero"]
    faults = []
    if run.get("failed"):
        faults.append(f"{where}: {run['failed']} requests failed; mend the run before its times")
    if any(str(name).startswith("spec_decode") for name in run):
        faults.append(f"{where}: ran with draft tokens, which are not scored; run it without")
    for name, counts in RATES.items():
        rate = number(run, name)
        made = sum(number(run, count) or 0.0 for count in counts) / float(run["duration"])
        if rate is not None and abs(rate / made - 1.0) > AGREES_FRAC:
            faults.append(
                f"{where}: {name} {rate:g} /s, but {' and '.join(counts)} over duration is "
                f"{made:g} /s; one of them is another run's"
            )
    return faults


def in_flight(run: Run, where: str) -> tuple[float, bool]:
    """Requests in flight, and whether a limit held them there (a closed loop).

    Parameters
    ----------
    run : without `figure_faults`

    Raises
    ------
    BadFile : nothing says how many there were, or the figures contradict what is said

    Notes
    -----
    Requests that come at a rate are as many as Little's law says, throughput times latency;
    `max_concurrency` is then only what they may not pass.

    References
    ----------
    Little 1961, "A proof for the queuing formula L = lambda W", equation 1.
    """
    limit = number(run, "max_concurrency")
    limit = limit if limit and limit >= 1.0 else None
    found = float(run["completed"]) / float(run["duration"]) * _latency_s(run)
    if limit and found > limit * (1.0 + ABOVE_FRAC):
        raise BadFile(
            f"{where}: {found:.3g} requests in flight (throughput times latency), but "
            f"max_concurrency is {limit:g}; one of them is another run's"
        )
    if _is_closed(run, where):
        if limit is None:
            raise BadFile(
                f"{where}: max_concurrency is not given and all requests came at once, so their "
                "number fell all the while; run it with --max-concurrency, or --request-rate"
            )
        if found < limit * LEAST_HELD_FRAC:
            raise BadFile(
                f"{where}: {found:.3g} requests in flight in the mean (throughput times latency), "
                f"but max_concurrency is {limit:g}; run it with more prompts (--num-prompts), "
                "or with the limit that it held"
            )
        return limit, True
    if limit is None and _fell_behind(run):
        raise BadFile(
            f"{where}: requests came at {run['request_rate']:g} /s and were served at "
            f"{float(run['completed']) / float(run['duration']):.3g} /s, so ever more were in "
            "flight; run it at a lower rate or with --max-concurrency"
        )
    return found, False


def _is_closed(run: Run, where: str) -> bool:
    """Requests come as soon as the limit lets them, not at a rate.

    Raises
    ------
    BadFile : the run does not say, or its rate changed
    """
    if run.get("ramp_up_strategy"):
        raise BadFile(f"{where}: its request rate was ramped; run it at one rate")
    rate = run.get("request_rate")
    if str(rate).lower() in ("inf", "infinity"):
        return True
    if (number(run, "request_rate") or 0.0) <= 0.0:
        raise BadFile(
            f"{where}: request_rate {rate!r} says neither inf nor requests a second; give the "
            "result as the benchmark wrote it"
        )
    return False


def _latency_s(run: Run) -> float:
    """Mean time of a whole request, by its parts where the run does not give it [s]."""
    whole = number(run, "mean_e2el_ms") or number(run, "mean_e2e_latency_ms")
    if whole:
        return whole * 1e-3
    first = number(run, "mean_ttft_ms") or float(run["median_ttft_ms"])
    later = float(run["total_output_tokens"]) / float(run["completed"]) - 1.0
    return (first + float(run["mean_tpot_ms"]) * max(later, 0.0)) * 1e-3


def _fell_behind(run: Run) -> bool:
    """The run lasted longer than its requests took to arrive, and one of them to end."""
    count = float(run["completed"])
    arrived_s = count / float(run["request_rate"]) * (1.0 + SIGMAS / math.sqrt(count))
    return float(run["duration"]) > arrived_s + _latency_s(run)


def least_token_s(
    model: Model, precisions: tuple[str, str], devices: int, hbm_bytes_per_s: float
) -> float:
    """Least seconds in which any engine makes one token of one request.

    Parameters
    ----------
    precisions : of dense products and of those of experts
    devices : that share a layer; stages work one after another on a token
    hbm_bytes_per_s : memory rate of one device [bytes/s]

    Notes
    -----
    The weights that one token meets are read once by all devices together, in the narrower of the
    stated precision and that of the model's file. Keys, values and messages come on top.
    """
    terms = active_parameters(model, "without_input").terms
    stored = WEIGHT_BITS.get(model.weight_precision, 16.0) / 8.0
    dense, experts = (min(PRECISION_BYTES[PRECISIONS.index(name)], stored) for name in precisions)
    total = sum(float(n) * (experts if part == "experts" else dense) for part, n in terms.items())
    return total / (devices * hbm_bytes_per_s)


def too_fast(run: Run, least_s: float, where: str) -> list[str]:
    """Times of a run that no device can reach, in words.

    Parameters
    ----------
    least_s : one reading of the weights [s]
    """
    return [
        f"{where}: {name} {float(run[name]):g} is faster than the memory of the devices gives the "
        f"weights ({least_s * 1e3:.3g} ms); is it another chip, layout, precision or unit?"
        for name in ("mean_tpot_ms", "median_ttft_ms")
        if float(run[name]) * 1e-3 < least_s * (1.0 - FASTER_FRAC)
    ]
