"""How long prompts and answers are: drawn evenly from a range, or from lengths that were seen."""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats


def even_tokens(least: int, most: int, requests: int, rng: np.random.Generator) -> Codes:
    """Token counts of which every one in a range is as likely.

    Parameters
    ----------
    least, most : both ends belong to the range, whole numbers of at least 1
    requests : how many to draw
    rng : what is drawn from
    """
    return rng.integers(least, most, requests, endpoint=True)


def seen_tokens(values: Codes, weights: Floats, requests: int, rng: np.random.Generator) -> Codes:
    """Token counts as often as they were seen.

    Parameters
    ----------
    values : (k,) token counts
    weights : (k,) how often each was seen, in any unit
    requests : how many to draw
    rng : what is drawn from
    """
    shares = np.asarray(weights, dtype=float) / np.sum(weights)
    return rng.choice(np.asarray(values), requests, p=shares)


def seen_rows(seen: int, requests: int, rng: np.random.Generator) -> Codes:
    """Rows of requests that were seen, drawn with replacement.

    Prompt and answer of one row stay together: long prompts and long answers do not come
    independently, and a plan for the mean of both is no plan for both at once.

    Parameters
    ----------
    seen : how many there are
    requests : how many to draw
    rng : what is drawn from
    """
    return rng.integers(0, seen, requests)
