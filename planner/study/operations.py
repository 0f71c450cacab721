"""The table [workload.NAME.operations]: what happens to a fleet while it serves, and what it does.

Replays play it; the closed form knows nothing of it, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

CONFIG = ConfigDict(extra="forbid")

Seconds = Annotated[float, Field(strict=True, ge=0, le=1e7, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, config=CONFIG)
class Failure:
    """Hosts that fail, drain or slow down in the busiest window, and when they are back.

    `at_s` counts from the start of the window, `for_s` is until they serve again, None for good.
    Until `noticed_s` after a failure requests are still sent there. A "drain" takes no new
    requests, and after `grace_s` those left move. Steps of "slow" ones take `step_times` as long.
    """

    at_s: Annotated[Seconds, Field(description="seconds after the window begins, e.g. 10")]
    hosts: Annotated[int, Field(strict=True, ge=1, le=100_000, description="hosts, e.g. 1")] = 1
    for_s: Annotated[
        float | None, Field(gt=0, le=1e7, description="seconds until they serve again, e.g. 120")
    ] = None
    way: Annotated[
        Literal["failure", "drain", "slow"], Field(description='"failure", "drain" or "slow"')
    ] = "failure"
    noticed_s: Annotated[Seconds, Field(description="seconds, e.g. 5")] = 0.0
    grace_s: Annotated[Seconds | None, Field(description="seconds, e.g. 30")] = None
    step_times: Annotated[
        float, Field(strict=True, ge=1, le=1000, description="a factor of at least 1, e.g. 1.5")
    ] = 1.0


@dataclass(frozen=True, config=CONFIG)
class Admission:
    """Who is turned away at the door, and how many of the window may be.

    "queue_limit" goes by `most_waiting` requests in a replica's queue, "expected_wait" by
    `most_wait_s` until the first token. Classes with a rank below `from_rank` are always let in.
    """

    policy: Annotated[
        Literal["queue_limit", "expected_wait"],
        Field(description='"queue_limit" or "expected_wait"'),
    ]
    most_waiting: Annotated[
        int, Field(strict=True, ge=0, le=10**9, description="requests in a queue, e.g. 20")
    ] = 0
    most_wait_s: Annotated[Seconds, Field(description="seconds, e.g. 2.0")] = 0.0
    from_rank: Annotated[
        int, Field(strict=True, ge=0, le=1000, description="a rank, 0 for everybody")
    ] = 0
    most_shed_frac: Annotated[
        Share, Field(description="share of requests that may be turned away, e.g. 0.01")
    ] = 0.0


@dataclass(frozen=True, config=CONFIG)
class Autoscale:
    """Replicas switched on and off with the load; the most are those of the plan.

    `target` is of the policy: requests in the house of a replica, requests a second of one, or the
    share of its time that it is busy. `first` are on when the replay starts.
    """

    policy: Annotated[
        Literal["requests_in_house", "arrival_rate", "busy_share"],
        Field(description='"requests_in_house", "arrival_rate" or "busy_share"'),
    ]
    target: Annotated[float, Field(strict=True, gt=0, le=1e9, description="a number above 0")]
    least: Annotated[
        int, Field(strict=True, ge=1, le=100_000, description="replicas always on, e.g. 2")
    ] = 1
    first: Annotated[
        int | None,
        Field(ge=1, le=100_000, description="replicas on at the start; all if left out"),
    ] = None
    every_s: Annotated[
        float, Field(strict=True, ge=0.1, le=1e6, description="seconds between decisions, e.g. 15")
    ] = 15.0
    start_s: Annotated[Seconds, Field(description="seconds that a start takes, e.g. 60")] = 60.0
    hold_s: Annotated[Seconds, Field(description="seconds before fewer are on, e.g. 300")] = 300.0


@dataclass(frozen=True, config=CONFIG)
class ServeOperations:
    """The table; all of it is optional.

    `ranks` are by class of the workload's slo, who has less goes first; with `preempts` the less
    urgent leave their seats for them. `of_lost` says what becomes of requests in a replica that
    fails, `most_lost_frac` how many of the window may be lost.
    """

    ranks: Annotated[
        Mapping[str, Annotated[int, Field(ge=0, le=1000)]],
        Field(description="a rank of every class, { interactive = 0, batch = 1 }"),
    ] = field(default_factory=dict)
    preempts: Annotated[bool, Field(strict=True, description="true or false")] = False
    admission: Annotated[
        Admission | None, Field(description='{ policy = "queue_limit", most_waiting = 20 }')
    ] = None
    autoscale: Annotated[
        Autoscale | None, Field(description='{ policy = "requests_in_house", target = 40 }')
    ] = None
    failures: Annotated[
        tuple[Failure, ...], Field(description="tables { at_s = 10, hosts = 1, for_s = 120 }")
    ] = ()
    of_lost: Annotated[
        Literal["resume", "restart", "lose"], Field(description='"resume", "restart" or "lose"')
    ] = "resume"
    most_lost_frac: Annotated[
        Share, Field(description="share of requests that may be lost, e.g. 0.001")
    ] = 0.0

    @property
    def is_quiet(self) -> bool:
        """Nothing happens to the fleet, and all requests are alike."""
        return self == ServeOperations()
