"""Studies that sweep in a tenth of a second, and the command as a person types it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from planner.cli import app
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names, prepare

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from planner.cli import main; main()"

DENSE = """
[study]
name = "small"
kind = "train"
seed = 1

[workload.main]
model = "meta-llama--Meta-Llama-3.1-8B"
tokens = 1e12
tokens_per_sequence = 8192

[axes]
accelerator = ["H100-SXM", "A100-80GB-SXM"]
devices = [32, 64]
supernode_devices = 8
tensor_parallel = [1, 2]
pipeline_parallel = [1, 2]
micro_batch_sequences = [1, 2]
global_batch_sequences = 512
recompute = ["none", "selective"]
zero_stage = [1, 3]

[costing]
site = ["us-tx", "se", "cn-west"]

[limits]
days = 90
"""
"""128 combinations on four bills; days removes the A100s on few devices."""

MOE = """
[study]
name = "experts"
kind = "train"

[workload.main]
model = "Qwen--Qwen3-30B-A3B"
tokens = 1e12
tokens_per_sequence = 4096

[axes]
accelerator = ["H100-SXM", "GB200"]
devices = 64
tensor_parallel = [1, 2]
pipeline_parallel = [1, 2]
expert_parallel = [8, 16]
global_batch_sequences = 1024
zero_stage = [0, 1]

[costing]
site = "se"
"""


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its one JSON document; more or less than one is a ValueError."""
        return json.loads(self.out)


def planner(*words: object) -> Answer:
    """The command in this process; an error that is not ours fails the test."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def planner_process(folder: Path, *words: object, before: str = "") -> subprocess.Popen[str]:
    """The command in a process of its own, in a folder; `before` is Python that runs first."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{MAIN}", *(str(word) for word in words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> Answer:
    """What it left behind, once it has ended by itself."""
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return Answer(process.returncode, out, err)


def with_lines(text: str, **lines: str) -> str:
    """A study with some keys given anew, each by its whole line; "" leaves the key out."""
    rows = text.splitlines()
    for key, line in lines.items():
        (at,) = (i for i, row in enumerate(rows) if row.startswith(f"{key} ="))
        rows[at] = line
    return "\n".join(rows) + "\n"


def study_of(text: str):
    """A study from its text, with the names of the catalogue."""
    return study_from_text(text, "small.toml", ROOT, catalogue_names())


def engine_of(text: str):
    """A study made ready to evaluate."""
    return prepare(study_of(text))
