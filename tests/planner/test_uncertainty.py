"""Draws, tornado and indices, against re-costing and functions with known answers."""

import numpy as np
import pytest

from costdata import catalog as catalogue
from planner.archive.store import Archive
from planner.costing.recost import repriced, stored_study
from planner.costing.second_pass import front_columns
from planner.decide.robust import win_frac
from planner.uncertainty.draws import drawn
from planner.uncertainty.error_scale import (
    OF_THE_MODEL,
    end_of,
    front_at_bad_end,
    widened,
    with_error,
)
from planner.uncertainty.figures import figures_of
from planner.uncertainty.indices import figure_of_inputs, morris, sobol
from planner.uncertainty.inputs import MOVED
from planner.uncertainty.plans import parts_of
from planner.uncertainty.quantile import Z_95, Band, at_quantile
from planner.uncertainty.sources import sources
from planner.uncertainty.tornado import tornado

SIGNS = {"days": 1.0, "usd": 1.0, "kgco2e": 1.0}


@pytest.fixture(scope="module")
def run(workspace):
    """The stored run: study, front, and its rows with their ends."""
    archive = Archive(workspace.db)
    record = archive.run("1")
    study, front = stored_study(record), archive.front("1")
    front = {name: np.ma.getdata(column) for name, column in front.items()}
    return archive, study, front, parts_of(study, catalogue.load(None), front)


def test_the_middle_of_every_input_is_the_run_itself(run):
    """Bands would be drawn round another figure than the one in the table."""
    _, study, front, (part,) = run
    found = figures_of(part.ends.middle, study)
    for name in ("days", "usd", "kgco2e", "capex_usd", "facility_mwh", "water_l"):
        assert found[name] == pytest.approx(np.asarray(front[name], float), rel=1e-12), name


def test_a_bar_of_the_tornado_is_a_costing_with_that_input(run):
    """The bar of the price of electricity would not be what recost answers at that price."""
    archive, study, front, (part,) = run
    one = part.ends.take([0])
    swing = next(s for s in tornado(one, study, "usd") if s.name == "price of electricity")
    price = float(one.high.terms.usd_per_kwh[0])
    done = repriced(archive, "1", (f"costing.usd_per_kwh={price!r}",))
    table = front_columns(done.study, done.costed)
    same = (table["plan"] == front["plan"][0]) & (table["site"] == front["site"][0])
    assert swing.at_high == pytest.approx(float(table["usd"][same][0]), rel=1e-12)


def test_the_tornado_is_sorted_and_holds_only_what_moves_the_figure(run):
    """A reader would argue about an input that changes nothing."""
    _, study, _, (part,) = run
    found = tornado(part.ends.take([0]), study, "usd")
    widths = [swing.width for swing in found]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > 0
    assert "carbon of making" not in {swing.name for swing in found}
    assert {"time of the run", "price of servers"} <= {swing.name for swing in found}


def test_a_given_price_has_no_ends(workspace):
    """What the study decides would be taken as uncertain."""
    done = repriced(Archive(workspace.db), "1", ("costing.usd_per_kwh=0.05",))
    (part,) = parts_of(done.study, done.catalog, front_columns(done.study, done.costed))
    names = set(part.ends.uncertain())
    assert "price of electricity" not in names
    assert "price of servers" in names


def test_draws_do_not_depend_on_the_order_or_company_of_plans(run):
    """A plan would have other odds when another is removed from the table."""
    _, study, front, parts = run
    whole = drawn(parts, front, SIGNS, 40, seed=3)
    rows = np.array([1])
    some = {name: np.asarray(column)[rows] for name, column in front.items()}
    part = drawn(parts_of(study, catalogue.load(None), some), some, SIGNS, 40, seed=3)
    for name in SIGNS:
        assert part.values[name] == pytest.approx(whole.values[name][:, rows], rel=1e-12)


def test_most_draws_lie_inside_the_band_of_time(run):
    """P10 to P90 would be of another width than the band measured on left-out runs."""
    _, _, front, parts = run
    found = drawn(parts, front, SIGNS, 2000, seed=1)
    low, high = (np.asarray(front[f"days_{end}"], float) for end in ("low", "high"))
    inside = ((found.values["days"] > low) & (found.values["days"] < high)).mean(axis=0)
    assert inside == pytest.approx(0.9, abs=0.02)
    assert found.quantiles("days")[1] == pytest.approx(np.asarray(front["days"], float), rel=0.02)
    assert (found.front_frac() > 0).any()
    assert win_frac(found.values["usd"].T).sum() == pytest.approx(1.0)


def test_the_three_percentiles_of_an_input_are_met():
    """A band of 90% would hold another share of the draws."""
    band = Band(*(np.array(x) for x in ([0.5, -2.0, 0.0], [1.0, 0.0, 0.0], [4.0, 1.0, 2.0])))
    for score, wanted in ((-Z_95, band.low), (0.0, band.middle), (Z_95, band.high)):
        assert at_quantile(band, score) == pytest.approx(wanted)
    assert at_quantile(band, -10.0)[2] == 0.0


def ishigami(points):
    """Ishigami and Homma 1990 with a = 7, b = 0.1, on inputs from -pi to pi."""
    x, y, z = (2 * points.T - 1) * np.pi
    return np.sin(x) + 7 * np.sin(y) ** 2 + 0.1 * z**4 * np.sin(x)


def test_sobol_indices_of_ishigami():
    """Shares of variance would be wrong where the truth is known in closed form."""
    found = sobol(ishigami, ["x", "y", "z"], 4096, seed=1)
    assert [i.alone_frac for i in found] == pytest.approx([0.3139, 0.4424, 0.0], abs=0.02)
    assert [i.total_frac for i in found] == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.02)


def test_morris_finds_the_input_that_acts_through_another():
    """z alone does nothing in Ishigami's function, and screening would drop it."""
    sizes = {e.name: e.mean_size for e in morris(ishigami, ["x", "y", "z"], 50, seed=1)}
    assert min(sizes.values()) > 1


def test_indices_of_a_plan_name_what_its_cost_hangs_on(run):
    """Another input would be measured next than the one that matters."""
    _, study, _, (part,) = run
    one = part.ends.take([0])
    names = [name for name in one.uncertain() if name in MOVED]
    found = sobol(figure_of_inputs(one, study, "usd", names), names, 256, seed=1)
    top = max(found, key=lambda index: index.total_frac).name
    assert top in {swing.name for swing in tornado(one, study, "usd")[:2]}
    assert sum(index.alone_frac for index in found) == pytest.approx(1.0, abs=0.1)


def test_sources_name_every_input_that_moves_the_cost_and_no_other(run):
    """The report would leave out an input that the tornado shows, or rank noise."""
    _, study, _, (part,) = run
    one = part.ends.take([0])
    found = sources(one, study, "usd", seed=1)
    assert {source.name for source in found} == {
        swing.name for swing in tornado(one, study, "usd")
    }
    assert [s.total_frac for s in found] == sorted((s.total_frac for s in found), reverse=True)
    assert sum(source.alone_frac for source in found) == pytest.approx(1.0, abs=0.05)
    assert sources(one, study, "usd", seed=1) == found
    assert all(0.0 <= source.alone_frac <= source.total_frac <= 1.0 for source in found)


def test_an_effect_that_is_straight_is_the_width_of_its_band(run):
    """Elementary effects would be in no unit that a reader can hold beside the tornado."""
    _, study, _, (part,) = run
    one = part.ends.take([0])
    widths = {swing.name: swing.width for swing in tornado(one, study, "usd")}
    (staff,) = (s for s in sources(one, study, "usd", seed=1) if s.name == "staff")
    assert staff.mean_size == pytest.approx(widths["staff"], rel=0.35)


def test_a_scaled_band_meets_the_table_at_one_and_the_figure_at_nothing():
    """Half of an error would be counted as all of it."""
    columns = {"days": [10.0], "days_low": [5.0], "days_high": [40.0], "usd": [3.0]}
    for scale, low, high in ((1.0, 5.0, 40.0), (0.0, 10.0, 10.0), (2.0, 2.5, 160.0)):
        found = widened(columns, ["days", "usd"], scale)
        assert found["days_low"] == pytest.approx([low])
        assert found["days_high"] == pytest.approx([high])
    assert end_of(columns, "usd", 3.0, "high") == pytest.approx([3.0])


def test_the_front_at_the_bad_end_is_counted_by_hand():
    """A plan that nobody measured would keep its place however wrong its speed may be."""
    columns = {
        "days": [10.0, 9.0, 8.0], "days_low": [9.0, 4.0, 7.0], "days_high": [11.0, 30.0, 9.0],
        "usd": [1.0, 2.0, 3.0],
    }  # fmt: skip
    signs, may = {"days": 1.0, "usd": 1.0}, np.ones(3, dtype=bool)
    worst, is_front = front_at_bad_end(columns, signs, {}, may, 1.0)
    assert worst["days"] == pytest.approx([11.0, 30.0, 9.0])
    assert is_front.tolist() == [True, False, True]
    assert front_at_bad_end(columns, signs, {}, may, 0.0)[1].tolist() == [True, True, True]
    limited = front_at_bad_end(columns, signs, {"days": 10.0}, may, 1.0)[1]
    assert limited.tolist() == [False, False, True]


def test_no_error_of_the_model_leaves_prices_alone_and_no_other_input(run):
    """The odds of a front would follow the slider through the price of servers."""
    _, study, _, (part,) = run
    (none,), (same,) = with_error([part], 0.0), with_error([part], 1.0)
    assert not set(none.ends.uncertain()) & set(OF_THE_MODEL)
    assert set(same.ends.uncertain()) == set(part.ends.uncertain())
    assert set(part.ends.uncertain()) - set(OF_THE_MODEL) == set(none.ends.uncertain())
    assert study.kind == "train"
