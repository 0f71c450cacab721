"""Tokens bought instead of made: dated list prices and what traffic costs at them."""

import numpy as np
import pytest

from costdata.api_prices import ApiPrice, api_facts, api_prices, api_usd
from costdata.catalog import load
from costdata.configs import model_facts

TABLE = load().tables["api_prices"]


def test_a_quarter_of_answers_costs_what_it_costs_by_hand():
    """3 M prompt and 1 M output tokens at 0.27 and 1.10: 1.91, not 4 million at a mean price."""
    one = ApiPrice("x", "m", 0.27, 1.10, "2025-02")
    other = ApiPrice("y", "m", 1.25, 1.25, "2025-11")
    assert api_usd([one], np.array([3.0]), np.array([1.0]))[0] == pytest.approx(1.91)
    both = api_usd([one, other], np.array([3.0, 0.0]), np.array([1.0, 100.0]))
    assert both == pytest.approx([1.91, 110.0])
    assert np.isnan(api_usd([], np.array([3.0]), np.array([1.0]))).all()


def test_every_list_price_is_of_a_model_of_the_catalogue_and_dated():
    """A price of nobody's model would be found by nobody; one of no day is worth nothing."""
    for row in TABLE.values():
        assert model_facts(row.text("model")).slug == row.text("model")
        assert row.facts["usd_per_mtoken_input"].as_of >= "2025"
        assert row.need("usd_per_mtoken_input") <= row.need("usd_per_mtoken_output")
        assert row.name == f"{row.text('provider')}/{row.text('model')}"


def test_the_newest_price_comes_first_and_each_has_its_source():
    """A price of two years ago would be taken for today's."""
    found = api_prices(TABLE, "deepseek-v3")
    assert [price.as_of for price in found] == sorted((p.as_of for p in found), reverse=True)
    assert len(found) >= 3
    assert len(api_facts(TABLE, "deepseek-v3")) == 2 * len(found)
    assert api_prices(TABLE, "gpt-j-6b") == ()
