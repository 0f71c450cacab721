"""A lane that goes on with answers whose prompts were computed elsewhere.

Sequences come with their keys and values, wait for the step under way, and stay until their last
token. Its limit of validity is the lane that keeps up and has a place for who comes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simkernel.columns import Floats
from simkernel.false_position import crossing
from simkernel.lane import Lane, lane_step_s, standing_of
from simkernel.lane_pace import Pace
from simkernel.serve_open import Spread, tpot

ROOT_STEPS = 9
"""In which the number of a lane is found: 1e-4 of it is left at most (tested)."""


def most_answers_per_s(lane: Lane) -> Floats:
    """Answers that a full lane gives; (n,) [1/s]."""
    full = np.maximum(lane.held_sequences, 1e-3)
    step_s = lane_step_s(lane, standing_of(lane, full))
    return full / (np.maximum(lane.later_steps, 1e-9) * step_s)


def answer_pace(lane: Lane, requests_per_s: Floats) -> Pace:
    """The steady state at a rate; a full lane beyond what it gives.

    Notes
    -----
    Sequences = rate x steps of an answer x step of so many (Little 1961).
    """
    steps = np.maximum(lane.later_steps, 1e-9)
    most = np.maximum(lane.held_sequences, 1e-3)

    def missing(sequences: Floats) -> Floats:
        step_s = lane_step_s(lane, standing_of(lane, sequences))
        return sequences - requests_per_s * steps * step_s

    none = 0.0 * most
    over = missing(most)
    found, *_ = crossing(missing, none, most, missing(none), over, ROOT_STEPS)
    return _pace_of(lane, np.where(over <= 0.0, most, found))


def _pace_of(lane: Lane, sequences: Floats) -> Pace:
    """Steps of so many who decode; no step carries a prompt."""
    standing = standing_of(lane, sequences)
    step_s = lane_step_s(lane, standing)
    none = 0.0 * step_s
    arrivals = sequences / np.maximum(lane.later_steps, 1e-9)
    return Pace(
        sequences, arrivals, step_s, step_s, step_s, none, none, none, none, none, standing
    )


def answer_times(lane: Lane, at: Pace) -> Spread:
    """Mean time between the tokens of an answer after the first, over requests.

    Notes
    -----
    As `serve_open.tpot` of a lane without prompts; the second token waits for the rest of the
    step under way too, longer ones met more often.
    """
    crowd = np.sqrt(np.maximum(at.decoding_sequences, 1e-9))
    most = np.maximum(lane.held_sequences, 1e-3)
    fuller = _pace_of(lane, np.minimum(at.decoding_sequences + crowd, most))
    found = tpot(lane, at, fuller.step_s)
    busy = 1.0 - np.exp(-at.decoding_sequences)
    joins_s = 0.5 * at.step_s * busy * lane.mix.answer_share_frac
    spread_s = at.step_s * busy / np.sqrt(12.0) * lane.mix.answer_share_frac
    return replace(found, mean_s=found.mean_s + joins_s, sd_s=np.sqrt(found.sd_s**2 + spread_s**2))
