"""What happens to a fleet while it serves: replicas fail, drain, slow down, go on and off.

Times count from the start of the stream. A replica here is one row of the replay; of copies that
step together the whole group goes and comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from simkernel import plugins
from simkernel.errors import BadStudy

FAILURE, DRAIN, SLOW = "failure", "drain", "slow"
WAYS = (FAILURE, DRAIN, SLOW)
RESUME, RESTART, LOSE = "resume", "restart", "lose"
AFTER = (RESUME, RESTART, LOSE)
NEVER_S = float("inf")


@dataclass(frozen=True)
class Outage:
    """Replicas that are not what they should be for some time.

    Parameters
    ----------
    replicas : which
    from_s, until_s : from when, and when they are as before; infinity for good [s]
    way : "failure": steps and caches are lost at once, and requests find another replica once it
        is noticed. "drain": no new request comes in, and after `grace_s` those left find another
        replica. "slow": steps take `times` as long
    noticed_s : after a failure, while the router still sends requests there [s]
    grace_s : of a drain [s]
    times : of a slow one, at least 1

    Raises
    ------
    BadStudy : times that run backwards, a way that is none; every fault at once
    """

    replicas: tuple[int, ...]
    from_s: float
    until_s: float = NEVER_S
    way: str = FAILURE
    noticed_s: float = 0.0
    grace_s: float = NEVER_S
    times: float = 1.0

    def __post_init__(self) -> None:
        faults = []
        if self.way not in WAYS:
            faults.append(f"an outage has way {self.way!r}; give one of {', '.join(WAYS)}")
        if not 0 <= self.from_s < self.until_s:
            faults.append(
                f"an outage is from {self.from_s} to {self.until_s} s; give rising times"
            )
        if not (self.noticed_s >= 0 and self.grace_s >= 0 and 1 <= self.times < NEVER_S):
            faults.append(f"{self} is no outage; give times of at least 1, all else of at least 0")
        if faults:
            raise BadStudy(*faults)


@dataclass(frozen=True)
class Scaling:
    """Replicas switched on and off with the load.

    Parameters
    ----------
    policy : file in autoscaling/
    target : of that policy, above 0
    least, first : replicas that are always on, and that are on at the start; the most are the
        fleet's own
    every_s : between two questions [s]
    start_s : from the decision until a replica takes its first request: boot, weights, warm-up [s]
    hold_s : fewer are on only when that was enough for so long [s]
    unit : rows that are one replica here: all copies and slots of it

    Raises
    ------
    BadStudy : numbers that make no sense; UnknownName : no such policy
    """

    policy: str
    target: float
    least: int = 1
    first: int = 1
    every_s: float = 15.0
    start_s: float = 60.0
    hold_s: float = 300.0
    unit: int = 1

    def __post_init__(self) -> None:
        plugins.find("autoscaling", self.policy)
        is_whole = 1 <= self.least <= self.first and self.unit >= 1
        is_timed = 0 < self.every_s < NEVER_S and 0 <= self.start_s < NEVER_S and self.hold_s >= 0
        if not (is_whole and is_timed and 0 < self.target < NEVER_S):
            raise BadStudy(
                f"{self} cannot scale a fleet; give a target and every_s above 0, "
                "1 <= least <= first, all else at least 0"
            )


class Watched(NamedTuple):
    """What a policy of autoscaling sees.

    Parameters
    ----------
    now_s : time
    working : replicas that are on, those starting included
    waiting, running : requests in all queues and at the router, in all batches
    busy_frac : of the time since the last question, replicas open then, mean
    requests_per_s : that came since the last question
    """

    now_s: float
    working: int
    waiting: int
    running: int
    busy_frac: float
    requests_per_s: float


@dataclass(frozen=True)
class Operations:
    """What happens to a fleet.

    Parameters
    ----------
    outages : in any order; several may meet on one replica
    of_lost : what becomes of requests in a replica that fails: "resume" computes prompt and tokens
        made so far again elsewhere, "restart" begins anew, "lose" gives up
    scaling : None where all replicas are always on
    """

    outages: tuple[Outage, ...] = ()
    of_lost: str = RESUME
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.of_lost not in AFTER:
            raise BadStudy(f"of_lost is {self.of_lost!r}; give one of {', '.join(AFTER)}")


QUIET = Operations()
