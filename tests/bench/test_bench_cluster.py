"""What it costs to share a sweep out: two processes against two runs, Dask against processes.

A machine that is busy with something else stretches seconds, so work is measured in processor time
of every process that takes part, in pairs run in turn, and told as the median of ratios. What
processor time does not see is idle cores: how evenly the batches of a sweep fall on two workers is
computed from the time of each, and waiting between batches is measured with naps, which take as
long on a busy machine.
"""

import json
import os
import statistics
import subprocess
import sys
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
SETTINGS = ("power_cap_frac=[0.8, 1.0]", "devices=[2048, 8192]", "gbs=[3840, 7680, 15360]")
"""A part of the main job in batches of half a second and more."""

NAP_S, NAPS = 0.5, 24
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def nap(engine, item):
    """A block of half a second that takes no processor, and an answer as large as a front's."""
    time.sleep(NAP_S)
    return np.full(25_000, float(item))


def environment():
    """Of commands and workers: the planner and this room."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}", "OMP_NUM_THREADS": "1"}


def swept(db, *words, others=()):
    """The document of a run, and processor seconds of it, its children and others meanwhile."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    command = [*PLANNER, "run", STUDY, *settings, "--db", db, "--json", *words]
    before_s = sum(spent_s(process.pid) for process in others)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as run:
        document = json.loads(run.stdout.read())
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode == 0
    after_s = sum(spent_s(process.pid) for process in others)
    return document, used.ru_utime + used.ru_stime + after_s - before_s


def spent_s(pid):
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


@pytest.fixture
def farm(tmp_path):
    """A scheduler with two workers of one core: its address and all three processes."""
    pytest.importorskip("distributed")
    there, quiet = tmp_path / "there.json", {"stdout": subprocess.DEVNULL, "stderr": -3}
    module = (sys.executable, "-m", "distributed.cli.dask_")
    known = ("--scheduler-file", there, "--no-dashboard")
    words = [*module[:2], f"{module[2]}scheduler", "--host", "127.0.0.1", "--port", "0", *known]
    processes = [subprocess.Popen(words, **quiet)]
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
def test_dask_takes_little_more_processor_than_local_processes(farm, tmp_path, tell):
    """A cluster of small machines would be slower than one of them."""
    address, processes = farm
    ratios, hashes = [], set()
    for pair in range(PAIRS + 1):
        there, dask_s = swept(
            tmp_path / f"dask{pair}.duckdb", "--engine", f"dask:{address}", others=processes
        )
        here, local_s = swept(tmp_path / f"local{pair}.duckdb", "--workers", "2")
        hashes |= {there["front_hash"], here["front_hash"]}
        ratios += [dask_s / local_s] if pair else []  # the first loads the workers
    tell("Dask, two workers: processor time over two local processes", told(ratios), "<= 1.10")
    assert len(hashes) == 1
    assert statistics.median(ratios) <= 1.10


@pytest.mark.bench
def test_dask_workers_wait_little_between_blocks_of_half_a_second(farm, tell):
    """Cores would be idle while the coordinator hands out work."""
    engine, found = prepare(study()), {}
    with opened(f"dask:{farm[0]}") as cluster, Processes(engine, 2) as processes:
        for name, workers in (("dask", cluster), ("local", processes)):
            list(spread(engine, nap, range(4), workers, lambda: False))
            began = time.perf_counter()
            answers = list(spread(engine, nap, range(NAPS), workers, lambda: False))
            found[name] = (time.perf_counter() - began) / (NAPS * NAP_S / 2)
            assert sorted(answer[0] for answer in answers) == list(range(NAPS))
            tell(f"{name}: seconds over those of two that never wait", f"{found[name]:.3f}", "")
    assert found["dask"] <= 1.10 * found["local"]


@pytest.mark.bench
def test_two_processes_do_what_two_runs_do_together(tmp_path, tell):
    """Half of a machine would be paid for and not used."""
    shares = []
    for pair in range(PAIRS):
        _, one_s = swept(tmp_path / f"one{pair}.duckdb", "--workers", "1")
        _, two_s = swept(tmp_path / f"two{pair}.duckdb", "--workers", "2")
        shares.append(one_s / two_s)
    tell("processor time of one process over that of two", told(shares), "")
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
