"""Output of nccl-tests: what is read, what is refused, and how well it is given back.

The timings of the file are those of NVIDIA/dgxc-benchmarking (Apache-2.0), README of the NCCL
benchmark, sample output of eight H100 in one node; its list of devices is our own.
"""

from pathlib import Path

import numpy as np
import pytest

from costdata.catalog import load
from costdata.facts import parse_table
from costdata.times import message_times, timed_chips
from planner.imports.found import Given
from planner.imports.kinds import nccl_tests
from simkernel.errors import BadFile, PlanError
from simkernel.exchange import fastest
from simkernel.placement import Group
from simkernel.timed_over_curves import message_curve_s
from simkernel.traffic import as_timed, network

FILE = Path(__file__).parent / "imported" / "h100_all_reduce_8.txt"
TEXT = FILE.read_text()


def found_in(*paths, **settings):
    return nccl_tests.read(paths, Given(load(), settings))


def read_text(tmp_path, text, **settings):
    path = tmp_path / "log.txt"
    path.write_text(text)
    return found_in(path, **settings)


def timed_with(rows):
    """The H100 with some rows of collective_times.csv, as a study has it."""
    table, _ = parse_table("collective_times", rows, {}, is_user=True)
    catalog = load()
    tables = {**catalog.tables, "collective_times": table}
    return timed_chips(tables, [catalog.tables["accelerators"][("H100-SXM",)]])


def predicted_s(chips, operation, inside, domains, payload_bytes):
    """Seconds of collectives as a study prices them."""
    sizes = np.asarray(payload_bytes, dtype=float)
    ones = np.ones(len(sizes), dtype=int)
    group = Group(ones * inside * domains, ones * inside)
    wires = network(chips, ones * inside, np.ones(len(sizes))).wires(operation, group)
    chosen = fastest(operation, wires, group, sizes)
    return as_timed(chosen, chips.timed, operation, wires, group, sizes).elapsed_s


@pytest.fixture(scope="module")
def rows():
    return found_in(FILE).tables["collective_times"]


def test_every_size_is_read_with_its_group(rows):
    """A message would be priced in a group, or at a size, that nobody timed."""
    assert len(rows) == 32
    assert {(r["accelerator"], r["operation"], r["inside"], r["domains"]) for r in rows} == {
        ("H100-SXM", "all_reduce", "8", "1")
    }
    largest = max(rows, key=lambda r: int(r["payload_bytes"]))
    assert float(largest["seconds"]) == pytest.approx(62636e-6)


def test_times_come_back_at_their_points_within_3_percent(rows):
    """A study would not say what the user's own fabric does."""
    sizes = [int(r["payload_bytes"]) for r in rows]
    seconds = np.array([float(r["seconds"]) for r in rows])
    errors = np.abs(predicted_s(timed_with(rows), "all_reduce", 8, 1, sizes) / seconds - 1)
    assert errors.max() < 0.03


def test_every_second_size_left_out_is_met_within_12_percent(rows):
    """A message between two timed ones would be a guess.

    But for the two sizes beside the step where the library changes its protocol (512 KiB and
    2 MiB, 13.4% and 12.9%): no two of their neighbours know of it.
    """
    seconds = {int(r["payload_bytes"]): float(r["seconds"]) for r in rows}
    sizes = sorted(seconds)
    errors = {}
    for first in (0, 1):
        timed = timed_with([r for r in rows if int(r["payload_bytes"]) in sizes[first::2]])
        left = [size for size in sizes[1 - first :: 2] if size not in (sizes[0], sizes[-1])]
        found = predicted_s(timed, "all_reduce", 8, 1, left)
        errors |= {n: abs(s / seconds[n] - 1) for n, s in zip(left, found, strict=True)}
    assert len(errors) == 30
    assert {size for size, error in errors.items() if error >= 0.12} == {1 << 19, 1 << 21}
    assert np.quantile(list(errors.values()), 0.9) < 0.05


def test_nothing_is_faster_than_the_wires(rows):
    """An import would make a network that cannot be built."""
    fast = [{**r, "seconds": "1e-8"} for r in rows]
    sizes = np.array([float(r["payload_bytes"]) for r in rows])
    found = predicted_s(timed_with(fast), "all_reduce", 8, 1, sizes)
    assert np.all(found >= sizes * 7 / 8 / 450e9)


def test_groups_between_timed_ones_lie_between_them():
    """A group of four would be priced as if two and eight had never been timed."""

    def row(inside, domains, seconds):
        return {
            "accelerator": "H100-SXM", "operation": "all_gather", "inside": str(inside),
            "domains": str(domains), "payload_bytes": "1000000000", "seconds": str(seconds),
            "timings": "1",
        }  # fmt: skip

    catalog = load()
    chips = catalog.chips(["H100-SXM"])
    given = [row(2, 1, 3e-3), row(8, 1, 9e-3), row(8, 2, 5e-2), row(8, 8, 9e-2)]
    table, _ = parse_table("collective_times", given, {}, is_user=True)
    curve_s, _ = message_curve_s(chips, message_times(table.values(), ["H100-SXM"]))
    timed = timed_with(given).timed
    frac = [
        float(timed.message_frac("all_gather", Group(np.array([n]), np.array([q])), 1e9)[0][0])
        for n, q in ((2, 2), (4, 4), (8, 8), (16, 8), (32, 8), (64, 8), (128, 8), (16, 4))
    ]
    ratios = np.array([float(r["seconds"]) for r in given]) / curve_s
    assert frac[0] == pytest.approx(ratios[0])
    assert frac[1] == pytest.approx(np.sqrt(ratios[0] * ratios[1]))
    assert frac[2] == pytest.approx(ratios[1])
    assert min(ratios[2:]) < frac[4] < max(ratios[2:])
    assert frac[6] == pytest.approx(ratios[3])
    assert frac[7] == 1.0


TWO_NODES = TEXT.replace("on node-a device  4", "on node-b device  4")
for _rank in (5, 6, 7):
    TWO_NODES = TWO_NODES.replace(f"on node-a device  {_rank}", f"on node-b device  {_rank}")


def test_hosts_make_domains_where_chips_are_sold_so(tmp_path):
    """Ranks of two nodes would be priced as if they shared a switch."""
    found = read_text(tmp_path, TWO_NODES).tables["collective_times"]
    assert {(r["inside"], r["domains"]) for r in found} == {("4", "2")}


def test_a_rack_of_many_hosts_asks_for_its_domain(tmp_path):
    """Hosts of one rack would be priced as if cards lay between them."""
    text = TWO_NODES.replace("NVIDIA H100 80GB HBM3", "NVIDIA GB200")
    with pytest.raises(BadFile, match="give --set domain_devices"):
        read_text(tmp_path, text, accelerator="GB200")
    found = read_text(tmp_path, text, accelerator="GB200", domain_devices="72")
    assert {(r["inside"], r["domains"]) for r in found.tables["collective_times"]} == {("8", "1")}


def test_tags_of_mpirun_and_words_between_rows_are_passed_over(tmp_path):
    """A log as launchers write it would be refused."""
    lines = TEXT.splitlines()
    lines.insert(14, "[node-a:29250] 15 more processes have sent help message")
    lines.insert(20, "node-a: NCCL version 2.30.3+cuda13.0")
    tagged = "\n".join(f"[1,0]<stdout>:{line}" for line in lines)
    assert read_text(tmp_path, tagged).tables == found_in(FILE).tables


def test_two_programs_in_one_log_are_two_operations(tmp_path):
    """Gathers would be taken for reductions."""
    gather = TEXT.replace("all_reduce_perf", "all_gather_perf").replace(" sum ", " none ")
    rows = [line.split() for line in gather.splitlines()]
    for i, cells in enumerate(rows):
        if cells and cells[0].isdecimal():
            for bus in (7, 11):
                cells[bus] = f"{float(cells[bus]) / 2:.2f}"
            rows[i] = cells
    text = "\n".join(" ".join(cells) for cells in rows)
    found = read_text(tmp_path, f"{TEXT}\n{text}").tables["collective_times"]
    assert len([r for r in found if r["operation"] == "all_gather"]) == 32
    assert len(found) == 64


ROW = TEXT.index("          64            16")


@pytest.mark.parametrize("more", [0, 12, 14, 28, 40, 60, 100])
def test_output_cut_inside_a_row_is_refused_with_what_is_lacking(tmp_path, more):
    """The first sizes of a run that was stopped would be taken for all that was timed."""
    with pytest.raises(BadFile) as refused:
        read_text(tmp_path, TEXT[: ROW + more])
    told = " ".join(refused.value.faults)
    assert "Out of bounds values" in told
    assert "Avg bus bandwidth" in told
    assert ("cut short" in told) == (more > 0)


@pytest.mark.parametrize("cut", [-1, -3])
def test_a_short_row_is_a_fault_though_the_closing_lines_are_there(tmp_path, cut):
    """A size would be missing from a link's times without a word."""
    lines = TEXT.splitlines()
    short = next(i for i, line in enumerate(lines) if line.split()[:1] == ["4096"])
    lines[short] = " ".join(lines[short].split()[: 4 + cut])
    with pytest.raises(BadFile, match=f"line {short + 1} is cut short"):
        read_text(tmp_path, "\n".join(lines))


def test_a_second_run_without_its_end_is_refused(tmp_path):
    """A log that was cut in its second program would be taken as whole."""
    for length in (TEXT.index("#       size"), ROW, TEXT.index("# Avg bus")):
        with pytest.raises(BadFile, match="a run ends without"):
            read_text(tmp_path, TEXT + TEXT[:length])


REFUSED = {
    "truncated row": (TEXT.replace(" 479.99      0", ""), "cut short"),
    "wrong values": (
        TEXT.replace("477.24      0", "477.24      7"),
        "7 values came out wrong",
    ),
    "no devices": (
        "\n".join(line for line in TEXT.splitlines() if "Rank" not in line),
        "names no device",
    ),
    "unknown device": (TEXT.replace("NVIDIA H100 80GB HBM3", "NVIDIA X9"), "no name of the"),
    "mixed devices": (
        TEXT.replace("[0000:e4:00] NVIDIA H100 80GB HBM3", "[0000:e4:00] NVIDIA H200"),
        "several devices",
    ),
    "no operation": (
        "\n".join(line for line in TEXT.splitlines() if "_perf" not in line),
        "does not say which collective",
    ),
    "another operation": (TEXT.replace("all_reduce_perf", "all_gather_perf"), "another program"),
    "what no plan does": (TEXT.replace("all_reduce_perf", "broadcast_perf"), "no plan does"),
    "every rank by itself": (TEXT.replace("Rank  1", "Rank  0"), "the tests with MPI"),
    "time of nothing": (TEXT.replace("62648  274.23", "0.00  274.23"), "above zero"),
    "no number": (TEXT.replace("62648  274.23", "62648  2-4"), "cut short|no number"),
    "endless size": (TEXT.replace("  4096  ", " " + "9" * 5000 + " "), "is no size in bytes"),
    "nothing": ("hello\n", "no row of nccl-tests"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_output_that_cannot_be_right_is_refused_by_name(tmp_path, kind):
    """A link would be priced by a run that failed, or of other hardware."""
    text, words = REFUSED[kind]
    with pytest.raises(PlanError, match=words):
        read_text(tmp_path, text)
