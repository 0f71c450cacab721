"""A service beside the API list price of its tokens."""

import pytest
from small_serve import chat

from planner.documents.answers import evaluate_study
from simkernel.errors import BadStudy

PLAN = ("tp=1", "accelerator=H100-SXM", "max_batch=64", "token_budget=8192", "costing.site=se")


def test_the_same_tokens_at_list_price_stand_beside_the_plan():
    """Whoever builds would not see that buying the answers is cheaper."""
    m = evaluate_study(chat(*PLAN))["metrics"]
    read, written = m["input_tokens"] / 1e6, m["output_tokens"] / 1e6
    assert m["api_usd"] == pytest.approx(0.02 * read + 0.05 * written)  # novita, 2025-11
    each = m["kgco2e_per_mtoken_input"] * read + m["kgco2e_per_mtoken_output"] * written
    assert each == pytest.approx(m["kgco2e"], rel=1e-12)
    assert m["api_over_own_frac"] == pytest.approx(m["api_usd"] / m["usd"])


def test_a_quote_of_ones_own_takes_the_place_of_list_prices():
    """A negotiated price would be one of several, and the lowest would still count."""
    quote = ("costing.api_usd_per_mtoken_input=1.0", "costing.api_usd_per_mtoken_output=2.0")
    found = evaluate_study(chat(*PLAN, *quote))
    m = found["metrics"]
    assert m["api_usd"] == pytest.approx((m["input_tokens"] + 2 * m["output_tokens"]) / 1e6)
    assert not any(name.startswith("api_prices") for name in found["facts_used"])
    with pytest.raises(BadStudy, match="give both or none"):
        evaluate_study(chat(*PLAN, quote[0]))


def test_a_model_that_nobody_lists_has_no_api_price():
    """A price of another model would stand there."""
    found = evaluate_study(chat(*PLAN, "workload.chat.model=nemotron-nano-9b-v2"))
    assert found["metrics"]["api_usd"] is None
    assert "no API list price" in found["null_reasons"]["api_usd"]
