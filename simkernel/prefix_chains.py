"""Hashes of prompt blocks as chains: a block is the same only where all before it are.

Traces name blocks of their own size; engines hash smaller ones. A chain is known by a number, so
that two prompts share a beginning exactly as far as their numbers agree.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes
from simkernel.workload import Prefixes


def chain_codes(prefixes: Prefixes) -> Codes:
    """A number for every block and all blocks before it; (m,) from 0 without gaps.

    Parameters
    ----------
    prefixes : hashed blocks of n prompts

    Notes
    -----
    Blocks of all prompts are numbered place by place, by the number of the block before and the
    hash; the first blocks come after nothing.

    References
    ----------
    vLLM, docs/design/prefix_caching: a block's hash is of its parent's hash and its own tokens.
    """
    lengths, firsts = np.diff(prefixes.starts), prefixes.starts[:-1]
    names, own = np.unique(prefixes.hashes, return_inverse=True)
    codes = np.zeros(len(prefixes.hashes), dtype=np.int64)
    before = np.zeros(len(lengths), dtype=np.int64)
    known = 0
    for place in range(int(np.max(lengths, initial=0))):
        rows = np.flatnonzero(lengths > place)
        at = firsts[rows] + place
        pairs = before[rows] * max(len(names), 1) + own.reshape(-1)[at]
        found, order = np.unique(pairs, return_inverse=True)
        codes[at] = before[rows] = known + order.reshape(-1)
        known += len(found)
    return codes
