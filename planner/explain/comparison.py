"""Two plans of a run side by side: every figure, its change, and what each buys for its price.

Changes lead from the plan compared against to the plan asked for: what is gained or paid by
taking the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from costdata.carbon import abatement_usd_per_t
from planner.hardware.figures import FLOP_PER_S_PER_PFLOP_PER_S as PER_PFLOP_PER_S
from planner.metrics import METRICS

J_PER_MWH = 3.6e9


@dataclass(frozen=True)
class Ratio:
    """One figure over the product of others, times a factor that makes its unit.

    Parameters
    ----------
    name : with its unit; the metric of that name where a study has it
    above, below : metrics
    how : in words
    """

    name: str
    above: str
    below: tuple[str, ...]
    factor: float
    how: str


RATIOS = (
    Ratio("usd_per_pflop_per_s", "capex_usd", ("peak_flop_per_s",), PER_PFLOP_PER_S,
          "paid up front over peak rate"),
    Ratio("it_peak_w_per_pflop_per_s", "it_peak_w", ("peak_flop_per_s",), PER_PFLOP_PER_S,
          "peak watts of the IT over peak rate"),
    Ratio("facility_j_per_pflop", "facility_mean_w", ("peak_flop_per_s",), PER_PFLOP_PER_S,
          "energy at the meter over work at peak rate"),
    Ratio("usd_per_year_per_pflop_per_s", "usd_per_year", ("peak_flop_per_s",), PER_PFLOP_PER_S,
          "yearly cost over peak rate"),
    Ratio("kgco2e_per_pflop_per_s", "kgco2e", ("peak_flop_per_s",), PER_PFLOP_PER_S,
          "carbon of the whole life over peak rate"),
    Ratio("capex_usd_per_token_per_s", "capex_usd", ("tokens_per_s", "goodput_frac"), 1.0,
          "paid up front over tokens a second, failures included"),
    Ratio("facility_j_per_token", "facility_mean_w", ("tokens_per_s", "goodput_frac"), 1.0,
          "energy at the meter over tokens, failures included"),
    Ratio("device_hours_per_mtoken", "device_hours", ("days", "tokens_per_s", "goodput_frac"),
          1e6 / 86400.0, "device-hours over millions of tokens, failures included"),
    Ratio("capex_usd_per_output_token_per_s", "capex_usd", ("output_tokens_per_s",), 1.0,
          "paid up front over output tokens a second of the busiest window"),
    Ratio("it_peak_w_per_output_token_per_s", "it_peak_w", ("output_tokens_per_s",), 1.0,
          "peak watts of the IT over output tokens a second of the busiest window"),
    Ratio("facility_j_per_output_token", "facility_mwh", ("output_tokens",), J_PER_MWH,
          "energy at the meter over output tokens, prompts included"),
    Ratio("kgco2e_per_output_mtoken", "kgco2e", ("output_tokens",), 1e6,
          "carbon over millions of output tokens, prompts included"),
)  # fmt: skip
"""What a price, a watt or a kilogram buys; a study has those whose figures it knows."""


def compared(plan: Mapping[str, Any], against: Mapping[str, Any]) -> dict[str, Any]:
    """What differs between two explained plans.

    Parameters
    ----------
    plan, against : documents of `explain`, each at its own place

    Returns
    -------
    "abatement": "usd_per_t" that avoiding carbon costs over the other plan, left out where none
    is avoided; "differs": choices and words that are not the same; "metrics" and "ratios": name
    to "against", "plan", "change" and "change_frac", None with "why" where there is none
    """
    before, after = against["metrics"], plan["metrics"]
    names = [name for name in after if name in before]
    figures = [n for n in names if _is_figure(before[n]) and _is_figure(after[n])]
    return {
        **_abatement(before, after),
        "differs": dict(_differing(plan, against, figures)),
        "metrics": {n: _line(before[n], after[n], _null_words(plan, against, n)) for n in figures},
        "ratios": {
            ratio.name: {**_ratio_line(ratio, before, after), "how": ratio.how}
            for ratio in RATIOS
            if all(name in figures for name in (ratio.above, *ratio.below))
        },
    }


def _abatement(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What a tonne less costs; no figure where no tonne is avoided."""
    known = [one.get(name) for one in (before, after) for name in ("usd", "kgco2e")]
    if None in known:
        return {}
    usd = abatement_usd_per_t(after["usd"], after["kgco2e"], before["usd"], before["kgco2e"])
    if np.isnan(usd):
        return {}
    avoided = before["kgco2e"] - after["kgco2e"]
    return {"abatement": {"usd_per_t": float(usd), "avoided_kgco2e": avoided}}


def _null_words(plan: Mapping[str, Any], against: Mapping[str, Any], name: str) -> str:
    """Why a figure is NULL, and in which of the plans."""
    return "; ".join(
        f"{side}: {one['null_reasons'].get(name, 'not known')}"
        for side, one in (("against", against), ("plan", plan))
        if one["metrics"][name] is None
    )


def _ratio_line(
    ratio: Ratio, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    faults = [
        f"{side}: {name} is {'not known' if metrics[name] is None else '0'}"
        for side, metrics in (("against", before), ("plan", after))
        for name in (ratio.above, *ratio.below)
        if metrics[name] is None or (name in ratio.below and metrics[name] == 0)
    ]
    return _line(_value(ratio, before), _value(ratio, after), "; ".join(faults))


def _differing(
    plan: Mapping[str, Any], against: Mapping[str, Any], figures: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Choices, and what is told in words, that are not the same."""
    for part in ("axes", "metrics"):
        before, after = against[part], plan[part]
        for name in after:
            is_told = part == "axes" and name not in METRICS or name not in figures
            if is_told and name in before and before[name] != after[name]:
                yield name, {"against": before[name], "plan": after[name]}


def _line(before: float | None, after: float | None, why: str) -> dict[str, Any]:
    """Both values and the change from the first to the second."""
    found: dict[str, Any] = {"against": before, "plan": after, "change": None, "change_frac": None}
    if before is None or after is None:
        return {**found, "why": why}
    found["change"] = after - before
    if before > 0:
        return {**found, "change_frac": after / before - 1.0}
    if before == after:
        return {**found, "change_frac": 0.0}
    sign = "0" if before == 0 else "below 0"
    return {**found, "why": f"it is {sign} in the plan compared against: no share of it"}


def _value(ratio: Ratio, metrics: Mapping[str, Any]) -> float | None:
    """A ratio of one plan; None where a figure of it is not known or it divides by 0."""
    above, below = metrics[ratio.above], [metrics[name] for name in ratio.below]
    if above is None or not all(below):
        return None
    return float(ratio.factor * above / prod(below))


def _is_figure(value: Any) -> bool:
    """A number, or None where there is none; words and yes or no are not."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
