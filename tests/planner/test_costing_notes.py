"""A run priced anew tells its reader what a fresh run tells."""

import pytest
from small import DENSE, planner
from small_hardware import OPEN

from planner.costing.notes import idle_prices_note
from planner.study.parts import Costing

OF_ONE_RUN = ("priced", "sweep_s")
WHAT_IF = DENSE.replace("[axes]", "[axes]\nscaleout_gbytes_per_s = 100")


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        (OPEN, ["costing.life_years=3"], ["basis", "period", "not_included", "money"]),
        (WHAT_IF, ["costing.wacc_frac=0.05"], ["not_priced", "money"]),
    ],
    ids=["hardware of another life", "rates that are what if"],
)
def test_a_run_priced_anew_says_what_a_fresh_run_says(tmp_path, text, settings, said):
    """Whose sums are of how many years would be told for the first price only."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(text)
    words = [word for one in settings for word in ("--set", one)]
    assert planner("run", study, "--db", db, "--workers", 1, "--json").code == 0
    anew = planner("run", study, *words, "--db", db, "--workers", 1, "--json").document
    again = planner("recost", "1", *words, "--db", db, "--json").document
    ours, theirs = (
        {name: note for name, note in one["notes"].items() if name not in OF_ONE_RUN}
        for one in (again, anew)
    )
    assert ours == theirs
    assert set(said) <= set(ours)
    if "costing.life_years=3" in settings:
        assert "whole life of the hardware, 3 years" in ours["period"]
    shown = " ".join(planner("recost", "1", *words, "--db", db).out.split())
    assert all(f"{name}: {ours[name]}" in shown for name in said)


@pytest.mark.long
def test_a_price_of_a_purchase_is_told_idle_where_chips_are_rented(workspace):
    """A price would be set and nothing would move, in silence."""
    words = ["recost", "1", "--set", "costing.acquire=on_demand", "--db", workspace.db]
    price = ["--set", "costing.price_usd.H100-SXM=25000"]
    rented, priced = planner(*words, "--json").document, planner(*words, *price, "--json").document
    assert priced["front"] == rented["front"]
    assert "idle_prices" not in rented["notes"]
    assert priced["notes"]["idle_prices"].startswith("costing.price_usd has no effect")
    assert "idle_prices: costing.price_usd has no effect" in planner(*words, *price).out


@pytest.mark.parametrize("acquire", ["buy", "lease"])
def test_a_price_that_is_paid_is_not_told_idle(acquire):
    """A reader would take a price in force for one that is not."""
    assert not idle_prices_note(Costing(acquire=acquire, price_usd={"H100-SXM": 25000.0}))
