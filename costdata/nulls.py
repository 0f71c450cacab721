"""Why a figure is not there: for every NULL of a table the one reason of its row.

A reason that covers several causes ("rented, or no rent is known") tells a reader nothing about
his own row; causes are tried in order, and each row takes the first that holds for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from costdata.own_or_rent import Renting
from costdata.terms import CostingTerms
from simkernel.columns import Codes, Floats, Masks

Nulls = dict[str, dict[str, Masks]]
"""Metric to reason to the rows (m,) in which it is NULL for that reason."""

Causes = Sequence[tuple[str, Masks | bool]]
"""Reasons with the rows in which they hold, the first that holds first; the last holds always."""

NO_TOKENS = "the study yields no tokens"
NO_RENT = "no rent is known for the accelerator"
NOT_OWNED = "nothing is owned"
FREE_RENT = "the rent is 0, so owning never repays"
LOSING = "renting costs no more than running what is owned, so owning never repays"
RESERVED = "the rent compared with is a reservation, which is paid whatever the use"
BELOW_ENERGY = "renting an hour costs no more than the energy of using what is owned: never equal"
TOO_SLOW = "renting saves less than the interest on the price, so owning never repays, discounted"
NO_MARGINAL = "no marginal intensity is known for the site"
NO_MARKET = "no contract and no residual factor is known for the site"
NO_COOLING = "nobody says how the server of this chip is cooled; add cooling to your servers.csv"
NO_CLEAN_SHARE = "no carbon-free share of the site's grid is known"
NO_WATER = "no water use is known on site and at its power stations"
NO_WATER_ON_SITE = "no water use is known on site"
NO_WATER_OF_POWER = "no water use is known of the site's power stations"


def bill_nulls(
    columns: Mapping[str, Floats],
    emitted: Mapping[str, Floats],
    terms: CostingTerms,
    rented: Renting,
) -> Nulls:
    """Why columns of a bill are NULL.

    Parameters
    ----------
    columns : of `bill.plan_costs`, (m,)
    emitted : operational carbon by accounting, (m,) [kgCO2e]
    terms : (m,) or one row
    rented : renting the same units, (m,)
    """
    not_compared = [
        (NOT_OWNED, ~terms.is_bought),
        (NO_RENT, np.isnan(rented.full_usd)),
        (FREE_RENT, rented.full_usd == 0),
    ]
    not_by_hour = [*not_compared, (RESERVED, ~rented.is_by_hour)]
    never = np.isnan(columns["payback_months"])
    causes: dict[str, Causes] = {
        "usd_per_mtoken": [(NO_TOKENS, True)],
        "kgco2e_per_mtoken": [(NO_TOKENS, True)],
        "rent_usd": [(NO_RENT, True)],
        "breakeven_utilisation_frac": not_by_hour,
        "npv_zero_utilisation_frac": [*not_by_hour, (BELOW_ENERGY, True)],
        "payback_months": [*not_compared, (LOSING, True)],
        "payback_discounted_months": [*not_compared, (LOSING, never), (TOO_SLOW, True)],
        "water_l": _water_causes(terms),
        "water_onsite_l": [(NO_WATER_ON_SITE, True)],
        "water_offsite_l": [(NO_WATER_OF_POWER, True)],
        "carbon_free_frac": [(NO_CLEAN_SHARE, True)],
        **{f"{end}{tail}": [(words, True)]
           for end, words in (("location_marginal", NO_MARGINAL), ("market", NO_MARKET))
           for tail in ("", "_kgco2e")},
    }  # fmt: skip
    return nulls({**columns, **emitted}, causes)


def nulls(columns: Mapping[str, Floats], causes: Mapping[str, Causes]) -> Nulls:
    """The NaN of some columns, each with the first of its causes that holds in its row; (m,)."""
    found: Nulls = {}
    for name, own in causes.items():
        left = np.isnan(columns[name])
        if not left.any():
            continue
        found[name] = {}
        for words, holds in own:
            rows = left & holds
            if rows.any():
                found[name][words] = rows
                left = left & ~rows
    return found


def of_rows(found: Nulls, rows: Codes) -> Nulls:
    """The same for some of the rows."""
    taken = {n: {words: mask[rows] for words, mask in own.items()} for n, own in found.items()}
    kept = {n: {w: mask for w, mask in own.items() if mask.any()} for n, own in taken.items()}
    return {name: own for name, own in kept.items() if own}


def one_below_the_other(parts: Sequence[tuple[Nulls, int]]) -> Nulls:
    """Tables stacked, each with its number of rows."""
    pairs = dict.fromkeys(
        (n, words) for part, _ in parts for n, own in part.items() for words in own
    )
    found: Nulls = {}
    for name, words in pairs:
        masks = [part.get(name, {}).get(words, np.zeros(rows, bool)) for part, rows in parts]
        found.setdefault(name, {})[words] = np.concatenate(masks)
    return found


def reasons_of_row(found: Nulls, row: int) -> dict[str, str]:
    """Metric to the reason why it is NULL in one row."""
    return {name: words for name, own in found.items() for words, mask in own.items() if mask[row]}


def told(found: Nulls) -> dict[str, str]:
    """Metric to why it is NULL in a whole table; rows are counted where not all are alike."""
    return {name: "; ".join(_counted(own)) for name, own in found.items()}


def _counted(own: Mapping[str, Masks]) -> list[str]:
    return [
        words if mask.all() else f"{words} ({int(mask.sum())} of {len(mask)} rows)"
        for words, mask in own.items()
    ]


def _water_causes(terms: CostingTerms) -> Causes:
    on_site, of_power = (
        np.isnan(terms.wue_onsite_l_per_kwh), np.isnan(terms.wue_offsite_l_per_kwh)
    )  # fmt: skip
    return [
        (NO_WATER, on_site & of_power),
        (NO_WATER_ON_SITE, on_site),
        (NO_WATER_OF_POWER, True),
    ]
