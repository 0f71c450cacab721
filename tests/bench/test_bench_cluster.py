"""What it costs to share a sweep out: two processes against two runs, Dask against processes.

A machine that is busy with something else stretches seconds. What it costs to hand out work is
measured on blocks that nap, which take as long on any machine: seconds beyond the naps are cores
that wait, processor time of every process that takes part is what the handing out needs. Sweeps
are measured in processor time, in pairs run in turn, with the median of ratios told; how evenly
their batches fall on two workers is computed from the time of each.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from planner.search.sweep import BATCH_BILLS, LARGE_BILL, batches, sweep_bills
from planner.search.workforce import Processes, opened, spread
from planner.space.blocks import bills
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "deepseek_v3_training.toml"
PLANNER = (sys.executable, "-c", "from planner.cli import main; main()")
PAIRS = int(os.environ.get("PLANNER_PAIRS", "3"))
SETTINGS = (
    *("power_cap_frac=[0.7, 0.8, 0.9, 1.0]", "devices=[2048, 4096, 8192]"),
    "gbs=[3840, 7680, 15360]",
)
"""A part of the main job that keeps a core busy for half a minute: loading takes one second."""

NAP_S, NAPS = 0.5, 24
POLL_S = 0.1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def nap(engine, item):
    """A block of half a second that takes no processor, and an answer as large as a front's."""
    time.sleep(NAP_S)
    return np.full(25_000, float(item))


def environment():
    """Of commands and workers: the planner and this room."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}", "OMP_NUM_THREADS": "1"}


class Spent(threading.Thread):
    """Processor seconds of some processes and of all that descend from them meanwhile."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.first = {pid: spent_s(pid) for root in pids for pid in family(root)}
        self.last, self.roots, self.is_over = dict(self.first), pids, threading.Event()

    def run(self):
        while not self.is_over.wait(POLL_S):
            self.look()

    def look(self):
        for pid in {pid for root in self.roots for pid in family(root)}:
            self.last[pid] = spent_s(pid) or self.last.get(pid, 0.0)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *said):
        self.is_over.set()
        self.join()
        self.look()
        self.seconds = sum(self.last.values()) - sum(self.first.values())


def spent_s(pid):
    """Processor seconds of a process so far; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def family(pid):
    """A process and all its descendants, as far as they still live."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += family(child)
    return found


def swept(runs, others=()):
    """Front hashes of runs at once, and processor seconds of them and of others meanwhile.

    Parameters
    ----------
    runs : database and words of each
    """
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    processes = [
        subprocess.Popen(
            [*PLANNER, "run", STUDY, *settings, "--db", db, "--json", *words],
            **{"stdout": subprocess.PIPE, "text": True, "env": environment()},
        )
        for db, *words in runs
    ]
    with Spent([process.pid for process in (*processes, *others)]) as spent:
        documents = [json.loads(process.communicate()[0]) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return {document["front_hash"] for document in documents}, spent.seconds


@pytest.fixture
def farm(tmp_path):
    """A scheduler with two workers of one core: its address and all three processes."""
    pytest.importorskip("distributed")
    there, quiet = tmp_path / "there.json", {"stdout": subprocess.DEVNULL, "stderr": -3}
    module = (sys.executable, "-m", "distributed.cli.dask_")
    known = ("--scheduler-file", there, "--no-dashboard")
    words = [*module[:2], f"{module[2]}scheduler", "--host", "127.0.0.1", "--port", "0", *known]
    processes = [subprocess.Popen(words, env=environment(), **quiet)]
    while not there.exists():
        time.sleep(0.1)
    worker = [*module[:2], f"{module[2]}worker", *known, "--nthreads", "1", "--no-nanny"]
    processes += [subprocess.Popen(worker, env=environment(), **quiet) for _ in range(2)]
    yield json.loads(there.read_text())["address"], processes
    for process in processes:
        process.kill()
        process.wait()


def study():
    """What is swept."""
    names = catalogue_names()
    return with_settings(read_study(STUDY, names), SETTINGS, names)


@pytest.mark.bench
def test_dask_adds_little_to_blocks_of_half_a_second(farm, tell):
    """A cluster of small machines would be slower than one of them."""
    address, processes = farm
    engine, seconds, work = prepare(study()), {}, {}
    with opened(f"dask:{address}") as cluster, Processes(engine, 2) as local:
        for name, workers in (("dask", cluster), ("local", local)):
            list(spread(engine, nap, range(4), workers, lambda: False))
            took, needed = [], []
            for _ in range(PAIRS):
                began = time.perf_counter()
                with Spent([os.getpid()]) as spent:  # the farm descends from here
                    answers = list(spread(engine, nap, range(NAPS), workers, lambda: False))
                took.append((time.perf_counter() - began) / (NAPS * NAP_S / 2))
                needed.append(1.0 + spent.seconds / (NAPS * NAP_S))
                assert sorted(answer[0] for answer in answers) == list(range(NAPS))
            seconds[name], work[name] = statistics.median(took), statistics.median(needed)
            tell(f"{name}: seconds over those of two that never wait", told(took), "")
            tell(f"{name}: processor time over that of blocks alone", told(needed), "")
    assert len(processes) == 3
    assert seconds["dask"] <= 1.10 * seconds["local"]
    assert work["dask"] <= 1.10 * work["local"]


@pytest.mark.bench
def test_dask_sweeps_as_local_processes_do(farm, tmp_path, tell):
    """The front would hang on who works, or a cluster be slower than one of its machines."""
    address, processes = farm
    ratios, hashes = [], set()
    for pair in range(PAIRS + 1):
        words = (tmp_path / f"dask{pair}.duckdb", "--engine", f"dask:{address}")
        there, dask_s = swept([words], processes)
        here, local_s = swept([(tmp_path / f"local{pair}.duckdb", "--workers", "2")])
        hashes |= there | here
        ratios += [dask_s / local_s] if pair else []  # the first loads the workers
    tell("Dask, two workers: processor time over two local processes", told(ratios), "<= 1.10")
    assert len(hashes) == 1
    assert statistics.median(ratios) <= 1.10


@pytest.mark.bench
def test_two_processes_do_what_two_runs_do_together(tmp_path, tell):
    """Half of a machine would be paid for and not used."""
    shares = []
    for pair in range(PAIRS):
        alone = [(tmp_path / f"{side}{pair}.duckdb", "--workers", "1") for side in ("a", "b")]
        one, apart_s = swept(alone)
        other, together_s = swept([(tmp_path / f"two{pair}.duckdb", "--workers", "2")])
        assert len(one | other) == 1
        shares.append(apart_s / 2 / together_s)
    tell("processor time of one of two runs over that of two processes", told(shares), "")
    evenness = evenly_shared(2)
    tell("evenness of batches on two workers", f"{evenness:.3f}", "")
    share = statistics.median(shares) * evenness
    tell("two processes: share of what two runs reach together", f"{share:.3f}", ">= 0.90")
    assert share >= 0.90


def evenly_shared(workers):
    """Mean busy time over that of the busiest, batches going to whoever is free first."""
    engine = prepare(study())
    few = BATCH_BILLS if engine.space.plans_per_bill < LARGE_BILL else 1
    busy = [0.0] * workers
    for batch in batches(list(bills(engine.space)), few):
        began = time.process_time()
        sweep_bills(engine, batch)
        busy[busy.index(min(busy))] += time.process_time() - began
    return statistics.mean(busy) / max(busy)


def told(figures):
    """Median and spread."""
    least, most = min(figures), max(figures)
    return f"{statistics.median(figures):.3f} ({least:.3f} to {most:.3f})"
