"""A small study of two pools: the chat of `small_serve` with prefill and decode apart."""

from pathlib import Path

from small_serve import CHAT

from planner.study.read import study_from_text
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

POOLS = (
    CHAT.replace("small-chat", "small-pools").split("[axes]")[0]
    + """
[axes]
supernode_devices = "offered"
precision = "bf16"
kv_transfer = ["after_prefill", "layer_wise"]

[axes.prefill]
accelerator = "H100-SXM"
tensor_parallel = [1, 2]
token_budget = [2048, 8192]

[axes.decode]
accelerator = ["H100-SXM", "L40S"]
tensor_parallel = [1, 2]
max_batch = [64, 256]

[costing]
site = ["us-tx", "se"]

[objectives]
minimise = ["usd_per_mtoken_total", "ttft_s_p95", "tpot_s_p95", "kgco2e"]
"""
)

ONE = ("decode.accelerator=H100-SXM", "prefill.tp=1", "decode.tp=1", "prefill.token_budget=8192",
       "decode.max_batch=256", "kv_transfer=after_prefill", "supernode_devices=8")  # fmt: skip


def pooled(*settings):
    """The study with some settings."""
    names = catalogue_names()
    study = study_from_text(POOLS, "pools.toml", Path.cwd(), names)
    return with_settings(study, settings, names) if settings else study


def written(folder):
    """The study as a file."""
    path = folder / "pools.toml"
    path.write_text(POOLS, encoding="utf-8")
    return str(path)
