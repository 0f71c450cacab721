"""Runs that are killed at random moments and gone on with until they end.

As many times as PLANNER_KILLS says; ten where it says nothing. Sweep, evolution, and a serving
study that is replayed, whose kills fall among its replays as well.
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

from planner.archive.progress import REPLAYED
from planner.archive.store import Archive

ROOT = Path(__file__).resolve().parents[2]
STUDIES = {
    "sweep": ("llama31_70b_training", "--search", "sweep"),
    "evolve": ("llama31_70b_training", "--search", "evolve"),
    "replays": (
        "serve_azure_conversation",
        *("--set", "workload.chat.scale.times=4", "--set", "workload.chat.peak_window_s=30"),
        *("--set", "power_cap_frac=[0.7, 1.0]", "--replay", "12"),
    ),
}
"""What is killed: a study, and what is said of it."""

KILLS = int(os.environ.get("PLANNER_KILLS", "10"))
MAIN = "import planner.runs.work as work; work.FLUSH_S = 0.2; from planner.cli import main; main()"


def started(db, name, *words):
    """The command in a process of its own, keeping what it has every fifth of a second."""
    study, *settings = STUDIES[name]
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", str(ROOT / "studies" / f"{study}.toml"), *settings,
         "--db", str(db), "--workers", "1", "--json", *words],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def ended(process):
    """Its document."""
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.bench
@pytest.mark.parametrize("name", STUDIES)
def test_a_run_killed_again_and_again_ends_as_if_it_never_was(name, tmp_path, tell):
    """A machine that fails every night would never come to an answer, or to a wrong one."""
    began = time.perf_counter()
    whole = ended(started(tmp_path / "whole.duckdb", name))
    lasted_s = time.perf_counter() - began
    db, rng, killed = tmp_path / "x.duckdb", random.Random(1), 0
    for _ in range(KILLS):
        process = started(db, name, "--resume")
        time.sleep(rng.uniform(0, lasted_s))
        if process.poll() is None:
            killed += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    last = ended(started(db, name, "--resume"))
    begun = sum(record.summary is None for record in Archive(db).runs())
    words = (
        f"{killed} of {KILLS}, {begun} with a run begun, {len(among_replays(db))} among replays"
    )
    tell(f"{name}: killed with SIGKILL, then gone on with", words, "")
    assert last["front_hash"] == whole["front_hash"]
    assert last["candidates"]["evaluated"] == whole["candidates"]["evaluated"]
    assert last.get("tiers") == whole.get("tiers")
    for record in Archive(db).runs():
        keys = Archive(db).physical(record.run).get("key", np.zeros(0))
        assert len(set(keys.tolist())) == len(keys)
        told = replays_kept(db, record.run)
        assert len(set(told)) == len(told)


def replays_kept(db, run):
    """Design keys of the replays that a run wrote down, in order."""
    events = Archive(db).run(run).events
    return [key for event in events if event.name == REPLAYED for key in event.payload]


def among_replays(db):
    """Runs that were killed after their first replay."""
    runs = [record for record in Archive(db).runs() if record.summary is None]
    return [record.run for record in runs if replays_kept(db, record.run)]
