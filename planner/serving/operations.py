"""What happens to a serving fleet, from a study to its replay, and what the closed form can say.

The closed form knows a whole fleet that is always on and serves whoever comes in order: of a
failure it says how busy the survivors are, of everything else nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from planner.study.operations import Failure, ServeOperations
from planner.study.read import Study
from planner.study.slo import slo_classes
from simkernel.columns import Codes
from simkernel.operations.outages import NEVER_S, Operations, Outage, Scaling


def operations_faults(study: Study) -> list[str]:
    """What the table asks that cannot be played, each with its remedy."""
    asked, faults = study.serving.operations, []
    classes = [one.name for one in slo_classes(study.serving.slo)]
    if asked.ranks and set(asked.ranks) != set(classes):
        known = ", ".join(classes) if len(classes) > 1 else "none"
        faults.append(
            f"operations.ranks are of {', '.join(asked.ranks)}; the classes of slo are {known}; "
            "give every class a rank"
        )
    if asked.preempts and not asked.ranks:
        faults.append(
            "operations.preempts has no effect where all requests have one rank; give ranks"
        )
    return faults


def operations_notes(study: Study) -> dict[str, str]:
    """What the closed form does not know of what was asked."""
    asked = study.serving.operations
    if asked.is_quiet:
        return {}
    named = [name for name, has in _has(asked).items() if has]
    cost = "; money, watts and carbon are of the whole fleet always on" if asked.autoscale else ""
    return {
        "operations": (
            f"{', '.join(named)}: only replays play it; in closed form figures are of a fleet "
            f"that is whole, always on and serves in order of arrival{cost}"
        )
    }


def _has(asked: ServeOperations) -> dict[str, bool]:
    return {
        "ranks": bool(asked.ranks),
        "admission": asked.admission is not None,
        "autoscale": asked.autoscale is not None,
        "failures": bool(asked.failures),
    }


def ranks_of(study: Study, class_codes: Codes) -> Codes | None:
    """Rank of each request by its class; None where all are alike."""
    asked = study.serving.operations
    if not asked.ranks:
        return None
    by_class = [asked.ranks[one.name] for one in slo_classes(study.serving.slo)]
    return np.array(by_class, dtype=np.int64)[class_codes]


def operations_of(
    asked: ServeOperations, window_s: float, replicas: int, lanes: int, lost_with_host: int
) -> Operations:
    """What happens in a replay.

    Parameters
    ----------
    window_s : when the window begins, after the replay does
    replicas, lanes : of the fleet, and rows of the replay that are one of them
    lost_with_host : replicas that go with a host
    """
    outages, first = [], 0
    for failure in asked.failures:
        count = min(failure.hosts * lost_with_host, replicas)
        hit = [(first + i) % replicas for i in range(count)]
        first = (first + count) % replicas  # hosts that fail one after another are others
        outages.append(_outage(failure, window_s, hit, lanes))
    return Operations(tuple(outages), asked.of_lost, _scaling(asked, replicas, lanes))


def _outage(failure: Failure, window_s: float, hit: list[int], lanes: int) -> Outage:
    from_s = window_s + failure.at_s
    return Outage(
        replicas=tuple(one * lanes + lane for one in hit for lane in range(lanes)),
        from_s=from_s,
        until_s=NEVER_S if failure.for_s is None else from_s + failure.for_s,
        way=failure.way,
        noticed_s=failure.noticed_s,
        grace_s=NEVER_S if failure.grace_s is None else failure.grace_s,
        times=failure.step_times,
    )


def _scaling(asked: ServeOperations, replicas: int, lanes: int) -> Scaling | None:
    scale = asked.autoscale
    if scale is None:
        return None
    first = replicas if scale.first is None else min(scale.first, replicas)
    return Scaling(
        policy=scale.policy,
        target=scale.target,
        least=min(scale.least, first),
        first=first,
        every_s=scale.every_s,
        start_s=scale.start_s,
        hold_s=scale.hold_s,
        unit=lanes,
    )


def admission_of(asked: ServeOperations) -> dict[str, Any]:
    """Fields of the replay's fleet that say who is let in and who gives way."""
    found: dict[str, Any] = {"evicts": asked.preempts}
    if asked.admission is not None:
        found |= {
            "admission": asked.admission.policy,
            "most_waiting": asked.admission.most_waiting,
            "most_wait_s": asked.admission.most_wait_s,
            "shed_from_rank": asked.admission.from_rank,
        }
    return found


def survivors(
    asked_per_s: float,
    saturated_per_s: float,
    within_per_s: float,
    replicas: int,
    lost: int,
    hosts: int,
) -> list[dict[str, Any]]:
    """What is left of a fleet after 1 to k hosts, in closed form.

    Parameters
    ----------
    asked_per_s : requests of the busiest window
    saturated_per_s, within_per_s : that one replica serves, at all and within every bound
    lost : replicas that go with a host
    hosts : k

    Notes
    -----
    Of N replicas at utilisation rho the survivors of one are at rho N / (N - 1).
    """
    rows = []
    for k in range(1, hosts + 1):
        left = max(replicas - k * lost, 0)
        used = asked_per_s / (left * saturated_per_s) if left else math.inf
        rows.append(
            {
                "hosts": k,
                "replicas_left": left,
                "utilisation_frac": used if math.isfinite(used) else None,
                "keeps_up": used < 1.0,
                "keeps_bounds": used < 1.0 and left * within_per_s >= asked_per_s,
            }
        )
    return rows
