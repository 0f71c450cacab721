"""Where nobody knows how often machines fail: what a plan needs of them, as a surface.

Goodput and days over rates of failure and times of recovery, and the rate at which the study's
limit on days still holds. No point of the surface is said to be the likely one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.study.read import Study
from planner.training.goodput import PINNED
from simkernel import reliability
from simkernel.errors import MissingFact

DEVICE_MTBF_H = (5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5)
"""From ten times worse than Llama 3's 50,677 h to ten times better."""

RECOVERY_S = (60.0, 300.0, 900.0, 3600.0)
"""From a hot spare that takes over to an engineer who is called."""

S_PER_HOUR = 3600.0  # SI brochure, table 8
S_PER_DAY = 86400.0  # SI brochure, table 8


def is_date_unknown(study: Study) -> bool:
    """The study says that the rate of failures is not known, and pins no goodput."""
    return study.reliability.is_mtbf_unknown and PINNED not in study.pin


def refuse_unknown_dates(study: Study) -> None:
    """No plan is found where nobody can say how long one takes.

    Raises
    ------
    MissingFact : the rate of failures is not known
    """
    if study.kind == "train" and is_date_unknown(study):
        raise MissingFact(
            'reliability.device_mtbf_h is "unknown", so days, money and carbon of no plan are; '
            "give it in hours, pin goodput_frac, or see with planner evaluate what a plan needs"
        )


def breakeven(study: Study, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The surface of one plan, as a document has it.

    Parameters
    ----------
    metrics : of the plan, without those that rest on failures

    Returns
    -------
    {"device_mtbf_h", "recovery_s", "goodput_frac", "days", "days_limit", "least_device_mtbf_h"},
    goodput and days with one line for each rate, the last with one figure for each recovery,
    None where no rate of failures is low enough
    """
    useful_s = study.training.tokens / metrics["tokens_per_s"]
    recovery_s = np.array(RECOVERY_S)[None, :]
    job_s = np.array(DEVICE_MTBF_H)[:, None] * S_PER_HOUR / metrics["devices"]
    checkpoint_s = metrics["checkpoint_s"]
    interval_s = reliability.available_interval_s(job_s, checkpoint_s, recovery_s)
    goodput = reliability.told_goodput_frac(job_s, interval_s, checkpoint_s, recovery_s)
    limit = study.limits.get("days")
    found = {
        "device_mtbf_h": list(DEVICE_MTBF_H),
        "recovery_s": list(RECOVERY_S),
        "goodput_frac": goodput.tolist(),
        "days": (useful_s / goodput / S_PER_DAY).tolist(),
        "days_limit": limit,
    }
    if limit is None:
        return found
    most = limit * S_PER_DAY / useful_s - 1.0
    least_s = reliability.least_mtbf_s(most + 0.0 * recovery_s[0], checkpoint_s, recovery_s[0])
    least_h = least_s * metrics["devices"] / S_PER_HOUR
    return {**found, "least_device_mtbf_h": [None if np.isnan(h) else float(h) for h in least_h]}
