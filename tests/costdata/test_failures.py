"""The table of failing components gives the cluster it was counted on."""

import dataclasses

import numpy as np
import pytest

from costdata.catalog import load
from costdata.facts import TABLES
from costdata.failures import component_failures_per_s, families_told, family_facts
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


def test_other_chips_fail_as_often_as_was_published_of_them(llama):
    """A100s would be planned with the failures of H100, and nobody could tell from the plan.

    (2 x 6.50 + 2.34)/3 failures in 1000 days of 8 A100; 10 GPU failures in 504 x 1320 h of B200
    beside 151/419 of H100's; 0.08% of TPU machines of 4 a day beside 105/419.
    """
    tables, others = load().tables, 1.0 / 50_677
    wanted = {
        "ampere": (2 * 6.50 + 2.34) / 3 / (1000 * 24 * 8),
        "blackwell": 10 / (504 * 1320) + 151 / 419 * others,
        "tpu": 0.0008 / (24 * 4) + 105 / 419 * others,
        "cdna3": others,
    }
    for architecture, per_device_hour in wanted.items():
        rates = component_failures_per_s(tables, llama, None, architecture)
        found = float(rates.total[0]) * S_PER_HOUR / 16384
        assert found == pytest.approx(per_device_hour, rel=2e-4), architecture
        (fact,) = family_facts(tables, architecture).values()
        assert fact.low < fact.number < fact.high
    guessed = families_told(tables, {"MI300X": "cdna3"})
    assert "nobody publishes theirs" in guessed
    assert "13,605 to 240,000" in guessed


def test_components_of_ones_own_are_not_scaled(llama, tmp_path):
    """A rate measured on a user's own A100 would be changed by somebody else's."""
    text = (TABLES / "failures.csv").read_text(encoding="utf-8")
    (tmp_path / "failures.csv").write_text(text, encoding="utf-8")
    own = load(tmp_path).tables
    one, other = (
        component_failures_per_s(own, llama, None, a).total[0] for a in ("hopper", "tpu")
    )
    assert one == pytest.approx(other, rel=1e-12)
