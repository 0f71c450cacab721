"""What a lane holds that is full: sequences that run at once, and those whom it puts back.

Memory admits newcomers until it is full and then throws out whom it cannot let grow, to compute
them again; a limit of sequences only lets them wait. Held to replays of closed loops.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Floats
from simkernel.serving_mix import Mix


def held(mix: Mix, room_sequences: Floats, most_sequences: Floats) -> Floats:
    """Sequences that decode in a full lane, on average; (n,).

    Parameters
    ----------
    room_sequences : mean ones that memory has room for
    most_sequences : limit of the engine, at which newcomers simply wait

    Notes
    -----
    The first who waits comes in as soon as his prompt fits, so half a prompt is free on average.
    """
    free = 0.5 * mix.prompt_tokens_mean / mix.context_tokens
    return np.asarray(np.clip(room_sequences - free, 0.0, most_sequences))


def thrown(
    mix: Mix, room_sequences: Floats, most_sequences: Floats, budget_tokens: Floats
) -> Floats:
    """Times that a request of a full lane is put back and its prompt computed again; (n,).

    Notes
    -----
    What is free is anything up to a prompt. Answers grow into it, and whoever ends frees as much
    as he holds: at random, once in an answer's growth of the whole crowd. The last to come is put
    back when the growth wins. A prompt that the budget cuts comes in before there is room for
    its rest. How much of the one and of the other is our choice, within 10% of the rates of
    replayed lanes, most within 5%. A lane that its limit of sequences fills before its memory
    puts nobody back.
    """
    growths = mix.prompt_tokens_mean / max(mix.later_tokens, 1.0)
    wins = (1.0 - np.exp(-growths)) / growths
    cut = np.maximum(mix.prompt_tokens_mean / budget_tokens - UNCUT_FRAC, 0.0)
    times = WINS_FRAC * wins + CUT_FRAC * cut
    return np.where(held(mix, room_sequences, most_sequences) < most_sequences, times, 0.0)


WINS_FRAC, CUT_FRAC, UNCUT_FRAC = 0.75, 0.34, 0.2
