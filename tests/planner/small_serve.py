"""A serving study that sweeps in a tenth of a second and replays in two."""

from pathlib import Path

from planner.study.read import study_from_text
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

CHAT = """
[study]
name = "small-chat"
kind = "serve"
seed = 1

[workload.chat]
model = "meta-llama--Meta-Llama-3.1-8B"
slo = { ttft_s_p95 = 1.0, tpot_s_p95 = 0.03 }
peak_window_s = 20

[workload.chat.trace]
arrivals = { process = "poisson", requests_per_s = 60 }
prompt_tokens = { from = 100, to = 1500 }
output_tokens = { from = 50, to = 250 }
duration_s = 120

[axes]
accelerator = ["H100-SXM", "L40S"]
supernode_devices = "offered"
tensor_parallel = [1, 2]
precision = "bf16"
max_batch = [64, 256]
token_budget = [2048, 8192]

[costing]
site = ["us-tx", "se"]
"""


def chat(*settings):
    """The study with some settings."""
    names = catalogue_names()
    study = study_from_text(CHAT, "chat.toml", Path.cwd(), names)
    return with_settings(study, settings, names) if settings else study


def written(folder):
    """The study as a file."""
    path = folder / "chat.toml"
    path.write_text(CHAT, encoding="utf-8")
    return str(path)
