"""Why a plan lies outside what was held to measured runs, what that means and what to do.

A plan is outside for its chip, or for a way of running that no measured run has; each has words of
its own, since another purchase mends the first and none the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.bands import UNVALIDATED_WIDTH
from planner.documents.figures import figure, human
from planner.report.gather import MONEY, Gathered
from planner.report.words import Say
from planner.study.pools import has_pools
from planner.study.read import Study

COMPUTE = {"tiled": "outside_tiled", "measured": "outside_timed"}


def outside(study: Study, row: Mapping[str, Any], say: Say) -> str:
    """Why a plan is not validated, in words.

    Parameters
    ----------
    row : its decisions and metrics, "validated" 0 among them
    """
    ways = {
        "outside_pools": study.kind == "serve" and has_pools(study),
        "outside_prefix": str(row.get("prefix_cache", "none")) != "none",
        "outside_drafts": str(row.get("speculative", "none")) != "none",
        "outside_copies": float(row.get("attention_data_parallel", 1)) > 1,
    }
    found = [say(key) for key, is_it in ways.items() if is_it]
    compute = COMPUTE.get(str(row.get("compute", "")))
    if compute:
        found.append(say(compute))
    key = "outside_served" if study.kind == "serve" else "outside_chip"
    return say.listed(found) or say(
        key, chip=row.get("accelerator", ""), precision=row.get("precision", "")
    )


def not_validated(got: Gathered, say: Say) -> str:
    """What it means that the chosen plan is not validated, and what to do; "" where it is."""
    if got.value("validated") != 0:
        return ""
    row = {name: column[got.choice.row] for name, column in got.front.items()}
    words = say("not_validated", why=outside(got.study, row, say), wide=figure(UNVALIDATED_WIDTH))
    todo = say(f"not_validated_{got.study.kind}")
    return (" " if say.language == "en" else "").join(
        part for part in (words, todo, _measured(got, say)) if part
    )


def _measured(got: Gathered, say: Say) -> str:
    """The cheapest plan that is validated, beside the choice; "" where there is none."""
    usd = np.asarray(got.front[MONEY], float)
    is_measured = np.asarray(got.front["validated"], float) != 0
    rows = [row for row in got.drawn_rows if is_measured[row] and np.isfinite(usd[row])]
    if not rows:
        return say("not_validated_none")
    best = min(rows, key=lambda row: usd[row])
    return say(
        "not_validated_other",
        hardware=f"{figure(got.value('devices', best))} × {got.word('accelerator', best)}",
        site=got.word("site", best),
        usd=human(float(usd[best]), "USD"),
    )
