"""Replays by tiers against replaying a whole space, with the real replays of both kinds of work.

Hypervolume of what was replayed over that of every candidate replayed, the exact front reaching
from 0 to 1, measured from 1.1. Optuna's sampler with the same budget stands beside. The spaces are
a small fleet, and shipped studies narrowed to what can be replayed whole in minutes. Nothing is
drawn by chance in the choice, so its luck is told by shaking what the closed form says.
"""

import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from planner.pareto import hypervolume, nondominated
from planner.runs.kinds import prepare, sweep
from planner.runs.refine import refined
from planner.runs.total import Total
from planner.search.replays import Replays
from planner.search.seam import Explored
from planner.space.blocks import bills, blocks
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

sys.path.insert(0, str(Path(__file__).parents[1] / "planner"))
from small_serve import chat

STUDIES = Path(__file__).parents[2] / "studies"

SPACES = {
    "four chips, chat": (
        "",
        'accelerator=["H100-SXM", "H200-SXM", "A100-80GB-SXM", "L40S"]',
        *("workload.chat.trace.duration_s=40", "workload.chat.peak_window_s=20"),
        *("supernode_devices=offered", "tensor_parallel=[1, 2, 4]"),
        *("max_batch=[16, 32, 64, 128, 256]", "token_budget=[512, 1024, 2048, 4096, 8192]"),
    ),
    "Azure conversation": (
        "serve_azure_conversation",
        *("workload.chat.scale.times=4", "workload.chat.peak_window_s=30"),
        "power_cap_frac=[0.7, 1.0]",
    ),
    "wide experts": (
        "serve_deepseek_wide_ep",
        *("workload.chat.trace.duration_s=20", "workload.chat.trace.arrivals.requests_per_s=20"),
        *("workload.chat.peak_window_s=10", "tp=1", "speculative=none"),
        *("max_batch=[32, 64, 128, 256]", "token_budget=[2048, 8192]"),
    ),
    "training": (
        "deepseek_v3_training",
        *("devices=[2048, 4096]", 'accelerator=["H100-SXM", "H800-SXM", "B200-SXM", "MI300X"]'),
        *("tp=[1, 4]", "pp=[4, 8, 16]", "ep=[16, 64]", "gbs=15360", "zero_stage=1"),
        *("recompute=selective", "micro_batch_sequences=[1, 2]", 'costing.site=["us-tx", "se"]'),
    ),
}
"""Name to a shipped study, or none, and what narrows it."""

SHARE = 0.05

SHAKES, SHAKEN_FRAC = 10, 1e-3
"""Closed forms that each plan's figures are a little off in: they order near equals otherwise."""


def made(name, *more):
    """The engine of a space."""
    study, *settings = SPACES[name]
    if not study:
        return prepare(chat(*settings, *more))
    names = catalogue_names()
    whole_study = read_study(STUDIES / f"{study}.toml", names)
    return prepare(with_settings(whole_study, (*settings, *more), names))


@cache
def whole(name):
    """The study, every candidate replayed, and the seconds of one replay."""
    engine = made(name, "search.replay=1")
    space = engine.space
    codes = [b.codes for bill in bills(space) for b in blocks(space, bill) if len(b)]
    replays, every, started = Replays(engine), np.concatenate(codes), time.process_time()
    scores = replays.scores(every)
    return engine, every, replays, scores, (time.process_time() - started) / len(every)


def front_of(scores):
    """Unbeaten points of feasible rows."""
    points = scores.points[scores.excess <= 0]
    return points[nondominated(points)]


def shaken(explored, seed):
    """Its figures a little off; as they are for seed 0."""
    rng = np.random.default_rng(seed)
    for key, (points, excess) in explored.known.items() if seed else ():
        off = np.exp(rng.normal(0.0, SHAKEN_FRAC, points.shape))
        explored.known[key] = (points * off, excess)


def found_by(name, driver, most, seed=0):
    """What a run would say of its replays, out of replays made before; and its own seconds."""
    known = whole(name)[2]
    engine = made(name, f"search.replay={most}", f"search.driver={driver}")
    explored, total = Explored(engine), Total()
    for result in sweep(engine, 1, lambda: False):
        explored.remember(result.near)
        total.add(result)
    shaken(explored, seed)
    replays, started = Replays(engine, dict(known.known)), time.process_time()
    said = refined(explored, total.physical(), replays, most, lambda: False, is_whole=True).said
    return said, time.process_time() - started


@pytest.mark.bench
@pytest.mark.parametrize("name", SPACES)
def test_a_twentieth_of_the_replays_has_the_front(name, tell):
    """A night of replays would buy what half an hour does."""
    engine, every, _, scores, each_s = whole(name)
    exact = front_of(scores)
    low, size = exact.min(axis=0), np.ptp(exact, axis=0)
    best = hypervolume((exact - low) / size, 1.1)

    def share_of(said):
        points = np.array([[row[n] for n in engine.study.objectives.minimise] for row in said])
        return hypervolume((points - low) / size, 1.1) / best

    tell(f"{name}: candidates, all of them replayed", f"{len(every)}, {each_s:.2f} s each", "")
    for driver in ("auto", "sample"):
        for share in (0.02, SHARE, 0.1):
            said, seconds = found_by(name, driver, int(share * len(every)))
            words = f"{share_of(said['front']):.4f} ({said['replayed']} replays; {said['ended']})"
            tell(f"{said['proposed_by']}: hypervolume at {share:.0%} of the replays", words, "")
            each = f"{seconds / said['replayed'] * 1e3:.1f} ms"
            tell("  choosing, per replay", each, "")
            taus = {n: round(t, 2) for n, t in said["agreement"].items()}
            tell("  rank agreement", str(taus), "")
    most = int(SHARE * len(every))
    found = [share_of(found_by(name, "auto", most, s)[0]["front"]) for s in range(SHAKES)]
    words = f"{np.mean(found):.4f}, worst {min(found):.4f}"
    tell(
        f"guard band at {SHARE:.0%} of the replays, {SHAKES} closed forms", words, ">= 0.99 wanted"
    )
    assert np.mean(found) >= 0.99
