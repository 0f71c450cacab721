"""The requests that a serving workload offers, and in words how they came about.

One seed gives one stream: arrivals, lengths, copies and classes draw from generators of their own,
so that changing one leaves the others as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path as File

import numpy as np

from costdata.traces import Trace, catalogue_trace, read_trace
from planner.study.parts import Scale, ServeWorkload
from planner.study.slo import SloClass, slo_classes
from planner.study.traffic import (
    MOST_REQUESTS,
    Arrivals,
    Bursts,
    ClosedLoop,
    Diurnal,
    Gamma,
    Lengths,
    Poisson,
    Profile,
    Recorded,
    Synthetic,
    is_trace_file,
    traffic_of,
)
from simkernel.arrivals import (
    burst_arrivals_s,
    diurnal_arrivals_s,
    gamma_arrivals_s,
    poisson_arrivals_s,
    profiled_arrivals_s,
)
from simkernel.columns import Codes, Floats
from simkernel.errors import BadStudy
from simkernel.lengths import even_tokens, seen_rows, seen_tokens
from simkernel.scaling import SHIFT_S, Scaled, compressed, superposed
from simkernel.workload import RequestStream


@dataclass(frozen=True)
class Demand:
    """What a workload offers.

    Parameters
    ----------
    requests : the stream, its first arrival at 0 s
    classes : of latencies to meet, none where nothing is bounded
    class_codes : (n,) index into `classes` of each request, 0 where there are fewer than two
    words : how the stream came about, one sentence each
    """

    requests: RequestStream
    classes: tuple[SloClass, ...]
    class_codes: Codes
    words: tuple[str, ...]


def demand(work: ServeWorkload, seed: int) -> Demand:
    """The requests of a workload.

    Parameters
    ----------
    work : as a study gives it, checked
    seed : one seed gives one stream

    Raises
    ------
    BadFile, UnknownName : its trace cannot be read, or is not there
    BadStudy : no request, or too many, would come
    """
    draws = [np.random.default_rng(part) for part in np.random.SeedSequence(seed).spawn(4)]
    source = traffic_of(work.trace)
    if isinstance(source, Recorded):
        stream, words = _recorded(source)
    else:
        stream, words = _drawn(source, draws[0], draws[1])
    if work.scale is not None:
        scaled = _scaled(stream, work.scale, draws[2])
        stream, words = scaled.requests, (*words, scaled.words)
    if not len(stream):
        raise BadStudy(
            f"no request comes: {'; '.join(words)}; give a longer time or a higher rate"
        )
    stream = replace(stream, arrival_s=stream.arrival_s - stream.arrival_s[0])
    classes = slo_classes(work.slo)
    return Demand(stream, classes, _class_codes(classes, len(stream), draws[3]), words)


def _trace(name: str, time_unit: str = "") -> Trace:
    return read_trace(File(name), time_unit) if is_trace_file(name) else catalogue_trace(name)


def _recorded(source: Recorded) -> tuple[RequestStream, tuple[str, ...]]:
    trace = _trace(source.name, source.time_unit)
    words = [f"{len(trace.requests):,} requests of {File(source.name).name}: {trace.times}"]
    words += [f"{count:,} left out: {reason}" for reason, count in trace.left_out.items()]
    words += ["rows were not in order of time and were sorted"] * trace.is_shuffled
    return trace.requests, tuple(words)


def _drawn(
    source: Synthetic, of_times: np.random.Generator, of_lengths: np.random.Generator
) -> tuple[RequestStream, tuple[str, ...]]:
    concurrency = 0
    if isinstance(source.arrivals, ClosedLoop):
        concurrency = source.arrivals.concurrency
        arrival_s, span_s = np.zeros(source.requests), 0.0
        words = f"{len(arrival_s):,} requests of {concurrency} users who wait for their answers"
    else:
        arrival_s, span_s = _times(source, source.arrivals, of_times)
        words = f"{len(arrival_s):,} requests drawn from {source.arrivals.process} arrivals"
    prompt, output = _both_lengths(source, len(arrival_s), of_lengths)
    stream = RequestStream(arrival_s, prompt, output, span_s, concurrency=concurrency)
    return stream, (words,)


def _times(
    source: Synthetic, arrivals: Arrivals, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Arrivals and the time they stand for: as long as asked, or until enough have come."""
    if source.span_s:
        return _draw(arrivals, source.span_s, rng), source.span_s
    span_s = source.requests / getattr(arrivals, "requests_per_s", 1.0)
    arrival_s = _draw(arrivals, span_s, rng)
    while len(arrival_s) <= source.requests:
        span_s *= 2
        arrival_s = _draw(arrivals, span_s, rng)
    return arrival_s[: source.requests], float(arrival_s[source.requests])


def _draw(arrivals: Arrivals, span_s: float, rng: np.random.Generator) -> Floats:
    """Times of an open process in [0, span_s)."""
    match arrivals:
        case Poisson(rate):
            return poisson_arrivals_s(rate, span_s, rng)
        case Gamma(rate, cv):
            return gamma_arrivals_s(rate, cv, span_s, rng)
        case Diurnal(rate, peak, peak_at_s, period_s):
            return diurnal_arrivals_s(rate, peak, peak_at_s, period_s, span_s, rng)
        case Profile(rate, profile, period_s):
            return profiled_arrivals_s(rate, np.asarray(profile), period_s, span_s, rng)
        case Bursts(rate, peak, burst_s, quiet_s):
            return burst_arrivals_s(rate, peak, burst_s, quiet_s, span_s, rng)
        case ClosedLoop():
            raise BadStudy("a closed loop has no times to draw; give its number of requests")


def _both_lengths(
    source: Synthetic, requests: int, rng: np.random.Generator
) -> tuple[Codes, Codes]:
    """Prompt and output tokens; of one trace for both, pairs stay together."""
    seen = {
        name: _trace(name).requests for name in {source.prompt.trace, source.output.trace} - {""}
    }
    rows = {name: seen_rows(len(trace), requests, rng) for name, trace in sorted(seen.items())}
    drawn = {name: seen[name].prompt_tokens[rows[name]] for name in seen}
    prompt = _lengths(source.prompt, drawn, requests, rng)
    drawn = {name: seen[name].output_tokens[rows[name]] for name in seen}
    return prompt, _lengths(source.output, drawn, requests, rng)


def _lengths(
    lengths: Lengths, drawn: Mapping[str, Codes], requests: int, rng: np.random.Generator
) -> Codes:
    if lengths.trace:
        return drawn[lengths.trace]
    if lengths.values:
        values, weights = np.asarray(lengths.values), np.asarray(lengths.weights)
        return seen_tokens(values, weights, requests, rng)
    return even_tokens(lengths.least, lengths.most, requests, rng)


def _scaled(stream: RequestStream, scale: Scale, rng: np.random.Generator) -> Scaled:
    expected = len(stream) * (scale.times if scale.by == "superpose" else 1.0)
    if expected > MOST_REQUESTS:
        raise BadStudy(
            f"scale.times = {scale.times:g} makes {expected:,.0f} requests; wanted at most "
            f"{MOST_REQUESTS:,}; compress a part, or scale what one replica serves"
        )
    if scale.by == "compress":
        return compressed(stream, scale.times)
    return superposed(
        stream, scale.times, rng, SHIFT_S if scale.shift_s is None else scale.shift_s
    )


def _class_codes(classes: tuple[SloClass, ...], requests: int, rng: np.random.Generator) -> Codes:
    """Class of each request, drawn by the shares."""
    if len(classes) < 2:
        return np.zeros(requests, dtype=np.int64)
    shares = np.array([each.share_frac for each in classes])
    return rng.choice(len(classes), requests, p=shares / shares.sum())
