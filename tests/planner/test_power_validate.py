"""Metered watts and joules through `planner validate`, with rows made up."""

import json

import numpy as np
import pytest
import typer
from power_rows import NODE_COLUMNS, RUN_COLUMNS, node, nodes, run, runs, written
from typer.testing import CliRunner

from costdata import catalog
from planner.calibration.power_fit import read_metered
from planner.commands.validate import register
from planner.validation.power_truth import busy_frac, cooling_of, is_node
from planner.validation.protocols import predict
from planner.validation.rows import TruthRow, chosen, read_truth, sound
from simkernel.errors import BadStudy

APP = typer.Typer()
register(APP)
APP.callback()(lambda: None)


def row(cells):
    return TruthRow({name: str(value) for name, value in cells.items()}, "here")


def predictions(tmp_path, rows, columns, protocol="shipped"):
    path = written(tmp_path / "rows.csv", rows, columns)
    return predict(chosen(read_truth([path]), []), catalog.load(), protocol)


def test_the_command_scores_watts_joules_and_nodes(tmp_path):
    """The error table of power would be somebody's spreadsheet."""
    paths = [
        written(tmp_path / "runs.csv", runs(), RUN_COLUMNS),
        written(tmp_path / "nodes.csv", nodes(), NODE_COLUMNS),
    ]
    result = CliRunner().invoke(APP, ["validate", *map(str, paths), "--json"])
    found = json.loads(result.stdout)
    counts = {name: scored["n"] for name, scored in found["metrics"].items()}
    assert counts == {"device_mean_w": 24, "j_per_token": 24, "node_mean_w": 2}
    assert found["rows"] == found["predicted"] == 26
    assert set(found["metrics"]["device_mean_w"]["groups"]["accelerator"]) == {"H100", "B200"}


def test_watts_are_at_the_measured_rate_and_joules_at_the_predicted_one(tmp_path):
    """A measured speed inside the prediction of J/token would make it no prediction."""
    slow, fast = (
        {
            p.metric: p.predicted
            for p in predictions(tmp_path, [run(rate=r)], RUN_COLUMNS).predictions
        }
        for r in (1000, 3000)
    )
    assert fast["device_mean_w"] > slow["device_mean_w"]
    assert fast["j_per_token"] == slow["j_per_token"]


def test_utilisation_is_the_bytes_of_the_passes_at_the_rate():
    """An 8B model in 16 bits at 100 steps/s reads 1.6 TB/s of weights alone on one device."""
    cells = row(run(rate=3200, batch=32))
    metered, _ = read_metered([cells])
    work = metered.work(np.zeros(len(metered.priors.names)))
    read_frac = work.memory_s[0] * 3200
    weights_frac = 100 * 2 * (8.19e9 - 0.62e9) / 3.35e12  # without the input embedding
    assert weights_frac < read_frac < 1.5 * weights_frac


def test_no_device_is_predicted_above_its_limit_or_below_its_context(tmp_path):
    """The worst fault: a plan that its supply cannot feed."""
    extremes = [run(batch=1, rate=1.0), run(batch=512, rate=90000.0)]
    found = [p for p in predictions(tmp_path, extremes, RUN_COLUMNS).predictions]
    watts = [p.predicted for p in found if p.metric == "device_mean_w"]
    assert 108.0 <= watts[0] < watts[1] <= 700.0


@pytest.mark.long
def test_left_out_runs_are_predicted_without_their_model(tmp_path):
    """One wild model would pull its own prediction, and the error to expect would be flattered."""
    wild = [r | {"power_w_per_gpu": 690.0} if "Llama" in r["model"] else r for r in runs()]
    first, second = (
        predictions(tmp_path, rows, RUN_COLUMNS, "leave_one_out:model").predictions
        for rows in (runs(), wild)
    )
    for a, b in zip(first, second, strict=True):
        if a.row.text("model") == "llama-3.1-8b" and a.metric == "device_mean_w":
            assert a.predicted == pytest.approx(b.predicted, rel=1e-12)


def test_fits_on_a_handful_of_runs_are_refused(tmp_path):
    """Priors would be sold as measurements."""
    with pytest.raises(BadStudy, match="too few"):
        predictions(tmp_path, runs()[:5], RUN_COLUMNS, "fitted")


def test_watts_of_another_scope_or_part_are_told_not_predicted(tmp_path):
    """Watts at the wall against watts of devices, kilowatts apart, would count as an error."""
    rows = [run(power_scope="whole node at the wall"), run(gpu="H200 MaxQ"), run(task="poems")]
    found = predictions(tmp_path, rows, RUN_COLUMNS)
    assert not found.predictions
    assert len(found.unsupported) == 3


def test_a_node_is_its_devices_its_host_and_its_fans():
    """Hand: 8 x (108 + 592 x 0.95) W of devices, and hosts at (235 + 45 x 0.95)/280 of full."""
    hosts = {"liquid": 199.6, "air": 199.6 + 138.2}
    for cells, cooling in zip(nodes(), hosts, strict=True):
        found = predict([row(cells)], catalog.load(), "shipped").predictions[0]
        assert cooling_of(row(cells)) == cooling
        share = (235 + 45 * 0.95) / 280
        by_hand = 8 * (108 + 592 * 0.95) + 8 * hosts[cooling] * share
        assert found.predicted == pytest.approx(by_hand, rel=1e-3)


def test_a_left_out_site_does_not_fit_its_own_host(tmp_path):
    """Otherwise leave-one-site-out would be a fit."""
    sites = [nodes(), [nodes()[0], nodes()[1] | {"value": 9900.0}]]
    dell = [
        next(
            p.predicted
            for p in predictions(
                tmp_path, rows, NODE_COLUMNS, "leave_one_out:source_group"
            ).predictions
            if "Dell" in p.row.text("source")
        )
        for rows in sites
    ]
    assert dell[0] == pytest.approx(dell[1], rel=1e-9)


def test_figures_that_are_no_mean_or_peak_are_told(tmp_path):
    """Energy of a run in kWh, or watts behind the supply, would be compared with watts at it."""
    rows = [
        node("energy of all compute nodes for the run", 0.59, unit="kWh"),
        node(scope="node DC"),
        node(workload="poems"),
        node("error of a model / of an estimate", "11.4 / 27-37", unit="%"),
    ]
    found = predictions(tmp_path, rows, NODE_COLUMNS)
    assert not found.predictions
    assert len(found.unsupported) == 4
    assert is_node(row(rows[0]))
    assert busy_frac(row(node(n_accel=64))) == 0.75


def test_a_metered_row_without_its_figures_is_told_and_the_others_are_scored(tmp_path):
    """A blank cell would end as a fault of ours."""
    blank = [
        {**run(), "case_id": f"blank-{n}", n: ""}
        for n in ("tok_s", "power_w_per_gpu", "joules_per_token")
    ]
    rows = sound(read_truth([written(tmp_path / "rows.csv", [*blank, run()], RUN_COLUMNS)]))
    assert len(rows.rows) == 1
    assert ["blank; wanted what was measured" in why for _, why in rows.faulty] == [True] * 3


def test_a_model_that_nobody_knows_is_one_row_and_not_the_file(tmp_path):
    """One label would take all measurements of a file along."""
    strange = {**run(), "case_id": "strange", "model": "nobody/knows-this"}
    found = predictions(tmp_path, [strange, run()], RUN_COLUMNS)
    assert [case for case, _ in found.unsupported] == ["strange"]
    assert len(found.predictions) == 2


def test_a_metered_run_that_cannot_fit_is_called_infeasible(tmp_path):
    """405 B parameters on one chip would be scored as a run like any other."""
    large = {**run(), "case_id": "large", "model": "meta-llama/Llama-3.1-405B"}
    found = predictions(tmp_path, [large, run()], RUN_COLUMNS)
    assert [p.is_infeasible for p in found.predictions] == [True, False] * 2
