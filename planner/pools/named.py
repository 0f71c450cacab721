"""Pairs as a person reads them: names for codes, columns of each pool, every metric and ledger."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.archive.columns import ledger_columns
from planner.evaluated import Evaluated
from planner.pools.engine import PoolsEngine
from planner.pools.join import Pair
from planner.pools.space import COUNTED
from planner.space.named import WHOLE, named_axis
from planner.space.plan_keys import plan_name
from planner.study.pools import OF_BOTH, POOLS
from simkernel.columns import Codes

WHOLE_OF_A_POOL = ("replicas", "devices", "nodes", "purchase_units", "used_per_domain")
BETWEEN = " + "
"""Between the chips of prefill and of decode: no chip of the catalogue is called so, and whoever
knows of one pool alone finds none."""


def named_pairs(
    engine: PoolsEngine, pair: Pair, codes: Any, found: Evaluated, picked: Codes
) -> dict[str, Any]:
    """Picked pairs as columns.

    Parameters
    ----------
    codes : (n, axes) of the space of pairs
    picked : (k,) rows
    """
    keys = engine.space.keys(codes[picked])
    out: dict[str, Any] = {"key": keys}
    out["plan"] = np.array([plan_name(int(key)) for key in keys], dtype=object)
    rows = dict(zip(POOLS, (pair.prefill, pair.decode), strict=True))
    chips = {}
    for pool, own in rows.items():
        plans = own.ready
        chips[pool] = np.full(len(picked), plans.accelerator, dtype=object)
        for name in engine.pools[pool].space.axes:
            if name in (*OF_BOTH, COUNTED):
                continue
            own_column = named_axis(engine.pools[pool], name, plans.columns)
            out[f"{pool}.{name}"] = np.asarray(own_column)[picked]
        out[f"{pool}.{COUNTED}"] = np.rint(own.replicas[picked]).astype(np.int64)
    for name in (n for n in OF_BOTH if n in engine.space.levels):
        out[name] = _of_both(engine, name, codes)[picked]
    out["accelerator"] = chips[POOLS[0]] + BETWEEN + chips[POOLS[1]]
    out |= {name: np.asarray(value)[picked] for name, value in found.metrics.items()}
    whole = [
        *(n for n in WHOLE if n in out),
        *(f"{p}.{n}" for p in POOLS for n in WHOLE_OF_A_POOL),
    ]
    out |= {name: np.rint(out[name]).astype(np.int64) for name in whole}
    shape = 0.0 * found.metrics["days"]
    for name, value in ledger_columns(found.ledgers.values()).items():
        out[name] = (value + shape)[picked]
    return out


def _of_both(engine: PoolsEngine, name: str, codes: Any) -> Any:
    """An axis that both pools share."""
    levels = engine.space.levels[name]
    at = codes[:, engine.space.axes.index(name)]
    is_word = all(isinstance(level, str) for level in levels)
    return np.array(levels, dtype=object if is_word else float)[at]
