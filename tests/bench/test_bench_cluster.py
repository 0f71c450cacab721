"""What it costs to share a sweep out: two processes against two runs, Dask against processes.

Pairs are run in turn and ratios taken pair by pair, since a machine drifts; the median is told.
Seconds are those of the sweep, with the start of processes in it.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANNER = (sys.executable, "-c", "from planner.cli import main; main()")
PAIRS = 3
SETTINGS = ("power_cap_frac=[0.8, 1.0]",)
"""The main job in batches of half a second to two seconds: long beside the start of a process."""


def started(db, *words):
    """The command on the study."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    study = ROOT / "studies" / "deepseek_v3_training.toml"
    command = [*PLANNER, "run", study, *settings, "--db", db, "--json", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def swept(*processes):
    """Front hashes, and the seconds of the longest sweep."""
    documents = [json.loads(process.communicate()[0]) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    seconds = max(float(document["notes"]["sweep_s"]) for document in documents)
    return {document["front_hash"] for document in documents}, seconds


@pytest.fixture
def address(tmp_path):
    """A scheduler with two workers of one core, ready to work."""
    pytest.importorskip("distributed")
    there, quiet = tmp_path / "there.json", {"stdout": subprocess.DEVNULL, "stderr": -3}
    module = (sys.executable, "-m", "distributed.cli.dask_")
    known = ("--scheduler-file", there, "--no-dashboard")
    words = [*module[:2], f"{module[2]}scheduler", "--host", "127.0.0.1", "--port", "0", *known]
    farm = [subprocess.Popen(words, **quiet)]
    while not there.exists():
        time.sleep(0.1)
    worker = [*module[:2], f"{module[2]}worker", *known, "--nthreads", "1", "--no-nanny"]
    farm += [subprocess.Popen(worker, env=environment(), **quiet) for _ in range(2)]
    yield json.loads(there.read_text())["address"]
    for process in farm:
        process.kill()
        process.wait()


@pytest.mark.bench
def test_dask_costs_little_beside_local_processes(address, tmp_path, tell):
    """A cluster of small machines would be slower than one of them."""
    ratios, hashes = [], set()
    for pair in range(PAIRS):
        found = {}
        for name, words in (("dask", ("--engine", f"dask:{address}")), ("local", ())):
            more = words or ("--workers", "2")
            one, found[name] = swept(started(tmp_path / f"{name}{pair}.duckdb", *more))
            hashes |= one
        ratios.append(found["dask"] / found["local"])
    tell("Dask, two workers: seconds over two local processes", told(ratios), "<= 1.10")
    assert len(hashes) == 1
    assert statistics.median(ratios) <= 1.10


@pytest.mark.bench
def test_two_processes_do_what_two_runs_do_together(tmp_path, tell):
    """Half of a machine would be paid for and not used."""
    shares = []
    for pair in range(PAIRS):
        _, together = swept(started(tmp_path / f"two{pair}.duckdb", "--workers", "2"))
        alone = [
            started(tmp_path / f"{side}{pair}.duckdb", "--workers", "1") for side in ("a", "b")
        ]
        _, apart = swept(*alone)
        shares.append(apart / (2 * together))
    tell("two processes: share of what two runs reach together", told(shares), ">= 0.90")
    assert statistics.median(shares) >= 0.90


def told(figures):
    """Median and spread."""
    least, most = min(figures), max(figures)
    return f"{statistics.median(figures):.2f} ({least:.2f} to {most:.2f})"
