"""Hand arithmetic beside a plan's figures: what an envelope's back gives, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.serving.engine import ServeEngine
from planner.study.pools import POOLS
from planner.training.engine import Engine
from simkernel.models import active_parameters, parameters
from simkernel.napkin import run_s, training_flop

Lines = dict[str, dict[str, Any]]
"""Name to the napkin's figure, the plan's own and how the napkin's came about."""


def train_napkin(engine: Engine, metrics: Mapping[str, float]) -> Lines:
    """A training run by hand: 6 N D over the peak that is reached, and 18 bytes a parameter."""
    active = float(active_parameters(engine.model, "without_input").total)
    flop = training_flop(active, engine.job.tokens)
    mfu = metrics["mfu_frac"]
    peak_flop_per_s = metrics["model_flop_per_s_per_device"] / mfu
    seconds = run_s(flop, metrics["devices"], peak_flop_per_s, mfu)
    total_b, active_b = float(parameters(engine.model).total) / 1e9, active / 1e9
    return {
        "days": {
            "napkin": float(seconds) / 86400.0 / metrics["goodput_frac"],
            "plan": metrics["days"],
            "how": f"6 x {active_b:.2f}e9 active parameters x tokens / (devices x peak x mfu x "
            f"goodput); attention is not in it (total parameters are {total_b:.2f}e9)",
        },
        "state_bytes_per_device": {
            "napkin": 18.0 * total_b * 1e9 / metrics["devices"],
            "plan": metrics["resident_bytes"],
            "how": "18 bytes x total parameters / devices: state alone, fully sharded",
        },
    }


def serve_napkin(engine: ServeEngine, metrics: Mapping[str, float]) -> Lines:
    """A fleet by hand: devices, and the weights of one replica."""
    return {**_fleet(engine, metrics), **_weights(engine, metrics)}


def _fleet(engine: Any, metrics: Mapping[str, float]) -> Lines:
    """2 N for every token at the dense peak, without which no fleet exists."""
    peak = engine.load.peak
    tokens = peak.mix.prompt_tokens_mean + peak.mix.output_tokens_mean
    active_b = float(active_parameters(engine.model, "without_input").total) / 1e9
    return {
        "devices": {
            "napkin": metrics["floor_devices"],
            "plan": metrics["devices"],
            "how": f"2 x {active_b:.2f}e9 active parameters x {tokens:.4g} tokens x "
            f"{peak.requests_per_s:.4g} requests/s of the busiest window / dense peak of one "
            "device: all of it reached, nothing waited for; fewer devices cannot exist",
        },
    }


def _weights(engine: Any, metrics: Mapping[str, float], pool: str = "") -> Lines:
    """The weights of one replica; `pool` with a dot where each has its own."""
    width = metrics[f"{pool}weight_bytes_per_value"]
    return {
        f"{pool}weight_bytes_per_replica": {
            "napkin": float(parameters(engine.model).total) * width,
            "plan": metrics[f"{pool}replica_weight_bytes"],
            "how": "total parameters x bytes of one in the precision of the plan",
        }
    }


def pools_napkin(engine: Any, metrics: Mapping[str, float]) -> Lines:
    """The same of two pools: devices of both, and the weights of one replica of each."""
    weights = [_weights(engine, metrics, f"{pool}.") for pool in POOLS]
    return {**_fleet(engine, metrics), **weights[0], **weights[1]}
