"""What a fleet is sized on: the busiest window of a stream, its lengths, the bounds to meet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np

from planner.serving.demand import Demand, demand
from planner.study.operations import ServeOperations
from planner.study.parts import ServeWorkload
from planner.study.read import Study
from planner.study.slo import Bound
from simkernel.errors import BadStudy
from simkernel.peak import PeakWindow, peak_window
from simkernel.serving_mix import Mix, mix_of

WARM_UP_S = 120.0
"""Before the window: an order longer than a chat answer takes."""


STREAMS_HELD = 6
"""Of one study: its own and those of further seeds; 30 MB for a million requests."""


@dataclass(frozen=True)
class Load:
    """What is asked of a fleet.

    Parameters
    ----------
    requests_per_s, mix : of some stretch of the stream
    """

    requests_per_s: float
    mix: Mix

    def told(self) -> str:
        """Rate and mean lengths in words."""
        mix = self.mix
        return (
            f"{self.requests_per_s:.4g} requests/s of {mix.prompt_tokens_mean:.4g} prompt and "
            f"{mix.output_tokens_mean:.4g} output tokens"
        )


@dataclass(frozen=True)
class ServeLoad:
    """The load of a study.

    Parameters
    ----------
    demand : the whole stream
    window : its busiest window
    peak, mean : the load in the window, and over the whole stream
    bounds : the smallest bound of each latency and statistic, over classes and limits
    longest_tokens, longest_prompt_tokens : of one request
    """

    demand: Demand
    window: PeakWindow
    peak: Load
    mean: Load
    bounds: tuple[Bound, ...]
    longest_tokens: int
    longest_prompt_tokens: int

    def words(self) -> dict[str, str]:
        """How the load came about, as notes of a run."""
        window, busiest, usual = self.window, self.peak, self.mean
        length_s = window.end_s - window.start_s
        return {
            "traffic": "; ".join(self.demand.words),
            "peak": (
                f"sized on the busiest {length_s:g} s, from {window.start_s:,.0f} s on: "
                f"{busiest.told()}; the whole stream has {usual.told()}"
            ),
        }


def serve_load(study: Study) -> ServeLoad:
    """The load of a serving study; the stream of one workload is made once.

    Raises
    ------
    BadStudy : a stream without times of its own, a bound that no closed form knows
    """
    return load_of_seed(study, study.seed)


def load_of_seed(study: Study, seed: int) -> ServeLoad:
    """The load that another seed makes of the same study."""
    # what happens to the fleet leaves the stream as it is
    work = replace(study.serving, operations=ServeOperations())
    found = _stream(json.dumps(asdict(work)), seed)
    return replace(found, bounds=_bounds(study, found.demand))


@lru_cache(maxsize=STREAMS_HELD)
def _stream(workload: str, seed: int) -> ServeLoad:
    work = ServeWorkload(**json.loads(workload))
    found = demand(work, seed)
    stream = found.requests
    if stream.concurrency:
        raise BadStudy(
            f"a closed loop of {stream.concurrency} users has no rate to size a fleet on; wanted "
            'arrivals of their own, e.g. arrivals = { process = "poisson", requests_per_s = 50 }'
        )
    prompt, output = stream.prompt_tokens, stream.output_tokens
    tokens = (prompt + output).astype(float)
    window = peak_window(stream.arrival_s, tokens, stream.span_s, work.peak_window_s, WARM_UP_S)
    rows = slice(window.start_row, window.end_row)
    span_s = stream.span_s or window.end_s - window.start_s
    return ServeLoad(
        demand=found,
        window=window,
        peak=Load(window.requests_per_s, mix_of(prompt[rows], output[rows])),
        mean=Load(len(stream) / span_s, mix_of(prompt, output)),
        bounds=(),
        longest_tokens=int(np.max(prompt + output)),
        longest_prompt_tokens=int(np.max(prompt)),
    )


def _bounds(study: Study, found: Demand) -> tuple[Bound, ...]:
    """Every latency bound once, at its smallest; classes share one queue and one spread.

    Raises
    ------
    BadStudy : a bound on the slowest request of all
    """
    every = [bound for one in found.classes for bound in one.bounds]
    every += limits_on_latency(study)
    if any(bound.statistic == "max" for bound in every):
        raise BadStudy(
            "slo: the slowest request of all depends on how many there are; wanted a percentile, "
            "e.g. ttft_s_p99"
        )
    least: dict[tuple[str, str], Bound] = {}
    for bound in every:
        key = (bound.latency, bound.statistic)
        own = least.get(key, bound)
        least[key] = replace(bound, most_s=min(bound.most_s, own.most_s))
    return tuple(least.values())


def limits_on_latency(study: Study) -> list[Bound]:
    """Bounds that the study's limits put on all requests, whatever their class."""
    parts = {name: name.rpartition("_") for name in study.limits}
    return [
        Bound(latency, statistic, study.limits[name])
        for name, (latency, _, statistic) in parts.items()
        if latency in ("ttft_s", "tpot_s", "e2e_s")
    ]


def checks_of(study: Study, found: Demand) -> tuple[tuple[int, str, Bound], ...]:
    """Every bound with the code and the name of its class; -1 and "" where it is on all.

    A replay knows who is of which class; the closed form holds the tightest for all.
    """
    if len(found.classes) < 2:
        return tuple((-1, "", bound) for bound in _bounds(study, found))
    own = [(code, f"{one.name}.", b) for code, one in enumerate(found.classes) for b in one.bounds]
    return (*own, *((-1, "", bound) for bound in limits_on_latency(study)))
