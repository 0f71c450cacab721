"""Sweeps of a hundred million combinations and more: memory that stays, time in proportion.

Every combination of the axes is looked at by rules, those that can exist are evaluated. Processor
time and the largest resident size of one process; sizes differ in the range of one axis.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANNER = (sys.executable, "-c", "from planner.cli import main; main()")
FIRST_DEVICES = (4696, 4296, 3352)
"""Of the range of devices, whose other end and step stay: 26, 76 and 194 counts of hosts."""

KIB = 1024


def swept(db, first):
    """Combinations, candidates evaluated, processor seconds and resident bytes of a run."""
    devices = ", ".join(str(count) for count in range(first, 4897, 8))
    words = ("run", "studies/llama31_70b_training.toml", "--set", f"devices=[{devices}]")
    command = [*PLANNER, *words, "--db", str(db), "--workers", "1", "--search", "sweep", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        document = json.loads(process.stdout.read())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    counts = document["candidates"]
    spent_s = used.ru_utime + used.ru_stime
    return counts["enumerated"], counts["evaluated"], spent_s, used.ru_maxrss * KIB


@pytest.mark.bench
def test_ten_times_the_combinations_take_ten_times_as_long_and_no_more_memory(tmp_path, tell):
    """A sweep that has run for an hour would die for want of memory, or never end."""
    rows = [swept(tmp_path / f"{first}.duckdb", first) for first in FIRST_DEVICES]
    for combinations, evaluated, spent_s, most_bytes in rows:
        words = f"{evaluated:,} possible, {spent_s:.1f} s, {most_bytes / 1e9:.2f} GB"
        tell(f"{combinations:,} combinations", words, "<= 1 GB")
    (small, _, small_s, small_bytes), _, (large, _, large_s, large_bytes) = rows
    tell("seconds in proportion to combinations", f"{large_s / small_s / (large / small):.2f}")
    tell("memory, largest over smallest", f"{large_bytes / small_bytes:.2f}")
    assert small >= 1e8
    assert large_bytes <= 1e9
    assert large_bytes <= 1.25 * small_bytes
    assert large_s <= 1.2 * small_s * large / small
