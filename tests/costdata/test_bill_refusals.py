"""What no bill is made of: missing facts, impossible terms, odd ones that are asked about."""

from dataclasses import fields, replace

import numpy as np
import pytest
from small_bill import (
    H100_128,
    column,
    cost,
    prices,
    run,
    terms,
)

from costdata import hardware_cost as costing
from costdata.terms import MAY_BE_UNKNOWN, CostingTerms, refuse_bad_terms, term_questions
from simkernel.errors import BadStudy, MissingFact


class TestRefusals:
    @pytest.mark.parametrize("name", [f.name for f in fields(CostingTerms)])
    def test_an_unknown_term_is_refused_by_name(self, name):
        """A missing tariff, life or intensity would be 0."""
        t = terms()
        if name in ("acquire_code", *MAY_BE_UNKNOWN):
            return
        with pytest.raises(MissingFact, match=rf"{name} is not known for 1 of 1 sites"):
            refuse_bad_terms(replace(t, **{name: column(np.nan)}))

    def test_all_impossible_terms_are_told_at_once(self):
        """A user would mend one fault per run."""
        bad = terms(pue=0.9, it_life_years=0, residual_frac=1.5, staff_usd_per_year=-1)
        with pytest.raises(BadStudy) as caught:
            refuse_bad_terms(bad)
        assert len(caught.value.faults) == 4

    def test_colocation_and_an_own_building_are_not_both_paid(self):
        """Space would be paid twice."""
        with pytest.raises(BadStudy, match="set one of them to 0"):
            refuse_bad_terms(terms(facility_usd_per_w=10.0))

    def test_good_terms_pass(self):
        """The door would refuse everyone."""
        refuse_bad_terms(terms(usd_per_kwh=-0.01, wacc_frac=0.0))

    def test_every_missing_fact_of_a_plan_is_told_at_once(self):
        """A missing price would count as free, a missing rating as no power."""
        with pytest.raises(MissingFact) as caught:
            cost(H100_128, p=prices(unit_usd=np.nan, switch_usd=np.nan), r=run(mean_w=np.nan))
        told = "\n".join(caught.value.faults)
        assert len(caught.value.faults) == 3
        assert "unit_usd" in told
        assert "switch_usd" in told
        assert "it_mean_w" in told

    def test_rows_without_a_price_can_be_counted_and_left_out(self):
        """One chip without a price would stop a study of forty."""
        t = terms(acquire_code=[0, 0, 3])
        p = replace(prices(3), unit_usd=np.array([1.0, np.nan, np.nan]))
        masks = costing.missing_price(p, t)
        np.testing.assert_array_equal(masks["unit_usd"], [False, True, False])
        assert not masks["rent_usd_per_device_hour"].any()

    def test_negative_hardware_prices_and_empty_runs_are_refused(self):
        """A server that pays to be bought, a token price by division by zero."""
        with pytest.raises(BadStudy, match="unit_usd is negative"):
            cost(H100_128, p=prices(unit_usd=-1.0))
        with pytest.raises(BadStudy, match="yields no tokens"):
            cost(H100_128, r=run(tokens=0.0))

    def test_a_study_without_tokens_has_no_token_price(self):
        """$/Mtoken of a hardware study would be 0 or infinite."""
        got = cost(H100_128, r=run(tokens=np.nan))
        assert np.isnan(got.columns["usd_per_mtoken"][0])
        assert got.reasons["usd_per_mtoken"] == "the study yields no tokens"


def test_odd_terms_and_prices_are_asked_about_not_refused():
    """A rent per month read as per hour, or two lives for one machine, would pass in silence."""
    asked = term_questions(terms(embodied_life_years=6))
    assert any("another life" in question for question in asked)
    assert any("building" in question for question in asked)
    assert any("-hour" in q for q in costing.price_questions(prices(rent_usd_per_device_hour=690)))
    assert costing.price_questions(prices(rent_usd_per_device_hour=0.95)) == ()
