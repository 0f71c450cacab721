"""Two plans of a run side by side: the figures of a job, hand arithmetic, what has no share."""

from pathlib import Path

import pytest
from small import planner

from planner.explain.comparison import RATIOS, compared
from planner.space.plan_keys import plan_name

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="module")
def capped(tmp_path_factory):
    """The power-capped site: database and the document of its capped plan over the full one."""
    db = tmp_path_factory.mktemp("capped") / "planner.duckdb"
    study = STUDIES / "power_capped_site.toml"
    rows = planner("run", study, "--db", db, "--json").document["front"]
    plans = {row["power_cap_frac"]: row["plan"] for row in rows}
    words = (plans[min(plans)], "--against", plans[1.0], "--db", db)
    return words, planner("explain", "last", *words, "--json")


def percent(line):
    return round(100 * line["change_frac"], 1)


def test_capping_gives_the_printed_figures_of_the_job(capped):
    """484 servers of 8.6 kW at 0.9 speed over 408 of 10.2 kW: a buyer would derive it by hand."""
    document = capped[1].document
    metrics, ratios = document["metrics"], document["ratios"]
    assert (metrics["nodes"]["against"], metrics["nodes"]["plan"]) == (408, 484)
    assert metrics["nodes"]["change"] == 76
    assert percent(metrics["peak_flop_per_s"]) == 6.8
    assert percent(metrics["capex_usd"]) == 18.6
    assert percent(ratios["usd_per_pflop_per_s"]) == 11.1
    assert percent(ratios["facility_j_per_pflop"]) == -6.3
    assert percent(ratios["it_peak_w_per_pflop_per_s"]) == -6.3
    full = 408 * 10_200 * 1.2 / (408 * 8 * 0.989)  # W over PFLOP/s
    assert ratios["facility_j_per_pflop"]["against"] == pytest.approx(full, rel=1e-12)
    assert document["differs"]["power_cap_frac"] == {"against": 1.0, "plan": 500 / 700}


def test_a_ratio_that_is_a_metric_has_its_value(capped):
    """$/PF would have two values in one document."""
    document = capped[1].document
    for name in document["ratios"].keys() & document["metrics"].keys():
        for side in ("against", "plan"):
            assert document["ratios"][name][side] == pytest.approx(
                document["metrics"][name][side], rel=1e-12
            )


@pytest.mark.long
def test_the_text_prints_the_percentages(capped):
    """A person at a terminal would get less than a script."""
    text = " ".join(planner("explain", "last", *capped[0]).out.split())
    for words in ("p1 at us-avg, against p0 at us-avg", "+6.8%", "+18.6%", "+11.1%", "-6.3%"):
        assert words in text


@pytest.mark.long
def test_the_way_back_undoes_the_way_there(capped):
    """The sign would depend on the order of the words."""
    (plan, _, other, *db), there = capped[0], capped[1].document
    back = planner("explain", "last", other, "--against", plan, *db, "--json").document
    for name, line in there["metrics"].items():
        if line["change_frac"] is not None:
            product = (1 + line["change_frac"]) * (1 + back["metrics"][name]["change_frac"])
            assert product == pytest.approx(1, rel=1e-9), name
            assert back["metrics"][name]["change"] == -line["change"]


@pytest.mark.long
def test_training_plans_are_compared_at_one_place(workspace, dense):
    """A cheaper site would be sold as a better plan; joules per token by hand."""
    words = ("--site", "se", "--db", workspace.db, "--json")
    names = [plan_name(a["key"]) for a in dense.alone if a["feasible"]]
    document = planner("explain", "1", names[0], "--against", names[1], *words).document
    alone = [planner("explain", "1", name, *words).document for name in names[:2]]
    assert [document[side]["site"] for side in ("plan", "against")] == ["se", "se"]
    for side, one in zip(("plan", "against"), alone, strict=True):
        m = one["metrics"]
        joules = m["facility_mwh"] * 3.6e9 / 1e12  # a trillion tokens
        assert document["ratios"]["facility_j_per_token"][side] == pytest.approx(joules, rel=1e-9)
        hours = m["device_hours"] / 1e6
        assert document["ratios"]["device_hours_per_mtoken"][side] == pytest.approx(hours)
        assert document["metrics"]["usd"][side] == m["usd"]


@pytest.mark.long
def test_a_name_is_compared_at_the_site_where_the_plan_is_judged(workspace, dense):
    """Two plans off the front, each at its own best site, would differ by their sites."""
    front = {row["plan"] for row in workspace.documents[0]["front"]}
    names = [plan_name(a["key"]) for a in dense.alone]
    off = next(name for name in names if name not in front)
    words = ("--db", workspace.db, "--json")
    for pair in ((off, min(front)), (min(front), off)):
        document = planner("explain", "1", pair[0], "--against", pair[1], *words).document
        assert document["plan"]["site"] == document["against"]["site"]


@pytest.mark.long
def test_rows_of_one_plan_in_two_scenarios_can_be_compared(tmp_path):
    """What a dearer rent changes could not be asked."""
    db = tmp_path / "x.duckdb"
    planner("run", STUDIES / "buy_or_rent.toml", "--db", db)
    words = ("--against", "4", "--db", db, "--json")
    document = planner("explain", "last", "1", *words).document
    assert document["plan"]["scenario"] == "rent_usd_per_device_hour = 4"
    assert document["against"]["scenario"] == "rent_usd_per_device_hour = 2"
    assert document["metrics"]["rent_npv_usd"]["change_frac"] == pytest.approx(1.0)
    assert document["metrics"]["own_npv_usd"]["change"] == 0


def explained(**metrics):
    return {"metrics": metrics, "axes": {}, "null_reasons": {"d": "no rent is known"}}


def test_what_has_no_share_is_null_and_says_why():
    """A loss turned to a gain would be a change of -200%, a start at 0 one of infinity."""
    before = explained(a=0.0, b=-5.0, c=0.0, d=None, e=2.0, word="x", is_yes=True)
    after = explained(a=1.0, b=5.0, c=0.0, d=1.0, e=1.0, word="y", is_yes=True)
    lines = compared(after, before)["metrics"]
    assert lines["a"]["change"] == 1.0
    assert lines["a"]["change_frac"] is None
    assert "it is 0 in" in lines["a"]["why"]
    assert lines["b"]["change"] == 10.0
    assert lines["b"]["change_frac"] is None
    assert "below 0" in lines["b"]["why"]
    assert lines["c"]["change_frac"] == 0.0
    assert lines["d"] == {"against": None, "plan": 1.0, "change": None, "change_frac": None,
                          "why": "against: no rent is known"}  # fmt: skip
    assert lines["e"]["change_frac"] == -0.5
    assert set(lines) == set("abcde")
    assert compared(after, before)["differs"] == {"word": {"against": "x", "plan": "y"}}


def test_a_ratio_over_nothing_is_null():
    """Speed 0 would make an infinite price of speed."""
    one = explained(capex_usd=1.0, peak_flop_per_s=0.0)
    line = compared(one, one)["ratios"]["usd_per_pflop_per_s"]
    assert line["plan"] is None
    assert line["why"] == "against: peak_flop_per_s is 0; plan: peak_flop_per_s is 0"


def test_ratios_have_a_name_each():
    """One ratio would hide another."""
    assert len({ratio.name for ratio in RATIOS}) == len(RATIOS)


@pytest.mark.long
def test_a_plan_that_breaks_a_limit_says_so(workspace, dense):
    """A cheap plan that cannot meet the deadline would look like a bargain."""
    over = next(plan_name(a["key"]) for a in dense.alone if not a["feasible"])
    first = workspace.documents[0]["front"][0]["plan"]
    words = ("explain", "1", over, "--against", first, "--db", workspace.db)
    document = planner(*words, "--json").document
    assert document["plan"]["violations"]
    assert document["against"]["violations"] == []
    assert f"{over} is infeasible: " in planner(*words).out
    assert "infeasible: " in planner("explain", "1", over, "--db", workspace.db).out


def test_a_plan_nobody_sells_is_compared_with_nothing(tmp_path):
    """Its physics would be compared and its price left out in silence."""
    study = tmp_path / "x.toml"
    study.write_text(
        '[study]\nname = "x"\nkind = "hardware"\n[axes]\n'
        'accelerator = "Ascend-910C"\nnodes = 4\n'
        '[costing]\nsite = "us-tx"\nacquire = "reserved"\n'
    )
    words = ("--db", tmp_path / "x.duckdb", "--json")
    assert planner("run", study, *words).code == 3
    answer = planner("explain", "last", "p0", "--against", "p0", *words)
    assert answer.code == 3
    assert "has no price to reserved" in answer.err


def test_a_tonne_less_has_its_price_and_no_tonne_less_has_none():
    """3 M$ more for 50 kt less is 60 $/t; the dirtier plan would save tonnes at a negative one."""
    clean, dirty = explained(usd=103e6, kgco2e=50e6), explained(usd=100e6, kgco2e=100e6)
    assert compared(clean, dirty)["abatement"] == {"usd_per_t": 60.0, "avoided_kgco2e": 50e6}
    assert "abatement" not in compared(dirty, clean)
    assert "abatement" not in compared(explained(usd=1.0, kgco2e=None), dirty)
