"""Studies with products priced tile by tile, and how far the shipped tiles are from times."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small import DENSE, planner, with_lines

from costdata.catalog import load
from costdata.facts import TABLES
from planner.calibration.measured import read_products
from planner.calibration.tile_fit import fit_tiles, product_s
from simkernel.hardware import PRECISION_BYTES, PRECISIONS
from simkernel.roofline import gemm_rates, gemm_work

TRUTH = Path(__file__).parents[1] / "truth" / "microbench.csv"

STUDY = with_lines(
    DENSE,
    accelerator='accelerator = ["H100-SXM", "MI300X"]\ncompute = "tiled"',
    devices="devices = 32",
    tensor_parallel="tensor_parallel = [1, 8]",
    pipeline_parallel="pipeline_parallel = 1",
    micro_batch_sequences="micro_batch_sequences = [1, 2]",
    recompute='recompute = "none"',
    zero_stage="zero_stage = 1",
    days="days = 900",
)


def shipped():
    with (TABLES / "tile_curves.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def timed():
    return read_products([TRUTH])


@pytest.fixture(scope="module")
def catalog():
    return load()


@pytest.mark.parametrize(
    "row", shipped(), ids=lambda row: f"{row['accelerator']}/{row['precision']}"
)
def test_shipped_tiles_are_as_far_from_times_as_they_say(row, timed, catalog):
    """An error that nobody can repeat would stand in the table."""
    chip, precision = row["accelerator"], row["precision"]
    products, code = timed[chip, precision], PRECISIONS.index(precision)
    rates = gemm_rates(catalog.tiled_chips([chip]), code)
    width = PRECISION_BYTES[code]
    shape = (products.rows, products.inner, products.columns)
    work = gemm_work(rates, *shape, (width, width, 2.0))
    errors = np.abs(work.elapsed_s / products.seconds - 1.0)
    assert np.median(errors) == pytest.approx(float(row["median_error_frac"]), abs=2e-3)
    assert np.quantile(errors, 0.9) == pytest.approx(float(row["p90_error_frac"]), abs=5e-3)


def test_a_fit_finds_the_tiles_that_made_the_times(timed):
    """Parameters would stand for no chip."""
    products, about = timed["H100-SXM", "bf16"], (132.0, 989e12, 3.35e12, 2.0)
    made = np.array([0.7, 3.0, 2e-6, 0.7, 6e-6])
    times = replace(products, seconds=product_s(made, products, *about))
    x = fit_tiles(times, *about, starts=[made * 1.2])
    assert product_s(x, products, *about) == pytest.approx(times.seconds, rel=0.05)


def test_a_study_compares_sources_by_name(tmp_path):
    """A third opinion on products could not be asked for."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    words = ("evaluate", path, "--set", "accelerator=H100-SXM", "--set", "tp=8", "--set", "mbs=1")
    tiled, curve = (
        planner(*words, "--set", f"compute={how}", "--json").document
        for how in ("tiled", "roofline")
    )
    terms = [one["ledgers"]["step_s"]["terms"] for one in (tiled, curve)]
    assert terms[0]["gemm"] != terms[1]["gemm"]
    assert terms[0]["gemm"] == pytest.approx(terms[1]["gemm"], rel=0.3)
    assert terms[0]["attention"] == terms[1]["attention"]
    assert (tiled["metrics"]["validated"], curve["metrics"]["validated"]) == (0, 1)


def test_a_chip_without_tiles_is_a_missing_fact(tmp_path):
    """A chip whose cores nobody fitted would be priced by another's."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace('["H100-SXM", "MI300X"]', '"MI300X"'))
    answer = planner("evaluate", path, "--set", "tp=8", "--set", "mbs=1")
    assert answer.code == 3
    assert "tile_curves.csv" in answer.err
