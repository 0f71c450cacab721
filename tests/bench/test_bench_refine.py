"""Replays by tiers against replaying a whole space, with the real replay of serving plans.

Hypervolume of what was replayed over that of every candidate replayed, the exact front reaching
from 0 to 1, measured from 1.1. Optuna's sampler with the same budget stands beside.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "planner"))
from small_serve import chat

SPACE = (
    *("workload.chat.trace.duration_s=40", "workload.chat.peak_window_s=20"),
    'accelerator=["H100-SXM", "H200-SXM", "A100-80GB-SXM", "L40S"]',
    *(
        "supernode_devices=offered",
        "tensor_parallel=[1, 2, 4]",
        "max_batch=[16, 32, 64, 128, 256]",
    ),
    "token_budget=[512, 1024, 2048, 4096, 8192]",
)
SHARE = 0.05


@cache
def whole():
    """The study, every candidate replayed, and the seconds of one replay."""
    engine = prepare(chat(*SPACE, "search.replay=1"))
    space = engine.space
    codes = [b.codes for bill in bills(space) for b in blocks(space, bill) if len(b)]
    replays, every, started = Replays(engine), np.concatenate(codes), time.process_time()
    scores = replays.scores(every)
    return engine, every, replays, scores, (time.process_time() - started) / len(every)


def front_of(scores):
    """Unbeaten points of feasible rows."""
    points = scores.points[scores.excess <= 0]
    return points[nondominated(points)]


def found_by(driver, most):
    """Scores of the plans that a run would replay, out of replays made before."""
    engine, _, known, _, _ = whole()
    engine = prepare(chat(*SPACE, f"search.replay={most}", f"search.driver={driver}"))
    explored, total = Explored(engine), Total()
    for result in sweep(engine, 1, lambda: False):
        explored.remember(result.near)
        total.add(result)
    replays = Replays(engine, dict(known.known))
    return refined(explored, total.physical(), replays, most, lambda: False, is_whole=True).said


@pytest.mark.bench
def test_a_twentieth_of_the_replays_has_the_front(tell):
    """A night of replays would buy what half an hour does."""
    engine, every, _, scores, each_s = whole()
    exact = front_of(scores)
    low, size = exact.min(axis=0), np.ptp(exact, axis=0)
    wanted = (*engine.study.objectives.minimise,)
    tell("candidates, all of them replayed", f"{len(every)}, {each_s:.2f} s each", "")
    shares = {}
    for driver in ("auto", "sample"):
        for share in (0.02, SHARE, 0.1):
            said = found_by(driver, int(share * len(every)))
            points = np.array([[row[name] for name in wanted] for row in said["front"]])
            got, best = (hypervolume((p - low) / size, 1.1) for p in (points, exact))
            shares[driver, share] = got / best
            words = f"{got / best:.4f} ({said['replayed']} replays; {said['ended']})"
            tell(f"{said['proposed_by']}: hypervolume at {share:.0%} of the replays", words, "")
            tell(
                "  rank agreement", str({n: round(t, 2) for n, t in said["agreement"].items()}), ""
            )
    tell("guard band at 5% of the replays", f"{shares['auto', SHARE]:.4f}", ">= 0.99 wanted")
    assert shares["auto", SHARE] >= 0.99
