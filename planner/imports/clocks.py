"""Clocks of host and device in a trace, which have to be one."""

from __future__ import annotations

SKEWED_FRAC = 0.001
"""Events that are over before what they wait for begins, of all that wait: single stamps slip
(CUPTI gives each side its own clock), above this the clocks do not belong together; own choice."""


def skew_faults(where: str, early: int, tied: int, what: str) -> list[str]:
    """What is wrong with the stamps of a trace, in words; [] where nothing is.

    Parameters
    ----------
    early, tied : events that are over too early, and all that wait for another
    what : who is early for whom, as the fault says it
    """
    if early <= SKEWED_FRAC * tied:
        return []
    return [
        f"{where}: {early:,} of {tied:,} {what} begins; the clocks of host and device are apart: "
        "record the trace again"
    ]
