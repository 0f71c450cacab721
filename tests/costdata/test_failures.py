"""The table of failing components gives the cluster it was counted on."""

import dataclasses

import numpy as np
import pytest

from costdata.catalog import load
from costdata.failures import component_failures_per_s
from costdata.hardware_bill import FabricShapes, Support, UnitShapes, hardware_bill

S_PER_HOUR = 3600.0
COUNTED = {"gpu": 196, "hbm": 72, "nic": 7, "host": 43, "power": 3, "software": 63}
"""Interruptions by cause, Llama 3 (arXiv 2407.21783) table 5; network switch or cable: 35."""


@pytest.fixture(scope="module")
def llama():
    """16,384 H100 in 2,048 hosts of 8, two layers of switches with 64 ports."""
    one = np.ones(1)
    units = UnitShapes(8.0 * one, 1.0 * one, 8.0 * one, 8.0 * one)
    fabric = FabricShapes(64.0 * one, 1.0 * one, np.zeros(1, dtype=np.int64), 8.0 * one)
    return hardware_bill(np.array([16384.0]), units, fabric, Support(0.0, 0.0, np.inf, 0.0))


def test_components_add_up_to_the_419_interruptions_of_llama_3(llama):
    """3.09 h between interruptions and 50,677 device-hours each, from component rates alone."""
    rates = component_failures_per_s(load().tables, llama)
    in_54_days = {name: rate[0] * 54 * 86400 for name, rate in rates.terms.items()}
    assert in_54_days["link"] + in_54_days["switch"] == pytest.approx(35, rel=1e-5)
    for name, count in COUNTED.items():
        assert in_54_days[name] == pytest.approx(count, rel=1e-5), name
    job_h = 1.0 / rates.total[0] / S_PER_HOUR
    assert job_h == pytest.approx(3.0930787589498805, rel=1e-5)
    assert job_h * 16384 == pytest.approx(50_677, rel=1e-5)


def test_spares_stand_by_and_do_not_stop_the_job(llama):
    """A cluster with more spares would fail more often."""
    more = dataclasses.replace(llama, spare_units=llama.spare_units + 100, ports=llama.ports + 800)
    rates = [component_failures_per_s(load().tables, bill) for bill in (llama, more)]
    assert rates[0].total == pytest.approx(rates[1].total, rel=1e-12)


def test_one_figure_stands_for_all_components(llama):
    """A figure of one's own would be added to the table's."""
    rates = component_failures_per_s(load().tables, llama, 100_000.0)
    assert list(rates.terms) == ["all_components"]
    assert 1.0 / rates.total[0] / S_PER_HOUR == pytest.approx(100_000 / 16384)
