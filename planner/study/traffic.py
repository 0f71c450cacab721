"""Where the requests of a serving study come from: a catalogue trace, a file, or distributions.

Every fault is told with its line, and the table stays as written: `traffic_of` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from pathlib import Path as File
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from planner.study.faults import Faults
from planner.study.lines import Path
from planner.study.parts import Amount, AtLeastZero, Count
from planner.study.slo import check_slo, is_number
from simkernel.errors import BadStudy

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False)

SPAN_S = 3600.0  # our choice: the length of the public traces of 2023; else one whole period
REQUESTS = 10_000  # our choice: of a closed loop, which has no time of its own
MOST_REQUESTS = 50_000_000  # our choice: 1.2 GB of columns
MOST_TOKENS = 100_000_000  # our choice: ten times the longest context offered

RATE = "requests a second above 0, e.g. requests_per_s = 5.5"
OVER = "the highest rate over the mean, from 1, e.g. peak_over_mean = 1.6"
SECONDS = "seconds above 0"

Rate = Annotated[Amount, Field(le=1e7, description=RATE)]


@dataclass(frozen=True, config=_CONFIG)
class Poisson:
    """Users who do not know of each other."""

    requests_per_s: Rate
    process: Annotated[Literal["poisson"], Field(description='"poisson"')] = "poisson"


@dataclass(frozen=True, config=_CONFIG)
class Gamma:
    """Independent gaps, `cv` is their standard deviation over their mean."""

    requests_per_s: Rate
    cv: Annotated[Amount, Field(ge=0.01, le=100, description="from 0.01 to 100, e.g. cv = 2.0")]
    process: Annotated[Literal["gamma"], Field(description='"gamma"')] = "gamma"


@dataclass(frozen=True, config=_CONFIG)
class Diurnal:
    """A rate that swings as a cosine."""

    requests_per_s: Rate
    peak_over_mean: Annotated[Amount, Field(ge=1, le=2, description=f"{OVER}, to 2")]
    peak_at_s: Annotated[AtLeastZero, Field(description="seconds from the start")] = 50_400.0
    period_s: Annotated[Amount, Field(description=SECONDS)] = 86_400.0
    process: Annotated[Literal["diurnal"], Field(description='"diurnal"')] = "diurnal"


@dataclass(frozen=True, config=_CONFIG)
class Profile:
    """A rate that repeats a profile of equal steps, such as 24 hours."""

    requests_per_s: Rate
    profile: Annotated[
        tuple[AtLeastZero, ...],
        Field(min_length=2, max_length=100_000, description="relative rates, e.g. [1, 3, 2]"),
    ]
    period_s: Annotated[Amount, Field(description=SECONDS)] = 86_400.0
    process: Annotated[Literal["profile"], Field(description='"profile"')] = "profile"


@dataclass(frozen=True, config=_CONFIG)
class Bursts:
    """Two rates in turn; bursts and quiet times have exponential lengths."""

    requests_per_s: Rate
    peak_over_mean: Annotated[Amount, Field(ge=1, description=OVER)]
    burst_s: Annotated[Amount, Field(description=f"mean length of a burst, {SECONDS}")]
    quiet_s: Annotated[Amount, Field(description=f"mean time between bursts, {SECONDS}")]
    process: Annotated[Literal["bursts"], Field(description='"bursts"')] = "bursts"


@dataclass(frozen=True, config=_CONFIG)
class ClosedLoop:
    """So many users who each wait for an answer before they ask again."""

    concurrency: Annotated[Count, Field(description="a whole number, e.g. concurrency = 64")]
    process: Annotated[Literal["closed_loop"], Field(description='"closed_loop"')] = "closed_loop"


Arrivals = Poisson | Gamma | Diurnal | Profile | Bursts | ClosedLoop

ARRIVALS: Mapping[str, type[Any]] = MappingProxyType(
    {
        "poisson": Poisson,
        "gamma": Gamma,
        "diurnal": Diurnal,
        "profile": Profile,
        "bursts": Bursts,
        "closed_loop": ClosedLoop,
    }
)
"""Processes by the name a study gives them."""


@plain_dataclass(frozen=True)
class Lengths:
    """Token counts: even from `least` to `most`, or as often as seen, or those of a trace.

    Parameters
    ----------
    least, most : ends of a range, equal for a fixed length; 0 where `values` or `trace` say it
    values, weights : what was seen and how often; empty for a range
    trace : name or file of the trace whose lengths are drawn, "" for none
    """

    least: int = 0
    most: int = 0
    values: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    trace: str = ""


@plain_dataclass(frozen=True)
class Recorded:
    """A trace as it was recorded: a catalogue name or a file, and its unit if it cannot tell."""

    name: str
    time_unit: str = ""


@plain_dataclass(frozen=True)
class Synthetic:
    """Requests to draw; `span_s` is 0 for a closed loop, `requests` 0 where time ends them."""

    arrivals: Arrivals
    prompt: Lengths
    output: Lengths
    span_s: float
    requests: int


TRACE_FILES = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".gz", ".xz")
_UNITS = ("s", "ms", "us", "ns")


def with_files(table: Mapping[str, Any], folder: File) -> dict[str, Any]:
    """A workload's table with the files of its trace as paths from the root."""
    trace = table.get("trace")
    if isinstance(trace, str):
        return {**table, "trace": _from_root(trace, folder)}
    if not isinstance(trace, Mapping):
        return dict(table)
    named = {
        key: _from_root(value, folder, is_path=key == "file")
        for key, value in trace.items()
        if key in ("file", "prompt_tokens", "output_tokens") and isinstance(value, str)
    }
    return {**table, "trace": {**trace, **named}}


def is_trace_file(name: str) -> bool:
    """A trace is named by its file, not by the catalogue."""
    return name.endswith(TRACE_FILES) or "/" in name or name.startswith("~")


def traces_named(table: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Where a workload's table names traces of the catalogue, and the names."""
    trace = table.get("trace")
    given: dict[Path, Any] = {("trace",): trace}
    if isinstance(trace, Mapping):
        keys = ("prompt_tokens", "output_tokens")
        given = {("trace", key): trace[key] for key in keys if key in trace}
    return [
        (path, name)
        for path, name in given.items()
        if isinstance(name, str) and name and not is_trace_file(name)
    ]


def check_serving(table: Mapping[str, Any], path: Path, faults: Faults) -> None:
    """Note everything that is wrong with `trace`, `scale` and `slo` of a workload's table."""
    trace, scale = table.get("trace"), table.get("scale")
    if isinstance(trace, Mapping):
        traffic = _traffic(trace, (*path, "trace"), faults)
        is_loop = isinstance(traffic, Synthetic) and isinstance(traffic.arrivals, ClosedLoop)
        if is_loop and isinstance(scale, Mapping) and scale.get("by") == "compress":
            faults.say(
                (*path, "scale", "by"),
                "a closed loop has no times to compress",
                'wanted by = "superpose", which multiplies the users at once',
            )
    if "slo" in table:
        check_slo(table["slo"], (*path, "slo"), faults)


def traffic_of(trace: str | Mapping[str, object]) -> Recorded | Synthetic:
    """Where the requests of a checked workload come from.

    Raises
    ------
    BadStudy : the table was not checked and is wrong
    """
    faults = Faults(lambda path: "trace")
    found = Recorded(trace) if isinstance(trace, str) else _traffic(trace, ("trace",), faults)
    faults.raise_if_any()
    if found is None:
        raise BadStudy("trace is incomplete; wanted arrivals, prompt_tokens and output_tokens")
    return found


def _from_root(name: str, folder: File, is_path: bool = False) -> str:
    if not (is_path or is_trace_file(name)):
        return name
    return str((folder / File(name).expanduser()).resolve())


def _traffic(trace: Mapping[str, Any], path: Path, faults: Faults) -> Recorded | Synthetic | None:
    """The traffic of a table, or None with its faults noted."""
    if "file" in trace:
        return _recorded(trace, path, faults)
    known = ("arrivals", "prompt_tokens", "output_tokens", "duration_s", "requests")
    for key in trace:
        if key not in known:
            faults.unknown_key((*path, key), (*known, "file"), "key of a trace")
    before = len(faults.found)
    arrivals = _arrivals(trace, path, faults)
    prompt = _lengths(trace, (*path, "prompt_tokens"), faults)
    output = _lengths(trace, (*path, "output_tokens"), faults)
    span_s, requests = _extent(trace, arrivals, path, faults)
    if len(faults.found) > before or not (arrivals and prompt and output):
        return None
    return Synthetic(arrivals, prompt, output, span_s, requests)


def _recorded(trace: Mapping[str, Any], path: Path, faults: Faults) -> Recorded:
    for key in trace:
        if key not in ("file", "time_unit"):
            faults.unknown_key((*path, key), ("file", "time_unit"), "key beside file")
    file, unit = trace["file"], trace.get("time_unit", "")
    if not isinstance(file, str) or not file:
        faults.add((*path, "file"), file, "is no path", 'write e.g. file = "trace.csv"')
    if unit not in ("", *_UNITS):
        faults.add((*path, "time_unit"), unit, "is no unit", f"wanted one of {', '.join(_UNITS)}")
    return Recorded(str(file), str(unit))


def _arrivals(trace: Mapping[str, Any], path: Path, faults: Faults) -> Arrivals | None:
    path = (*path, "arrivals")
    given = trace.get("arrivals")
    if given is None:
        faults.missing(path, 'e.g. arrivals = { process = "poisson", requests_per_s = 5.5 }')
        return None
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = {"process": "poisson", "requests_per_s": given}
    process = given.get("process") if isinstance(given, Mapping) else given
    if not isinstance(process, str) or process not in ARRIVALS:
        known = ", ".join(f'"{name}"' for name in ARRIVALS)
        faults.add(path, given, "is no process", f"wanted {{ process = one of {known}, … }}")
        return None
    shape = ARRIVALS[process]
    table = dict(given) if isinstance(given, Mapping) else {"process": process}
    try:
        found: Arrivals = TypeAdapter(shape).validate_python(table)
    except ValidationError as error:
        faults.take_pydantic(error, path, table, shape.__pydantic_fields__)
        return None
    _check_arrivals(found, path, faults)
    return found


def _check_arrivals(found: Arrivals, path: Path, faults: Faults) -> None:
    """What no single key can be wrong about."""
    if isinstance(found, Profile) and not any(found.profile):
        faults.add((*path, "profile"), found.profile, "is all 0", "give a rate above 0 somewhere")
    if isinstance(found, Bursts):
        most = (found.burst_s + found.quiet_s) / found.burst_s
        if found.peak_over_mean > most:
            faults.add(
                (*path, "peak_over_mean"),
                found.peak_over_mean,
                "needs less than no request between bursts",
                f"wanted at most (burst_s + quiet_s) / burst_s = {most:g}",
            )


def _extent(
    trace: Mapping[str, Any], arrivals: Arrivals | None, path: Path, faults: Faults
) -> tuple[float, int]:
    """Span and number of the requests; one of them is 0: it follows from the other."""
    before = len(faults.found)
    _check_end(trace, isinstance(arrivals, ClosedLoop), path, faults)
    if arrivals is None or len(faults.found) > before:
        return 0.0, 0
    requests = int(trace.get("requests", 0))
    if isinstance(arrivals, ClosedLoop):
        return 0.0, requests or REQUESTS
    period_s = getattr(arrivals, "period_s", 0.0)
    span_s = 0.0 if requests else float(trace.get("duration_s", period_s or SPAN_S))
    lasts_s = span_s or requests / arrivals.requests_per_s
    if lasts_s < period_s:
        faults.say(
            (*path, "requests" if requests else "duration_s"),
            f"{lasts_s:g} s are a part of the period of {period_s:g} s, with another mean rate "
            "and perhaps no peak",
            "wanted at least one period",
        )
    _check_draws(arrivals, lasts_s, path, faults)
    return span_s, requests


def _check_end(trace: Mapping[str, Any], is_loop: bool, path: Path, faults: Faults) -> None:
    """What ends the stream: a number of requests or a time, not both."""
    duration_s, requests = trace.get("duration_s"), trace.get("requests")
    if is_loop and duration_s is not None:
        problem = "a closed loop lasts as long as its answers take"
        faults.add((*path, "duration_s"), duration_s, problem, "wanted requests = a whole number")
    elif duration_s is not None and requests is not None:
        faults.say(path, "duration_s and requests both say when it ends", "remove one of them")
    if requests is not None and not _is_count(requests, MOST_REQUESTS):
        wanted = f"wanted a whole number from 1 to {MOST_REQUESTS:,}"
        faults.add((*path, "requests"), requests, "is no number of requests", wanted)
    if duration_s is not None and not (is_number(duration_s) and 0 < duration_s <= 1e9):
        faults.add((*path, "duration_s"), duration_s, "is no duration", f"wanted {SECONDS}")


def _check_draws(
    arrivals: Poisson | Gamma | Diurnal | Profile | Bursts,
    lasts_s: float,
    path: Path,
    faults: Faults,
) -> None:
    """As many are drawn as would come at the highest rate all the time, and as bursts turn."""
    over = getattr(arrivals, "peak_over_mean", 1.0)
    if isinstance(arrivals, Profile) and any(arrivals.profile):
        over = max(arrivals.profile) * len(arrivals.profile) / sum(arrivals.profile)
    draws = lasts_s * arrivals.requests_per_s * over
    if isinstance(arrivals, Bursts):
        draws += 2 * lasts_s / (arrivals.burst_s + arrivals.quiet_s)
    if draws > MOST_REQUESTS:
        faults.say(
            path,
            f"{draws:,.0f} arrivals are to be drawn",
            f"wanted at most {MOST_REQUESTS:,}; take a shorter time, or scale a part",
        )


def _lengths(trace: Mapping[str, Any], path: Path, faults: Faults) -> Lengths | None:
    given = trace.get(str(path[-1]))
    if given is None:
        faults.missing(path, "a number, { from, to }, a list of numbers seen, or a trace")
        return None
    if isinstance(given, str) and given:
        return Lengths(trace=given)
    if _is_count(given, MOST_TOKENS):
        return Lengths(int(given), int(given))
    if isinstance(given, Mapping) and set(given) == {"from", "to"}:
        least, most = given["from"], given["to"]
        if _is_count(least, MOST_TOKENS) and _is_count(most, MOST_TOKENS) and least <= most:
            return Lengths(int(least), int(most))
    is_table = isinstance(given, Mapping) and {"values"} <= set(given) <= {"values", "weights"}
    values = given["values"] if is_table else given
    weights = given.get("weights") if is_table else None
    found = _seen(values, weights)
    if found is None:
        faults.add(
            path, given, "is no length", f"wanted a whole number from 1 to {MOST_TOKENS:,}, "
            "{ from = 128, to = 2048 }, a list of numbers, { values = […], weights = […] } of one "
            "length with a weight above 0, or the name of a trace",
        )  # fmt: skip
    return found


def _seen(values: Any, weights: Any) -> Lengths | None:
    """Lengths as often as seen, None if the two lists are none."""
    if not isinstance(values, list | tuple) or not values:
        return None
    shares = [1.0] * len(values) if weights is None else weights
    if not isinstance(shares, list | tuple) or len(shares) != len(values):
        return None
    are_weights = all(is_number(share) and 0 <= share <= 1e18 for share in shares)
    if not are_weights or not any(shares) or not all(_is_count(v, MOST_TOKENS) for v in values):
        return None
    return Lengths(
        values=tuple(int(value) for value in values), weights=tuple(float(w) for w in shares)
    )


def _is_count(given: Any, most: int) -> bool:
    return is_number(given) and 1 <= given <= most and int(given) == given
