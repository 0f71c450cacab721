"""Our own tables are clean; every planted fault is found, with the words that mend it."""

import csv
import datetime

import pytest

from costdata.catalog import load
from costdata.facts import TABLES, schema_of
from costdata.lint import CARD, OURS_ONLY, lint, warnings_of
from costdata.overlay import read_ours
from simkernel.errors import BadFile


def plant(folder, table, name, **changes):
    """Our row of a name with some cells changed, as a user's table; returns the faults."""
    ours = read_ours()[table]
    row = ours[(name,)] if (name,) in ours else next(iter(ours.values()))
    cells = {**row.cells, "name": name, **changes}
    cells = {column: text for column, text in cells.items() if text != ""}
    with (folder / f"{table}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cells))
        writer.writeheader()
        writer.writerow(cells)
    return lint(folder)


def test_our_tables_are_clean():
    """A table shipped with a fault that our own lint would refuse from a user."""
    assert lint() == []


@pytest.mark.long
def test_our_rows_given_again_by_a_user_are_clean(tmp_path):
    """A user could not copy one of our rows to change one figure of it."""
    for table, rows in read_ours().items():
        if "name" in schema_of(table) and table not in ("provenance", *OURS_ONLY):
            for row in rows.values():
                assert plant(tmp_path, table, row.name) == [], row.name
            (tmp_path / f"{table}.csv").unlink()


def test_an_h100_has_989_dense_and_fp8_at_twice_that():
    """lightning#21743: sparse and dense peaks in one table made MFU twice what it was."""
    facts = load().accelerator("H100-SXM").facts
    assert facts["bf16_flop_per_s"].value == 989e12
    ratio = facts["fp8_flop_per_s"].value / facts["bf16_flop_per_s"].value
    assert ratio == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize(
    ("name", "column", "peak", "said"),
    [
        ("H100-SXM", "bf16_tflop_per_s", "1979", "with 2:4 sparsity"),
        ("My-H100", "bf16_tflop_per_s", "1979", "with 2:4 sparsity"),
        ("My-H100", "fp16_tflop_per_s", "1979", "with 2:4 sparsity"),
        ("H100-SXM", "fp8_tflop_per_s", "3958", "with 2:4 sparsity"),
        ("MI355X", "bf16_tflop_per_s", "5033", "twice the dense 2516"),
        ("H100-SXM", "fp8_tflop_per_s", "1500", "is 1.52, on hopper it is 2"),
        ("B200-SXM", "nvfp4_tflop_per_s", "18000", "with 2:4 sparsity"),
    ],
)
def test_a_sparse_peak_is_refused(tmp_path, name, column, peak, said):
    """Any 1979 called BF16 is the figure with 2:4 sparsity."""
    assert said in "\n".join(plant(tmp_path, "accelerators", name, **{column: peak}))


@pytest.mark.parametrize(
    ("table", "name", "change", "said"),
    [
        ("accelerators", "H100-SXM", {"tdp_w": "0.7"}, "kilowatts"),
        ("servers", "HGX-H200", {"max_power_w": "10.2"}, "kilowatts"),
        ("servers", "HGX-H200", {"max_power_w": "5000"}, "below the 5600 W of its chips"),
        ("accelerators", "H100-SXM", {"memory_bytes": "80"}, "GB? Give bytes"),
        ("accelerators", "H100-SXM", {"hbm_gbytes_per_s": "3.35"}, "TB/s? Give GB/s"),
        ("regions", "us-tx", {"grid_marginal_kgco2e_per_kwh": "495"}, "g per kWh"),
        ("regions", "us-tx", {"usd_per_kwh": "66", "usd_per_kwh_high": ""}, "per MWh"),
        ("regions", "us-tx", {"pue": "0.9"}, "below 1"),
        ("network", "optic-400g", {"power_w": "12000"}, "above 10000 W"),
    ],
)
def test_a_value_in_another_unit_is_refused(tmp_path, table, name, change, said):
    """codecarbon#286: watts taken for kilowatts, 1,000 times off."""
    assert said in "\n".join(plant(tmp_path, table, name, **change))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("H100-SXM", {"scaleup_gbytes_per_s_per_direction": "900"}, "twice the one-way rate"),
        ("My-H100", {"scaleup_gbytes_per_s_per_direction": "900"}, "NVLink4 carries 450"),
        ("MI300X", {"scaleup_peer_gbytes_per_s_per_direction": "128"}, "twice the one-way rate"),
        ("H100-SXM", {"scaleout_gbytes_per_s_per_direction": "400"}, "Gb/s? Divide by 8"),
        (
            "My-H100",
            {
                "scaleup_gbytes_per_s_per_direction": "100",
                "scaleup_peer_gbytes_per_s_per_direction": "200",
            },
            "the rate to one peer is above",
        ),
        ("H100-SXM", {"nics_per_host": "4"}, "4 cards of 50 GB/s for 8 devices are 25 each"),
    ],
)
def test_a_bandwidth_of_both_directions_is_refused(tmp_path, name, change, said):
    """Data sheets print the total of both directions: every transfer came out twice too fast."""
    changed = {"scaleup_note": "NVLink4", **change} if name == "My-H100" else change
    assert said in "\n".join(plant(tmp_path, "accelerators", name, **changed))


def test_a_bandwidth_without_a_direction_is_refused(tmp_path):
    """astra-sim#294: a column named bandwidth, in units and directions unknown."""
    faults = plant(tmp_path, "accelerators", "H100-SXM", scaleup_bandwidth="450")
    assert "has no column 'scaleup_bandwidth'" in "\n".join(faults)
    assert "scaleup_gbytes_per_s_per_direction" in "\n".join(faults)


RENT = "aws/p5.48xlarge/H100-SXM/us-east-1/on_demand"


@pytest.mark.parametrize("price", ["693.5", "0.0013", "55.04"])
def test_a_monthly_price_asks_to_be_confirmed(tmp_path, price):
    """opencost#3781: an hourly default treated as monthly, 730 times off."""
    faults = plant(tmp_path, "cloud_prices", RENT, usd_per_device_hour=price)
    assert "USD per device and hour is outside 0.05 to 50" in "\n".join(faults)
    assert plant(tmp_path, "cloud_prices", RENT, usd_per_device_hour=price, confirmed="yes") == []


def test_an_hourly_price_stays_what_it_is(tmp_path):
    """opencost#3781: 0.95 per device and hour stays 0.95."""
    assert plant(tmp_path, "cloud_prices", RENT, usd_per_device_hour="0.95") == []
    (rent,) = [
        r
        for r in load(tmp_path).rent("H100-SXM", "on_demand")
        if "p5.48" in r.instance and r.region == "us-east-1" and r.as_of == "2026"
    ]
    assert rent.usd_per_device_hour == 0.95


@pytest.mark.parametrize("table", ["traces", "trace_formats"])
def test_an_overlay_cannot_add_what_nothing_would_read(tmp_path, table):
    """A trace or a format of one's own would be listed, and another one be used."""
    text = (TABLES / f"{table}.csv").read_text()
    (tmp_path / f"{table}.csv").write_text(text)
    assert len(lint(tmp_path)) == text.count("\n") - 1
    assert "not" in lint(tmp_path)[0]


def test_a_price_without_unit_or_date_is_refused(tmp_path):
    """A price of nobody knows when, in nobody knows what."""
    assert "as_of is empty" in "\n".join(plant(tmp_path, "cloud_prices", RENT, as_of=""))
    faults = plant(tmp_path, "cloud_prices", RENT, price="2.95")
    assert "has no column 'price'" in "\n".join(faults)
    faults = plant(tmp_path, "facility", "colo/global", unit="")
    assert "unit is empty" in "\n".join(faults)


@pytest.mark.parametrize(
    ("table", "name", "change"),
    [
        ("accelerators", "H100-SXM", {"price_usd_low": "24000"}),
        ("regions", "us-tx", {"usd_per_kwh_high": "0.06"}),
        ("facility", "colo/global", {"high": "200"}),
        ("embodied", "pcf/h100", {"kgco2e_low": "165"}),
    ],
)
def test_a_band_out_of_order_is_refused(tmp_path, table, name, change):
    """A low above the typical value turned a band inside out."""
    assert "low > typ > high" in "\n".join(plant(tmp_path, table, name, **change))


def test_shares_that_do_not_sum_to_one_are_refused(tmp_path):
    """Shares of one whole that sum to 0.9 lose a tenth of it."""
    assert "the shares of mix sum to 0.900" in "\n".join(
        plant(
            tmp_path,
            "facility",
            "my/share",
            unit="frac",
            value="0.9",
            low="",
            high="",
            share_of="mix",
        )
    )


def test_a_row_about_an_unknown_chip_is_refused(tmp_path):
    """A misspelt chip had no server, silently."""
    faults = plant(tmp_path, "servers", "HGX-H200", accelerator="H200")
    assert "accelerator 'H200' is not in accelerators.csv" in "\n".join(faults)


@pytest.mark.parametrize(
    ("column", "word"),
    [("architecture", "hoper"), ("precisions", "fp9"), ("kernels", "attention")],
)
def test_a_support_rule_that_can_never_speak_is_refused(tmp_path, column, word):
    """A misspelt precision left the old answer standing, silently."""
    assert f"{column} {word!r} is none of" in "\n".join(
        plant(tmp_path, "support", "hopper/yes", **{column: word})
    )


def test_a_large_peak_of_a_new_architecture_is_not_called_sparse(tmp_path):
    """A chip of the next generation could not be entered: its dense FP8 was B200's sparse one."""
    new = {"architecture": "next", "bf16_tflop_per_s": "4500", "fp8_tflop_per_s": "9000"}
    assert plant(tmp_path, "accelerators", "Next-1", **new) == []


def test_an_old_price_is_a_warning_not_a_fault():
    """A four-year-old price was used as if it were of today."""
    ours = {"servers": read_ours()["servers"]}
    said = warnings_of(ours, datetime.date(2026, 6, 1))
    assert any("DGX-A100-320G: price_usd is of 2020-05" in text for text in said)
    assert not any("HGX-B300" in text for text in said)
    assert warnings_of(ours, datetime.date(2020, 6, 1)) == []


def test_a_catalogue_with_faults_is_not_loaded_and_says_all_of_them(tmp_path):
    """A study ran on a sparse peak because nobody called lint."""
    plant(tmp_path, "accelerators", "My-H100", bf16_tflop_per_s="1979", tdp_w="0.7", hue="red")
    with pytest.raises(BadFile) as caught:
        load(tmp_path)
    text = "\n".join(caught.value.faults)
    for part in ("with 2:4 sparsity", "kilowatts", "no column 'hue'"):
        assert part in text


def test_one_table_can_be_checked_alone(tmp_path):
    """A user had to make a folder to check a file."""
    plant(tmp_path, "accelerators", "H100-SXM", tdp_w="0.7")
    plant(tmp_path, "servers", "HGX-H200", max_power_w="10")
    (fault,) = lint(tmp_path / "accelerators.csv")
    assert "kilowatts" in fault


def test_every_chip_has_its_share_of_the_cards_of_its_host():
    """Eight devices behind four cards would each send as if the card were its own."""
    seen = 0
    for row in read_ours()["accelerators"].values():
        stated = CARD.findall(row.text("nic"))
        cards = row.number("nics_per_host")
        if stated and cards:
            seen += 1
            card = max(int(n or 1) * int(each) / 8 for n, each in stated)
            share = row.number("scaleout_gbytes_per_s_per_direction") / 1e9
            assert share * row.number("devices_per_host") <= cards * card * 1.01, row.name
    shared = load().accelerator("L40S").facts["scaleout_bytes_per_s_per_direction"]
    assert shared.value == 25e9
    assert seen > 10
