"""What others ask for tokens of a model: dated list prices, and what some traffic costs at them.

The alternative to owning or renting devices at all. Discounts, cache hits and batch rates are not
known here; whoever has a quote gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costdata.facts import Fact, Row, Table
from simkernel.columns import Column, Floats


@dataclass(frozen=True)
class ApiPrice:
    """One dated list price of a model's tokens.

    Parameters
    ----------
    usd_per_mtoken_input, usd_per_mtoken_output : a million prompt tokens, no cache hit; a million
        output tokens
    """

    provider: str
    model: str
    usd_per_mtoken_input: float
    usd_per_mtoken_output: float
    as_of: str

    def told(self) -> str:
        """Provider, prices and date in words."""
        prices = f"{self.usd_per_mtoken_input:g} in, {self.usd_per_mtoken_output:g} out"
        return f"{self.provider} ({prices} a million, {self.as_of})"


def api_prices(table: Table, model: str) -> tuple[ApiPrice, ...]:
    """List prices of a model by its slug, newest first; () where none is known."""
    rows = [row for row in table.values() if row.text("model") == model]
    found = [_price(row) for row in rows]
    return tuple(sorted(found, key=lambda price: price.as_of, reverse=True))


def api_facts(table: Table, model: str) -> dict[str, Fact]:
    """What stands behind `api_prices`, with sources."""
    return {
        f"api_prices.{row.name}.{column}": row.facts[column]
        for row in table.values()
        if row.text("model") == model
        for column in ("usd_per_mtoken_input", "usd_per_mtoken_output")
    }


def api_usd(prices: Sequence[ApiPrice], input_mtokens: Column, output_mtokens: Column) -> Floats:
    """The least that some traffic costs at these prices; (m,), NaN where there is none.

    Parameters
    ----------
    input_mtokens, output_mtokens : (m,) millions of prompt and of output tokens
    """
    if not prices:
        return np.full(np.shape(input_mtokens), np.nan)
    each = [
        input_mtokens * price.usd_per_mtoken_input + output_mtokens * price.usd_per_mtoken_output
        for price in prices
    ]
    return np.asarray(np.min(np.stack(each), axis=0))


def _price(row: Row) -> ApiPrice:
    return ApiPrice(
        provider=row.text("provider"),
        model=row.text("model"),
        usd_per_mtoken_input=row.need("usd_per_mtoken_input"),
        usd_per_mtoken_output=row.need("usd_per_mtoken_output"),
        as_of=row.facts["usd_per_mtoken_input"].as_of,
    )
