"""Runs on a Dask cluster of this machine: workers join and die, the answer stays the same."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from small import DENSE, ROOT, ended, planner, planner_process, with_lines
from small_serve import written

pytest.importorskip("distributed")

MANY = with_lines(
    DENSE,
    devices="devices = [32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160]",
    global_batch_sequences="global_batch_sequences = [256, 320, 384, 480, 512, 768, 1024]",
    recompute='recompute = ["none", "selective", "full"]',
    zero_stage="zero_stage = [0, 1, 2, 3]",
    name='name = "small"\ntables = "my_tables"',
)
"""Twenty-four bills, and tables of one's own."""

SHUFFLED = """
import random, shutil, sys
import planner.runs.run as run, planner.search.cluster as cluster, planner.search.sweep as sweep
sweep.BATCH_BILLS = 1
found, spread = run._results, cluster.Cluster.spread
def alone(self, engine, work, items, is_stopped):
    shutil.rmtree("my_tables")
    return spread(self, engine, work, random.Random(5).sample(items, len(items)), is_stopped)
def told(*given):
    for result in found(*given):
        print("result", flush=True, file=sys.stderr)
        yield result
cluster.Cluster.spread, run._results = alone, told
"""
"""One bill at a time in another order, the study's own tables gone once work begins."""

TOLD = """
import planner.search.replays as replays
whole = replays.priced
def told(*given):
    with open("told", "a") as file:
        file.write("replay\\n")
    return whole(*given)
replays.priced = told
"""
"""Every replay is told of in a file when it has come back: a pipe that was read line by line has
more in its buffer than `communicate` gives."""

HASTY = "import planner.search.cluster as room; room.CONNECT_S = 1"

UNMET = """
import planner.search.cluster as room, planner.search.sweep as sweep
sweep.BATCH_BILLS = 1
room.Cluster._meet = lambda self: self.client.wait_for_workers(3, timeout=60)
"""
"""Nobody is asked what they run before work begins, as where a worker joins later."""

STRANGE = "import planner.search.cluster as room\nroom.running = lambda: {'numpy': '1.0'}\n"


class Farm:
    """A scheduler and its workers, each a process in a folder of its own."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.started("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                     "--scheduler-file", folder / "there.json")  # fmt: skip
        self.address = self.found()

    def started(self, kind, *words):
        """One process more."""
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *(str(word) for word in words)],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def worker(self, *words):
        """One worker more."""
        quiet = ("--nthreads", 1, "--no-nanny", "--no-dashboard")
        return self.started("worker", self.address, *quiet, *words)

    def found(self):
        """Where the scheduler listens, once it does."""
        for _ in range(600):
            try:
                return json.loads((self.folder / "there.json").read_text())["address"]
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.05)
        raise TimeoutError("the scheduler did not start")

    def ended(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    """A scheduler with two workers."""
    made = Farm(tmp_path_factory.mktemp("farm"))
    made.first, made.second = made.worker(), made.worker()
    yield made
    made.ended()


def study_in(folder):
    """The study with a table of its own, a slower H100, in a folder that no worker knows."""
    (folder / "my_tables").mkdir(parents=True)
    with (ROOT / "costdata" / "tables" / "accelerators.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["name"] == "H100-SXM"]
    with (folder / "my_tables" / "accelerators.csv").open("w") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerow({**rows[0], "hbm_gbytes_per_s": "1500"})
    (folder / "x.toml").write_text(MANY)
    return folder / "x.toml"


def same_answer(one, other):
    """The same front out of the same counts."""
    for name in ("front_hash", "candidates", "rejected", "physical_front", "front"):
        assert one[name] == other[name]


@pytest.mark.long
def test_a_worker_killed_in_mid_run_changes_nothing(farm, tmp_path):
    """A front would hang on which machines happened to live, or hold a plan twice."""
    whole = planner("run", study_in(tmp_path / "a"), "--db", tmp_path / "a.duckdb", "--json")
    study_in(tmp_path / "b")
    words = ("run", "x.toml", "--engine", f"dask:{farm.address}", "--json")
    process = planner_process(tmp_path / "b", *words, before=SHUFFLED)
    for _ in range(3):
        assert process.stderr.readline().startswith("result")
    farm.first.send_signal(signal.SIGKILL)
    farm.worker()
    answer = ended(process)
    assert answer.code == 0, answer.err
    same_answer(answer.document, whole.document)
    assert answer.document["notes"]["engine"].startswith("dask: 2 cores of tcp://127.0.0.1:")
    plans = [row["plan"] + row["site"] for row in answer.document["front"]]
    assert len(set(plans)) == len(plans)


@pytest.mark.long
def test_replays_on_workers_of_which_one_is_killed_are_those_of_one_process(farm, tmp_path):
    """A night of replays would hang on one machine, or a plan be replayed and counted twice."""
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        written(tmp_path / side)
    words = ("run", "chat.toml", "--replay", 8, "--json")
    whole = ended(planner_process(tmp_path / "a", *words, "--workers", 1)).document
    words += ("--engine", f"dask:{farm.address}")
    process = planner_process(tmp_path / "b", *words, before=TOLD)
    told = tmp_path / "b" / "told"
    while not told.exists() or told.read_text().count("replay") < 2:
        assert process.poll() is None
        time.sleep(0.02)
    farm.second.send_signal(signal.SIGKILL)
    farm.worker()
    answer = ended(process)
    assert answer.code == 0, answer.err
    same_answer(answer.document, whole)
    assert answer.document["tiers"] == whole["tiers"]
    assert answer.document["tiers"]["replayed"] == 8 == told.read_text().count("replay")


@pytest.mark.long
def test_a_worker_with_another_program_gets_no_work(farm, tmp_path):
    """Figures of two releases would stand in one front."""
    (tmp_path / "strange.py").write_text(STRANGE)
    stranger = farm.worker("--preload", tmp_path / "strange.py", "--name", "stranger")
    study = tmp_path / "x.toml"
    study.write_text(DENSE)
    whole = planner("run", study, "--db", tmp_path / "a.duckdb", "--json").document
    words = ("run", "x.toml", "--engine", f"dask:{farm.address}", "--json")
    found = [ended(planner_process(tmp_path, *words, before=late)) for late in ("", UNMET)]
    stranger.kill()
    for answer in found:
        assert answer.code == 0, answer.err
        same_answer(answer.document, whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "spark"), "wanted local, or dask:ADDRESS"),
        (("--engine", "dask:"), "wanted local, or dask:ADDRESS"),
        (("--engine", "dask:there"), "wanted local, or dask:ADDRESS"),
        (("--engine", "dask:tcp://127.0.0.1:9", "--workers", "2"), "leave it out"),
    ],
)
def test_an_engine_that_cannot_be_meant_is_refused(words, said, tmp_path):
    """A run would go on elsewhere than it was sent."""
    (tmp_path / "x.toml").write_text(DENSE)
    answer = planner("run", tmp_path / "x.toml", "--db", tmp_path / "x.duckdb", *words)
    assert answer.code == 2
    assert said in answer.err
    assert not (tmp_path / "x.duckdb").exists()


@pytest.mark.long
def test_where_nobody_answers_it_is_said(tmp_path):
    """A person would read a traceback of somebody else's library."""
    (tmp_path / "x.toml").write_text(DENSE)
    words = ("run", "x.toml", "--engine", "dask:tcp://127.0.0.1:9")
    answer = ended(planner_process(tmp_path, *words, before=HASTY))
    assert answer.code == 2
    assert "no scheduler answers there" in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "planner.duckdb").exists()


def test_without_the_extra_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    """A person would read that a module is missing, and not which to install."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "planner.search.cluster", raising=False)
    (tmp_path / "x.toml").write_text(DENSE)
    answer = planner("run", tmp_path / "x.toml", "--engine", "dask:tcp://127.0.0.1:9")
    assert answer.code == 2
    assert "pip install 'cluster-planner[cluster]'" in answer.err
