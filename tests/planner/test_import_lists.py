"""Quotes and power logs."""

import pytest

from costdata.catalog import load
from planner.imports.found import Given
from planner.imports.kinds import power_log, quotes
from simkernel.errors import PlanError


def read(module, tmp_path, text, **settings):
    path = tmp_path / "list.csv"
    path.write_text(text)
    return module.read([path], Given(load(), settings))


QUOTES = """accelerator,provider,instance,devices,region,plan,usd_per_instance_hour,usd_per_device
NVIDIA H100 80GB HBM3,acme,big,8,eu,reserved_1y,16,
B200,acme,,,,,,41000
B200,other,,,,,,39000
"""


def test_rents_become_rows_and_prices_a_line_of_a_study(tmp_path):
    """A quote would be charged for a server as if it were a device."""
    found = read(quotes, tmp_path, QUOTES)
    (row,) = found.tables["cloud_prices"]
    assert row["usd_per_device_hour"] == "2"
    assert row["accelerator"] == "H100-SXM"
    assert found.notes == ['for a study: [costing] price_usd = { "B200-SXM" = 39000 }']


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accelerator,usd_per_device\nB200,1\n", "lacks provider"),
        ("accelerator,provider\nB200,acme\n", "lacks a price"),
        ("accelerator,provider,usd_per_device,colour\nB200,a,40000,red\n", "columns colour"),
        ("accelerator,provider,usd_per_device\nB9000,acme,40000\n", "B9000"),
        ("accelerator,provider,usd_per_device\nB200,acme,$40000\n", "without a currency"),
        ("accelerator,provider,usd_per_device\nB200,acme,=cmd|' /C calc'!A0\n", "a formula"),
        ("accelerator,provider,usd_per_device\nB200,acme,40\n", "thousands"),
        ("accelerator,provider,usd_per_device\nB200,acme,\n", "has 0 prices"),
        ("accelerator,provider,usd_per_instance_hour\nB200,acme,20\n", "give its devices"),
        ("accelerator,provider,usd_per_device_hour,plan\nB200,a,2,weekly\n", "none of on_demand"),
        ("accelerator,provider,usd_per_device\n", "no quote"),
    ],
)
def test_a_quote_that_cannot_be_is_refused_by_name(tmp_path, text, words):
    """A slip in a spreadsheet would end in a purchase order."""
    with pytest.raises(PlanError, match=words):
        read(quotes, tmp_path, text)


def test_a_wrong_quote_hides_none_of_the_other_files(tmp_path):
    """A person would mend one file after another."""
    paths = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path in paths:
        path.write_text("accelerator,provider,usd_per_device\nB200,acme,40\nB200,acme,50\n")
    with pytest.raises(PlanError) as refused:
        quotes.read(paths, Given(load(), {}))
    assert len(refused.value.faults) == 4


HEAD = "timestamp, name, index, power.draw [W], utilization.gpu [%], memory.used [MiB]\n"


NAME = "NVIDIA H100 80GB HBM3"


def lines(*samples):
    return HEAD + "".join(
        f"2026/11/30 10:00:{i % 60:02}.000, {NAME}, {device}, {watts}, {busy} %, {mib} MiB\n"
        for i, (device, watts, busy, mib) in enumerate(samples)
    )


def test_watts_are_told_and_idle_ones_kept(tmp_path):
    """A fleet that stands idle would draw what another's does."""
    text = lines(
        *[(0, "66.00 W", 0, 4)] * 20, *[(0, "118.00 W", 0, 70000)] * 20,
        *[(1, "640.00 W", 99, 70000)] * 15, *[(1, "[N/A]", 99, 70000)] * 2,
    )  # fmt: skip
    found = read(power_log, tmp_path, text)
    (row,) = found.tables["power_curves"]
    ours = load().tables["power_curves"][("H100-SXM",)]
    assert (row["idle_w"], row["context_w"]) == ("66", "118")
    assert row["compute_w"] == ours.text("compute_w")
    assert row["note"].startswith("idle_w, context_w: this log")
    assert [d["mean_w"] for d in found.told["devices"]] == [92.0, 640.0]
    assert found.notes == ["2 lines without a reading are left out"]


def test_a_log_without_idle_samples_keeps_nothing(tmp_path):
    """Watts at work would be taken for watts at rest."""
    found = read(power_log, tmp_path, lines(*[(0, "640.00 W", 99, 70000)] * 20))
    assert not found.tables


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (lines(*[(0, "640000 W", 9, 9)] * 20), "milliwatts"),
        (lines(*[(0, "-5 W", 9, 9)] * 20), "is no reading"),
        (lines(*[(0, "70 W", 0, 4)] * 3), "wanted 10 at least"),
        ("timestamp, name\nx, y\n", "no column power.draw"),
        (lines(*[(0, "200 W", 0, 4)] * 20), "log both on one machine"),
    ],
)
def test_a_log_that_cannot_be_is_refused_by_name(tmp_path, text, words):
    """A wrong unit would make a thousandfold bill."""
    with pytest.raises(PlanError, match=words):
        read(power_log, tmp_path, text)


def test_every_wrong_line_of_a_log_is_told_and_the_rest_counted(tmp_path):
    """A person would mend one line after another."""
    with pytest.raises(PlanError) as refused:
        read(power_log, tmp_path, lines(*[(0, "640000 W", 9, 9)] * 25))
    assert refused.value.faults[1].startswith("list.csv line 3: 640000 W")
    assert refused.value.faults[-1] == "and 5 more"
