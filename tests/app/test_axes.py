"""Every axis of app and report that measures something says in what."""

import inspect
from types import ModuleType

import pytest
from units_of_axes import without_units

from planner import charts
from planner.archive.store import Archive
from planner.charts import bars, gantt, over_time, palette, roofline, scatter
from planner.charts.scatter import Axis, Colour
from planner.documents.figures import axis_unit, scale_of, title_of, unit_of
from planner.explain.roofline import Roofline
from planner.metrics import METRICS
from planner.report.blocks import Picture
from planner.report.gather import gather
from planner.report.paper import paper
from planner.report.purchase import purchase_paper, reported

ROOMS = (bars, gantt, over_time, palette, roofline, scatter)

AXES = [
    Axis(field, metric, title_of(metric, unit))
    for field, metric, unit in (("x", "days", "days"), ("y", "devices", "count"))
]
ROW = {"id": "p1 @ se", "x": 1.0, "y": 2.0, "site": "se", "mark": "knee", "is_over": False}
YEAR = {"year": 0, "spent": 1.0, "plan": "this", "what": "cap"}
CASES = {
    "chart_of": None,  # no chart yet: it has no marks
    "stairs": None,
    "waterfall": lambda: bars.waterfall({"a": 1.0, "b": 2.0}, "s"),
    "bars": lambda: bars.bars([{"n": "a", "c": 3, "k": "x"}], "n", "c", "k", {"x": "#000"}),
    "paired": lambda: bars.paired([{"term": "a", "when": "before", "value": 1.0}], "M$"),
    "stacked": lambda: bars.stacked([{"n": "a", "c": 3, "k": "x"}], "n", "c", "k", {"x": "#000"}),
    "gantt": lambda: gantt.gantt(
        [{"row": "stage 0", "name": "forward", "start_s": 0.0, "end_s": 1.0, "critical": True}]
    ),
    "lines": lambda: over_time.lines([YEAR], "spent", "spent [M$]", "plan", "what"),
    "years": lambda: over_time.years([YEAR, {**YEAR, "what": ""}], "spent", "carbon [tCO2e]"),
    "growth": lambda: over_time.growth(
        [{"seconds": 1.0, "hypervolume": 0.5, "evaluated": 7}], "r1"
    ),
    "roof_chart": lambda: roofline.roof_chart(Roofline(1e15, 3e12, 0.4, 0.3, 0.1)),
    "pareto": lambda: scatter.pareto(
        [{**ROW, "x_low": 0.5, "x_high": 2.0, "y_low": 1.0, "y_high": 3.0}],
        AXES, Colour("site", ["se"], ["se"]), "", ROW, [ROW], [ROW], [ROW],
    ),
}  # fmt: skip


def drawing(room: ModuleType):
    """Public functions of a room that make something of rows."""
    for name, function in inspect.getmembers(room, inspect.isfunction):
        if function.__module__ == room.__name__ and not name.startswith("_"):
            yield name


def test_every_way_to_draw_has_a_case_here():
    """A new chart would be looked at by nobody."""
    assert {name for room in ROOMS for name in drawing(room)} == set(CASES)
    known = {room.__name__ for room in ROOMS}
    found = {f"{charts.__name__}.{path.stem}" for path in _files(charts)}
    assert found == known


def _files(package):
    from pathlib import Path

    return [p for p in Path(package.__file__).parent.glob("*.py") if p.stem != "__init__"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case])
def test_a_chart_says_in_what_it_measures(name):
    """A reader would take kilowatts for megawatts."""
    assert not without_units(CASES[name]().to_dict())


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_on_an_axis_has_a_unit(name):
    """A front of devices against shares would have bare numbers on both sides."""
    _, unit = scale_of(unit_of(name), [1.0])
    assert title_of(name, axis_unit(name, unit)).endswith("]")


@pytest.mark.long
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_charts_of_a_report_say_in_what_they_measure(stored, language):
    """A board would ask whether the bars are thousands or millions."""
    blocks = paper(gather(Archive(stored.db), stored.run), language).blocks
    specs = [block.spec for block in blocks if isinstance(block, Picture)]
    assert len(specs) >= 3
    assert not [title for spec in specs for title in without_units(spec)]


@pytest.mark.long
def test_the_charts_of_a_purchase_report_say_in_what_they_measure(gated):
    """A buyer would not know what the caps are of."""
    blocks = purchase_paper(reported(Archive(gated), "1", "1")).blocks
    specs = [block.spec for block in blocks if isinstance(block, Picture)]
    assert len(specs) >= 3
    assert not [title for spec in specs for title in without_units(spec)]


def test_a_bare_axis_is_found():
    """The tests above would pass whatever is drawn."""
    bare = {"mark": "bar", "encoding": {"x": {"field": "s", "type": "quantitative", "title": "s"}}}
    assert without_units(bare) == ["s"]
    assert without_units({"layer": [bare]}) == ["s"]
