"""Where no plan is on the front: why, and the plans that come nearest to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from costdata.nulls import reasons_of_row
from planner.costing.null_objectives import no_price, null_objectives, why_none
from planner.costing.second_pass import NULL_REASONS, Costed
from planner.study.read import Study
from simkernel.columns import Masks

NEAREST_ROWS = 10
"""Plans told when nothing is feasible."""

ORDER_OF_SUM = 1e-9
"""Share of a limit by which the order of a sum may pass it."""


def nearest_costed(study: Study, costed: Costed) -> dict[str, Any]:
    """Why no plan is on the front, and those that come nearest, the least over a limit first.

    Returns
    -------
    "why": sentences for what no limit forbids and no figure is known of; "plans": one dictionary
    each, with the limit that is exceeded most, or the objective that is NULL, as "binding";
    "lacks_facts" where of every plan a limited figure, or the price, is not known
    """
    if not len(costed.is_front):
        return {"why": [no_price(study)], "lacks_facts": True}
    over = costed.worst_excess
    is_kept = over <= ORDER_OF_SUM
    why = why_none(study, costed.columns, is_kept, costed.nulls)
    return {
        **({"why": why} if why else {}),
        "lacks_facts": not bool(np.isfinite(over).any()),
        **_nearest_plans(study, costed, is_kept),
    }


def least_over(table: Mapping[str, Any]) -> dict[str, Any]:
    """The few rows of a table that exceed a limit least, one dictionary each.

    Of equals those with the lower design key, whatever order they were found in.
    """
    keys = table.get("key", np.zeros(len(table["worst_excess"])))
    best = np.lexsort((np.asarray(keys, dtype=np.int64), table["worst_excess"]))[:NEAREST_ROWS]
    shown = [n for n in table if "[" not in n]
    return {"plans": [{name: _plain(table[name][i]) for name in shown} for i in best]}


def _nearest_plans(study: Study, costed: Costed, is_kept: Masks) -> dict[str, Any]:
    binding = np.full(len(is_kept), "", dtype=object)
    if costed.limits:
        names = np.array(list(costed.limits), dtype=object)
        binding = names[costed.excess.argmax(axis=0)]
    for name, is_null in reversed(null_objectives(study, costed.columns).items()):
        binding = np.where(is_kept & is_null, name, binding)
    table = {**costed.columns, "worst_excess": costed.worst_excess, "binding": binding}
    best = np.argsort(costed.worst_excess, kind="stable")[:NEAREST_ROWS]
    few = {name: np.asarray(column)[best] for name, column in table.items()}
    why = np.array([reasons_of_row(costed.nulls, int(row)) for row in best], dtype=object)
    return least_over({**few, NULL_REASONS: why})


def _plain(value: Any) -> Any:
    """A NumPy value as Python's own; what is not a number becomes None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
