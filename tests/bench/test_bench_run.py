"""The main job whole, as a person runs it: time, candidates and memory of all its processes."""

import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANNER = (sys.executable, "-c", "from planner.cli import main; main()")
WORKERS = 2
POLL_S = 0.05


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


def resident_bytes(pid):
    """Resident memory of one process; 0 once it is gone. Shared pages count in each process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


class Watch(threading.Thread):
    """Looks at a process and its children until it ends; keeps the most memory seen at once."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process = process
        self.most_bytes = 0

    def run(self):
        while self.process.poll() is None:
            now = sum(resident_bytes(pid) for pid in family(self.process.pid))
            self.most_bytes = max(self.most_bytes, now)
            time.sleep(POLL_S)


def processor_s():
    """Processor time of all ended children, user and system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.bench
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_the_main_job_takes_a_minute_and_a_gigabyte(tmp_path, benchmark, tell):
    """A million candidates would need a larger machine or more patience than a laptop has.

    Memory is the largest sum of resident bytes over all processes, looked at twenty times a
    second; pages that processes share count for each. A loaded machine takes longer: processor
    seconds over processes say what a machine at rest would take.
    """
    words = ("run", "studies/deepseek_v3_training.toml", "--workers", str(WORKERS), "--json")
    command = (*PLANNER, *words, "--db", str(tmp_path / "bench.duckdb"))
    most = []

    def whole():
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
        watch = Watch(process)
        watch.start()
        out, err = process.communicate()
        watch.join()
        assert process.returncode == 0, err
        most.append(watch.most_bytes)
        return json.loads(out)

    before_s = processor_s()
    done = benchmark.pedantic(whole, rounds=1)
    seconds, evaluated = benchmark.stats["max"], done["candidates"]["evaluated"]
    masked = sum(done["candidates"]["masked"].values())
    tell("main job: candidates evaluated", f"{evaluated:,}", ">= 1,000,000")
    tell("main job: candidates that cannot exist", f"{masked:,}")
    tell(f"main job: seconds, {WORKERS} processes", f"{seconds:.1f}", "<= 60")
    tell("main job: processor seconds of all processes", f"{processor_s() - before_s:.1f}")
    tell("main job: resident bytes of all processes", f"{most[0] / 1e9:.2f} GB", "<= 1 GB")
    tell("main job: plans on the physical front", f"{done['physical_front']:,}")
    tell("main job: plans on the front", f"{len(done['front']):,}")
    benchmark.extra_info |= {"evaluated": evaluated, "resident_bytes": most[0]}
    assert evaluated >= 1_000_000
    assert seconds <= 60
    assert most[0] <= 1e9


@pytest.mark.bench
def test_help_answers_within_a_second(benchmark, tell):
    """Every typing mistake would cost a pause."""
    benchmark.pedantic(
        subprocess.run,
        args=((*PLANNER, "--help"),),
        kwargs={"cwd": ROOT, "check": True, "capture_output": True},
        rounds=5,
        warmup_rounds=1,
    )
    tell("planner --help, seconds", f"{benchmark.stats['min']:.2f}", "< 1")
    assert benchmark.stats["min"] < 1
