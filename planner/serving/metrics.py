"""Which metrics a serving study has: those of its kind that its closed form and its bill give."""

from __future__ import annotations

from planner.metrics import METRICS, find_metric

NOT_COMPUTED = frozenset({"goodput_frac"})
"""Metrics that every kind shares and that nothing here computes: a fleet has no step to lose."""

LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
STATISTICS = ("mean", "p50", "p95", "p99")


def is_computed(name: str) -> bool:
    """True for a metric, or end of a band, that costed plans of a serving study have."""
    owner = find_metric(name).name
    is_known = "serve" in METRICS[owner].kinds and owner not in NOT_COMPUTED
    return is_known and (name == owner or METRICS[owner].is_predicted)
