"""Random fleets under random streams, to which random things happen: what must hold of all."""

from dataclasses import replace

import numpy as np
from serving_cases import families, fleet, linear_tables

from simkernel import plugins
from simkernel.operations.outages import AFTER, WAYS, Operations, Outage, Scaling
from simkernel.replay.opening import Run
from simkernel.replay.results import STRANDED
from simkernel.replay.serve import replay

TABLES = linear_tables(has_joules=True)

VARIANTS = ((1, False), (1, False), (1, True), (2, False))
"""Copies that step together, and prefix caches: each is machine code of its own."""


def _any(rng, values):
    return values[int(rng.integers(len(values)))]


def _outage(rng, replicas):
    from_s = float(rng.uniform(0, 3))
    return Outage(
        replicas=tuple(int(i) for i in rng.choice(replicas, rng.integers(1, replicas + 1), False)),
        from_s=from_s,
        until_s=_any(rng, (np.inf, from_s + float(rng.exponential(1.0)) + 1e-3)),
        way=_any(rng, WAYS),
        noticed_s=_any(rng, (0.0, float(rng.exponential(0.5)))),
        grace_s=_any(rng, (np.inf, float(rng.exponential(0.5)))),
        times=1.0 + float(rng.exponential(1.0)),
    )


def _scaling(rng, units, copies):
    first = int(rng.integers(1, units + 1))
    return Scaling(
        policy=_any(rng, plugins.names("autoscaling")),
        target=float(rng.uniform(0.2, 10)),
        least=int(rng.integers(1, first + 1)),
        first=first,
        every_s=float(rng.uniform(0.1, 1)),
        start_s=float(rng.exponential(0.5)),
        hold_s=float(rng.exponential(0.5)),
        unit=copies,
    )


def scenario(seed):
    """A stream, a fleet, a way to run it, and what happens."""
    rng = np.random.default_rng(seed)
    copies, has_cache = _any(rng, VARIANTS)
    units, count = int(rng.integers(1, 4)), int(rng.integers(5, 40))
    requests = families(count, float(rng.uniform(5, 60)), seed)
    requests = replace(
        requests, ranks=rng.integers(0, 3, count), sessions=rng.integers(-1, 6, count)
    )
    house = fleet(
        _any(rng, plugins.names("batching")),
        routing=_any(rng, plugins.names("routing")),
        replicas=units * copies,
        copies=copies,
        max_batch=int(rng.integers(1, 12)),
        token_budget=_any(rng, (128, 1024)),
        pool_blocks=int(rng.integers(60, 200)),
        has_prefix_cache=has_cache,
        swap_blocks=_any(rng, (0, 40)) if has_cache else 0,
        swap_block_s=1e-4,
        evicts=bool(rng.integers(2)),
        admission=_any(rng, plugins.names("admission")),
        most_waiting=int(rng.integers(0, 6)),
        most_wait_s=float(rng.exponential(0.3)),
        shed_from_rank=int(rng.integers(0, 3)),
    )
    happens = Operations(
        outages=tuple(_outage(rng, units * copies) for _ in range(int(rng.integers(0, 5)))),
        of_lost=_any(rng, AFTER),
        scaling=_any(rng, (None, _scaling(rng, units, copies))),
    )
    concurrency = _any(rng, (0, 0, 4))
    return requests, house, Run(seed=seed, concurrency=concurrency), happens


def accounted(seed):
    """Plays a scenario and gives what is wrong with it, in words; nothing where all is right."""
    requests, house, run, happens = scenario(seed)
    result = replay(requests, house, TABLES, run, operations=happens)
    served, totals = result.is_served, result.totals
    failures = sum(one.way != "slow" for one in happens.outages)
    computed = np.sum(totals.prefill_tokens)
    asked = np.sum((result.prompt_tokens + result.output_tokens) * (result.preemptions + 1.0))
    has_first = np.isfinite(result.first_token_s[served])
    wrong = {
        "a request without an end": not np.all(np.isfinite(result.finish_s[served])),
        "an end without a first token": not np.all(has_first),
        "an end before a start": np.any(
            (result.finish_s < result.first_token_s)[served]
            | (result.first_token_s < result.start_s)[served]
        ),
        "a refused request with an end": np.any(np.isfinite(result.finish_s[~served])),
        "blocks that nobody gave back": np.any(totals.blocks_left != 0),
        "holders that nobody is": np.any(totals.holders_left != 0),
        "more computed than was lost": computed > asked,
        "someone stranded though replicas stay": failures == 0 and STRANDED in result.refusal_code,
        "busy longer than it was on": np.any(totals.busy_s > totals.powered_s + 1e-6),
    }
    return [what for what, is_so in wrong.items() if is_so]
