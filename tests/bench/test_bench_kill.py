"""Runs that are killed at random moments and gone on with until they end.

As many times as PLANNER_KILLS says; ten where it says nothing.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from planner.archive.store import Archive

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "studies" / "llama31_70b_training.toml"
KILLS = int(os.environ.get("PLANNER_KILLS", "10"))
MAIN = "import planner.runs.run as run; run.FLUSH_S = 0.2; from planner.cli import main; main()"


def started(db, driver, *words):
    """The command in a process of its own, keeping what it has every fifth of a second."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", str(STUDY), "--db", str(db), "--workers", "1",
         "--search", driver, "--json", *words],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def ended(process):
    """Its document."""
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.bench
@pytest.mark.parametrize("driver", ["sweep", "evolve"])
def test_a_run_killed_again_and_again_ends_as_if_it_never_was(driver, tmp_path, tell):
    """A machine that fails every night would never come to an answer, or to a wrong one."""
    began = time.perf_counter()
    whole = ended(started(tmp_path / "whole.duckdb", driver))
    lasted_s = time.perf_counter() - began
    db, rng, killed = tmp_path / "x.duckdb", random.Random(1), 0
    for _ in range(KILLS):
        process = started(db, driver, "--resume")
        time.sleep(rng.uniform(0, lasted_s))
        if process.poll() is None:
            killed += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    last = ended(started(db, driver, "--resume"))
    tell(f"{driver}: killed with SIGKILL, then gone on with", f"{killed} of {KILLS}", "")
    assert last["front_hash"] == whole["front_hash"]
    assert last["candidates"]["evaluated"] == whole["candidates"]["evaluated"]
    for record in Archive(db).runs():
        keys = Archive(db).physical(record.run).get("key", np.zeros(0))
        assert len(set(keys.tolist())) == len(keys)
