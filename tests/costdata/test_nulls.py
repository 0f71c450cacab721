"""Every NULL has the one reason of its row: causes tried in order, rows taken, stacked, told."""

import re

import numpy as np
import pytest

from costdata import nulls as why
from costdata.nulls import (
    bill_nulls,
    nulls,
    of_rows,
    one_below_the_other,
    reasons_of_row,
    told,
)
from costdata.own_or_rent import Renting
from costdata.terms import ACQUIRE, CostingTerms

NAN = np.nan


def terms(rows, **changed):
    """Terms that are all 1 but for what is named."""
    names = CostingTerms.__dataclass_fields__
    return CostingTerms(
        **{n: np.broadcast_to(np.asarray(changed.get(n, 1.0), float), rows) for n in names}
    )


def reasons(rent, plain, discounted, acquire="buy", npv_zero=0.5, *, by_hour=True):
    """Why figures of owning against renting are NULL in one row."""
    one = {"rent": [rent], "plain": [plain], "discounted": [discounted]}
    rent_usd, months, later = (np.array(v, float) for v in one.values())
    known = np.ones(1)
    is_compared = (rent_usd > 0) & (acquire == "buy") & by_hour
    one_by_hour = np.where(is_compared, 1.0, NAN)
    columns = {
        "usd_per_mtoken": known, "kgco2e_per_mtoken": known, "rent_usd": rent_usd,
        "breakeven_utilisation_frac": one_by_hour,
        "npv_zero_utilisation_frac": one_by_hour * npv_zero,
        "payback_months": months, "payback_discounted_months": later,
        "water_l": known, "water_onsite_l": known, "water_offsite_l": known,
        "carbon_free_frac": known, "location_marginal_kgco2e": known, "market_kgco2e": known,
    }  # fmt: skip
    code = float(ACQUIRE.index(acquire))
    emitted = {"location_marginal": known, "market": known}
    rented = Renting(np.array([by_hour]), rent_usd, rent_usd, known, known)
    return reasons_of_row(bill_nulls(columns, emitted, terms(1, acquire_code=code), rented), 0)


def test_what_is_rented_has_no_payback_because_nothing_is_owned():
    """A tenant would read that no rent is known, or that renting does not pay."""
    found = reasons(2.0, NAN, NAN, "reserved")
    assert set(found.values()) == {why.NOT_OWNED}
    assert set(found) == {
        "breakeven_utilisation_frac", "npv_zero_utilisation_frac", "payback_months",
        "payback_discounted_months",
    }  # fmt: skip


def test_an_owner_without_a_rent_to_compare_with_is_told_so():
    """A buyer would read that his own hardware is rented."""
    found = reasons(NAN, NAN, NAN)
    assert set(found.values()) == {why.NO_RENT}
    assert "breakeven_utilisation_frac" in found


def test_a_rent_of_nothing_is_not_an_unknown_rent():
    """A gift would be called a missing price."""
    assert set(reasons(0.0, NAN, NAN).values()) == {why.FREE_RENT}


def test_never_repaid_is_told_apart_from_never_repaid_with_interest():
    """A purchase that repays in nine years would be called one that never does."""
    found = reasons(2.0, NAN, NAN)
    assert found == {"payback_months": why.LOSING, "payback_discounted_months": why.LOSING}
    assert reasons(2.0, 108.0, NAN) == {"payback_discounted_months": why.TOO_SLOW}
    assert reasons(2.0, 30.0, 40.0) == {}


def test_a_reservation_has_no_use_at_which_owning_is_as_dear():
    """A buyer would be told that nobody rents the chip out."""
    found = reasons(2.0, 30.0, 40.0, by_hour=False)
    assert found == dict.fromkeys(
        ("breakeven_utilisation_frac", "npv_zero_utilisation_frac"), why.RESERVED
    )


def test_a_rent_below_the_energy_of_work_is_no_missing_rent():
    """The use that never comes would look like a gap in the tables."""
    found = reasons(0.02, 30.0, 40.0, npv_zero=NAN)
    assert found == {"npv_zero_utilisation_frac": why.BELOW_ENERGY}


@pytest.mark.parametrize(
    ("on_site", "of_power", "words"),
    [
        (NAN, NAN, why.NO_WATER),
        (NAN, 1.0, why.NO_WATER_ON_SITE),
        (1.0, NAN, why.NO_WATER_OF_POWER),
    ],
)
def test_the_water_that_is_not_known_is_named(on_site, of_power, words):
    """A reader would look for the wrong figure."""
    one = terms(1, wue_onsite_l_per_kwh=on_site, wue_offsite_l_per_kwh=of_power)
    causes = {"water_l": why._water_causes(one)}
    assert reasons_of_row(nulls({"water_l": np.array([NAN])}, causes), 0) == {"water_l": words}


def test_rows_of_one_table_have_reasons_of_their_own():
    """The reason of the last row would be told of all."""
    x = np.array([1.0, NAN, NAN, NAN])
    found = nulls(
        {"x": x}, {"x": [("first", np.array([True, True, False, False])), ("rest", True)]}
    )
    assert [reasons_of_row(found, i) for i in range(4)] == [
        {}, {"x": "first"}, {"x": "rest"}, {"x": "rest"}
    ]  # fmt: skip
    assert told(found) == {"x": "first (1 of 4 rows); rest (2 of 4 rows)"}


def test_rows_taken_and_stacked_keep_their_reasons():
    """A front would tell the reasons of the plans it beat."""
    x, y = np.array([1.0, NAN]), np.array([NAN, NAN])
    found = nulls({"x": x, "y": y}, {"x": [("a", True)], "y": [("b", True)]})
    assert told(of_rows(found, np.array([0]))) == {"y": "b"}
    both = one_below_the_other([(of_rows(found, np.array([0])), 1), (found, 2)])
    assert told(both) == {"x": "a (1 of 3 rows)", "y": "b"}
    assert reasons_of_row(both, 2) == {"x": "a", "y": "b"}


def test_no_reason_leaves_the_reader_a_choice():
    """ "Rented, or no rent is known" is no reason: which of them?"""
    words = [v for k, v in vars(why).items() if k.isupper() and isinstance(v, str)]
    assert len(words) > 8
    assert [text for text in words if re.search(r"\bor\b", text)] == []
