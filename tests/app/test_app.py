"""Each page as a person finds it: figures, tables, choices; without a browser."""

import json
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pyarrow
import pytest
from streamlit.testing.v1 import AppTest
from units_of_axes import without_units

from planner.archive.store import Archive
from planner.charts.bars import stairs
from planner.costing.recost import recost
from planner.decide.robust import beats_frac
from planner.documents import answers as commands
from planner.documents.figures import column_of, human, scale_of
from planner.pages import desk
from planner.pages.front import MOST_POINTS
from planner.pages.points import ids_of
from planner.pages.tables import even
from planner.pages.what_if import difference
from planner.pages.why import carbon_ledger
from planner.report.gather import gather

PAGES = (
    "front",
    "why",
    "compare",
    "what_if",
    "decide",
    "fleet",
    "removed",
    "assumptions",
    "report",
    "start",
)
APP = Path(__file__).resolve().parents[2] / "app.py"


def opened(db, monkeypatch):
    """The app on a database, after its first run."""
    monkeypatch.setenv("PLANNER_DB", str(db))
    page = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not page.exception
    return page


def turned(page, name):
    """Another page of the same visit."""
    page.switch_page(f"planner/pages/{name}.py").run()
    assert not page.exception
    return page


def figures(page):
    """The large figures of a page by their labels."""
    return {metric.label: metric.value for metric in page.metric}


def table(page, column):
    """The one table of a page that has a column."""
    (found,) = (t.value for t in page.dataframe if column in t.value)
    return found


def slide(page, label, value):
    """Move the slider whose label starts with these letters."""
    (found,) = (s for s in page.slider if s.label.startswith(label))
    found.set_value(value).run()
    assert not page.exception


@pytest.fixture
def app(stored, monkeypatch):
    """The app, opened on the stored run."""
    return opened(stored.db, monkeypatch)


def test_the_front_is_the_one_that_was_stored(app, stored):
    """The app would show other plans than the command does."""
    shown = table(app, "unverified_facts")
    names = [f"{row.plan} @ {row.site}" for row in shown.itertuples()]
    front = zip(stored.front["plan"], stored.front["site"], strict=True)
    assert sorted(names) == sorted(f"{plan} @ {site}" for plan, site in front)
    assert np.allclose(sorted(shown["usd"]), sorted(stored.front["usd"]), rtol=1e-12)
    assert figures(app)["Front (plan @ site)"] == str(len(names))
    assert len(app.get("vega_lite_chart")) == 2


def test_the_marks_of_the_chart_carry_their_plans(app):
    """A click on a coloured point would open the plan at the same place of another list."""
    chart = json.loads(app.get("vega_lite_chart")[0].proto.spec)
    clicks = [p for p in chart["params"] if p["name"] == "plan"]
    assert clicks[0]["select"]["fields"] == ["id"]


def drawn(app, key):
    """The rows of each layer of a chart, in the order in which they are drawn."""
    (chart,) = (c for c in app.get("vega_lite_chart") if c.proto.id.endswith(f"-{key}"))
    return layers_of(chart)


def layers_of(chart):
    """The same of a chart that is at hand."""
    spec = json.loads(chart.proto.spec)
    named = {one.name: one.data.data for one in chart.proto.datasets}
    tables = [layer.get("data", spec.get("data", {}))["name"] for layer in spec["layer"]]
    return [pyarrow.ipc.open_stream(named[name]).read_all().to_pylist() for name in tables]


def points_of_chart(app, key):
    """The plans that a chart draws as points of the front: the rows that have tips."""
    told = [rows for rows in drawn(app, key) if any("tip_usd" in row for row in rows)]
    return {row["id"] for row in max(told, key=len)}


def ranged(app, label):
    """The slider of a range."""
    (found,) = (s for s in app.slider if s.label.startswith(label))
    return found


@pytest.mark.long
def test_a_filter_acts_on_every_chart_and_on_the_table(app, stored):
    """A chart would show plans that a person has put aside."""
    days = np.asarray(stored.front["days"])
    middle = float(np.median(days))
    kept = {f"{p} @ {s}" for p, s, d in
            zip(stored.front["plan"], stored.front["site"], days, strict=True)
            if d <= middle}  # fmt: skip
    slider = ranged(app, "days")
    slider.set_value((slider.min, middle + 1e-9)).run()
    app.selectbox(key="keep_z").select("kgco2e").run()
    assert not app.exception
    shown = table(app, "unverified_facts")
    assert {f"{row.plan} @ {row.site}" for row in shown.itertuples()} == kept
    assert all(points_of_chart(app, key) == kept for key in ("chart", "chart_0", "chart_1"))
    app.button(key="clear_filters").click().run()
    assert len(table(app, "unverified_facts")) == len(days)


def test_changes_are_over_the_baseline_that_is_chosen(app, stored):
    """Somebody would read savings against another plan than the one named."""
    names = [f"{p} @ {s}" for p, s in
             zip(stored.front["plan"], stored.front["site"], strict=True)]  # fmt: skip
    app.selectbox(key=f"keep_baseline_{stored.run}").select(names[-1]).run()
    shown = table(app, "unverified_facts")
    base = float(stored.front["usd"][-1])
    wanted = 100 * (shown["usd"] / base - 1)
    assert np.allclose(shown["usd over baseline"], wanted, atol=1e-9)


@pytest.mark.long
def test_no_more_than_the_front_and_5000_points_are_sent(app, stored, monkeypatch):
    """A browser would be sent a million plans, and hang."""
    app.toggle(key="keep_beside").set_value(True).run()
    app.toggle(key="keep_feasible_only").set_value(False).run()
    assert not app.exception
    others = next(rows for rows in drawn(app, "chart") if "is_over" in rows[0])
    assert 0 < len(others) <= MOST_POINTS
    front = {f"{p} @ {s}" for p, s in
             zip(stored.front["plan"], stored.front["site"], strict=True)}  # fmt: skip
    assert not front & {row["id"] for row in others}


@pytest.mark.long
def test_every_widget_has_a_label_and_every_chart_says_what_it_shows(app):
    """Somebody who hears the page would not know what a switch or a picture is."""
    for name in PAGES:
        turned(app, name)
        kinds = ("selectbox", "multiselect", "slider", "toggle", "text_input", "number_input",
                 "radio", "button", "text_area")  # fmt: skip
        silent = [w for kind in kinds for w in getattr(app, kind) if not w.label.strip()]
        assert not silent, name
        for chart in app.get("vega_lite_chart"):
            spec = json.loads(chart.proto.spec)
            assert spec.get("description"), (name, chart.proto.id)
            assert not without_units(spec), name


@pytest.mark.long
def test_a_choice_of_plan_outlives_axes_and_pages(app):
    """Somebody comparing axes would lose the plan that they look at."""
    plan = app.sidebar.selectbox(key="chosen").options[-1]
    app.sidebar.selectbox(key="chosen").select(plan).run()
    app.selectbox(key="keep_x").select("kgco2e").run()
    app.toggle(key="keep_log_x").set_value(True).run()
    app.toggle(key="keep_bands").set_value(True).run()
    turned(turned(app, "why"), "front")
    assert app.sidebar.selectbox(key="chosen").value == plan
    assert app.selectbox(key="keep_x").value == "kgco2e"
    assert not app.exception


@pytest.mark.long
def test_why_says_what_explain_says(app, stored):
    """The page would explain another plan, or the same with other figures."""
    chosen = app.sidebar.selectbox(key="chosen").value
    turned(app, "why")
    ids = [f"{p} @ {s}" for p, s in zip(stored.front["plan"], stored.front["site"], strict=True)]
    row = ids.index(chosen)
    document = commands.explain(stored.db, stored.run, str(row + 1))
    assert document["plan"] == stored.front["plan"][row]
    assert figures(app)["usd"] == human(float(stored.front["usd"][row]), "USD")
    assert len(app.tabs) == 7
    changes = table(app, "change")
    assert len(changes) == sum(line["feasible"] for line in document["one_change"])


@pytest.mark.long
def test_why_says_that_tables_have_changed(stored, tmp_path, monkeypatch):
    """Figures of today's tables would pass for those of the run."""
    db = tmp_path / "planner.duckdb"
    shutil.copy(stored.db, db)
    with duckdb.connect(db) as connection:
        connection.execute("UPDATE runs SET facts_hash = 'of other tables'")
    page = turned(opened(db, monkeypatch), "why")
    (said,) = (one.value for one in page.warning if "tables have changed" in one.value)
    assert stored.run in said


def test_carbon_of_the_waterfall_is_the_carbon_of_the_plan(stored):
    """The bars would end beside the figure that they explain."""
    document = commands.explain(stored.db, stored.run, "1")
    assert carbon_ledger(document)["total"] == pytest.approx(
        document["metrics"]["kgco2e"], rel=1e-9
    )


def test_a_waterfall_ends_where_its_total_does():
    """A term would hang in the air, or a negative one would push the wrong way."""
    rows = stairs({"energy": 5.0, "nothing": 0.0, "residual": -2.0})
    assert [(row["from"], row["to"]) for row in rows] == [(0.0, 5.0), (5.0, 3.0), (0.0, 3.0)]


@pytest.mark.long
def test_sliders_give_the_front_of_recost(app, stored, tmp_path):
    """The app would price plans by another arithmetic than the command."""
    turned(app, "what_if")
    before = figures(app)
    slide(app, "Carbon price", 200.0)
    slide(app, "Electricity", 0.2)
    slide(app, "H100-SXM", 20000.0)
    shown = figures(app)
    chosen = app.sidebar.selectbox(key="chosen").value
    settings = app.code[0].value.split("--set ")[1:]
    assert len(settings) == 3
    archive = Archive(Path(shutil.copy(stored.db, tmp_path)))
    done = recost(archive, stored.run, [setting.strip() for setting in settings])
    front = {
        f"{p} @ {s}": float(usd)
        for p, s, usd in zip(
            done.front["plan"], done.front["site"], done.front["usd"], strict=True
        )
    }
    assert f"{len(front)} plans at sites on the front" in " ".join(c.value for c in app.caption)
    assert shown["usd"] != before["usd"]
    assert chosen not in front or shown["usd"] == human(front[chosen], "USD")


@pytest.mark.long
def test_the_button_puts_prices_back(app):
    """A what-if would stay in force unseen."""
    turned(app, "what_if")
    before = figures(app)
    slide(app, "PUE", 1.9)
    slide(app, "Discount rate", 20.0)
    assert figures(app) != before
    turned(turned(app, "why"), "what_if")
    assert [s.value for s in app.slider if s.label == "PUE"] == [1.9]
    app.button(key="reset").click().run()
    assert figures(app) == before
    assert not app.code


@pytest.mark.long
def test_more_error_counted_moves_the_front_and_the_bars(app):
    """The slider would be of nothing, and a plan within a hair of its limit look safe."""

    def shown():
        tables = layers_of(app.get("vega_lite_chart")[0])
        odds = [c.value for c in app.caption if c.value.startswith("In 200 draws")]
        return len(tables), max(row["y"] for rows in tables for row in rows), odds

    turned(app, "what_if")
    layers, slowest, odds = shown()
    assert len(odds) == 1
    next(s for s in app.slider if s.label.startswith("Error band")).set_value(2.0).run()
    wider, same, others = shown()
    assert wider > layers
    assert same == slowest
    assert len(others) == 1  # plans of one chip share their error: their odds may stand still
    next(t for t in app.toggle if t.label == "at the bad end").set_value(True).run()
    assert not app.exception
    assert shown()[1] > slowest


def test_removed_candidates_are_all_counted(app, stored):
    """A limit would hide how much it costs."""
    turned(app, "removed")
    rows = table(app, "in words")
    kept = {row["reason"]: row["candidates"] for row in Archive(stored.db).rejections(stored.run)}
    assert dict(zip(rows["reason"], rows["candidates"], strict=True)) == kept
    assert all(rows["in words"])


def test_assumptions_say_which_facts_nobody_checked(app, stored):
    """Somebody would decide on a guess and not know it."""
    facts = Archive(stored.db).facts(stored.run)
    turned(app, "assumptions")
    assert figures(app)["Facts"] == f"{len(facts):,}"
    unverified = sum(not fact["verified"] for fact in facts)
    assert figures(app)["Unverified"] == f"{unverified:,}"
    app.toggle(key="keep_fact_unverified").set_value(True).run()
    assert len(table(app, "licence")) == unverified
    app.toggle(key="keep_fact_unverified").set_value(False).run()
    app.text_input(key="keep_fact_text").set_value("A100").run()
    assert all("A100" in f"{f.fact}{f.source}" for f in table(app, "licence").itertuples())


def test_a_file_that_is_not_there_is_said_in_words(tmp_path, monkeypatch):
    """A first visit would end in a traceback."""
    page = opened(tmp_path / "none.duckdb", monkeypatch)
    assert "planner run STUDY" in page.error[0].value


@pytest.mark.parametrize("name", ["front", "why", "what_if", "removed", "assumptions"])
def test_a_run_without_a_front_says_why(name, barren, monkeypatch):
    """A person would look at an empty page and not know what stood in the way."""
    page = turned(opened(barren, monkeypatch), name)
    said = [*page.warning, *page.info, *page.metric, *page.dataframe]
    assert said


def test_nothing_feasible_names_the_nearest_plans(barren, monkeypatch):
    """A person would not learn which limit to loosen."""
    page = turned(opened(barren, monkeypatch), "removed")
    nearest = table(page, "binding")
    assert len(nearest) > 0
    assert set(nearest["binding"]) == {"days"}


def test_units_are_those_a_person_reads():
    """A megawatt would be shown as a million watts, or as zero gigawatts."""
    assert human(7.1e6, "W") == "7.1 MW"
    assert human(85.9e9, "B") == "80 GiB"
    assert human(0.0123, "s") == "12.3 ms"
    assert human(None, "USD") == "not known"
    assert human(0.0, "USD") == "0 $"
    assert scale_of("USD", [None, float("nan")]) == (1.0, "$")


def test_scenarios_of_one_plan_have_names_of_their_own():
    """A click on a plan in one scenario would open it in another."""
    plans = {"plan": ["p3", "p3"], "site": ["se", "se"], "scenario": ["wacc 0.06", "wacc 0.1"]}
    assert ids_of(plans) == ("p3 @ se @ wacc 0.06", "p3 @ se @ wacc 0.1")
    assert ids_of({}) == ()


def test_a_column_of_huge_numbers_is_scaled_in_its_heading():
    """A browser would lose the last digits of an exaflop per second and say so in red."""
    assert column_of("usd", [1.5e6, None]) == ("usd", [1.5e6, None])
    heading, cells = column_of("peak_flop_per_s", [9.18e18, None])
    assert heading == "peak_flop_per_s [EFLOP/s]"
    assert cells == [pytest.approx(9.18), None]


def test_fronts_are_told_apart_in_words():
    """The sentence below the chart would count plans twice."""
    words = difference(["a", "b"], ["b", "c", "d"])
    assert words == "3 plans at sites on the front: 1 stayed, 2 came, 1 left."


@pytest.mark.long
def test_every_rule_takes_a_plan_of_the_front_by_the_formula_it_shows(app, stored):
    """A page of decisions would name a plan that its own formula does not take."""
    page = turned(app, "decide")
    picks = table(page, "formula")
    front = {n: np.asarray(stored.front[n], float) for n in ("devices", "days", "usd", "kgco2e")}
    unit = np.stack([(v - v.min()) / (np.ptp(v) or 1) for v in front.values()], axis=1)
    names = [f"{p} @ {s}" for p, s in zip(stored.front["plan"], stored.front["site"], strict=True)]
    by_rule = dict(zip(picks["rule"], picks["plan"], strict=True))
    assert by_rule["knee"] == names[int(unit.sum(axis=1).argmin())]
    assert by_rule["weighted sum"] == by_rule["knee"]
    for name in ("devices", "usd", "kgco2e"):
        slide(page, name, 0)
    after = dict(zip(*(table(page, "formula")[n] for n in ("rule", "plan")), strict=True))
    assert front["days"][names.index(after["weighted sum"])] == front["days"].min()


@pytest.mark.long
def test_regret_and_odds_are_worked_out_when_asked_for(app, stored):
    """The page would be slow for everyone, or the table never come."""
    page = turned(app, "decide")
    (toggle,) = (t for t in page.toggle if "regret" in t.label)
    toggle.set_value(True).run()
    assert not page.exception
    rows = table(page, "worst regret")
    assert len(rows) == len(stored.front["plan"])


@pytest.mark.long
def test_the_report_page_makes_the_file_of_the_command(app):
    """A person would take away another report than the command writes."""
    page = turned(app, "report")
    assert page.info[0].value.startswith("Buy ")
    (form,) = (box for box in page.selectbox if box.label == "Form")
    form.set_value("xlsx").run()
    page.button(key="make_report").click().run()
    assert not page.exception
    assert any("bytes; the same as `planner report" in caption.value for caption in page.caption)


def test_columns_of_numbers_and_words_are_sent_as_words():
    """A table of changes on several axes would leave a column empty in the browser."""
    rows = [{"axis": "devices", "to": 8}, {"axis": "cooling", "to": "air"}, {"axis": "x"}]
    assert even(rows) == {"axis": ["devices", "cooling", "x"], "to": ["8", "air", None]}
    numbers = {"a": [1, 2.5, np.float64(3), None], "b": [True, False, None, np.True_]}
    assert even(numbers) == numbers
    pyarrow.table(even(rows))


def test_every_page_draws_its_tables_in_the_one_way():
    """A page of its own way would send mixed columns again."""
    pages = Path(desk.__file__).parent.glob("*.py")
    assert {page.name for page in pages if "dataframe(" in page.read_text()} == {"tables.py"}


def test_plans_side_by_side_have_the_figures_of_the_archive(app, stored):
    """A comparison would hold one plan against another's figures."""
    turned(app, "compare")
    (chosen,) = (m for m in app.multiselect if m.label.startswith("Plans"))
    names = ids_of(stored.front)
    chosen.set_value([names[0], names[-1]]).run()
    assert not app.exception
    rows = table(app, f"change: {names[-1]}").set_index("of")
    first, last = (float(stored.front["usd"][i]) for i in (0, -1))
    assert rows.loc["usd", names[0]] == human(first, "USD")
    assert rows.loc["usd", f"change: {names[-1]}"] == f"{last / first - 1:+.1%}"


@pytest.mark.long
def test_two_runs_differ_in_what_was_changed_between_them(stored, tmp_path, monkeypatch):
    """A price that was changed would not be named, or a fact that was not."""
    archive = Archive(Path(shutil.copy(stored.db, tmp_path)))
    done = recost(archive, stored.run, ["costing.carbon_usd_per_t=150"])
    page = turned(opened(archive.path, monkeypatch), "compare")
    page.selectbox(key="keep_other_run").select(stored.run).run()
    assert not page.exception
    assert page.sidebar.selectbox(key="run").value == done.run
    tables = [t.value for t in page.dataframe if {"of", stored.run} <= set(t.value)]
    (rows,) = (t for t in tables if "costing.carbon_usd_per_t" in list(t["of"]))
    assert list(rows["of"]) == ["costing.carbon_usd_per_t"]
    assert list(rows[done.run]) == ["150"]
    assert figures(page)["Changed figures"] != "0"


@pytest.mark.long
def test_odds_and_sources_are_those_of_the_report(app, stored):
    """The app would decide by other draws than the report that is signed."""
    turned(app, "decide")
    app.toggle(key="keep_robust").set_value(True).run()
    assert not app.exception
    names = app.selectbox(key="keep_beats_a").options
    app.selectbox(key="keep_beats_a").select(names[0]).run()
    app.selectbox(key="keep_beats_b").select(names[-1]).run()
    app.selectbox(key="keep_beats_in").select("usd").run()
    chosen = ids_of(stored.front).index(app.sidebar.selectbox(key="chosen").value)
    got = gather(Archive(stored.db), stored.run, str(chosen + 1))
    drawn = {ids_of(stored.front)[int(row)]: i for i, row in enumerate(got.drawn_rows)}
    draws = got.odds.values["usd"]
    odds = beats_frac(draws[:, drawn[names[0]]], draws[:, drawn[names[-1]]])
    assert figures(app)["Probability that it is better"] == f"{odds:.0%}"
    shares = table(app, "share alone (Sobol)")
    assert list(shares["input"]) == [one.name for one in got.sources]


@pytest.mark.long
def test_two_visits_at_once_keep_their_own_plans(stored, monkeypatch):
    """What one chooses would change what another reads."""
    one, other = (opened(stored.db, monkeypatch) for _ in range(2))
    plan = one.sidebar.selectbox(key="chosen").options[-1]
    one.sidebar.selectbox(key="chosen").select(plan).run()
    other.run()
    assert one.sidebar.selectbox(key="chosen").value == plan
    assert other.sidebar.selectbox(key="chosen").value != plan


@pytest.mark.long
def test_no_word_of_a_chart_is_black(app):
    """On a dark page the figures beside the bars would not be seen."""
    for name in ("front", "why", "compare", "removed", "what_if"):
        turned(app, name)
        for chart in app.get("vega_lite_chart"):
            spec = json.loads(chart.proto.spec)
            for layer in spec.get("layer", [spec]):
                mark = (
                    layer["mark"] if isinstance(layer["mark"], dict) else {"type": layer["mark"]}
                )
                is_word = mark["type"] == "text"
                assert not is_word or "color" in mark or "color" in layer["encoding"], name
